"""What waits at the sockets of a live broker, and how long it waits there.

Nothing is stamped on its way, so that traffic pays nothing for it. What waits is looked at once a period,
where it is: in outboxes, in the buffers of connections, and with the system. By Little's law it waits as long
as so much takes to leave, at the rate at which things leave. Where nothing has left, it has waited a period
more.

Output is told apart by where it goes: to each neighbour, and to all clients together (000 section 4.1, field
7 of a TIA).
"""

from __future__ import annotations

import fcntl
import sys
import termios
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import Transport

    from roost.broker.hops import Link, Session
    from roost.broker.server import Server
    from roost.runtime.connection import SocketConnection

# Of Linux: bytes that were written to a socket and have not been sent. What is on the way is no queue.
SIOCOUTQNSD = 0x894B


def unread_bytes(transport: Transport) -> int:
    """What has arrived at the system, and nobody has read."""
    return _asked(transport, termios.FIONREAD)


def unsent_bytes(transport: Transport) -> int:
    """What was written, and has not been sent."""
    return transport.get_write_buffer_size() + _asked(transport, SIOCOUTQNSD)


def _asked(transport: Transport, what: int) -> int:
    """What the system knows of a socket; 0 if it does not."""
    try:
        answer = fcntl.ioctl(transport.get_extra_info("socket").fileno(), what, bytes(4))
    except (OSError, AttributeError, ValueError):  # it is closed, or another system
        return 0
    return int.from_bytes(answer, sys.byteorder)


def unreleased(peer: Link | Session) -> int:
    """Messages that wait in the outbox until the peer reads again."""
    lane = peer.channel.data
    return 0 if peer.open else lane.sent - max(peer.released, lane.acked)


def wait_s(waiting: float, left: float, period_s: float, before_s: float) -> float:
    """How long something waits where so much waits, and so much has left in a period."""
    if waiting <= 0:
        return 0.0
    return waiting * period_s / left if left > 0 else before_s + period_s


class Outlet:
    """One way out: to a neighbour, or to all clients."""

    def __init__(self, written: int, messages: int) -> None:
        self._written, self._messages = written, messages  # ever
        self._unsent = 0
        self._message_bytes = 0.0  # on average, in the last period in which there were any
        # In the last period: bytes and messages that were written, bytes that have gone.
        self.wrote, self.said, self.left = 0, 0, 0
        self.waiting = 0.0  # bytes, at its end
        self.wait_s = 0.0

    def look(self, written: int, messages: int, unsent: int, kept: int, period_s: float) -> None:
        """By now so much was written, of which so much has not been sent; and so many messages wait."""
        self.wrote, self.said = written - self._written, messages - self._messages
        if self.said > 0:
            self._message_bytes = self.wrote / self.said
        self.left = self.wrote + self._unsent - unsent
        self.waiting = unsent + kept * self._message_bytes
        self.wait_s = wait_s(self.waiting, self.left, period_s, self.wait_s)
        self._written, self._messages, self._unsent = written, messages, unsent


class Outputs:
    """The ways out of a broker."""

    def __init__(self) -> None:
        self._links: dict[int, Outlet] = {}  # by connection
        self._clients = Outlet(0, 0)
        self._written, self._messages = 0, 0  # to all; ...
        self._to_clients = (0, 0)  # ... of which to clients
        self.wait_s = 0.0  # on any of them

    def look(
        self,
        machine: Server,
        connections: Mapping[int, SocketConnection],
        written: int,
        messages: int,
        period_s: float,
    ) -> None:
        """A period is over. `written` and `messages` are what has gone to anybody, ever."""
        before, self._links = self._links, {}
        for link in machine.links.values():
            connection = None if link.connection is None else connections.get(link.connection)
            if connection is not None:
                kept = unreleased(link)
                handed = link.channel.data.sent - kept
                outlet = before.get(connection.id) or Outlet(0, handed)
                unsent = unsent_bytes(connection.transport)
                outlet.look(connection.bytes_out, handed, unsent, kept, period_s)
                self._links[connection.id] = outlet
        wrote = written - self._written - sum(x.wrote for x in self._links.values())
        said = messages - self._messages - sum(x.said for x in self._links.values())
        self._written, self._messages = written, messages
        self._to_clients = (self._to_clients[0] + wrote, self._to_clients[1] + said)
        # A connection of which nothing waits here is not looked at closer: there are many.
        buffers = [
            connection.transport
            for connection in connections.values()
            if connection.id not in self._links and connection.transport.get_write_buffer_size()
        ]
        away = (s for s in machine.sessions.values() if not s.open and s.connection is not None)
        kept = sum(map(unreleased, away))
        self._clients.look(*self._to_clients, sum(map(unsent_bytes, buffers)), kept, period_s)
        every = [*self._links.values(), self._clients]
        waiting, left = sum(x.waiting for x in every), sum(x.left for x in every)
        self.wait_s = wait_s(waiting, left, period_s, self.wait_s)

    def of_links(self, machine: Server) -> dict[str, float]:
        """How long data waits for each neighbour that is there."""
        found = ((link.name, link.connection) for link in machine.links.values())
        return {name: self._links[id_].wait_s for name, id_ in found if id_ in self._links}

    @property
    def of_clients_s(self) -> float:
        """How long deliveries wait for clients that are there."""
        return self._clients.wait_s
