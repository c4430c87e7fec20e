"""Slots become deliveries, as subscriptions are when an event is let go."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from roost.broker.hops import Entry, Session
from roost.broker.messages import Delivery, Frame, Publication
from roost.language import Event, parse_subscription
from roost.partition import roster as roster_module
from roost.partition.notes import Found
from roost.partition.roster import FIRST_SIZE, Answer, Roster
from roost.wire.codec import delivery_head, encode, size_of

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
    for place, some in enumerate(asked):
        found = roster.receivers(said, place, EVENT)
        assert sorted(id_ for ids in found.values() for id_ in ids) == sorted(some)
        for session, ids in found.items():
            assert list(ids) == [id_ for id_ in some if entries[id_].hop is session]


def test_what_has_changed_since_the_matcher_heard_is_looked_at_again() -> None:
    """Also if it changes between the answer and the moment at which an event is let go."""
    one, entries = Session("c", "c", None), dict[str, Entry]()
    roster = Roster(entries)

    def subscribe(id_: str, number: int, interest: object = YES) -> int:
        entries[id_] = Entry(id_, 0, interest, one)  # type: ignore[arg-type]
        return roster.add(entries[id_], number)

    assert [subscribe("a", 1), subscribe("b", 2)] == [0, 1]
    said = answer(2, [0, 1], [0, 1], [0, 1])
    assert roster.receivers(said, 0, EVENT) == {one: ("a", "b")}
    roster.remove(entries.pop("a"), 3)
    assert roster.receivers(said, 1, EVENT) == {one: ("b",)}
    assert subscribe("c", 4, NO) == 0
    assert roster.receivers(said, 2, EVENT) == {one: ("b",)}
    late = answer(2, [0, 1])
    assert roster.receivers(late, 0, EVENT) == {one: ("b",)}
    roster.remove(entries.pop("c"), 5)
    assert subscribe("d", 6) == 0
    assert roster.receivers(answer(2, [0, 1]), 0, EVENT) == {one: ("d", "b")}
    assert roster.receivers(answer(6, []), 0, EVENT) == {}


def test_names_are_as_a_frame_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short and long ones, ASCII or not, few and many; and if there are more than a mark can count."""
    for most in (0xFFFF, 20):
        monkeypatch.setattr(roster_module, "NAMES_MAX", most)
        entries: dict[str, Entry] = {}
        roster = Roster(entries)
        one, other = Session("s", "s", None), Session("t", "t", None)
        names = [f"n{number}" * (1 + number % 30) for number in range(40)] + [
            "\u00fc" * 20,
            "x" * 300,
        ]
        for number, name in enumerate(names):
            session = one if number % 3 else other
            entries[name] = Entry(name, number, YES, session)
            assert roster.add(entries[name], number + 1) == number
        slots = list(range(len(names)))
        ends = np.array([len(slots), len(slots) + 1], np.uint32)
        found = Found("", 1, None, ends.tobytes(), np.array([*slots, 4], np.uint32).tobytes())
        said = Answer(found, len(names))
        for place, wanted in ((0, names), (1, names[4:5])):
            receivers = roster.receivers(said, place, EVENT)
            assert {n for ids in receivers.values() for n in ids} == set(wanted)
            for session, ids in receivers.items():
                expected = tuple(n for n in wanted if entries[n].hop is session)
                delivery = Delivery(Publication("p", 1, EVENT), ids)  # type: ignore[arg-type]
                plain = Delivery(Publication("p", 1, EVENT), expected)
                assert encode(Frame(1, 7, delivery, 0)) == encode(Frame(1, 7, plain, 0))
                assert size_of(Frame(1, 7, delivery, 0)) == size_of(Frame(1, 7, plain, 0))
                assert delivery_head(Frame(1, 7, delivery, 0), 9) == delivery_head(
                    Frame(1, 7, plain, 0), 9
                )
                assert (len(ids), ids[0], ids[1:]) == (len(expected), expected[0], expected[1:])
                assert tuple(ids) == expected
                assert ids == expected
                assert hash(ids) == hash(expected)
