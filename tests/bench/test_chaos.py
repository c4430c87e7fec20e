"""Chaos: the plan and the tally; tests/cli/test_chaos.py is a short real run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.bench.chaos.plan import rounds_of
from roost.bench.chaos.tally import Tally

BROKERS = ["B0", "B1", "B2"]


@given(st.integers(0, 1_000))
def test_a_seed_is_a_plan(seed: int) -> None:
    rounds = rounds_of(seed, BROKERS, kills=6, stops=3, fills=3)
    assert rounds == rounds_of(seed, BROKERS, kills=6, stops=3, fills=3)
    counts = {
        (fault, broker): sum((r.fault, r.broker) == (fault, broker) for r in rounds)
        for fault in ("kill", "stop", "fill")
        for broker in BROKERS
    }
    assert set(counts.values()) == {1, 2}  # every broker has its share


@given(st.lists(st.integers(1, 8), max_size=20), st.integers(8, 10))
def test_a_tally_counts_what_is_missing_doubled_and_late(came: list[int], published: int) -> None:
    tally = Tally()
    late = 0
    for place, number in enumerate(came):
        tally.came(number)
        late += number not in came[:place] and any(other > number for other in came[:place])
    assert tally.received == len(set(came))
    assert tally.doubled == len(came) - len(set(came))
    assert tally.reordered == late
    assert tally.lost(published) == published - len(set(came))
