"""What every participant of the protocol is: a machine. Something happens, and it says what is to be done.

It never reads a clock, opens a socket, sleeps or draws a random number of its own: time, random numbers and
identifiers come in as arguments. So whoever drives it may be an event loop with sockets (`roost.runtime`) or
a virtual clock (`roost.simulation`). What drivers need of a machine that others connect to is in `server`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from roost.broker import events as ev
from roost.broker.commands import Command

# What can happen to one. (An event is what clients publish.)
Happening: TypeAlias = (
    ev.Received
    | ev.ConnectionClosed
    | ev.TimerFired
    | ev.LinkOpened
    | ev.LinkRefused
    # Servers only.
    | ev.Congested
    | ev.Relieved
    | ev.Identified
    | ev.Started
    | ev.ConnectionAccepted
    | ev.NeighboursConfigured
    | ev.LinkAdded
    | ev.LinkRemoved
    | ev.WaySwitched
    | ev.RewiringRequested
    | ev.ClientRedirected
    | ev.SessionDismissed
    | ev.Persisted
    | ev.Fetched
    | ev.StoreFilled
    | ev.ModuleSwitched
    | ev.Asked
    | ev.LoadSampled
    # Clients only.
    | ev.PublishRequested
    | ev.SubscribeRequested
    | ev.UnsubscribeRequested
    | ev.AdvertiseRequested
    | ev.UnadvertiseRequested
    | ev.AttachRequested
    | ev.LeaveRequested
    | ev.SettleRequested
    | ev.Handled
    | ev.PauseRequested
    | ev.ResumeRequested
)


class Machine(Protocol):
    """The one verb."""

    def handle(self, event: Happening, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
