"""A machine of one's own, without any driver: what clients are answered, what is checked, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.config import BrokerConfig
from roost.broker.machine import Happening
from roost.broker.machines import kind_of
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    Message,
    Migrate,
    MigrationFailed,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unsubscribe,
    priority_of,
)
from roost.broker.module import Module, ModuleState, Visit
from roost.broker.names import Address
from roost.broker.permissions import Permission
from roost.broker.station import Station
from roost.errors import UserError
from roost.language import Event, parse_advertisement, parse_subscription
from tests.broker.test_modules import LOAD
from tests.example.mesh import Mesh


class Witness(Module):
    """Notes what is routed."""

    name = "witness"

    def __init__(self) -> None:
        super().__init__()
        self.visits: list[Visit] = []

    def routed(self, visit: Visit, now: float) -> None:  # noqa: ARG002
        self.visits.append(visit)


class Room:
    """A station, and clients who say what they like; transactions are safe at once."""

    def __init__(self, kind: type[Station], **config: Any) -> None:
        self.kind = kind
        self.config = BrokerConfig(broker="M", incarnation="i", **config)
        self.store: dict[do.StoreKey, Any] = {}
        self.witness = Witness()
        self.connections = 0
        self.start()

    def start(self) -> None:
        self.station = self.kind(self.config, [self.witness])
        self.numbers: dict[tuple[int, int], int] = {}
        self.heard: dict[int, list[Message]] = {}
        self.timers: dict[str, float] = {}
        self.handle(ev.Started(dict(self.store)))

    def handle(self, event: Happening) -> None:
        waiting = self.station.handle(event, 0.0)
        while waiting:
            command = waiting.pop(0)
            if isinstance(command, do.Send) and isinstance(command.parcel, Frame):
                self.heard.setdefault(command.connection, []).append(command.parcel.message)
            elif isinstance(command, do.Deliver):
                for connection, frame in command.frames:
                    self.heard.setdefault(connection, []).append(frame.message)
            elif isinstance(command, do.SetTimer):
                self.timers[command.name] = command.delay_s
            elif isinstance(command, do.Persist):
                self.store |= command.writes
                self.store = {k: v for k, v in self.store.items() if v is not None}
                waiting += self.station.handle(ev.Persisted(command.token), 0.0)

    def client(
        self, name: str, *, permission: Permission | None = None, **greeting: Any
    ) -> Callable[..., list[Message]]:
        self.connections += 1
        number = self.connections
        self.handle(ev.ConnectionAccepted(number))
        if permission is not None:
            self.handle(ev.Identified(number, permission))
        attach = Attach(PROTOCOL_VERSION, name, name, False, 0, 0, **greeting)
        self.handle(ev.Received(number, (attach,)))

        def say(*messages: Message) -> list[Message]:
            """What it hears when it has said that."""
            self.heard[number] = []
            for message in messages:
                lane = (number, priority_of(message))
                self.numbers[lane] = self.numbers.get(lane, 0) + 1
                frame = Frame(priority_of(message), self.numbers[lane], message)
                self.handle(ev.Received(number, (frame,)))
            return self.heard[number]

        return say


def event(publisher: str, number: int, **attributes: int) -> Publication:
    return Publication(publisher, number, Event(attributes or {"a": number}))


def wants(id_: str, text: str = "a > 0") -> Subscribe:
    return Subscribe(id_, parse_subscription(text), "it wants to")


# --- manners --------------------------------------------------------------------------------------


def test_a_station_that_adds_nothing_refuses_politely() -> None:
    say = Room(Station).client("C")
    assert say(event("C", 1)) == [Refused("C:1", "M takes no events")]
    assert say(wants("C/1")) == [Refused("C/1", "nobody subscribes at M")]
    assert say(Unsubscribe("C/1", "no longer")) == []
    assert say(Advertise("C/2", parse_advertisement("a > 0"), "why not")) == []
    assert say(Settle("s", "")) == [Settled("s")]
    assert [type(message) for message in say(Migrate((), ""))] == [MigrationFailed]


@pytest.mark.parametrize("goodbye", [EndSession(""), HandOver("")])
def test_goodbyes(goodbye: Message) -> None:
    room = Room(Mesh)
    say = room.client("C")
    say(wants("C/1"))
    assert say(goodbye, goodbye) == [SessionEnded("goodbye")]
    assert not room.station.clientele.subscriptions


def test_a_client_is_sent_elsewhere() -> None:
    room = Room(Mesh)
    say = room.client("C")
    say()
    room.handle(ev.ClientRedirected("C", Address("there"), "because"))
    assert room.heard[1] == [Redirect("there", "because")]


# --- what clients may do --------------------------------------------------------------------------


def test_events_reach_who_wants_them() -> None:
    room = Room(Mesh)
    one, two = room.client("one"), room.client("two")
    two(wants("two/1"), wants("two/2", "a > 5"))
    one(event("one", 1), event("one", 9), event("one", 9))
    assert room.heard[2] == [
        Delivery(event("one", 1), ("two/1",)),
        Delivery(event("one", 9), ("two/1", "two/2")),
    ]
    assert (room.station.traffic.routed, room.station.traffic.duplicates) == (2, 1)
    two(Unsubscribe("two/1", "enough"))
    one(event("one", 10, a=3))
    assert room.heard[2] == []
    assert two(wants("two/2")) == [Refused("two/2", "the id 'two/2' is in use")]
    assert one(wants("two/2")) == [Refused("two/2", "the id 'two/2' is in use")]


def test_a_delivery_for_many_subscriptions_comes_in_parts() -> None:
    room = Room(Mesh, delivery_ids_bytes_max=12)
    one, two = room.client("one"), room.client("two")
    two(*(wants(f"two/{number}") for number in range(5)))
    one(event("one", 1))
    deliveries = [message for message in room.heard[2] if isinstance(message, Delivery)]
    assert len(deliveries) > 1
    ids = [id_ for delivery in deliveries for id_ in delivery.subscriptions]
    assert sorted(ids) == [f"two/{number}" for number in range(5)]


def test_a_station_knows_the_last_sample_of_its_load() -> None:
    room = Room(Mesh)
    assert room.station.load is None
    room.handle(ev.LoadSampled(LOAD))
    assert room.station.load == LOAD


def test_permissions_are_the_brokers() -> None:
    some = parse_subscription("a < 5")
    permission = Permission("C", publish=some, subscribe=some)
    room = Room(Mesh, secured=True)
    say = room.client("C", permission=permission)
    assert [type(m) for m in say(event("C", 1, a=7), wants("C/1"))] == [Refused, Refused]
    assert say(wants("C/2", "a < 3"), event("D", 1)) == [
        Refused("D:1", "it is in the name of 'D', not of 'C'")
    ]
    assert say(event("C", 2, a=2)) == [Delivery(event("C", 2, a=2), ("C/2",))]
    room.handle(
        ev.Identified(1, Permission("C", publish=some, subscribe=parse_subscription("b < 3")))
    )
    assert not room.station.clientele.subscriptions


def test_events_of_a_durable_publisher_have_their_turn() -> None:
    room = Room(Mesh, durable=True)
    say = room.client("C", durable=True, process="1", publisher="C~1")
    assert say(event("C~1", 1), event("C~1", 1)) == []
    assert room.station.traffic.duplicates == 1
    assert say(event("C~1", 3), event("C~1", 4)) == [Refused("C~1:3", "number 2 has to come first")]
    assert say(event("C~1", 2)) == []
    assert room.station.sessions["C"].published == 2


def test_a_full_store_and_a_full_queue() -> None:
    room = Room(Mesh, session_outbox_max=2, session_outbox_policy="drop")
    one, two = room.client("one"), room.client("two")
    two(wants("two/1"))
    room.handle(ev.Congested(2))
    one(*(event("one", n) for n in range(1, 6)))
    assert room.station.sessions["two"].dropped == 3
    room.station.sessions["two"].channel.data.acknowledged(2)
    room.handle(ev.Relieved(2))
    one(event("one", 6))
    lane = room.station.sessions["two"].channel.data
    lane.acknowledged(lane.sent)
    one(event("one", 7))
    # It is told once.
    assert [type(m) for m in room.heard[2]][-3:] == [Dropped, Delivery, Delivery]
    room.handle(ev.StoreFilled(is_full=True))
    assert one(event("one", 8)) == [Refused("one:8", "the store of M is full")]


# --- what is kept, and who watches ------------------------------------------------------------------


def test_what_the_store_has_is_there_again() -> None:
    room = Room(Mesh, durable=True)
    room.client("C", durable=True, process="1")(wants("C/1"), wants("C/2"), Unsubscribe("C/2", ""))
    room.start()
    assert list(room.station.clientele.subscriptions) == ["C/1"]
    # The next process says it again.
    say = room.client("C", durable=True, process="2")
    assert say(wants("C/1", "a > 3"), event("C", 5)) == [Delivery(event("C", 5), ("C/1",))]
    assert len(room.station.table) == 1


def test_who_is_not_back_after_a_restart_is_not_waited_for_without_end() -> None:
    room = Room(Mesh, durable=True, durable_linger_s=77.0)
    room.client("C", durable=True, process="1")(wants("C/1"))
    room.start()
    assert list(room.timers.values()) == [77.0]
    room.handle(ev.TimerFired(next(iter(room.timers))))
    assert not room.station.clientele.subscriptions


def test_one_that_taps_hears_of_hops() -> None:
    """It wants no `Visit` made for it."""
    room = Room(Mesh)
    taps: list[tuple[str, int, list[tuple[str, ...]]]] = []

    def tap(
        source: Any, publication: Publication, hops: int, _: Any, local: Any, __: float
    ) -> None:
        taps.append((publication.id, hops, [session.matched for session in local]))
        assert source.client == "C"

    room.witness.tap = tap
    room.handle(ev.ModuleSwitched("witness", ModuleState.OBSERVING.value))
    room.client("C")(wants("C/1"), event("C", 1))
    assert taps == [("C:1", 0, [("C/1",)])]
    assert not room.witness.visits


def test_modules_of_the_driver_hear_what_is_routed() -> None:
    room = Room(Mesh)
    say = room.client("C")
    say(wants("C/1"), event("C", 1))
    assert not room.witness.visits
    for state in (ModuleState.OBSERVING, ModuleState.OFF):
        room.handle(ev.ModuleSwitched("witness", state.value))
        say(event("C", 2 if state is ModuleState.OBSERVING else 3))
    (visit,) = room.witness.visits
    assert visit == Visit(event("C", 2), 0, "C", True, [], {"C": ("C/1",)})
    room.handle(ev.ModuleSwitched("nobody", ModuleState.ACTING.value))


def test_a_note_goes_ahead_of_data_unless_it_is_to_be_behind() -> None:
    station = Room(Mesh).station
    with mock.patch.object(station, "tell") as tell:
        station.note(mock.Mock(), b"first", cause="why")
        station.note(mock.Mock(), b"second", cause="why", behind=True)
    notes = [call.args[1] for call in tell.call_args_list]
    assert [(note.body, note.behind) for note in notes] == [(b"first", False), (b"second", True)]


def test_what_is_no_machine_is_refused() -> None:
    with pytest.raises(UserError, match="is no machine; expected a class"):
        kind_of("roost.language:Event")
