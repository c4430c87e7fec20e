"""What the access keys find, against all pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from roost.language import Interest, Kind, covers, parse_subscription
from roost.matching.conjunct import parts_of
from roost.matching.poset_candidates import Candidates
from tests.language.core_strategies import interests, pools

often = settings(max_examples=max(120, settings().max_examples))
BIG = 2**53


def candidates_of(held: dict[int, Interest]) -> Candidates[int]:
    candidates: Candidates[int] = Candidates()
    for id_, interest in held.items():
        candidates.add(id_, parts_of(interest))
    return candidates


@st.composite
def unequal_interests(draw: st.DrawFn) -> tuple[dict[int, Interest], Interest]:
    """Satisfiable interests of which no two are equivalent, and one more."""
    pool = draw(pools())
    if draw(st.booleans()):
        pool = replace(pool, kinds=dict.fromkeys(pool.kinds, Kind.NUMBER))
    drawn = draw(st.lists(interests(pool).filter(bool), min_size=1, max_size=15))
    held: dict[int, Interest] = {}
    for id_, new in enumerate(drawn[1:]):
        if not any(covers(new, old) and covers(old, new) for old in held.values()):
            held[id_] = new
    return held, drawn[0]


def check_found(held: dict[int, Interest], candidates: Candidates[int], asked: Interest) -> None:
    """All that is found is right, and of what is right the nearest are found."""
    covering, covered = candidates.covering(parts_of(asked)), candidates.covered(parts_of(asked))
    above = [i for i, interest in held.items() if covers(interest, asked)]
    below = [i for i, interest in held.items() if covers(asked, interest)]
    minimal = {i for i in above if not any(covers(held[i], held[j]) for j in above if j != i)}
    maximal = {i for i in below if not any(covers(held[j], held[i]) for j in below if j != i)}
    event(f"{min(len(minimal), 3)} minimal, {min(len(maximal), 3)} maximal")
    assert minimal <= set(covering) <= set(above)
    assert maximal <= set(covered) <= set(below)


@often
@given(unequal_interests(), st.data())
def test_the_nearest_are_found(
    case: tuple[dict[int, Interest], Interest], data: st.DataObject
) -> None:
    held, asked = case
    candidates = candidates_of(held)
    check_found(held, candidates, asked)
    for id_ in data.draw(st.lists(st.sampled_from(list(held)), unique=True)) if held else []:
        candidates.remove(id_, parts_of(held.pop(id_)))
    check_found(held, candidates, asked)
    same = candidates.same(parts_of(asked))
    assert same is None or (covers(held[same], asked) and covers(asked, held[same]))


@pytest.mark.parametrize(
    ("held", "asked", "covering", "covered"),
    [
        # A disjunction lies in a conjunction just if all of its parts do.
        (["x > 1", "x > 5"], "x > 3 or (x > 2 and z = 1)", [0], [1]),
        (["x > 1", "x > 5"], "(x > 0 and z = 1) or x > 3", [], [1]),
        (["x > 1", "y = 1"], "(x > 3 and y = 1) or (x > 4 and z = 1)", [0], []),
        (["x > 1 and y > 1"], "(x > 3 and y > 2) or (x > 2 and y > 3)", [0], []),
        (["x > 1 and y > 1"], "(x > 3 and y > 0) or (x > 2 and y > 3)", [], []),
        (["x < 9 and y > 1"], "(x < 8 and y > 2) or (x < 10 and y > 3)", [], []),
        # Of a chain, only the nearest; of boxes, only the nearest.
        (["x > 1", "x > 2", "x > 4", "x > 5"], "x > 3", [1], [2]),
        (["x > 1 and y < 9", "x > 2 and y < 8", "x > 4 and y < 6"], "x > 3 and y < 7", [1], [2]),
        # Ends that round to the same float.
        ([f"x >= {BIG + 1} and y > 0"], f"x >= {BIG} and y > 1", [], []),
        ([f"x >= {BIG} and y > 0"], f"x >= {BIG + 1} and y > 1", [0], []),
        ([f"x >= {BIG} and y > 1"], f"x >= {BIG + 1} and y > 0", [], []),
        ([f"x >= {BIG + 1} and y > 1"], f"x >= {BIG} and y > 0", [], [0]),
    ],
)
def test_found(held: list[str], asked: str, covering: list[int], covered: list[int]) -> None:
    candidates = candidates_of(dict(enumerate(map(parse_subscription, held))))
    parts = parts_of(parse_subscription(asked))
    assert candidates.covering(parts) == covering
    assert candidates.covered(parts) == covered


def test_same_compares_exactly() -> None:
    candidates = candidates_of({0: parse_subscription(f"x >= {BIG} and y > 0")})
    for end, same in ((BIG, 0), (BIG + 1, None)):
        asked = parse_subscription(f"y > 0 and x >= {end}")
        assert candidates.same(parts_of(asked)) == same
