"""A full queue stops those who add to it, and nobody else.

What waits for a neighbour has a bound (`link_outbox_max`). At the bound, whoever publishes for that neighbour
is read no further, until half of it has gone. A connection may be held up by several peers at once: also by a
client that reads (`patience`). Who has more answers waiting than it listens to is held up by itself. And a
machine that has to hold what it is given until something else has happened may stop whoever gives it more
(`stop`, `go_on`).
"""

from __future__ import annotations

from roost.broker.commands import PauseReading, ResumeReading
from roost.broker.hops import Hop, Link, Peer, Session
from roost.broker.work import Work


class Pausing:
    """The connections that are read no further."""

    def __init__(self, work: Work, bound: int) -> None:
        self._work = work
        self._bound = bound
        # For whom which connections are read no further.
        self._blocks: dict[Link | Session, dict[int, None]] = {}
        self._paused: dict[int, bool] = {}  # and whether it is only for a moment
        self.held: dict[int, None] = {}  # of these: by itself, ...
        self.stopped: dict[int, None] = {}  # ... and by the machine

    def block(self, source: Hop, peer: Link | Session) -> None:
        """What is for a peer is at its bound: read no more data from whoever adds to it.

        With a store, what is for one that is away goes on in the store only.
        """
        if peer.connection is None and self._work.journal is not None:
            return
        connection = source.connection if isinstance(source, Peer) else None
        if connection is not None:
            assert isinstance(source, Peer)
            lane = source.channel.data
            # A client is waited for briefly; but not by one that may be waited for itself.
            briefly = peer.is_session and source.is_session and lane.sent == lane.acked
            self._blocks.setdefault(peer, {})[connection] = None
            self._pause(connection, briefly=briefly)

    def _pause(self, connection: int, *, briefly: bool = False) -> None:
        if not self._paused.get(connection, True):
            return
        if connection not in self._paused or not briefly:
            self._paused[connection] = briefly
            self._work.command(PauseReading(connection, briefly))

    def hold(self, connection: int) -> None:
        """It has to listen first."""
        self.held[connection] = None
        self._pause(connection)

    def release(self, connection: int) -> None:
        """It has listened."""
        if self.held.pop(connection, "not") is None:
            self._resume(connection)

    def stop(self, connection: int) -> None:
        """The machine has no room for what it brings."""
        self.stopped[connection] = None
        self._pause(connection)

    def go_on(self) -> None:
        """The machine has room again."""
        stopped, self.stopped = self.stopped, {}
        for connection in stopped:
            self._resume(connection)

    def _resume(self, connection: int) -> None:
        blocked = any(connection in blocked for blocked in self._blocks.values())
        if not (blocked or connection in self.held or connection in self.stopped):
            del self._paused[connection]
            self._work.command(ResumeReading(connection))

    def room_again(self, link: Link) -> None:
        """Some of what waited for it has arrived."""
        lane = link.channel.data
        if link in self._blocks and lane.sent - lane.acked <= self._bound // 2:
            self.unblock(link)

    def unblock(self, peer: Link | Session) -> None:
        """Nobody is held up by it any more."""
        for connection in self._blocks.pop(peer, ()):
            self._resume(connection)

    def closed(self, connection: int) -> None:
        """It is gone, and with it whatever was held up."""
        self.held.pop(connection, None)
        self.stopped.pop(connection, None)
        if self._paused.pop(connection, None) is not None:
            for blocked in self._blocks.values():
                blocked.pop(connection, None)
