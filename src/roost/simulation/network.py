"""Connections between simulated machines: reliable and in order while they are up, as TCP is.

A connection carries parcels both ways, in order, except that control may pass data that left before it. What
is on the way when it is cut is lost, and both ends hear of it a little later, as they would from a missing
heartbeat. Whether two machines can reach each other at all is up to the faults of the scenario: links that
are cut, partitions, machines that are down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from roost.broker.events import (
    Congested,
    ConnectionAccepted,
    ConnectionClosed,
    LinkOpened,
    LinkRefused,
    Relieved,
)
from roost.broker.machine import Happening
from roost.broker.messages import DATA, Frame, Parcel
from roost.simulation.clock import Clock

# How long until an end notices that the other is gone.
NOTICE_S = 0.2
NO_NOTICE: Mapping[str, float | None] = {}
# How long it takes to learn that nobody answers, on top of the latency.
REFUSAL_S = 0.01


class Actor(Protocol):
    """A machine in its simulated surroundings."""

    name: str

    def receive(self, connection: Connection, parcel: Parcel) -> None: ...

    def notice(self, event: Happening) -> None:
        """Something happened to a connection."""


class Pipe:
    """One direction of a connection."""

    __slots__ = ("connection", "last_control", "last_data", "receiver")

    def __init__(self, connection: Connection, receiver: Actor) -> None:
        self.connection = connection
        self.receiver = receiver
        # When the last parcel of each class arrives.
        self.last_control = 0.0
        self.last_data = 0.0


class Connection:
    """A connection of two actors."""

    __slots__ = ("back", "called", "caller", "extra_s", "forth", "id", "latency_s", "open")

    def __init__(self, id_: int, caller: Actor, called: Actor, latency_s: float) -> None:
        self.id = id_
        self.caller = caller
        self.called = called
        self.latency_s = latency_s
        self.extra_s = 0.0  # while a spike of delay lasts
        self.open = True
        self.forth = Pipe(self, called)
        self.back = Pipe(self, caller)

    @property
    def ends(self) -> tuple[Actor, Actor]:
        return self.caller, self.called

    def pipe_from(self, end: Actor) -> Pipe:
        return self.forth if self.caller is end else self.back


class Network:
    """All connections, and who can reach whom."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.connections: dict[int, Connection] = {}
        self._extra_s: dict[frozenset[str], float] = {}  # spikes of delay, by the two names
        self._ids = 0
        # Parcels that were put on a connection, that arrived, that were on the way when it was cut.
        self.sent = 0
        self.arrived = 0
        self.lost = 0

    def dial(
        self,
        caller: Actor,
        find: Callable[[], Actor | None],
        broker: str,
        latency_s: float,
        identify: Callable[[Actor, int], None] | None = None,
    ) -> None:
        """Connect to whoever `find` gives by then; both ends are told, the one that is called first.

        That one hears who it is, if there is somebody to say so.
        """
        self.clock.after(2 * latency_s, self._dialled, caller, find, broker, latency_s, identify)

    def _dialled(
        self,
        caller: Actor,
        find: Callable[[], Actor | None],
        broker: str,
        latency_s: float,
        identify: Callable[[Actor, int], None] | None,
    ) -> None:
        called = find()
        if called is None:
            refusal = LinkRefused(broker, "nobody answers")
            self.clock.after(REFUSAL_S, caller.notice, refusal)
            return
        self._ids += 1
        connection = Connection(self._ids, caller, called, latency_s)
        connection.extra_s = self._extra_s.get(frozenset((caller.name, called.name)), 0.0)
        self.connections[connection.id] = connection
        called.notice(ConnectionAccepted(connection.id))
        if identify is not None:
            identify(called, connection.id)
        caller.notice(LinkOpened(broker, connection.id))

    def send(self, sender: Actor, connection_id: int, parcel: Parcel, departure: float) -> None:
        """Put a parcel on a connection at a time; on one that is gone, nothing happens."""
        connection = self.connections.get(connection_id)
        if connection is None:
            return
        pipe = connection.forth if connection.caller is sender else connection.back
        arrival = departure + connection.latency_s + connection.extra_s
        if type(parcel) is Frame and parcel.priority == DATA:
            # Data never overtakes: control may go ahead where messages queue, not on the wire.
            if arrival < pipe.last_data:  # noqa: PLR1730 (max takes three times as long)
                arrival = pipe.last_data
            if arrival < pipe.last_control:  # noqa: PLR1730
                arrival = pipe.last_control
            pipe.last_data = arrival
        else:
            if arrival < pipe.last_control:  # noqa: PLR1730
                arrival = pipe.last_control
            pipe.last_control = arrival
        self.sent += 1
        self.clock.at(arrival, self._arrive, pipe, parcel)

    def _arrive(self, pipe: Pipe, parcel: Parcel) -> None:
        connection = pipe.connection
        if connection.open:
            self.arrived += 1
            pipe.receiver.receive(connection, parcel)
        else:
            self.lost += 1

    def fan_out(
        self, frames: Sequence[tuple[int, Frame]], times: Sequence[float], arrival: float
    ) -> None:
        """Frames for clients that leave one after the other: one event, when the last arrives."""
        self.sent += len(frames)
        self.clock.at(arrival, self._fan_in, frames, times)

    def _fan_in(self, frames: Sequence[tuple[int, Frame]], times: Sequence[float]) -> None:
        connections = self.connections
        lost = 0
        for (id_, frame), time in zip(frames, times, strict=True):
            connection = connections.get(id_)
            if connection is None:
                lost += 1
            else:
                # Deliveries are for clients, and clients dial.
                connection.caller.deliver(id_, frame, time)  # type: ignore[attr-defined]
        self.lost += lost
        self.arrived += len(frames) - lost

    def close(self, closer: Actor, connection_id: int, reason: str, departure: float) -> None:
        """Close in order: the other end hears of it behind what was sent."""
        connection = self.connections.get(connection_id)
        if connection is not None:
            pipe = connection.pipe_from(closer)
            arrival = max(departure + connection.latency_s, pipe.last_control, pipe.last_data)
            self.clock.at(arrival, self._closed, connection, pipe.receiver, reason)

    def _closed(self, connection: Connection, other: Actor, reason: str) -> None:
        if connection.open:
            connection.open = False
            del self.connections[connection.id]
            other.notice(ConnectionClosed(connection.id, reason))

    def cut(
        self, connection: Connection, reason: str, notices_s: Mapping[str, float | None] = NO_NOTICE
    ) -> None:
        """Without a word: what is on the way is lost, and both ends notice after a while, each its own."""
        if connection.open:
            connection.open = False
            del self.connections[connection.id]
            for end in connection.ends:
                after_s = notices_s.get(end.name)
                closed = ConnectionClosed(connection.id, reason)
                self.clock.after(NOTICE_S if after_s is None else after_s, end.notice, closed)

    def delay(self, a: str, b: str, extra_s: float) -> None:
        """From now on everything between two brokers takes so much longer (or less long again).

        What a slow connection does not take piles up at its ends, who notice.
        """
        key = frozenset((a, b))
        # Of several spikes that come and go a rounding error may remain.
        extra_s = self._extra_s[key] = round(self._extra_s.get(key, 0.0) + extra_s, 9)
        for connection in self.of(a, b):
            connection.extra_s = extra_s
            for end in connection.ends:
                end.notice(Congested(connection.id) if extra_s else Relieved(connection.id))

    def planned(self) -> int:
        """How many parcels are on the way, by what the clock has planned."""
        single = sum(1 for _ in self.clock.planned(self._arrive))
        return single + sum(len(frames) for frames, _ in self.clock.planned(self._fan_in))

    def of(self, *names: str) -> list[Connection]:
        """The connections of an actor, or between two."""
        wanted = set(names)
        return [c for c in self.connections.values() if wanted <= {c.caller.name, c.called.name}]
