"""Slots become deliveries, as subscriptions are when an event is let go."""

from __future__ import annotations

from random import Random

import numpy as np

from roost.broker.hops import Entry, Session
from roost.language import Event, parse_subscription
from roost.partition.notes import Found
from roost.partition.roster import FIRST_SIZE, Answer, Roster

EVENT = Event({"x": 1})
YES, NO = parse_subscription("x = 1"), parse_subscription("x = 2")


def answer(heard: int, *slots: list[int]) -> Answer:
    ends = np.cumsum([len(some) for some in slots]).astype(np.uint32)
    flat = np.array([slot for some in slots for slot in some], np.uint32)
    return Answer(Found("", 1, None, ends.tobytes(), flat.tobytes()), heard)


def test_answers_are_sorted_by_client() -> None:
    random, entries = Random(1), dict[str, Entry]()
    roster, sessions = Roster(entries), [Session(f"c{n}", f"c{n}", None) for n in range(7)]
    slots: dict[str, int] = {}
    number = 0
    for step in range(3 * FIRST_SIZE):
        number += 1
        if entries and random.random() < 0.3:
            gone = random.choice(list(entries))
            roster.remove(entries.pop(gone), number)
            del slots[gone]
        else:
            entry = Entry(f"s{step}", step, YES, random.choice(sessions))
            entries[entry.id] = entry
            slots[entry.id] = roster.add(entry, number)
    assert len(set(slots.values())) == len(slots) > FIRST_SIZE
    asked = [random.sample(list(slots), random.choice([0, 1, 40])) for _ in range(30)]
    said = answer(number, *([slots[id_] for id_ in some] for some in asked))
    groups = roster.groups([(said, place) for place in range(len(asked))])
    assert groups.changed == []
    first = end = 0
    for place, some in enumerate(asked):
        found = roster.receivers(said, place, EVENT)
        assert sorted(id_ for ids in found.values() for id_ in ids) == sorted(some)
        for session, ids in found.items():
            assert list(ids) == [id_ for id_ in some if entries[id_].hop is session]
        grouped = {}
        for group in range(first, groups.event_ends[place]):
            its = groups.slots[end : groups.ends[group]].tolist()
            grouped[roster.sessions[groups.owners[group]]] = [slots[id_] for id_ in some], its
            end = int(groups.ends[group])
        assert grouped.keys() == found.keys()
        for session, (of_event, its) in grouped.items():
            owned = {slots[id_] for id_ in found[session]}
            assert its == [slot for slot in of_event if slot in owned]
        first = int(groups.event_ends[place])


def test_what_has_changed_since_the_matcher_heard_is_looked_at_again() -> None:
    """Also if it changes between the answer and the moment at which an event is let go."""
    one, entries = Session("c", "c", None), dict[str, Entry]()
    roster = Roster(entries)

    def subscribe(id_: str, number: int, interest: object = YES) -> int:
        entries[id_] = Entry(id_, 0, interest, one)  # type: ignore[arg-type]
        return roster.add(entries[id_], number)

    assert [subscribe("a", 1), subscribe("b", 2)] == [0, 1]
    said = answer(2, [0, 1], [1], [0, 1])
    some = [(said, 0), (said, 1), (said, 2)]
    assert roster.receivers(said, 0, EVENT) == {one: ("a", "b")}
    assert roster.groups(some).changed == []
    roster.remove(entries.pop("a"), 3)
    assert roster.receivers(said, 2, EVENT) == {one: ("b",)}
    assert roster.groups(some).changed == [0, 2]
    assert subscribe("c", 4, NO) == 0
    assert roster.receivers(said, 2, EVENT) == {one: ("b",)}
    late = answer(2, [0, 1])
    assert roster.receivers(late, 0, EVENT) == {one: ("b",)}
    roster.remove(entries.pop("c"), 5)
    assert subscribe("d", 6) == 0
    assert roster.receivers(answer(2, [0, 1]), 0, EVENT) == {one: ("d", "b")}
    assert roster.receivers(answer(6, []), 0, EVENT) == {}
