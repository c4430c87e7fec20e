"""Many events are divided as one by one: among their candidates, by the policy."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from roost.partition.candidates import Candidates
from roost.partition.dimensions import Dimension
from roost.partition.forwarding import Pace
from roost.partition.segments import Option, even_table, options, owners
from roost.partition.sights import Sights

DIMENSIONS = [Dimension("a", 0, 9), Dimension("b", 0, 9)]
TABLE = even_table(DIMENSIONS, owners(["M0", "M1", "M2"], 2, 1))


def divided(
    policy: str, sights: Sights, gone: str = "", nobody: bool = False
) -> dict[Option, list[int]]:
    random = Random(3)
    candidates = Candidates(policy, sights, lambda name: name != gone, random.random)
    candidates.adopt(TABLE)
    points = np.array([[random.uniform(-1, 10) for _ in range(300)] for _ in DIMENSIONS])
    division, left = candidates.divide(points, [()] * 300, 0.0)
    found = {option: places.tolist() for option, places in division}
    assert sorted([place for places in found.values() for place in places] + left) == [*range(300)]
    assert bool(left) == nobody
    for option, places in found.items():
        assert option.matcher != gone
        for place in places:
            spare = [o for o in options(TABLE, tuple(points[:, place])) if o.matcher != gone]
            assert option in spare or len(option.key) == 2
    return found


def test_each_goes_to_one_of_its_candidates() -> None:
    for policy in ("amount", "drift", "random"):
        assert sum(map(len, divided(policy, Sights(1)).values())) == 300
    assert any(o.matcher == "M2" for o in divided("drift", Sights(1), gone="M1"))


def test_what_is_sent_counts_for_the_next() -> None:
    """A set that is three times as dear gets fewer; but not none, as what waits elsewhere is a price."""
    sights = Sights(1)
    for name in ("M0", "M1", "M2"):
        search_s = 3e-3 if name == "M0" else 1e-3
        paces = [((d,), Pace(size=10, search_s=search_s)) for d in range(2)]
        sights.report(name, paces, 0.5, 0.0)
    found = Counter[str]()
    for option, places in divided("drift", sights).items():
        found[option.matcher] += len(places)
    assert 0 < found["M0"] < min(found["M1"], found["M2"])
