"""Round trips: a client asks brokers for an answer, and tells its own how long it took (000 section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from roost.broker import events as ev
from roost.broker import modules
from roost.broker.messages import Ping, Pong, Probed, Publication
from roost.broker.module import Module, Surroundings
from roost.broker.names import Address
from roost.broker.probing import AT_ONCE, WITHIN_S
from tests.broker.kit import Federation

NAMES = [f"B{number}" for number in range(1, 13)]


class Curious(Module):
    """Asks a client when it is made to."""

    name = "curious"

    def __init__(self) -> None:
        self.found: list[tuple[str, Mapping[str, float]]] = []
        self.around: Surroundings

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around

    def probed(self, client: str, round_trips_s: Mapping[str, float], now: float) -> None:  # noqa: ARG002
        self.found.append((client, round_trips_s))


def asked(names: Sequence[str] = NAMES) -> tuple[Federation, Curious]:
    """A chain of brokers, of which the first is about to ask its client for all of them."""
    curious = Curious()
    edges = list(pairwise(NAMES))
    federation = Federation(*edges, modules=lambda name: [curious] if name == "B1" else [])
    federation.client("P", "B1")
    federation.advertise("P", "a > 0")
    federation.settle()
    federation.brokers["B1"].node.work.commands = []
    assert curious.around.probe("P", [*map(Address, names)])
    federation._execute("B1", federation.brokers["B1"].node.work.commands)
    return federation, curious


def test_all_are_asked_a_few_at_a_time() -> None:
    federation, curious = asked()
    waiting = 0
    while federation.step():
        probing = federation.clients["P"].probing
        if probing is not None:
            waiting = max(waiting, len(probing._dialled) + len(probing._sent))
    assert waiting == AT_ONCE
    assert curious.found == [("P", dict.fromkeys(NAMES, 0.0))]
    assert federation.clients["P"].probing is None
    # Nothing is left of it: one connection, to where the client is, and no session elsewhere.
    assert sum("P" in c.ends for c in federation.connections.values()) == 1
    assert [b for b in NAMES if federation.brokers[b].sessions] == ["B1"]


def test_of_many_questions_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are answered, they take so much memory and no more."""
    monkeypatch.setattr(modules, "PROBES_MAX", 2)
    curious = Curious()
    federation = Federation(*pairwise(NAMES), modules=lambda name: [curious] * (name == "B1"))
    clients = ["P", "Q", "R"]
    for client in clients:
        federation.client(client, "B1")
    federation.settle()
    federation.brokers["B1"].node.work.commands = []
    assert all(curious.around.probe(client, [Address("B2")]) for client in clients)
    federation._execute("B1", federation.brokers["B1"].node.work.commands)
    federation.settle()
    assert [client for client, _ in curious.found] == ["Q", "R"]


def test_the_time_is_that_from_the_question_to_the_answer() -> None:
    federation, curious = asked(["B2"])
    while not federation.clients["P"].probing or not federation.clients["P"].probing._sent:
        federation.step()
    federation.now += 0.25
    federation.settle()
    assert curious.found == [("P", {"B2": 0.25})]


def test_who_can_not_be_reached_or_does_not_answer_is_left_out() -> None:
    federation, curious = asked(["B2", "B3", "B4"])
    federation.severed.add(frozenset(("P", "B2")))
    while not any(c.ends == ("P", "B3") for c in federation.connections.values()):
        federation.step()
    federation.cut("P", "B3", unnoticed_by="P")  # its answer never comes
    federation.settle()
    assert not curious.found
    federation.advance(WITHIN_S)
    assert curious.found == [("P", {"B4": 0.0})]


def test_a_connection_that_is_closed_is_no_answer() -> None:
    federation, curious = asked(["B3"])
    while not any(c.ends == ("P", "B3") for c in federation.connections.values()):
        federation.step()
    federation.cut("P", "B3")
    federation.settle()
    assert curious.found == [("P", {})]


def test_who_asks_again_is_answered_at_once() -> None:
    federation, curious = asked(["B2"])
    federation.hold_data.clear()
    for _ in range(3):
        federation.step()
    federation.brokers["B1"].node.work.commands = []
    curious.around.probe("P", [Address("B3")])
    federation._execute("B1", federation.brokers["B1"].node.work.commands)
    federation.settle()
    assert len(curious.found) == 2
    assert curious.found[-1] == ("P", {"B3": 0.0})


def test_events_go_on_meanwhile() -> None:
    federation, curious = asked()
    federation.client("S", "B2")
    federation.subscribe("S", "a > 0")
    federation.settle()
    for _ in range(5):
        federation.publish("P", a=1)
    federation.settle()
    assert federation.got("S") == [f"P:{n}" for n in range(1, 6)]
    assert len(federation.between("P", "B1", Publication)) == 5
    assert curious.found


def test_a_client_that_is_not_there_is_not_asked() -> None:
    _, curious = asked(["B2"])
    assert not curious.around.probe("nobody", [Address("B2")])


def test_an_answer_that_nobody_waits_for_is_none() -> None:
    federation, curious = asked(["B2"])
    federation.settle()
    session = next(iter(federation.brokers["B1"].sessions.values()))
    frame = federation.clients["P"].home.push(Probed(77, ("B9",), (1.0,)))
    federation.handle("B1", ev.Received(session.connection or 0, (frame,)))
    assert len(curious.found) == 1


def test_a_ping_needs_no_greeting_and_stands_in_for_none() -> None:
    federation = Federation(("B1", "B2"))
    broker = federation.brokers["B1"]
    federation.handle("B1", ev.ConnectionAccepted(99))
    (send,) = broker.handle(ev.Received(99, (Ping(5),)), 0.0)
    assert send.parcel == Pong(5)  # type: ignore[union-attr]
    commands = broker.handle(ev.Received(99, (Ping(6), Pong(7))), 0.0)
    assert "Pong came where a greeting was expected" in str(commands)
