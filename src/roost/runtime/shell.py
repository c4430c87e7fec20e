"""The shell around a machine, a broker or any other: does what it wants done, and tells it what happens.

It takes no decision of the protocol. What it adds is asyncio: timers of the event loop, connections as
objects with a number, and output that is gathered. Everything that one turn of the loop wants to say on a
connection goes out in one write at the end of the turn, however many events and messages that were: a
write a message would cost eight times as much at a fan-out of ten.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from roost.broker.commands import (
    Answered,
    CancelTimer,
    Close,
    Command,
    Deliver,
    Fetch,
    OpenLink,
    PauseReading,
    Persist,
    Record,
    Report,
    ResumeReading,
    Send,
    SendRun,
    SetTimer,
    Superseded,
)
from roost.broker.core import Broker
from roost.broker.events import ConnectionAccepted, ConnectionClosed, TimerFired
from roost.broker.machine import Happening
from roost.broker.messages import AttachRefused, Frame, Parcel, Refused
from roost.broker.server import Server
from roost.chunks.taking import Chunks, Left, Taken, can_take
from roost.wire import Limits, delivery_head, encode, publication_bytes

# Neighbours that lost each other at the same moment shouldn't dial at the same moment, again and again.
DIAL_JITTER = 0.25


class Connection(Protocol):
    """What the shell needs of a connection. `out` is what the turn has to say, until `flush`."""

    id: int
    out: list[bytes]

    def flush(self) -> None: ...

    def close(self, reason: str) -> None:
        """After what was written."""

    def pause(self, briefly: bool) -> None:
        """Pass on no more data, until `resume`; for a moment nothing at all, if that is simpler."""

    def resume(self) -> None: ...


class Shell:
    """A machine at work in an event loop."""

    def __init__(
        self,
        machine: Server,
        *,
        dial: Callable[[str, str], None],  # a neighbour, and where it is, if the machine knows
        persist: Callable[[Persist], None],
        fetch: Callable[[Fetch], None] = lambda _: None,
        record: Callable[[Record], None] = lambda _: None,
        refused: Callable[[int, str, str], None] = lambda *_: None,
        report: Callable[[Report], None] = lambda _: None,
        answered: Callable[[Answered], None] = lambda _: None,
        chunks: Limits | None = None,  # of what is read, if publications are taken in chunks
        superseded: Callable[[Superseded], None] | None = None,
    ) -> None:
        self.machine = machine
        # Before anything happens to it: the tables of chunks follow its own.
        is_plain = chunks is not None and isinstance(machine, Broker) and can_take(machine)
        self._chunks = Chunks(self.broker, chunks) if is_plain and chunks is not None else None
        self._timed: Callable[[float, float], None] | None = None
        self.loop = asyncio.get_running_loop()
        self.connections: dict[int, Connection] = {}
        self.messages_out = 0
        self.bytes_out = 0
        self.bytes_in = 0
        self._dial = dial
        self._persist = persist
        self._fetch = fetch
        self._record = record
        self._refused = refused
        self._report = report
        self._answered = answered
        self._superseded = superseded
        self._ids = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._dirty: list[Connection] = []  # those with something to say, once each
        self._flush_is_due = False
        self.over = False

    # --- what happens -------------------------------------------------------------------------------

    def handle(self, event: Happening) -> None:
        """Something happens to the machine."""
        if not self.over:
            self.execute(self.machine.handle(event, self.loop.time()))

    def take_chunk(self, connection: int, data: bytes, start: int) -> Taken:
        """Publications have come; what of them is not taken is to be handled."""
        if self._chunks is None or self.over:
            return Taken([], start, 0, Left.ALL)
        began = time.monotonic()
        taken = self._chunks.take(connection, data, start, self.loop.time())
        if self._timed is not None and taken.events:
            self._timed(began, time.monotonic())
        self.execute(taken.commands)
        return taken

    @property
    def takes_chunks(self) -> bool:
        return self._chunks is not None

    def time_handling(self, timed: Callable[[float, float], None] | None) -> None:
        """Tell, from now on, from when to when the machine was at work. None: no more, and at no cost."""
        self._timed = timed
        if timed is None:
            self.__dict__.pop("handle", None)
        else:
            self.handle = partial(self._handle_timed, timed)  # type: ignore[method-assign]

    def _handle_timed(self, timed: Callable[[float, float], None], event: Happening) -> None:
        if not self.over:
            began = time.monotonic()
            commands = self.machine.handle(event, self.loop.time())
            timed(began, time.monotonic())
            self.execute(commands)

    @property
    def broker(self) -> Broker:
        """The machine, of which it is known that it is a broker."""
        assert isinstance(self.machine, Broker)
        return self.machine

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def accepted(self, connection: Connection) -> None:
        self.connections[connection.id] = connection
        self.handle(ConnectionAccepted(connection.id))

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection is gone, or about to be: the machine hears it once."""
        if self.connections.pop(connection.id, None) is not None:
            self.handle(ConnectionClosed(connection.id, reason))

    # --- what the machine wants ---------------------------------------------------------------------

    def execute(self, commands: list[Command]) -> None:
        for command in commands:
            kind = type(command)
            if kind is Deliver:
                self._deliver(command)  # type: ignore[arg-type]
            elif kind is Send:
                self._send(command.connection, command.parcel)  # type: ignore[union-attr]
            elif kind is SendRun:
                self._send_run(command)  # type: ignore[arg-type]
            else:
                self._execute_rare(command)

    def _send(self, connection_id: int, parcel: Parcel) -> None:
        connection = self.connections.get(connection_id)
        if connection is not None:
            self.messages_out += 1
            if type(parcel) is AttachRefused and not parcel.redirect:
                self._refused(connection_id, "connection", parcel.reason)
            elif type(parcel) is Frame and type(parcel.message) is Refused:
                self._refused(connection_id, parcel.message.request, parcel.message.reason)
            if not connection.out:
                self._is_dirty(connection)
            connection.out.append(encode(parcel))

    def _send_run(self, command: SendRun) -> None:
        """Bytes as they are."""
        connection = self.connections.get(command.connection)
        if connection is not None:
            if not connection.out:
                self._is_dirty(connection)
            connection.out.append(command.run.data)
            self.messages_out += len(command.run)

    def _deliver(self, command: Deliver) -> None:
        """One publication to many: its own bytes are the same for all."""
        body = publication_bytes(command.publication)
        size = len(body)
        connections = self.connections
        for id_, frame in command.frames:
            connection = connections.get(id_)
            if connection is None:
                continue
            out = connection.out
            if not out:
                self._is_dirty(connection)
            out.append(delivery_head(frame, size))
            out.append(body)
        self.messages_out += len(command.frames)

    def _is_dirty(self, connection: Connection) -> None:
        self._dirty.append(connection)
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    def _execute_rare(self, command: Command) -> None:
        if isinstance(command, SetTimer):
            self._set_timer(command.name, command.delay_s)
        elif isinstance(command, CancelTimer):
            self._cancel_timer(command.name)
        elif isinstance(command, Persist):
            self._persist(command)
        elif isinstance(command, Fetch):
            self._fetch(command)
        elif isinstance(command, OpenLink):
            self._dial(command.broker, command.address)
        elif isinstance(command, Close):
            connection = self.connections.pop(command.connection, None)
            if connection is not None:
                connection.close(command.reason)
        elif isinstance(command, PauseReading | ResumeReading):
            connection = self.connections.get(command.connection)
            if connection is not None:
                if isinstance(command, PauseReading):
                    connection.pause(command.briefly)
                else:
                    connection.resume()
        elif isinstance(command, Record):
            self._record(command)
        elif isinstance(command, Report):
            self._report(command)
        elif isinstance(command, Answered):
            self._answered(command)
        elif isinstance(command, Superseded) and self._superseded is not None:
            self._superseded(command)

    # --- timers -------------------------------------------------------------------------------------

    def _set_timer(self, name: str, delay_s: float) -> None:
        self._cancel_timer(name)
        if name.startswith("dial:"):
            delay_s *= random.uniform(1 - DIAL_JITTER, 1 + DIAL_JITTER)
        self._timers[name] = self.loop.call_later(delay_s, self._fire, name)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def timer_left_s(self, name: str) -> float | None:
        """How long it runs yet; None if it does not."""
        timer = self._timers.get(name)
        return None if timer is None else max(0.0, timer.when() - self.loop.time())

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)
        self.handle(TimerFired(name))

    # --- the end ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Nothing happens to the machine any more, and it wants nothing."""
        self._flush()
        self.over = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def status(self) -> dict[str, Any]:
        """For operators: figures of the machine as it is."""
        machine = self.machine
        links = {
            link.name: {
                "up": link.greeted,
                "dials": link.dials,
                "standby": link.standby,
                "waiting": link.channel.data.waiting + link.channel.control.waiting,
                "sent": link.channel.data.sent,
                "received": link.channel.data.received,
                "congested": link.congested,
            }
            for link in machine.links.values()
        }
        sessions = machine.sessions.values()
        return {
            "broker": machine.config.broker,
            "incarnation": machine.identity.incarnation,
            "durable": machine.config.durable,
            "links": links,
            "sessions": len(sessions),
            "attached": sum(session.connection is not None for session in sessions),
            "waiting": sum(session.channel.data.waiting for session in sessions),
            "connections": len(self.connections),
            **machine.figures(),
            "duplicates": machine.traffic.duplicates,
            "unheard": machine.node.hosted.unheard,
            "messages_out": self.messages_out,
        }
