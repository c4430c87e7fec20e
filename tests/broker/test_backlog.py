"""The bytes that wait, against the obvious: the size of each delivery."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.broker.backlog import STRETCH_BYTES, Backlog

SIZES = st.integers(1, STRETCH_BYTES * 2)
# So many more deliveries that are counted together, of which the last is added; and how many arrive then.
STEPS = st.lists(st.tuples(st.integers(1, 5), SIZES, st.integers(0, 8)), max_size=60)


@given(STEPS)
def test_it_is_never_too_low_and_too_high_by_less_than_a_stretch(
    steps: list[tuple[int, int, int]],
) -> None:
    backlog = Backlog()
    waiting: list[tuple[int, int]] = []  # last numbers and sizes
    last = acked = 0
    for count, size, arrive in steps:
        last += count
        backlog.add(last, size, acked)
        waiting.append((last, size))
        acked = min(last, acked + arrive)
        exact = sum(size for number, size in waiting if number > acked)
        assert exact <= backlog.bytes_behind(acked) < exact + STRETCH_BYTES
    assert backlog.bytes_behind(last) == 0


def test_however_many_wait_there_are_few_stretches() -> None:
    backlog = Backlog()
    for number in range(1, 10_001):
        backlog.add(number, 100, 0)
    assert backlog.bytes_behind(0) == 1_000_000
    assert len(backlog._stretches) <= 2 * 1_000_000 // STRETCH_BYTES
