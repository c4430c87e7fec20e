"""A permission shrinks while events wait for the store: who may not have them any more does not get them.

What a broker wants to say waits until the transaction is safe, so an event may be on nobody's wire yet and
in nobody's outbox any more when the permission changes (`Broker.say_instead`).
"""

from __future__ import annotations

from typing import NamedTuple

from roost.broker import events as ev
from roost.broker.messages import Delivery, Dropped
from roost.broker.permissions import Permission
from roost.language import parse_subscription
from tests.broker.kit import Federation

EVERYTHING = parse_subscription("a present or b present")
ONLY_B = parse_subscription("b present")


class Desk(NamedTuple):
    federation: Federation

    def may(self, client: str, permission: Permission) -> None:
        (session,) = (
            s for s in self.federation.brokers["B2"].sessions.values() if s.client == client
        )
        assert session.connection is not None
        self.federation.handle("B2", ev.Identified(session.connection, permission))

    def heard(self, client: str, since: int) -> list[str]:
        """What a client is sent as data: the ids of events, and how many were dropped."""
        return [
            said.publication.id if isinstance(said, Delivery) else f"{said.count} dropped"
            for said in self.federation.between("B2", client, Delivery, Dropped, since=since)
            if isinstance(said, Delivery | Dropped)
        ]


def desk() -> Desk:
    """Two at B2 who may have everything; what B2 writes from now on is not safe yet."""
    federation = Federation(("B1", "B2"), durable=True)
    made = Desk(federation)
    federation.client("pub", "B1")
    federation.advertise("pub", "a present")
    federation.advertise("pub", "b present")
    for name in ("eve", "ann"):
        federation.client(name, "B2")
        federation.settle()
        made.may(name, Permission(name, subscribe=EVERYTHING))
        federation.subscribe(name, "a present")
        federation.subscribe(name, "b present")
    federation.settle()
    federation.hold_commits.add("B2")
    return made


def test_events_that_wait_for_the_store_are_for_those_who_still_may() -> None:
    made = desk()
    federation = made.federation
    since = len(federation.said)
    ids = [federation.publish("pub", a=1), federation.publish("pub", b=2)]
    federation.settle()
    made.may("eve", Permission("eve", subscribe=ONLY_B))
    assert made.heard("eve", since) == made.heard("ann", since) == []
    federation.hold_commits.clear()
    federation.commit("B2")
    federation.settle()
    assert made.heard("eve", since) == ["1 dropped", ids[1]]
    assert made.heard("ann", since) == ids
    assert federation.got("eve") == ids[1:]
    assert federation.got("ann") == ids


def test_so_are_events_that_are_sent_again() -> None:
    """Two are back, who have missed the same: the numbers of what waits for them are the same, too."""
    made = desk()
    federation = made.federation
    federation.hold_commits.clear()
    federation.commit("B2")
    for name in ("eve", "ann"):
        federation.severed.add(frozenset((name, "B2")))
        federation.cut(name, "B2")
    ids = [federation.publish("pub", a=1), federation.publish("pub", b=2)]
    federation.settle()
    federation.severed.clear()
    federation.hold_commits.add("B2")
    # Something is to be written, and so what they are sent has to wait.
    federation.client("other", "B2")
    federation.subscribe("other", "c present")
    federation.advance(1.0)
    since = len(federation.said)
    made.may("eve", Permission("eve", subscribe=ONLY_B))
    federation.hold_commits.clear()
    federation.commit("B2")
    federation.settle()
    assert made.heard("eve", since) == ["1 dropped", ids[1]]
    assert made.heard("ann", since) == ids
    assert federation.got("eve") == ids[1:]
    assert federation.got("ann") == ids


def test_control_that_waits_for_the_store_is_as_it_was() -> None:
    """It has numbers of its own, which are those of events, too."""
    made = desk()
    federation = made.federation
    id_ = federation.publish("pub", a=1)
    federation.settle()
    federation.subscribe(
        "eve", "c present"
    )  # the answer is her first control, as the event is her first data
    federation.settle()
    made.may("eve", Permission("eve", subscribe=ONLY_B))
    federation.hold_commits.clear()
    federation.commit("B2")
    federation.settle()
    assert [tell.about for tell in federation.heard("eve", "refused")] == ["eve/3", "eve/1"]
    assert federation.got("eve") == []
    assert federation.got("ann") == [id_]
