"""What modules hear of clients, of what matches, and of operators; and what they can see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from roost.broker import events as ev
from roost.broker.commands import Answered
from roost.broker.messages import Publication
from roost.broker.module import Module, Surroundings, Visit
from roost.broker.names import Address
from roost.broker.router import Flooding
from roost.errors import UserError
from roost.language import parse_subscription
from tests.broker.kit import Federation


class Witness(Module):
    """Writes down what it hears."""

    name = "witness"
    wants_behind = True

    def __init__(self) -> None:
        self.notes: list[tuple[str, ...]] = []
        self.visits: list[Visit] = []

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around

    def routed(self, visit: Visit, now: float) -> None:  # noqa: ARG002
        self.notes.append(("routed", visit.publication.id))
        self.visits.append(visit)

    def heard(self, publication: Publication, subscriptions: Sequence[str], now: float) -> None:  # noqa: ARG002
        self.notes.append(("heard", publication.id, *subscriptions))

    def first_advertised(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("advertised", client))

    def first_subscribed(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("subscribed", client))

    def arrived(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("arrived", client))

    def moved(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("moved", client))

    def given_up(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("given up", client))

    def left(self, client: str, now: float) -> None:  # noqa: ARG002
        self.notes.append(("left", client))

    def asked(
        self,
        request: str,
        arguments: Mapping[str, Any],
        now: float,  # noqa: ARG002
    ) -> Mapping[str, Any] | None:
        if request != "count":
            return None
        if "of" not in arguments:
            raise UserError("expected `of`")
        return {"count": len(self.notes)}


class Witnessed(Federation):
    """B1 - B2 - B3, a witness in each."""

    def __init__(self, **config: Any) -> None:
        self.witnesses: dict[str, Witness] = {}
        super().__init__(("B1", "B2"), ("B2", "B3"), modules=self._witness, **config)

    def _witness(self, name: str) -> list[Module]:
        self.witnesses[name] = Witness()
        return [self.witnesses[name]]

    def notes(self, broker: str) -> list[tuple[str, ...]]:
        """What has been written down there since the last look."""
        found, self.witnesses[broker].notes = self.witnesses[broker].notes, []
        return found


# --- clients ----------------------------------------------------------------------------------------


def test_what_a_client_is_here_for_is_heard_when_it_says_so() -> None:
    federation = Witnessed()
    federation.client("c", "B1")
    federation.settle()
    assert federation.notes("B1") == []
    federation.advertise("c", "a > 0")
    federation.advertise("c", "b > 0")
    federation.settle()
    assert federation.notes("B1") == [("advertised", "c")]
    federation.subscribe("c", "a > 5")
    federation.subscribe("c", "a > 6")
    federation.settle()
    assert federation.notes("B1") == [("subscribed", "c")]
    assert not federation.notes("B2")


def test_the_first_is_that_of_the_client_not_of_a_session() -> None:
    federation = Witnessed()
    for session, text in (("one", "a > 5"), ("another", "a > 7")):
        federation.client("c", "B1", session=session)
        federation.subscribe("c", text)
        federation.settle()
    assert len(federation.brokers["B1"].sessions) == 2
    assert federation.notes("B1") == [("subscribed", "c")]


def test_after_the_last_the_next_is_a_first_again() -> None:
    federation = Witnessed()
    federation.client("c", "B1")
    federation.subscribe("c", "a > 5", "only")
    federation.settle()
    federation.unsubscribe("c", "only")
    federation.subscribe("c", "a > 6")
    federation.settle()
    assert federation.notes("B1") == [("subscribed", "c")] * 2


def test_what_was_refused_is_no_first() -> None:
    federation = Witnessed(subscriptions_max=0)
    federation.client("c", "B1")
    federation.subscribe("c", "a > 5")
    federation.advertise("c", "a > 5")
    federation.settle()
    assert federation.notes("B1") == []


@pytest.mark.parametrize("kind", ["publisher", "subscriber", "neither"])
@pytest.mark.parametrize("routing", ["advertisement", "flooding"])
def test_one_that_moves_has_moved_here_and_arrived_there(kind: str, routing: str) -> None:
    federation = Witnessed(routing=routing)
    federation.client("c", "B1")
    if kind == "publisher":
        federation.advertise("c", "a > 0")
        federation.settle()
        federation.publish("c", a=1)
    elif kind == "subscriber":
        federation.subscribe("c", "a > 0")
    federation.settle()
    federation.notes("B1")
    federation.redirect("c", "B3")
    federation.advance(1.0)
    assert federation.clients["c"].address == "B3"
    assert federation.notes("B1") == [("moved", "c"), ("left", "c")]
    assert federation.notes("B3") == [("arrived", "c")]


def test_a_goodbye_is_neither_a_move_nor_given_up() -> None:
    federation = Witnessed()
    federation.client("c", "B1")
    federation.settle()
    federation.handle("c", ev.LeaveRequested())
    federation.settle()
    assert federation.notes("B1") == [("left", "c")]


def test_one_that_stays_away_is_given_up() -> None:
    federation = Witnessed(linger_s=5.0)
    federation.client("c", "B1")
    federation.settle()
    federation.severed.add(frozenset(("c", "B1")))
    federation.cut("c", "B1")
    federation.advance(1.0)
    assert federation.notes("B1") == []
    federation.advance(5.0)
    assert federation.notes("B1") == [("given up", "c"), ("left", "c")]


@pytest.mark.parametrize("away", [True, False])
def test_one_that_an_operator_ends_is_given_up(away: bool) -> None:
    federation = Witnessed()
    federation.client("c", "B1")
    federation.settle()
    (session,) = federation.brokers["B1"].sessions
    if away:
        federation.severed.add(frozenset(("c", "B1")))
        federation.cut("c", "B1")
    federation.handle("B1", ev.SessionDismissed(session, "enough"))
    federation.advance(1.0)
    assert federation.notes("B1") == [("given up", "c"), ("left", "c")]


def test_a_module_can_move_one_on_as_soon_as_it_advertises() -> None:
    """001 section 3.1: a publisher that connects to an edge broker is sent to its cluster head."""

    class Edge(Module):
        name = "edge"

        def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
            self.around = around

        def first_advertised(self, client: str, now: float) -> None:  # noqa: ARG002
            order: dict[str, Any] = {"subjects": [client], "evidence": {}, "predicted": {}}
            cause = self.around.propose("role", "publishers", client, "B2", **order)
            if cause is not None:
                self.around.redirect(client, Address("B2"), cause)

    federation = Federation(("B1", "B2"), modules=lambda n: [Edge()] if n == "B1" else [])
    for name in ("pub", "sub"):
        federation.client(name, "B1")
    federation.advertise("pub", "a > 0")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.publish("pub", a=1)
    federation.advance(1.0)
    assert federation.clients["pub"].address == "B2"
    assert federation.clients["sub"].address == "B1"
    assert federation.got("sub") == ["pub:1"]


# --- what there is to see ---------------------------------------------------------------------------


def test_who_publishes_here() -> None:
    federation = Witnessed()
    federation.client("pub", "B1")
    federation.client("sub", "B1")
    federation.advertise("pub", "a > 0")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    found = federation.witnesses["B1"].around.publishers()
    assert {client: [str(a) for a in them.values()] for client, them in found.items()} == {
        "pub": ["a > 0"]
    }
    assert federation.witnesses["B2"].around.publishers() == {}


def test_what_neighbours_have_asked_for() -> None:
    federation = Witnessed()
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 5")
    federation.subscribe("sub", "a > 7")
    federation.settle()
    around = federation.witnesses["B2"].around
    found = {id_: str(s) for id_, s in around.subscriptions_from("B3").items()}
    assert found == {"sub/1": "a > 5"}  # which covers the other
    assert around.subscriptions_from("B1") == {}
    assert around.subscriptions_from("B9") == {}
    offered = {id_: str(a) for id_, a in around.advertisements_from("B1").items()}
    assert list(offered.values()) == ["a > 0"]
    assert around.advertisements_from("B3") == {}
    assert around.advertisements_from("B9") == {}


def covering_set(federation: Witnessed, broker: str) -> dict[str, str]:
    found = federation.witnesses[broker].around.covering_set()
    return {id_: str(subscription) for id_, subscription in found.items()}


def test_the_covering_set_follows_the_table() -> None:
    """001 section 2.1.2: what is not covered by any other subscription in the broker."""
    federation = Witnessed()
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("here", "B2")
    federation.client("there", "B3")
    federation.subscribe("here", "a > 5", "narrow")
    federation.subscribe("there", "a > 50")
    federation.settle()
    assert covering_set(federation, "B2") == {"here/1": "a > 5"}
    federation.subscribe("there", "a < 3")
    federation.subscribe("here", "a > 4", "wide")
    federation.settle()
    assert covering_set(federation, "B2") == {"there/2": "a < 3", "here/2": "a > 4"}
    federation.unsubscribe("here", "wide")
    federation.unsubscribe("here", "narrow")
    federation.settle()
    assert covering_set(federation, "B2") == {"there/2": "a < 3", "there/1": "a > 50"}


def test_what_modules_subscribe_to_is_not_in_the_covering_set() -> None:
    federation = Witnessed(routing="flooding")
    around = federation.witnesses["B1"].around
    federation.client("c", "B1")
    federation.subscribe("c", "a > 5")
    federation.settle()
    assert covering_set(federation, "B1") == {"c/1": "a > 5"}
    around.subscribe("all", parse_subscription("a > 0"))
    assert covering_set(federation, "B1") == {"c/1": "a > 5"}
    around.unsubscribe("all")
    federation.handle("B1", ev.ModuleSwitched("witness", "off"))
    federation.handle("B1", ev.ModuleSwitched("witness", "acting"))
    assert covering_set(federation, "B1") == {"c/1": "a > 5"}


# --- what matches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_a_local_subscription_matches_what_passes_and_nobody_is_told(durable: bool) -> None:
    federation = Witnessed(durable=durable)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 5")
    federation.settle()
    said, store = len(federation.said), dict(federation.stores["B2"])
    here = federation.witnesses["B2"].around
    here.subscribe("low", parse_subscription("a < 8"), local=True)
    here.subscribe("all", parse_subscription("a > 0"), local=True)
    federation.settle()
    assert (len(federation.said), federation.stores["B2"]) == (said, store)
    assert len(federation.table("B2", "subscriptions")) == 1
    federation.notes("B2")
    for a in (3, 7, 9):  # nobody wants the first: it does not even come here
        federation.publish("pub", a=a)
    federation.settle()
    assert federation.notes("B2") == [
        ("routed", "pub:2"),
        ("heard", "pub:2", "low", "all"),
        ("routed", "pub:3"),
        ("heard", "pub:3", "all"),
    ]
    assert not [note for note in federation.notes("B3") if note[0] == "heard"]
    assert federation.got("sub") == ["pub:2", "pub:3"]


def test_a_name_has_one_subscription_local_or_not() -> None:
    federation = Witnessed(routing="flooding")
    federation.client("pub", "B1")
    federation.settle()
    here = federation.witnesses["B1"].around
    here.subscribe("x", parse_subscription("a > 0"))
    here.subscribe("x", parse_subscription("a > 5"), local=True)
    federation.settle()
    assert not federation.table("B2", "subscriptions")
    for a in (3, 7):
        federation.publish("pub", a=a)
    federation.settle()
    assert [note for note in federation.notes("B1") if note[0] == "heard"] == [
        ("heard", "pub:2", "x")
    ]
    here.subscribe("x", parse_subscription("a > 5"), local=True)  # and again
    here.unsubscribe("x")
    federation.publish("pub", a=7)
    federation.settle()
    assert not [note for note in federation.notes("B1") if note[0] == "heard"]


def test_local_subscriptions_are_gone_when_the_module_is_off() -> None:
    federation = Witnessed(routing="flooding")
    federation.client("pub", "B1")
    federation.witnesses["B1"].around.subscribe("x", parse_subscription("a > 0"), local=True)
    for state in ("off", "acting"):
        federation.handle("B1", ev.ModuleSwitched("witness", state))
    federation.publish("pub", a=1)
    federation.settle()
    assert federation.notes("B1") == [("routed", "pub:1")]


def test_what_matches_behind_each_neighbour() -> None:
    """002 section 4: messages are counted for each subscription and neighbour."""
    federation = Witnessed(covering=False)
    federation.client("pub", "B2")
    federation.advertise("pub", "a > 0")
    for name, broker, text in (("x", "B1", "a > 1"), ("y", "B3", "a > 2"), ("z", "B3", "a > 3")):
        federation.client(name, broker)
        federation.subscribe(name, text)
    federation.settle()
    for a in (1, 2, 3, 4):
        federation.publish("pub", a=a)
    federation.settle()
    assert [dict(visit.behind) for visit in federation.witnesses["B2"].visits] == [
        {},
        {"B1": ["x/1"]},
        {"B1": ["x/1"], "B3": ["y/1"]},
        {"B1": ["x/1"], "B3": ["y/1", "z/1"]},
    ]
    # Not where it came from.
    assert [dict(visit.behind) for visit in federation.witnesses["B3"].visits] == [{}, {}]


def test_it_is_not_matched_for_who_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "wants_behind", False)
    asked: list[object] = []
    monkeypatch.setattr(Flooding, "behind", lambda *arguments: asked.append(arguments))
    federation = Witnessed(routing="flooding")
    federation.client("pub", "B1")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.publish("pub", a=1)
    federation.settle()
    assert [dict(visit.behind) for visit in federation.witnesses["B1"].visits] == [{}]
    assert not asked


# --- operators --------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["", "witness"])
@pytest.mark.parametrize("durable", [True, False])
def test_an_operator_is_answered(module: str, durable: bool) -> None:
    federation = Witnessed(durable=durable)
    federation.handle("B1", ev.Asked("1", "count", {"of": "notes"}, module))
    assert federation.answers == [("B1", Answered("1", {"witness": {"count": 0}}, {}))]


@pytest.mark.parametrize(
    ("event", "objections"),
    [
        (ev.Asked("1", "drain"), {}),
        (ev.Asked("1", "count", {"of": 1}, "somebody else"), {}),
        (ev.Asked("1", "count"), {"witness": "expected `of`"}),
    ],
)
def test_an_operator_hears_also_that_nobody_knows_what_to_do(
    event: ev.Asked, objections: Mapping[str, str]
) -> None:
    federation = Witnessed()
    federation.handle("B1", event)
    assert federation.answers == [("B1", Answered("1", {}, objections))]


def test_one_that_is_off_is_not_asked() -> None:
    federation = Witnessed()
    federation.handle("B1", ev.ModuleSwitched("witness", "off"))
    federation.handle("B1", ev.Asked("1", "count", {"of": "notes"}))
    assert federation.answers == [("B1", Answered("1", {}, {}))]
