"""What goes out in bulk is what would go out one by one: the same bytes, and the same state of clients."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from roost.broker.commands import Command, Deliver, Send, SendRun
from roost.broker.config import BrokerConfig
from roost.broker.events import ConnectionAccepted, ConnectionClosed, Received
from roost.broker.hops import Entry
from roost.broker.messages import (
    CONTROL,
    PROTOCOL_VERSION,
    Ack,
    Attach,
    Frame,
    Message,
    Parcel,
    Publication,
    Subscribe,
)
from roost.broker.station import Station
from roost.chunks.taking import OWN_BYTES_MAX
from roost.language import Event, parse_subscription
from roost.partition import bundles as bundles_module
from roost.partition.bundles import Bundles, Parting
from roost.partition.notes import Found
from roost.partition.roster import Answer, Roster
from roost.wire import encode

X_IS_1 = parse_subscription("x = 1")


class House(Station):
    """Clients, and events that come with their answers; in bulk, or one by one."""

    name = "house"
    takes_subscriptions = True

    def __init__(self, *, in_bulk: bool, **settings: int) -> None:
        self.number = 0
        self.roster: Roster
        self.slots: dict[str, int] = {}
        super().__init__(BrokerConfig(broker="H", incarnation="1", **settings))  # type: ignore[arg-type]
        self.roster = Roster(self.clientele.subscriptions)
        self.bundles = Bundles(self.roster, self._work, self.config, self.deliver)
        self.in_bulk = in_bulk

    def subscribed(self, entry: Entry) -> None:
        self.number += 1
        self.slots[entry.id] = self.roster.add(entry, self.number)

    def unsubscribed(self, entry: Entry) -> None:
        self.number += 1
        self.roster.remove(entry, self.number)
        del self.slots[entry.id]

    def let_go(self, some: list[Parting]) -> list[Command]:
        self._work.begin(0.0)
        if self.in_bulk:
            self.bundles.let_go(some)
        else:
            for publication, answer, place in some:
                here = self.roster.receivers(answer, place, publication.event)
                self.deliver(publication, here)
        return self._work.commit()


class Play:
    """The same happens to a house; what clients get, by connection."""

    def __init__(self, *, in_bulk: bool, **settings: int) -> None:
        self.house = House(in_bulk=in_bulk, **settings)
        self.said: dict[int, bytes] = {}
        self.runs = 0
        self._control: dict[int, int] = {}

    def client(self, connection: int, name: str, received: int = -1) -> None:
        self._do(self.house.handle(ConnectionAccepted(connection), 0.0))
        resumes = received >= 0
        session = self.house.sessions.get(name)
        control = session.channel.control.sent if session is not None else 0
        greeting = Attach(PROTOCOL_VERSION, name, name, resumes, control, max(received, 0))
        self.hear(connection, greeting)

    def hear(self, connection: int, parcel: Parcel) -> None:
        self._do(self.house.handle(Received(connection, [parcel]), 0.0))

    def says(self, connection: int, message: Message) -> None:
        number = self._control[connection] = self._control.get(connection, 0) + 1
        self.hear(connection, Frame(CONTROL, number, message, 0))

    def closed(self, connection: int) -> None:
        self._do(self.house.handle(ConnectionClosed(connection, "cut"), 0.0))

    def let_go(self, some: list[Parting]) -> None:
        self._do(self.house.let_go(some))

    def _do(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, SendRun):
                self.runs += 1
                self._put(command.connection, command.run.data)
            elif isinstance(command, Deliver):
                for connection, frame in command.frames:
                    self._put(connection, encode(frame))
            elif isinstance(command, Send):
                self._put(command.connection, encode(command.parcel))

    def _put(self, connection: int, data: bytes) -> None:
        self.said[connection] = self.said.get(connection, b"") + data

    def state(self) -> object:
        return [
            (name, s.open, s.dropped, s.ended, lane.sent, lane.acked, *map(encode, lane.outbox))
            for name, s in self.house.sessions.items()
            for lane in (s.channel.data,)
        ]


def partings(random: Random, house: House, numbers: range, *, stale: bool) -> list[Parting]:
    """Events, in answers that several share, in any order."""
    slots = list(house.slots.values())
    waiting: list[tuple[Answer, int]] = []
    for _ in range(-(-len(numbers) // 4)):
        rows = [random.sample(slots, random.choice([0, 1, len(slots) // 2])) for _ in range(4)]
        ends = np.cumsum([len(row) for row in rows]).astype(np.uint32)
        flat = np.array([slot for row in rows for slot in row], np.uint32)
        found = Found("", 1, None, ends.tobytes(), flat.tobytes())
        heard = house.number - (random.randrange(3) if stale else 0)
        answer = Answer(found, heard)
        waiting += [(answer, place) for place in range(4)]
    random.shuffle(waiting)
    size = random.choice([0, 0, 0, 0, OWN_BYTES_MAX])
    return [
        Parting(Publication("p", number, Event({"x": random.choice([1, 2])}), bytes(size)), *where)
        for number, where in zip(numbers, waiting, strict=False)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_in_bulk_and_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients come, go, resume, and don't acknowledge; names are long, or too many for a frame."""
    monkeypatch.setattr(bundles_module, "STRETCH", Random(seed).choice([3, 512]))
    settings = {"session_outbox_max": 30, "delivery_ids_bytes_max": 90}
    if seed % 2:
        settings = {}
    plays = [Play(in_bulk=in_bulk, **settings) for in_bulk in (True, False)]
    for play in plays:
        random = Random(seed)  # the same for both
        published = 0
        for number in range(5):
            play.client(number, f"c{number}")
            for n in range(random.choice([1, 6, 30])):
                id_ = f"c{number}/{'ü' * random.choice([1, 1, 20])}{n}"
                play.says(number, Subscribe(id=id_, subscription=X_IS_1, cause="t"))
        for step in range(12):
            what, who = random.choice(["ack", "cut", "resume", "more", ""]), random.randrange(5)
            session = play.house.sessions.get(f"c{who}")
            if what == "ack" and session is not None and session.connection is not None:
                last = session.channel.data.sent - session.channel.data.spilled
                acked = random.randint(session.channel.data.acked, last)
                play.hear(session.connection, Ack(session.channel.control.sent, acked))
            elif what == "cut" and session is not None and session.connection is not None:
                play.closed(session.connection)
            elif what == "resume" and session is not None and session.connection is None:
                lane = session.channel.data
                play.client(100 + step, f"c{who}", random.randint(lane.acked, lane.sent))
            elif what == "more" and session is not None and session.connection == who:
                more = Subscribe(id=f"more{step}", subscription=X_IS_1, cause="t")
                play.says(who, more)
            count = random.choice([1, 2, 9])
            numbers = range(published + 1, published + count + 1)
            published += count
            play.let_go(partings(random, play.house, numbers, stale=bool(seed % 3)))
    bulk, plain = plays
    assert bulk.said == plain.said
    assert bulk.state() == plain.state()
    assert bulk.runs > 0
    assert plain.runs == 0
