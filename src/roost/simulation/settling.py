"""When what clients want is in place: they ask, or we look.

A client that asks hears it from its broker. To look costs no messages: everything is in place at a moment at
which every link is up and nobody has anything of the control class left to say. The same tells when a new
link is known to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.broker.hops import Link
from roost.broker.messages import Unadvertise
from roost.simulation.clients import SimulatedClient
from roost.simulation.clock import Clock
from roost.simulation.fabric import Fabric
from roost.simulation.host import Host
from roost.simulation.oracle import Oracle

# How often to look whether everything has settled, while something has not.
PROBE_S = 0.25


class Settling:
    """Watches a federation, and tells the oracle what it may rely on."""

    def __init__(
        self,
        clock: Clock,
        overlay: Fabric,
        oracle: Oracle,
        hosts: Mapping[str, Host],
        clients: Mapping[str, SimulatedClient],
        *,
        asking: bool,
    ) -> None:
        self._clock = clock
        self._overlay = overlay
        self._oracle = oracle
        self._hosts = hosts
        self._clients = clients
        self._asking = asking
        self._probing = False

    def overlay_changed(self) -> None:
        """Who is connected to whom has changed."""
        self.set_connected()
        self.apart()

    def apart(self) -> None:
        """Who is on which side of an overlay in parts has changed, if it is in parts."""
        if self._oracle.connected is not None:
            self._oracle.forgive_apart(self._oracle.connected)
            self._probe_soon()

    def set_connected(self) -> None:
        self._oracle.connected = self._connected if self._overlay.parts > 1 else None

    def _connected(self, a: str, b: str) -> bool:
        brokers = [self._clients[name].broker for name in (a, b)]
        return self._overlay.part(brokers[0]) == self._overlay.part(brokers[1])

    def void(self, client: SimulatedClient) -> None:
        """Nothing that was promised to it holds."""
        self._oracle.forgive(client.party.wishes.values())
        self._oracle.unsettle([client.party])
        # Not at once: it is still at work.
        self._clock.after(0.0, self.find_out, client)

    def find_out(self, client: SimulatedClient) -> None:
        """When what a client wants is in place: it asks, or we look."""
        if self._asking:
            client.ask()
        else:
            self._probe_soon()

    def _probe_soon(self) -> None:
        if not self._probing:
            self._probing = True
            self._clock.after(PROBE_S, self._probe)

    def _probe(self) -> None:
        self._probing = False
        fresh, asking = self._overlay.has_fresh, self._asking
        if (fresh or not asking) and self.control_is_quiet():
            # Withdrawals travel with data, and a broker waits for them if it knows two ways.
            if fresh and not self._withdrawals_are_left():
                self._overlay.known()
                self.set_connected()
            if not asking:
                self._oracle.settle(self._has_reached_its_broker)
        if self._overlay.has_fresh or (self._oracle.unsettled and not asking):
            self._probe_soon()

    def control_is_quiet(self) -> bool:
        """Every link is up, and nobody has anything of the control class left to say to a neighbour."""
        brokers = [h.life.broker for h in self._hosts.values() if h.life and h.kind.is_broker]
        if any(broker.rewirings.now is not None for broker in brokers):
            return False
        for a, b in self._overlay.links():
            lives = self._hosts[a].life, self._hosts[b].life
            if lives[0] is None or lives[1] is None:
                return False
            here, there = lives[0].machine.links.get(b), lives[1].machine.links.get(a)
            if here is None or there is None or self._is_away(here, a) or self._is_away(there, b):
                return False
            if here.channel.control.sent != there.channel.control.received:
                return False
            if there.channel.control.sent != here.channel.control.received:
                return False
        return True

    def _is_away(self, link: Link, of: str) -> bool:
        """Whether a neighbour is; a broker takes it for so until it has answered, see `absence`."""
        return link.away if self._hosts[of].kind.is_broker else not link.greeted

    def _withdrawals_are_left(self) -> bool:
        """Whether any broker has an entry that is being withdrawn from it."""
        lives = [host.life for host in self._hosts.values() if host.life is not None]
        return any(
            (life.host.kind.is_broker and life.broker.router.spare_entries)
            or any(
                type(frame.message) is Unadvertise
                for link in life.machine.links.values()
                for frame in link.channel.data.outbox
            )
            for life in lives
        )

    def _has_reached_its_broker(self, name: str) -> bool:
        machine = self._clients[name].machine
        host = self._hosts.get(self._clients[name].broker)
        if machine.state != "attached" or machine.moving:
            return False
        if host is None or host.life is None:
            return False
        session = host.life.machine.sessions.get(machine.session)
        return (
            session is not None
            and not session.ending
            and session.channel.control.received == machine.channel.control.sent
        )
