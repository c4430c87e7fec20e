"""What a neighbour is told: the uncovered ones, and of a change just the difference (001 section 2.1.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.broker.told import Told
from roost.language import Interest, covers, parse_subscription
from tests.language.core_strategies import interests, pools


def check(told: Told, candidates: dict[int, Interest], covering: bool) -> None:
    """The told set is what the definition says: one of each that nothing but its equals covers."""
    now = set(told)
    assert set(told.candidates()) == set(candidates)
    assert all(handle in told for handle in candidates)
    assert len(told) == len(now)
    if not covering:
        assert now == set(candidates)
        return
    for handle, interest in candidates.items():
        others = [h for h in candidates if h != handle and covers(candidates[h], interest)]
        equals = [h for h in others if covers(interest, candidates[h])]
        if len(others) > len(equals):
            assert handle not in now  # something wider is there
        else:
            assert sum(h in now for h in (handle, *equals)) == 1


@given(st.data(), st.booleans())
def test_told_is_what_brute_force_says(data: st.DataObject, covering: bool) -> None:
    """After any changes; and what is announced and withdrawn is exactly the difference."""
    pool = data.draw(pools())
    told = Told(covering)
    candidates: dict[int, Interest] = {}
    next_handle = 0
    for _ in range(data.draw(st.integers(1, 6))):
        gone = (
            data.draw(st.lists(st.sampled_from(sorted(candidates)), unique=True))
            if candidates
            else []
        )
        new = data.draw(st.lists(interests(pool), max_size=4))
        add = list(enumerate(new, next_handle))
        next_handle += len(new)
        before = set(told)
        announce, withdraw = told.change(add, gone)
        after = set(told)
        candidates.update(add)
        for handle in gone:
            del candidates[handle]
        check(told, candidates, covering)
        assert len(announce) == len(set(announce))
        assert len(withdraw) == len(set(withdraw))
        assert not set(announce) & set(withdraw)
        assert set(announce) == after - before
        assert set(withdraw) == before - after


def subscription(handle: int, text: str) -> tuple[int, Interest]:
    return handle, parse_subscription(text)


def test_the_wider_takes_the_place_of_the_narrower() -> None:
    told = Told(covering=True)
    assert told.change([subscription(1, "a > 9")]) == ([1], [])
    assert told.change([subscription(2, "a > 5")]) == ([2], [1])
    assert told.change([subscription(3, "a > 7")]) == ([], [])
    assert list(told) == [2]


def test_what_was_covered_is_announced_when_its_cover_goes() -> None:
    """001 section 2.1.3, the end of the example. Both lists: the first is to be sent first."""
    told = Told(covering=True)
    told.change([subscription(1, "a > 5"), subscription(2, "a > 9")])
    assert told.change(remove=[1]) == ([2], [1])


def test_one_of_equals_stands_for_the_others() -> None:
    told = Told(covering=True)
    assert told.change([subscription(1, "a > 5"), subscription(2, "a > 5 and a > 2")]) == ([1], [])
    assert told.change(remove=[2]) == ([], [])
    told.change([subscription(3, "a > 5")])
    assert told.change(remove=[1]) == ([3], [1])


def test_what_comes_and_goes_in_one_change_is_not_spoken_of() -> None:
    told = Told(covering=True)
    told.change([subscription(1, "a > 5"), subscription(2, "a > 7"), subscription(3, "a > 9")])
    # 2 would be uncovered for a moment, between the two removals.
    assert told.change(remove=[1, 2]) == ([3], [1])
    assert told.change([subscription(4, "a > 8"), subscription(5, "a > 1")]) == ([5], [3])


def test_without_covering_everything_is_told() -> None:
    told = Told(covering=False)
    assert told.change([subscription(1, "a > 5"), subscription(2, "a > 5")]) == ([1, 2], [])
    assert told.change(remove=[1]) == ([], [1])
    assert list(told) == [2]
