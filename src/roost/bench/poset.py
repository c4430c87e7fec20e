"""The poset benchmark: how fast subscriptions are ordered by covering, and how that grows.

The baseline is the obvious way to keep the covering subscription set: compare each newcomer with all that
are in it. It has no answer to a removal but to start again, so only insertions are compared, and it is
given as many as the budget allows.
"""

from __future__ import annotations

import numpy as np

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import BUDGET_S, Say, elapsed_s, rate, silent, steady_memory
from roost.bench.workloads import workload_of
from roost.language import Filter, covers
from roost.matching.poset import Poset

# Of a full poset: this many are taken out and put back.
REPLACED = 10_000


class ObviousSet:
    """The covering subscription set, kept by comparing with all of it."""

    def __init__(self) -> None:
        self.css: list[Filter] = []

    def insert(self, newcomer: Filter) -> None:
        """Join unless covered; those that it covers leave."""
        if not any(covers(other, newcomer) for other in self.css):
            self.css = [other for other in self.css if not covers(newcomer, other)]
            self.css.append(newcomer)


def run(subscriptions: int, seed: int, say: Say = silent, budget_s: float = BUDGET_S) -> Result:
    """Measure a hundredth, a tenth and all of `subscriptions` to stock quotes."""
    figures: dict[str, float] = {}
    for part in (100, 10, 1):
        n = max(1, subscriptions // part)
        say(f"poset of {n:,} subscriptions")
        figures |= {f"{name}_at_{n}": x for name, x in _measure(n, seed).items()}
    filters = workload_of("stock", seed, subscriptions, 1).filters()
    say("the obvious way")
    obvious = ObviousSet()
    figures["obvious_inserted_per_s"] = rate(obvious.insert, filters, None, budget_s)
    return {
        "bench": "poset",
        "config": {
            "workload": "stock",
            "subscriptions": subscriptions,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": {
            "poset_over_obvious_inserted": figures[f"inserted_per_s_at_{subscriptions}"]
            / figures["obvious_inserted_per_s"]
        },
    }


def _measure(n: int, seed: int) -> dict[str, float]:
    filters = workload_of("stock", seed, n, 1).filters()
    poset = Poset()
    with steady_memory():

        def insert_all() -> None:
            for id_, filter_ in enumerate(filters):
                poset.insert(id_, filter_)

        inserting = elapsed_s(insert_all)
        chosen = np.random.default_rng(seed).permutation(n)[:REPLACED].tolist()

        def remove_some() -> None:
            for id_ in chosen:
                poset.remove(id_)

        def put_back() -> None:
            for id_ in chosen:
                poset.insert(id_, filters[id_])

        removing, returning = elapsed_s(remove_some), elapsed_s(put_back)
    return {
        "inserted_per_s": n / inserting,
        "removed_per_s": len(chosen) / removing,
        "reinserted_per_s": len(chosen) / returning,
        "css": float(len(poset.css())),
    }


def table(result: Result) -> Table:
    """The figures for people."""
    config, figures = result["config"], result["results"]
    n = config["subscriptions"]
    sizes = [max(1, n // part) for part in (100, 10, 1)]
    rows = [
        [label, *(f"{figures[f'{name}_at_{size}']:,.0f}" for size in sizes)]
        for label, name in (
            ("inserted/s, from empty", "inserted_per_s"),
            ("removed/s, of the full one", "removed_per_s"),
            ("put back/s, into the full one", "reinserted_per_s"),
            ("in the covering subscription set", "css"),
        )
    ]
    return Table(
        key=f"poset/{n}",
        title=f"Poset: stock, up to {n:,} subscriptions",
        columns=["", *(f"{size:,}" for size in sizes)],
        rows=rows,
        notes=[
            f"Comparing each with the whole covering set: {figures['obvious_inserted_per_s']:,.0f}"
            f" inserted/s ({result['ratios']['poset_over_obvious_inserted']:,.1f} times slower)."
        ],
    )
