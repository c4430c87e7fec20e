"""Two brokers to which the same happens: one handles everything, the other takes what it can in chunks.

After each step they must have said the same bytes on each connection, asked the same of their drivers
besides, and be in the same state. Where a stream is cut is up to the test; the first is given the frames that
the second took together, or handled together, in one event each.

With stores, each has its own, and what is written there differs. What must be the same is when it is written,
what is said once it is safe, and what a broker is that comes back from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from roost.broker.channel import Lane
from roost.broker.commands import (
    Command,
    Deliver,
    Fetch,
    Persist,
    Send,
    SendRun,
    StoreKey,
)
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import (
    ConnectionAccepted,
    Fetched,
    LinkAdded,
    ModuleSwitched,
    Persisted,
    Received,
    Started,
)
from roost.broker.machine import Happening
from roost.broker.messages import (
    PROTOCOL_VERSION,
    Answer,
    Attach,
    Frame,
    Inquiry,
    LinkHello,
    Message,
    Parcel,
    priority_of,
)
from roost.broker.module import Module, ModuleState
from roost.broker.runs import Run
from roost.chunks.stream import read
from roost.chunks.taking import Chunks, Taken
from roost.wire import PREFACE, StreamDecoder, WireError, encode
from roost.wire.limits import DEFAULT_LIMITS, Limits


class Twins:
    """A broker that handles everything, and one that takes chunks."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        modules: Callable[[], Sequence[Module]] = tuple,
        **config: Any,
    ) -> None:
        self._config = BrokerConfig(broker="B", incarnation="B~1", **config)
        self._modules = modules
        self.limits = limits
        self.now = 0.0
        self.taken = 0  # events
        self.stores: tuple[dict[StoreKey, Any], dict[StoreKey, Any]] = ({}, {})
        self.begin()

    def begin(self) -> None:
        """Both start, with what their stores hold. What was not safe by then is lost."""
        self.modules = (self._modules(), self._modules())
        self.slow, self.fast = (Broker(self._config, each) for each in self.modules)
        self.chunks = Chunks(self.fast, self.limits, always=True)
        self.out: dict[int, bytes] = {}  # all that was said on each connection
        self.decoders: dict[int, tuple[StreamDecoder, StreamDecoder]] = {}
        self.sent: dict[int, list[int]] = {}  # by whoever is at the other end
        self.unsafe: deque[tuple[Persist, Persist]] = deque()
        self.unread: deque[tuple[Fetch, Fetch]] = deque()
        for module in self.modules[0]:
            self.happens(ModuleSwitched(module.name, ModuleState.OBSERVING.value))
        events = [Started(dict(store)) for store in self.stores]
        self.compare(self.slow.handle(events[0], 0.0), self.fast.handle(events[1], 0.0))
        self.same_outboxes()

    # --- what happens ---------------------------------------------------------------------------------

    def happens(self, event: Happening) -> None:
        """To both."""
        self.compare(self.slow.handle(event, self.now), self.fast.handle(event, self.now))

    def commit(self) -> None:
        """The next transaction is safe."""
        both = self.unsafe.popleft()
        for persist, store in zip(both, self.stores, strict=True):
            for key, value in persist.writes.items():
                if value is None:
                    store.pop(key, None)
                else:
                    store[key] = value
        self.happens(Persisted(both[0].token))

    def read(self) -> None:
        """The next question to the stores is answered."""
        slow, fast = (
            Fetched(fetch, [store.get(key) for key in fetch.records])
            for fetch, store in zip(self.unread.popleft(), self.stores, strict=True)
        )
        self.compare(self.slow.handle(slow, self.now), self.fast.handle(fast, self.now))

    def connect(self, connection: int) -> None:
        self.happens(ConnectionAccepted(connection))
        self._opened(connection)

    def _opened(self, connection: int) -> None:
        self.decoders[connection] = (StreamDecoder(self.limits), StreamDecoder(self.limits))
        for decoder in self.decoders[connection]:
            decoder.feed(PREFACE)
        self.sent[connection] = [0, 0]

    def attach(self, connection: int, name: str, **rest: Any) -> None:
        self.connect(connection)
        settings: dict[str, Any] = {
            "resume": False,
            "control_received": 0,
            "data_received": 0,
            **rest,
        }
        self.say(connection, Attach(PROTOCOL_VERSION, name, name, **settings))

    def link(self, connection: int, name: str, **rest: Any) -> None:
        """A neighbour that was away dials us."""
        if name not in self.slow.links:
            self.happens(LinkAdded(name, dial=False))
        self.connect(connection)
        settings: dict[str, Any] = {
            "known_incarnation": "",
            "control_received": 0,
            "data_received": 0,
            **rest,
        }
        self.say(connection, LinkHello(PROTOCOL_VERSION, name, f"{name}~1", **settings))

    def answer(self, connection: int) -> None:
        """As a neighbour does: it has said all that follows from what it was told."""
        decoder = StreamDecoder(self.limits)
        heard = decoder.feed(PREFACE + self.out.pop(connection, b""))
        for parcel in heard:
            if isinstance(parcel, Frame) and isinstance(parcel.message, Inquiry):
                self.tell(connection, Answer(parcel.message.number, ""))

    def say(self, connection: int, *parcels: Parcel) -> None:
        self.reads(connection, b"".join(map(encode, parcels)))

    def frames(self, connection: int, *messages: Message) -> list[bytes]:
        """Messages with the next numbers of that connection."""
        found = []
        for message in messages:
            priority = priority_of(message)
            self.sent[connection][priority] += 1
            found.append(encode(Frame(priority, self.sent[connection][priority], message)))
        return found

    def tell(self, connection: int, *messages: Message) -> None:
        self.reads(connection, b"".join(self.frames(connection, *messages)))

    def reads(self, connection: int, data: bytes) -> None:
        """A piece of a stream arrives."""
        slow, fast = self.decoders[connection]

        def take(piece: bytes, start: int) -> Taken:
            taken = self.chunks.take(connection, piece, start, self.now)
            self.taken += taken.events
            if taken.events:
                parcels = slow.feed(piece[start : taken.at])
                assert len(parcels) == taken.events
                self.compare(
                    self.slow.handle(Received(connection, parcels), self.now), taken.commands
                )
            else:
                assert (taken.commands, taken.at) == ([], start)
            return taken

        def handle(piece: bytes) -> bool:
            parcels, error = fed(fast, piece)
            assert (list(map(repr, parcels)), error) == (
                list(map(repr, (other := fed(slow, piece))[0])),
                other[1],
            )
            if parcels:
                self.happens(Received(connection, parcels))
            return not error

        if 0 < fast.kept_bytes <= len(data):
            slow.take_back()  # it is given again, in front of the rest
        rest = read(fast, data, take, handle)
        if rest:
            handle(rest)

    # --- what comes of it ------------------------------------------------------------------------------

    def compare(self, slow: list[Command], fast: list[Command]) -> None:
        expected, found = said(slow), said(fast)
        for commands, each in zip(expected[1], found[1], strict=True):
            if isinstance(commands, Persist) and isinstance(each, Persist):
                assert commands.token == each.token
                self.unsafe.append((commands, each))
            elif isinstance(commands, Fetch) and isinstance(each, Fetch):
                assert (commands.key, commands.first) == (each.key, each.first)
                assert commands.count == each.count
                self.unread.append((commands, each))
            else:
                assert each == commands
        assert found[0] == expected[0]
        for connection, data in found[0].items():
            self.out[connection] = self.out.get(connection, b"") + data
        self.same_state()

    def same_state(self) -> None:
        assert state_of(self.fast) == state_of(self.slow)

    def same_outboxes(self) -> None:
        """What each keeps for whom, message by message."""
        assert outboxes_of(self.fast) == outboxes_of(self.slow)


def fed(decoder: StreamDecoder, piece: bytes) -> tuple[list[Parcel], str]:
    """What a piece completes, and what is wrong with it."""
    try:
        return decoder.feed(piece), ""
    except WireError as wrong:
        return list(wrong.parcels), str(wrong)


def said(commands: list[Command]) -> tuple[dict[int, bytes], list[Command]]:
    """The bytes on each connection, and what else is to be done."""
    out: dict[int, bytes] = {}
    others: list[Command] = []
    for command in commands:
        if isinstance(command, Send):
            pieces = [(command.connection, encode(command.parcel))]
        elif isinstance(command, Deliver):
            pieces = [(connection, encode(frame)) for connection, frame in command.frames]
        elif isinstance(command, SendRun):
            pieces = [(command.connection, command.run.data)]
        else:
            others.append(command)
            continue
        for connection, data in pieces:
            out[connection] = out.get(connection, b"") + data
    return out, others


def peers_of(broker: Broker) -> dict[str, Any]:
    return {**broker.links, **broker.sessions}


def state_of(broker: Broker) -> Any:
    lanes = {
        name: [
            (lane.sent, lane.acked, lane.received, lane.reported, lane.spilled)
            for lane in peer.channel.lanes
        ]
        + [peer.open, peer.congested, peer.dropped, peer.connection, peer.fetching, peer.released]
        + [getattr(peer, "published", None)]
        for name, peer in peers_of(broker).items()
    }
    exchange = broker.exchange
    return (
        lanes,
        list(exchange._seen.items()),
        exchange.routed,
        exchange.duplicates,
        exchange.last_route,
        [peer.name for peer in broker.node.owed],
        broker.node.hosted.unheard,
    )


def outboxes_of(broker: Broker) -> Any:
    return {
        name: [encode(frame) for lane in peer.channel.lanes for frame in waiting_in(lane)]
        for name, peer in peers_of(broker).items()
    }


def waiting_in(lane: Lane) -> list[Frame]:
    """The messages of an outbox, in which runs stay what they are."""
    found: list[Frame] = []
    for each in lane._outbox:
        found += each.frames(lane.acked) if isinstance(each, Run) else [each]
    return found
