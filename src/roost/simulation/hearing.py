"""What clients tell their applications, as the oracle understands it.

A session that is new or over has lost what was on the way to the one before; a request that is refused is not
in place; and whoever cares about a session that its broker gave up begins anew.
"""

from __future__ import annotations

from roost.broker import events as ev
from roost.broker.commands import Tell
from roost.simulation.clients import SimulatedClient
from roost.simulation.clock import Clock
from roost.simulation.oracle import Oracle
from roost.simulation.settling import Settling

# How long an application takes to notice that its session is over.
BEGIN_ANEW_S = 1.0


class Hearing:
    """Listens to the clients of a world for its oracle."""

    def __init__(self, clock: Clock, oracle: Oracle, settling: Settling) -> None:
        self._clock = clock
        self._oracle = oracle
        self._settling = settling

    def told(self, client: SimulatedClient, tell: Tell) -> None:
        """A client tells its application something."""
        if tell.what == "attached" and not tell.reason:
            if client.machine.config.durable and not client.machine.is_new:
                return  # taken over: all that was promised holds
            # A new session. What was on the way to an old one is gone.
            self._settling.void(client)
            if client.machine.published:
                self._oracle.not_accepted_after(client.party.publisher, client.machine.accepted)
        elif tell.what == "dropped":
            self._settling.void(client)
        elif tell.what == "ended" and not client.gone:
            # Its broker gave it up. An application that cares begins anew.
            self._settling.void(client)
            self._clock.after(
                BEGIN_ANEW_S, client.handle, ev.AttachRequested(client.machine.address)
            )
        elif tell.what == "moved":
            self._settling.apart()  # it may be on the other side now, with what it kept back
        elif tell.what == "settled":
            self._oracle.in_place(client.asked_for(tell.about))
        elif tell.what == "refused" and client.asked_for(tell.about):
            # Too much waits for a neighbour.
            self._clock.after(BEGIN_ANEW_S, self._settling.find_out, client)
        elif tell.what == "refused" and ":" in tell.about:
            publisher, _, sequence = tell.about.rpartition(":")
            if client.permission is not None or "store" in tell.reason:
                self._oracle.not_accepted(publisher, int(sequence))
            else:
                self._oracle.refused(publisher, int(sequence), tell.reason)
        elif tell.what == "refused" and client.permission is not None:
            name = client.give_up(tell.about)
            if name in client.party.wishes:
                self._oracle.unsubscribed(client.party, name)
            elif name in client.party.offers:
                self._oracle.unadvertised(client.party, name)
