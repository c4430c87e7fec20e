"""What a line reads, and how far: parcels go to its machine until a subscription has as much as it may hold.

From then on nothing is taken. What one read has brought stays here as it came, so that the bound of a
subscription is one; nothing more is read from the broker, which notices; and nothing of it is acknowledged.
When half of what the subscription holds has been read, it goes on. If the connection is lost meanwhile, the
broker sends it again.

It is the order of the broker that is kept: whatever stands behind such an event waits too, for the other
subscriptions of the client as well. So the owner of the line is told while that lasts (`Owner.held_up`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roost.broker.events import Received
from roost.broker.messages import Frame, Parcel
from roost.client.arriving import Taking

if TYPE_CHECKING:
    from roost.client.connection import Connection
    from roost.client.inbox import Inbox
    from roost.client.line import Line, Owner

# How often the owner is told that a full subscription holds it up.
HELD_UP_S = 0.25


class Intake:
    """Between the connections of a line and its machine."""

    def __init__(self, line: Line, owner: Owner) -> None:
        self.full: dict[Inbox[Any], None] = {}  # those that everything waits for
        self._line = line
        self._owner = owner
        self._take = line.machine.take
        self._taking = Taking(line.machine, owner.handed, owner.inbox, self._noted)
        # With acknowledgements by the application there is no short way for deliveries.
        self.is_short = not line.machine.config.waits_for_application
        self._rest: deque[tuple[Connection, Sequence[Parcel] | bytes]] = deque()
        self._is_due = False  # to go on, at the end of this turn
        self._timer: asyncio.TimerHandle | None = None

    def received(self, connection: Connection, parcels: Sequence[Parcel]) -> None:
        """Parcels have arrived, mostly deliveries."""
        if self.holds(connection):
            self._rest.append((connection, parcels))
        else:
            self._hand(connection, parcels)

    def take(self, connection: Connection, data: bytes, at: int) -> int:
        """Take the deliveries that stand there in the bytes of a read, as far as it goes; how far."""
        return self._taking.take(connection.id, data, at, self.full)

    def bundles(self) -> bool:
        """Somebody reads many at a time: have them taken together that come together, if that works."""
        return self._taking.bundles()

    def _noted(self, connection: int) -> None:
        self._line.handle(Received(connection, ()))

    def holds(self, connection: Connection, *, waited: bool = False) -> bool:
        """Whether what comes from there has to wait; what has waited does not wait for what is behind it."""
        if not self._rest or waited:
            return self._holds
        return self._holds or any(held[0] is connection for held in self._rest)

    def keep(self, connection: Connection, data: bytes, *, waited: bool) -> None:
        """Keep whole frames until there is room; in front of what waits, if they have waited before."""
        if data:
            (self._rest.appendleft if waited else self._rest.append)((connection, data))

    @property
    def _holds(self) -> bool:
        """A greeting is heard in any case."""
        return bool(self.full) and self._line.is_attached

    def _hand(self, connection: Connection, parcels: Sequence[Parcel]) -> None:
        hand = self._hand_short if self.is_short else self._hand_long
        taken = hand(connection.id, parcels)
        if taken < len(parcels):
            self._rest.appendleft((connection, parcels[taken:]))
        self._line.progressed()

    def _hand_short(self, number: int, parcels: Sequence[Parcel]) -> int:
        """One by one; how many were taken."""
        line, full = self._line, self.full
        take, handed = self._take, self._owner.handed
        for at, parcel in enumerate(parcels):
            if full and line.is_attached:
                return at
            if type(parcel) is Frame:
                names = take(number, parcel)
                if names is not None:
                    publication = parcel.message.publication  # type: ignore[attr-defined]
                    handed(publication, names, parcel.sequence)
                    continue
            line.handle(Received(number, (parcel,)))
        return len(parcels)

    def _hand_long(self, number: int, parcels: Sequence[Parcel]) -> int:
        """As many at a time as there is room for; how many were taken."""
        at = 0
        while at < len(parcels) and not self._holds:
            end = at + max(1, self._owner.room())
            self._line.handle(Received(number, parcels[at:end]))
            at = min(end, len(parcels))
        return at

    def lost(self, connection: Connection) -> None:
        """What came from it and was not taken comes again from another."""
        self._rest = deque(held for held in self._rest if held[0] is not connection)
        self._go_on_later()

    def end(self) -> None:
        """Nothing is taken any more."""
        self._rest.clear()
        self.full.clear()
        self._set_timer(None)

    # --- subscriptions that are full ----------------------------------------------------------------

    def is_full(self, inbox: Inbox[Any]) -> None:
        """A subscription has as much as it may hold: nothing more is read, for the broker to notice."""
        self.full[inbox] = None
        self.pause()
        if self._timer is None:
            self._look_later()

    def has_room(self, inbox: Inbox[Any]) -> None:
        """It has room again, or is gone."""
        if inbox in self.full:
            del self.full[inbox]
            if not self.full:
                self._set_timer(None)
                self._go_on_later()

    def give_up_full(self) -> None:
        """Read on, whatever that costs those who have as much as they may hold: nobody reads them."""
        for inbox in list(self.full):
            inbox.end()

    def pause(self) -> None:
        """Nothing more is read, as long as somebody is full."""
        if self._holds:
            self._line.pause_reading()

    def _go_on_later(self) -> None:
        # Not at once: whoever reads is to have its event first.
        if not self._is_due and not self.full:
            self._is_due = True
            self._line.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        while self._rest and not self._holds:
            connection, waiting = self._rest.popleft()
            if not self._line.is_open(connection):
                continue
            if isinstance(waiting, bytes):
                connection.take(waiting, waited=True)
            else:
                self._hand(connection, waiting)
        if not self._rest and not self._holds:
            self._line.resume_reading()

    def _look_later(self) -> None:
        self._set_timer(self._line.loop.call_later(HELD_UP_S, self._look))

    def _look(self) -> None:
        self._timer = None
        self._owner.held_up()
        if self.full and self._timer is None:
            self._look_later()

    def _set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer
