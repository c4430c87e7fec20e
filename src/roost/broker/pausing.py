"""A full queue stops those who add to it, and nobody else.

What waits for a neighbour has a bound (`link_outbox_max`). At the bound, whoever publishes for that neighbour
is read no further, until half of it has gone. A connection may be held up by several neighbours at once. Who
has more answers waiting than it listens to is held up by itself. And a machine that has to hold what it is
given until something else has happened may stop whoever gives it more (`stop`, `go_on`).
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.broker.commands import PauseReading, ResumeReading
from roost.broker.hops import Hop, Link, Peer
from roost.broker.work import Work


class Pausing:
    """The connections that are read no further."""

    def __init__(self, work: Work, links: Mapping[str, Link], bound: int) -> None:
        self._work = work
        self._links = links
        self._bound = bound
        self._paused: dict[int, None] = {}
        self.held: dict[int, None] = {}  # of these: by itself, ...
        self.stopped: dict[int, None] = {}  # ... and by the machine

    def block(self, source: Hop, link: Link) -> None:
        """What is for a neighbour is at its bound: read no more data from whoever adds to it.

        With a store, what is for one that is away goes on in the store only.
        """
        if link.connection is None and self._work.journal is not None:
            return
        connection = source.connection if isinstance(source, Peer) else None
        if connection is not None and connection not in link.blocks:
            link.blocks[connection] = None
            self._pause(connection)

    def _pause(self, connection: int) -> None:
        if connection not in self._paused:
            self._paused[connection] = None
            self._work.command(PauseReading(connection))

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
        blocked = any(connection in link.blocks for link in self._links.values())
        if not (blocked or connection in self.held or connection in self.stopped):
            del self._paused[connection]
            self._work.command(ResumeReading(connection))

    def room_again(self, link: Link) -> None:
        """Some of what waited for it has arrived."""
        lane = link.channel.data
        if link.blocks and lane.sent - lane.acked <= self._bound // 2:
            self.unblock(link)

    def unblock(self, link: Link) -> None:
        """Nobody is held up by it any more."""
        blocked, link.blocks = link.blocks, {}
        for connection in blocked:
            self._resume(connection)

    def closed(self, connection: int) -> None:
        """It is gone, and with it whatever was held up."""
        self.held.pop(connection, None)
        self.stopped.pop(connection, None)
        if self._paused.pop(connection, "not") is None:
            for link in self._links.values():
                link.blocks.pop(connection, None)
