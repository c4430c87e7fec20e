"""The compiled loops over pairs find what the modules that they stand in for find."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.overlay.rewiring import exact, kernels, theorem
from roost.overlay.rewiring.choosing import Offers, best_pair
from roost.overlay.rewiring.flows import Sides
from roost.overlay.rewiring.rounds import NO_SECOND, NONE_BARRED


def draws(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def sides(seed: int) -> Sides:
    """Up to nine neighbours; some sides publish nothing, some kinds nobody wants, or only one side."""
    rng = draws(seed)
    near, kinds = int(rng.integers(2, 10)), int(rng.integers(1, 7))
    shape = near + 1, kinds
    published = rng.integers(0, 9, shape) * (rng.random(shape) < rng.random())
    wanted = rng.integers(0, 3, shape) * (rng.random(shape) < rng.random(kinds))
    return Sides(list(range(near)), published.astype(float), wanted.astype(float))


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_savings_are_those_of_the_tables(seed: int) -> None:
    found = sides(seed)
    savings, sums = found.savings(), found.sums()
    assert (savings.saved == exact.saved(sums)).all()
    assert (savings.shorter == exact.links_saved(found.between())).all()
    assert (savings.link == sums.link).all()


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_utilities_are_those_of_theorem_1(seed: int) -> None:
    come, gone = (table.astype(np.int64) for table in sides(seed).passing)
    expected = theorem.table_utilities(come, gone, len(come) - 1)
    assert (kernels.utilities(come, gone) == expected).all()


class Chosen:
    """In place of a `Random`: takes the first of what it is to choose from, and keeps that."""

    def choice(self, places: Any) -> Any:
        self.places = places.tolist()
        return places[0]


@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=100)
def test_the_best_places_are_those_that_are_chosen_from(
    seed: int, whole: bool, with_second: bool, with_barred: bool
) -> None:
    rng = draws(seed)
    near = int(rng.integers(2, 7))
    shape = near, near
    values: Any = rng.integers(-2, 3, shape) * (1 if whole else 0.5)
    second = rng.integers(-1, 2, shape) if with_second else None
    barred = rng.random(shape) < 0.3 if with_barred else None
    may_move, may_anchor = rng.random(near) < 0.8, rng.random(near) < 0.8
    found = kernels.best_places(
        values,
        NO_SECOND if second is None else second,
        NONE_BARRED if barred is None else barred,
        may_move,
        may_anchor,
    )
    chosen: Any = Chosen()
    allowed = ~np.eye(near, dtype=bool) & may_move[:, None] & may_anchor
    best = best_pair(Offers(values, second, barred), allowed, chosen)
    assert found.tolist() == ([] if best is None else chosen.places)
