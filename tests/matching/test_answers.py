"""The room for answers: used again when it is free, never while somebody holds it, and never overrun."""

from __future__ import annotations

from weakref import ref

import numpy as np
import pyarrow as pa
import pytest

from roost.language import Event
from roost.matching import Ids, Index
from roost.matching.answers import Room
from roost.matching.kernels import grid_search, search
from roost.matching.spans import new_event


def place(array: Ids) -> int:
    return int(array.ctypes.data)


def rising(count: int) -> Index:
    index = Index()
    index.add_columns(range(count), [("x", ">", np.arange(float(count)))])
    return index


def test_a_loop_over_batches_takes_turns_between_two_rooms() -> None:
    """`ids` holds the last answer while the next one is made: one room would never be free."""
    index = rising(300)
    ids = np.empty(0, np.int64)
    rooms = []
    for turn in range(12):
        _, ids = index.match_batch({"x": np.full(50, 290.5)})
        assert ids.tolist() == 50 * list(range(291)), turn
        rooms.append(ref(ids.base))
    # All but the first ones, which were made before it was known how much is wanted, are still there.
    assert all(room() is not None for room in rooms[2:])
    assert len({id(room()) for room in rooms[2:]}) == 2


def test_room_that_is_held_is_not_given_again() -> None:
    room = Room()
    held = [room.of(100)[:n] for n in range(10, 20)]
    assert len({place(each) for each in held}) == len(held)
    first = place(held[-1])
    # A column of Arrow that was made of it holds it, too.
    column = pa.array(held.pop())
    assert place(room.of(100)) != first
    del column
    taken = [room.of(100), room.of(100)]
    assert first in map(place, taken)


def test_a_list_of_answers_holds_each_of_them() -> None:
    index = rising(50)
    answers = [index.match_batch({"x": [float(x)] * 7})[1] for x in range(1, 30)]
    assert [each.tolist() for each in answers] == [7 * list(range(x)) for x in range(1, 30)]


def test_room_that_is_too_small_makes_way() -> None:
    room = Room()
    held = room.of(10)
    small = place(room.of(10))
    large = place(room.of(1_000))  # in place of the one that is free
    assert len(room.of(1_000)) == 1_000
    assert place(room.of(10)) == large
    assert place(held) not in (small, large)


def test_very_large_room_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.matching.answers._KEPT_MAX", 100)
    room = Room()
    kept = place(room.of(100))
    assert len(room.of(101)) == 101
    assert place(room.of(100)) == kept


@pytest.mark.parametrize("count", [*range(1, 35), 1_023, 1_024, 1_030, 2_500])
def test_nothing_is_written_behind_the_room_for_an_answer(count: int) -> None:
    """Ids are copied by vectors; what they write beyond the last id stays within what is asked for."""
    index = rising(count)
    index.match(Event({"x": 0.0}))  # makes slots known
    store = index._store
    event = new_event(store.slot_count)
    for found in {1, count // 2, count - 1, count}:
        for start in (0, 5):
            room = np.full(start + count + grid_search.OVERRUN + 64, -7)
            end = start + count + grid_search.OVERRUN
            event[0] = 0
            event.view(np.float64)[search.NUMBERS] = found - 0.5
            frame = search.frame_of(store.cells, store.directory, event, room[:end])
            assert search.match_one(frame, 1, start) == start + found
            assert room[start : start + found].tolist() == list(range(found))
            assert (room[:start] == -7).all()
            assert (room[end:] == -7).all()


def test_offsets_and_ids_of_batches_are_those_of_single_events() -> None:
    """Also in their order, with lists of every length around that of a vector."""
    index = Index()
    lengths = list(range(40))
    starts = np.cumsum([0, *lengths])
    for n, first in zip(lengths, starts.tolist(), strict=False):
        index.add_columns(
            range(first, first + n), [("s", "=", [f"S{n}"] * n), ("x", ">", np.arange(float(n)))]
        )
    events = [Event({"s": f"S{n}", "x": x}) for n in lengths for x in (0.5, n / 2, n + 1.0)]
    columns = {name: [e.attributes[name] for e in events] for name in ("s", "x")}
    for batch in (events, columns):
        offsets, ids = index.match_batch(batch)
        for i, event in enumerate(events):
            assert ids[offsets[i] : offsets[i + 1]].tolist() == index.match(event).tolist()
