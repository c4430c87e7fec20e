"""Modules that watch: what they say about what passed comes at the same place as without chunks."""

from __future__ import annotations

import random

import pytest

from roost.broker.messages import Advertise, Publication, Subscribe, Unsubscribe
from roost.chunks import passed
from roost.language import Event, parse_advertisement, parse_subscription
from roost.relocation.grape_module import Grape, GrapeConfig
from tests.chunks.test_twins import NEIGHBOUR, Scribe, rows_of
from tests.chunks.twin import Twins

SESSION = 5


@pytest.mark.parametrize("subscribers", [False, True])
def test_sessions_of_grape_end_at_the_same_events(subscribers: bool) -> None:
    """The request for a session goes behind its last publication on each link, and ahead of the next."""
    config = GrapeConfig(session=SESSION, subscribers=subscribers)
    twins = Twins(modules=lambda: [Grape(config), Scribe()])
    r = random.Random(3)
    twins.link(NEIGHBOUR, "N")
    twins.attach(1, "p")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    for connection in (11, 12):
        twins.attach(connection, f"s{connection}")
        text = f"class = 'A' and x < {connection - 10}"
        twins.tell(connection, Subscribe(f"{connection}/1", parse_subscription(text), ""))
    twins.tell(NEIGHBOUR, Advertise("an", parse_advertisement("class = 'A'"), "", 1))
    twins.tell(NEIGHBOUR, Subscribe("n/1", parse_subscription("class = 'A' and x > 1"), ""))
    twins.answer(NEIGHBOUR)
    numbers = {"p": 0, "n1": 0, "n2": 0}
    notes = 0
    for _ in range(30):
        twins.now += 0.1
        connection, names = r.choice([(1, ["p"]), (NEIGHBOUR, ["n1", "n2"])])
        published = []
        for _ in range(r.randrange(1, 20)):
            who = r.choice(names)
            numbers[who] += 1 if who == "p" else r.choice((1, 1, 1, 1, 3))
            published.append(
                Publication(who, numbers[who], Event({"class": "A", "x": r.choice((0, 2, 9))}))
            )
        twins.tell(connection, *published)
        notes += twins.out.get(NEIGHBOUR, b"").count(b"grape")
        twins.answer(NEIGHBOUR)
        slow, fast = (modules[0] for modules in twins.modules)
        assert isinstance(slow, Grape)
        assert isinstance(fast, Grape)
        assert repr(fast._sessions._sessions) == repr(slow._sessions._sessions)
    assert notes
    assert twins.taken > 100
    slow_scribe, fast_scribe = (modules[1] for modules in twins.modules)
    assert isinstance(slow_scribe, Scribe)
    assert isinstance(fast_scribe, Scribe)
    assert rows_of(fast_scribe.log) == rows_of(slow_scribe.log)


def test_ways_are_numbered_anew_when_subscriptions_change_or_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number may then mean another way, and a freed place another subscription."""
    monkeypatch.setattr(passed, "WAYS_MAX", 3)
    twins = Twins(modules=lambda: [Scribe()])
    r = random.Random(5)
    twins.attach(1, "p")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    there: list[tuple[int, str]] = []
    for connection in (11, 12, 13):
        twins.attach(connection, f"s{connection}")
    number = 0
    for step in range(60):
        if r.random() < 0.5:
            if there and r.random() < 0.5:
                connection, gone = there.pop(r.randrange(len(there)))
                twins.tell(connection, Unsubscribe(gone, ""))
            else:
                connection = r.choice((11, 12, 13))
                there.append((connection, f"{connection}/{step}"))
                wanted = parse_subscription(f"class = 'A' and x >= {r.randrange(6)}")
                twins.tell(connection, Subscribe(there[-1][1], wanted, ""))
        published = []
        for _ in range(r.randrange(1, 8)):
            number += 1
            published.append(Publication("p", number, Event({"class": "A", "x": r.randrange(6)})))
        twins.tell(1, *published)
    assert twins.taken > 100
    slow, fast = (modules[0] for modules in twins.modules)
    assert isinstance(slow, Scribe)
    assert isinstance(fast, Scribe)
    assert rows_of(fast.log) == rows_of(slow.log)
