"""The benchmark of the poset keeps the same covering set as its baseline."""

from __future__ import annotations

from roost.bench.poset import ObviousSet, run
from roost.bench.workloads import workload_of
from roost.matching.poset import Poset


def test_the_obvious_set_is_the_css() -> None:
    filters = workload_of("stock", 5, 400, 1).filters()
    poset, obvious = Poset(), ObviousSet()
    for id_, filter_ in enumerate(filters):
        poset.insert(id_, filter_)
        obvious.insert(filter_)
    assert {filters[id_] for id_ in poset.css()} == set(obvious.css)


def test_the_figures() -> None:
    result = run(300, seed=1, budget_s=0.01)
    assert result["bench"] == "poset"
    assert result["config"]["subscriptions"] == 300
    names = ("inserted_per_s", "removed_per_s", "reinserted_per_s", "css")
    expected = {f"{name}_at_{n}" for name in names for n in (3, 30, 300)}
    assert set(result["results"]) == expected | {"obvious_inserted_per_s"}
    assert result["ratios"]["poset_over_obvious_inserted"] > 0
