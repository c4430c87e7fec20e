"""Who is at the other end of each connection, and what they may do.

A connection comes and goes; a peer, with its channel, stays. A peer has at most one connection: a newer one
takes over from an older one, which is dead, or should be.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.broker.acknowledging import Acknowledging
from roost.broker.commands import Close
from roost.broker.flow import Flow
from roost.broker.hops import Link, Session
from roost.broker.pausing import Pausing
from roost.broker.permissions import Permission
from roost.broker.work import Work


class Peers:
    """The connections of a node. `lost(peer, reason)` is called when a peer has none any more."""

    def __init__(
        self,
        work: Work,
        flow: Flow,
        acknowledging: Acknowledging,
        pausing: Pausing,
        lost: Callable[[Link | Session, str], None],
    ) -> None:
        self._work = work
        self._flow = flow
        self._acknowledging = acknowledging
        self._pausing = pausing
        self._lost = lost
        self.on: dict[int, Link | Session | None] = {}  # by connection; None until it has greeted
        self.permissions: dict[int, Permission] = {}  # by connection, if somebody asked

    def accepted(self, connection: int) -> None:
        self.on[connection] = None

    def own(self, peer: Link | Session, connection: int) -> None:
        """From now on the peer is on this connection."""
        if peer.connection is not None and peer.connection != connection:
            self._work.command(Close(peer.connection, "there is a newer connection"))
            self._forget(peer.connection)
        self._flow.end(peer)
        peer.connection = connection
        self.on[connection] = peer
        if isinstance(peer, Link):
            peer.greeted = False

    def disown(self, peer: Link | Session, reason: str) -> None:
        """It is no peer any more; if it is there it is told why."""
        if peer.connection is not None:
            self._work.command(Close(peer.connection, reason))
            self._forget(peer.connection)
            peer.connection = None
            self._flow.end(peer)
        self._acknowledging.gone(peer)

    def drop(self, connection: int, reason: str) -> None:
        """Hang up."""
        self._work.command(Close(connection, reason))
        self.closed(connection, reason)

    def closed(self, connection: int, reason: str) -> None:
        """It is gone."""
        peer = self.on.get(connection)
        self._forget(connection)
        if peer is None or peer.connection != connection:
            return
        peer.connection = None
        self._flow.end(peer)
        self._acknowledging.gone(peer)
        self._lost(peer, reason)

    def _forget(self, connection: int) -> None:
        self.on.pop(connection, None)
        self.permissions.pop(connection, None)
        self._pausing.closed(connection)
