"""Whether the other end is still there: asked when nothing comes, and for how long.

A connection whose other end has lost its power, or its way to us, says nothing of it: what is written to it
waits, and nothing ever comes. So whoever has heard nothing for a while asks (`Ping`), which the other end's
driver answers (`Pong`), and after some more of them takes it for dead. Both ends do so, each for itself.

**What is not silence.** While we don't read, we can't hear: that time counts against nobody. But then we
don't see what the other end asks either, so we say something now and then of our own accord. The same goes
for a long frame that is on its way to us, behind which a question may stand.

**Our own absence.** A process that was stopped for a while, or had no processor, has heard nothing for all
that time, on every connection. Whoever looks later than it meant to starts counting anew.

TCP's own `TCP_USER_TIMEOUT` would not do: it also ends connections to those who are alive and don't read.
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any

# So many times what is asked after.
DEAD_AFTER = 3
# The system's own, for peers that know no `Ping`: asks after so long, so often, so many times.
TCP_IDLE_S, TCP_EVERY_S, TCP_TIMES = 15, 5, 6


class Verdict(Enum):
    """What is to be done."""

    NOTHING = 0
    ASK = 1
    DEAD = 2


class Keepalive:
    """Watches one connection. To be asked more often than `every_s`.

    >>> watch = Keepalive(3.0, now=0.0)
    >>> [watch.look(t, heard_at=0.0).name for t in (1.5, 3.0, 4.5, 6.0, 7.5, 9.0, 10.5)]
    ['NOTHING', 'ASK', 'NOTHING', 'ASK', 'NOTHING', 'ASK', 'DEAD']
    """

    __slots__ = ("_asked_at", "_looked_at", "_since", "every_s")

    def __init__(self, every_s: float, now: float) -> None:
        self.every_s = every_s  # 0: never
        self._since = self._looked_at = self._asked_at = now

    @property
    def dead_after_s(self) -> float:
        return DEAD_AFTER * self.every_s

    def look(
        self, now: float, heard_at: float, *, can_hear: bool = True, can_see: bool = True
    ) -> Verdict:
        """Now. We can't hear if we don't read, and can't see questions behind what is not complete."""
        if not self.every_s:
            return Verdict.NOTHING
        if not can_hear or now - self._looked_at > 1.5 * self.every_s:
            self._since = now
        self._looked_at = now
        silent_s = now - max(heard_at, self._since)
        if silent_s > self.dead_after_s:
            return Verdict.DEAD
        speaks = silent_s >= self.every_s or not can_hear or not can_see
        if speaks and now - self._asked_at >= self.every_s:
            self._asked_at = now
            return Verdict.ASK
        return Verdict.NOTHING


def set_options(transport: Any) -> None:
    """What the system does for a connection: no delays, and its own questions when nothing is said."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        set_options_of(sock)


def set_options_of(sock: socket.socket) -> None:
    """The same of a socket. Those that one which listens accepts are like it."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", TCP_IDLE_S),
        ("TCP_KEEPINTVL", TCP_EVERY_S),
        ("TCP_KEEPCNT", TCP_TIMES),
    ):
        if hasattr(socket, option):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
