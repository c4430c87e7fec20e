"""A federation in the laboratory: carries out the statements of a workload, and watches.

The world is the driver of all machines. It plans the statements, connects who asks to be connected,
lets faults happen, takes samples of the load, tells the oracle what clients do and get, and writes the
trace.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from roost.broker import events as ev
from roost.broker.commands import Record
from roost.broker.config import BrokerConfig, FederationSettings, Leases
from roost.broker.machines import BROKER, kind_of
from roost.broker.messages import Frame, Parcel, Publication
from roost.broker.module import Module
from roost.broker.names import Address
from roost.broker.permissions import Permission
from roost.broker.registry import module_class
from roost.broker.routers import router_of
from roost.broker.story import Storybook
from roost.errors import UserError
from roost.language import covers
from roost.simulation import statements as st
from roost.simulation.addresses import address_of, name_at
from roost.simulation.checkers import kept_for
from roost.simulation.clients import SimulatedClient
from roost.simulation.clock import Clock
from roost.simulation.costs import costs_of
from roost.simulation.delays import Delays
from roost.simulation.fabric import Fabric
from roost.simulation.hearing import Hearing
from roost.simulation.host import Host, Life
from roost.simulation.latencies import Latencies
from roost.simulation.market import BarMarket, Market, SyntheticMarket, advertisement_of
from roost.simulation.network import Actor, Network
from roost.simulation.optimisers import modules_of
from roost.simulation.oracle import Oracle, Party
from roost.simulation.recording import Recording
from roost.simulation.settings import Settings
from roost.simulation.settling import Settling
from roost.simulation.standbys import PairedHost
from roost.simulation.workload_check import MAIN
from roost.traces import TraceWriter
from roost.wire import publication_bytes

MS = 1e-3
# Clients acknowledge deliveries in no hurry: it is only for the memory of their broker.
CLIENT_ACK_DELAY_S = 60.0
# An operator asks again for a link to be moved.
ASK_AGAIN_S = 2.0


class World:
    """One run. `seed` decides all that the workload leaves open."""

    def __init__(
        self,
        settings: Settings,
        workload: Iterable[st.Statement],
        *,
        seed: int = 0,
        trace: TraceWriter | None = None,
        storybook: Storybook | None = None,
        modules: Callable[[str], Sequence[Module]] | None = None,
        config: dict[str, Any] | None = None,
        chunks: bool = False,
    ) -> None:
        self.settings = settings
        self.chunks = chunks  # publications are taken as live brokers take them
        self.clock = Clock()
        self.network = Network(self.clock)
        self.overlay = Fabric()
        self.random = random.Random(seed)
        self.market: Market = SyntheticMarket(settings.market_seed)
        self.latencies = Latencies(settings.link_latency_ms * MS)
        self._recording = None if trace is None else Recording(trace)
        # Of a trace that says of visits only how many there were: quicker than to ask.
        self._counted = None if trace is None or trace.ways else trace.columns["deliveries"]
        self.storybook = storybook
        self.hosts: dict[str, Host] = {}
        self.clients: dict[str, SimulatedClient] = {}
        self.delays = Delays()
        self.rewirings = 0  # links that have moved
        self.hops = 0  # publications that a broker has matched and routed
        self.publications_sent = 0  # from broker to broker
        self.statements_done = 0
        self.workload_is_over = False  # what it has left to say is not done any more
        self.payload = b"\0" * settings.payload_bytes
        self.client_latency_s = settings.client_latency_ms * MS
        self.client_ack_delay_s = CLIENT_ACK_DELAY_S
        self.commit_s = settings.commit_ms * MS
        self.strategy = router_of(settings.routing).strategy
        self.oracle = Oracle(self.strategy)
        self.settling = Settling(
            self.clock,
            self.overlay,
            self.oracle,
            self.hosts,
            self.clients,
            asking=settings.asking,
        )
        self.hearing = Hearing(self.clock, self.oracle, self.settling)
        self._modules = modules or modules_of(settings)
        # How those begin that the workload names; all others act.
        self.module_states = {module_class(o.reference).name: o.state for o in settings.modules}
        self._config = config or {}
        self._parties: dict[str, Party] = {}
        self._cut_off: frozenset[str] = frozenset()  # brokers on the far side of a partition
        for statement in workload:
            self.plan(statement)
        self.clock.after(settings.load_period_s, self._sample)

    def plan(self, statement: st.Statement) -> None:
        """Have a statement carried out when its time comes."""
        self.clock.at(statement.at, self._do, statement)

    def run(self, until: float) -> None:
        """Let time pass."""
        # Messages form no cycles, and there are many: looking for cycles among them takes a third of
        # the time. What there is to find is left to whoever runs the collector after us.
        enabled = gc.isenabled()
        gc.disable()
        try:
            self.clock.run(until)
        finally:
            if enabled:
                gc.enable()

    def broker_config(self, name: str, incarnation: str) -> BrokerConfig:
        """The settings that a broker of this world starts with."""
        settings = self.settings
        config = BrokerConfig(
            broker=name,
            incarnation=incarnation,
            durable=settings.durability,
            members=settings.members,
            leases=Leases(rest_s=settings.rest_s),
            **{name: getattr(settings, name) for name in FederationSettings.__struct_fields__},
        )
        return msgspec.structs.replace(config, **self._config)

    # --- statements: the federation -----------------------------------------------------------------

    def _do(self, statement: st.Statement) -> None:
        if self.workload_is_over:
            return
        self.statements_done += 1
        DO[type(statement)](self, statement)

    def _add_broker(self, s: st.AddBroker) -> None:
        kind = kind_of(s.machine or BROKER)
        modules = self._modules(s.broker) if kind.is_broker else ()
        paired = self.settings.standbys and kind.is_broker
        host = (PairedHost if paired else Host)(
            self,
            s.broker,
            kind,
            costs_of(kind, self.settings),
            cpu_mhz=s.cpu_mhz,
            memory_mb=s.memory_mb,
            bandwidth_mbps=s.bandwidth_mbps,
            modules=modules,
            tap=None if self._recording is None else self._recording.tap(s.broker, modules),
        )
        self.hosts[s.broker] = host
        self.overlay.add_broker(s.broker, in_overlay=kind.is_broker)
        self.settling.set_connected()
        host.start()

    def _remove_broker(self, s: st.RemoveBroker) -> None:
        for neighbour in self.overlay.neighbours(s.broker):
            self._unlink(s.broker, neighbour)
        self.overlay.remove_broker(s.broker)
        host = self.hosts.pop(s.broker)
        for connection in self.network.of(s.broker):
            self.network.cut(connection, "it has left")
        host.end()
        self.settling.overlay_changed()

    def _add_link(self, s: st.AddLink) -> None:
        latency_s = None if s.latency_ms is None else s.latency_ms * MS
        between_s = self.latencies.between(s.a, s.b, latency_s)
        peers = isinstance(s, st.AddPeerLink)
        joins = bool(self._parties)  # else nothing has happened yet
        self.overlay.add_link(s.a, s.b, between_s, fresh=joins, peers=peers)
        # The second dials: in a workload that grows a tree, it is the one that joins.
        for here, there in ((s.a, s.b), (s.b, s.a)):
            self._link(self.hosts[here], there, joins=joins)
        self.settling.overlay_changed()

    def _link(self, here: Host, there: str, *, joins: bool = False) -> None:
        rank = self.overlay.rank(here.name, there) if self.strategy.ranks else ""
        dial = self.overlay.dials(here.name, there)
        here.notice(ev.LinkAdded(there, dial, rank=rank, joins=joins))

    def _remove_link(self, s: st.RemoveLink) -> None:
        self._unlink(s.a, s.b)
        self.settling.overlay_changed()

    def _unlink(self, a: str, b: str) -> None:
        self.overlay.remove_link(a, b)
        for here, there in ((a, b), (b, a)):
            self.hosts[here].notice(ev.LinkRemoved(there, f"link {a} - {b} is removed"))

    def _move_link(self, s: st.MoveLink) -> None:
        if self.workload_is_over:
            return
        neighbours = self.overlay.neighbours(s.middle)
        if s.mover in neighbours and s.anchor in neighbours:
            self._rewire(s.middle, s.mover, s.anchor, f"line {s.line}: link move")
            self.clock.after(ASK_AGAIN_S, self._move_link, s)

    def _shuffle_links(self, s: st.ShuffleLinks) -> None:
        middles = [b for b in self.overlay.brokers() if len(self.overlay.neighbours(b)) > 1]
        if middles:
            middle = self.random.choice(middles)
            mover, anchor = self.random.sample(self.overlay.neighbours(middle), 2)
            self._rewire(middle, mover, anchor, f"line {s.line}: link shuffle")

    def _rewire(self, middle: str, mover: str, anchor: str, cause: str) -> None:
        self.hosts[middle].notice(ev.RewiringRequested(mover, anchor, cause))

    def rewired(self, middle: str, mover: str, anchor: str) -> None:
        """Brokers have moved a link, and nobody may notice."""
        if mover not in self.overlay.neighbours(middle):
            return  # two have said so, as one of them did not know of the other
        self.rewirings += 1
        self.overlay.remove_link(middle, mover)
        self.overlay.add_link(anchor, mover, self.latencies.between(anchor, mover, None))
        self.settling.set_connected()

    def _switch_broker(self, s: st.SwitchBroker) -> None:
        self.hosts[s.broker].notice(ev.WaySwitched(s.way, f"line {s.line}: broker switch"))

    def _use_bars(self, s: st.UseBars) -> None:
        self.market = BarMarket(s.path)

    def _use_latencies(self, s: st.UseLatencies) -> None:
        self.latencies.read(s.path)

    # --- statements: clients ------------------------------------------------------------------------

    def _add_client(self, name: str, broker: str, process: str = "") -> SimulatedClient:
        party = self.new_party(name)
        party.unasked = not self.hosts[broker].kind.is_broker
        client = self.clients[name] = SimulatedClient(self, name, party, process)
        client.handle(ev.AttachRequested(address_of(broker)))
        return client

    def new_party(self, name: str) -> Party:
        """A client, as the oracle knows it."""
        party = self._parties[name] = Party(name)
        return party

    def _add_publisher(self, s: st.AddPublisher) -> None:
        client = self._add_client(s.publisher, s.broker)
        client.symbol = s.symbol
        advertisement = s.advertisement
        if advertisement is None and s.symbol is not None:
            advertisement = advertisement_of(s.symbol)
        if advertisement is not None:
            self._advertise(
                st.Advertise(at=s.at, publisher=s.publisher, name=MAIN, advertisement=advertisement)
            )
        if s.symbol is not None:
            client.set_rate(s.rate_per_min, self.random.random())

    def _change_rate(self, s: st.ChangeRate) -> None:
        self.clients[s.publisher].set_rate(s.rate_per_min, self.random.random())

    def _publish(self, s: st.Publish) -> None:
        self.clients[s.publisher].publish(s.event)

    def _advertise(self, s: st.Advertise) -> None:
        client = self.clients[s.publisher]
        client.handle(ev.AdvertiseRequested(s.name, s.advertisement))
        self.oracle.advertised(client.party, s.name, s.advertisement)

    def _unadvertise(self, s: st.Unadvertise) -> None:
        client = self.clients[s.publisher]
        if s.name not in client.party.offers:
            return  # it is refused, or about to be
        client.handle(ev.UnadvertiseRequested(s.name))
        self.oracle.unadvertised(client.party, s.name)

    def _remove_publisher(self, s: st.RemovePublisher) -> None:
        self._remove_client(s.publisher)

    def _add_subscriber(self, s: st.AddSubscriber | st.AddDurableSubscriber) -> None:
        lasts = isinstance(s, st.AddDurableSubscriber)
        self._add_client(s.subscriber, s.broker, process="1" if lasts else "")
        self._subscribe(
            st.Subscribe(at=s.at, subscriber=s.subscriber, name=MAIN, subscription=s.subscription)
        )

    def _subscribe(self, s: st.Subscribe) -> None:
        client = self.clients[s.subscriber]
        client.handle(ev.SubscribeRequested(s.name, s.subscription))
        self.oracle.subscribed(client.party, s.name, s.subscription)
        self.settling.find_out(client)

    def _restart_subscriber(self, s: st.RestartSubscriber) -> None:
        old = self.clients[s.subscriber]
        old.kill()
        for connection in self.network.of(s.subscriber):
            self.network.cut(connection, "the client was killed")
        party = old.party
        kept, safe = kept_for(self.hosts[old.broker], s.subscriber)
        assert old.dealing is not None
        if safe is None:
            self.oracle.taken_over(party, kept, None)
        else:
            must = old.dealing.has_to_come_again(kept)
            self.oracle.taken_over(party, must, [*kept, *safe])
        process = str(int(old.machine.config.process) + 1)
        new = self.clients[s.subscriber] = SimulatedClient(self, s.subscriber, party, process)
        new.permission = old.permission
        new.handle(ev.AttachRequested(old.machine.address))
        for wish in party.wishes.values():
            new.handle(ev.SubscribeRequested(wish.name, wish.subscription))
        self.settling.find_out(new)

    def _permit(self, s: st.PermitClient) -> None:
        client = self.clients[s.client]
        client.permission = permission = Permission(s.client, publish=s.filter, subscribe=s.filter)
        party = client.party
        self.oracle.revoked(
            [w for w in party.wishes.values() if not covers(s.filter, w.subscription)]
        )
        for name, advertisement in list(client.machine.advertisements().items()):
            if name in party.offers and not covers(s.filter, advertisement):
                self.oracle.unadvertised(party, name)
        for connection in self.network.of(s.client):
            connection.called.notice(ev.Identified(connection.id, permission))

    def _unsubscribe(self, s: st.Unsubscribe) -> None:
        client = self.clients[s.subscriber]
        if s.name not in client.party.wishes:
            return  # it was refused
        client.handle(ev.UnsubscribeRequested(s.name))
        self.oracle.unsubscribed(client.party, s.name)

    def _remove_subscriber(self, s: st.RemoveSubscriber) -> None:
        self._remove_client(s.subscriber)

    def _remove_client(self, name: str) -> None:
        client = self.clients[name]
        client.stop()
        client.gone = True
        client.handle(ev.LeaveRequested())
        party = client.party
        for wish in list(party.wishes):
            self.oracle.unsubscribed(party, wish)
        for offer in list(party.offers):
            self.oracle.unadvertised(party, offer)

    def _redirect_client(self, s: st.RedirectClient) -> None:
        client = self.clients[s.client]
        host = self.hosts.get(client.broker)
        if host is not None:  # else it is on its way from a broker that has left
            host.notice(
                ev.ClientRedirected(s.client, address_of(s.broker), f"line {s.line}: redirect")
            )

    # --- statements: faults -------------------------------------------------------------------------

    def _crash(self, s: st.CrashBroker) -> None:
        host = self.hosts[s.broker]
        host.crash(s.keep_store)
        if isinstance(host, PairedHost):
            return  # the other goes on, with all that there was
        for connection in self.network.of(s.broker):
            self.network.cut(connection, f"{s.broker} does not answer")
        if not (s.keep_store and self.settings.durability):
            self.oracle.forgive_everything()

    def _restart(self, s: st.RestartBroker) -> None:
        host = self.hosts[s.broker]
        host.start()
        if not isinstance(host, PairedHost):
            self.linked_anew(host)

    def _fail_node(self, s: st.FailNode) -> None:
        host = self.hosts[s.broker]
        if not isinstance(host, PairedHost):
            what = f"{s.broker} has no standby; expected `federation set standbys on`"
            raise UserError(f"line {s.line}: {what}")
        self.clock.after(s.duration_s, host.fail(s.node, s.fault))

    def linked_anew(self, host: Host) -> None:
        """Its neighbours may have changed while it was down; its store does not know."""
        assert host.life is not None
        neighbours = self.overlay.neighbours(host.name)
        moving = host.life.broker.rewirings.now if host.kind.is_broker else None
        for known, link in list(host.life.machine.links.items()):
            # Those of a link that is being moved it knows better.
            moves = link.closing or (moving is not None and known in moving.brokers)
            if known not in neighbours and not moves:
                host.notice(ev.LinkRemoved(known, f"{known} is no longer a neighbour"))
        for neighbour in neighbours:
            self._link(host, neighbour)

    def _slow(self, s: st.SlowBroker) -> None:
        self.hosts[s.broker].slowness = s.factor

    def _fill(self, s: st.FillStore) -> None:
        self.hosts[s.broker].notice(ev.StoreFilled(is_full=True))

    def _free(self, s: st.FreeStore) -> None:
        self.hosts[s.broker].notice(ev.StoreFilled(is_full=False))

    def _cut_link(self, s: st.CutLink) -> None:
        self.overlay.cut(s.a, s.b)
        notices_s = {s.a: s.a_notices_s, s.b: s.b_notices_s}
        for connection in self.network.of(s.a, s.b):
            self.network.cut(connection, "the link is cut", notices_s)

    def _heal_link(self, s: st.HealLink) -> None:
        self.overlay.heal(s.a, s.b)

    def _delay_link(self, s: st.DelayLink) -> None:
        self.network.delay(s.a, s.b, s.extra_ms * MS)
        self.clock.after(s.duration_s, self.network.delay, s.a, s.b, -s.extra_ms * MS)

    def _partition(self, s: st.Partition) -> None:
        self._cut_off = frozenset(s.brokers)
        for connection in list(self.network.connections.values()):
            sides = {self._side(end.name) for end in connection.ends}
            if len(sides) > 1:
                self.network.cut(connection, "the network is partitioned")

    def _side(self, name: str) -> bool:
        """Which side of the partition an actor is on; a client is where its broker is."""
        client = self.clients.get(name)
        return (client.broker if client is not None else name) in self._cut_off

    def _heal_partition(self, _: st.HealPartition) -> None:
        self._cut_off = frozenset()
        self.overlay.heal_all()

    def _vanish(self, s: st.VanishClient) -> None:
        self.clients[s.client].away = True
        for connection in self.network.of(s.client):
            self.network.cut(connection, "the client has vanished")

    def _return(self, s: st.ReturnClient) -> None:
        client = self.clients[s.client]
        client.away = False
        client.handle(ev.AttachRequested(client.machine.address))

    def _end(self, _: st.End) -> None:
        """Only says when a run ends; whoever runs it looks it up."""

    # --- connecting ---------------------------------------------------------------------------------

    def dial_link(self, caller: Life, broker: str) -> None:
        """A broker wants to be connected with a neighbour."""

        def find() -> Life | None:
            reachable = (
                self.overlay.passable(caller.name, broker)
                and self._side(caller.name) == self._side(broker)
                and not caller.over
            )
            host = self.hosts.get(broker)
            return host.answering() if reachable and host is not None else None

        if broker in self.overlay.neighbours(caller.name):
            latency_s = self.overlay.latency_s(caller.name, broker)
        else:  # a link on standby
            latency_s = self.latencies.between(caller.name, broker, None)
        self.network.dial(caller, find, broker, latency_s)

    def dial_session(self, caller: SimulatedClient, address: Address) -> None:
        """A client wants to be connected with the broker at this address."""

        def find() -> Life | None:
            host = self.hosts.get(name_at(address))
            return host.answering() if host is not None and not caller.away else None

        def identify(life: Actor, connection: int) -> None:
            if caller.permission is not None:
                life.notice(ev.Identified(connection, caller.permission))

        self.network.dial(caller, find, address, self.client_latency_s, identify)

    # --- what hosts and clients report ----------------------------------------------------------------

    def visited(
        self,
        life: Life,
        frame: Frame,
        publication: Publication,
        queueing_s: float,
        matching_s: float,
    ) -> None:
        """A broker has matched and routed a publication."""
        self.hops += 1
        forwarded, local = life.traffic.last_route
        self.publications_sent += forwarded
        counted = self._counted
        if counted is not None:
            now = self.clock.now
            words = counted.words
            counted.append(
                counted.pack(
                    now,
                    words[publication.publisher],
                    publication.sequence,
                    words[life.name],
                    frame.hops,
                    local,
                    forwarded,
                    len(publication.encoded or publication_bytes(publication)),
                    queueing_s,
                    matching_s,
                    now - publication.published_at,
                )
            )
        elif self._recording is not None:
            self._recording.visited(life, frame, publication, queueing_s, matching_s)

    def said(self, who: str, connection_id: int, parcel: Parcel) -> None:
        """For the storybook, if one is kept."""
        connection = self.network.connections.get(connection_id)
        if self.storybook is not None and connection is not None:
            to = next((end.name for end in connection.ends if end.name != who), who)
            self.storybook.said(self.clock.now, who, to, parcel)

    def decided(self, host: Host, record: Record) -> None:
        """A module of a broker has decided something; for the storybook and the trace."""
        if self.storybook is not None:
            self.storybook.decided(self.clock.now, host.name, record)
        if self._recording is not None:
            self._recording.decided(host, record)

    def sampled(self, host: Host, load: ev.LoadIndices) -> None:
        """A broker has measured its load; for the trace."""
        if self._recording is not None and host.life is not None:
            self._recording.sampled(host, host.life, load)

    def _sample(self) -> None:
        for host in self.hosts.values():
            if host.life is not None:
                host.life.sample()
        if self._recording is not None:
            self._recording.flush()
        self.delays.flush()
        self.clock.after(self.settings.load_period_s, self._sample)

    def parties(self) -> Iterable[Party]:
        """All clients that there ever were, as the oracle knows them."""
        return self._parties.values()


DO: dict[type[st.Statement], Any] = {
    st.AddBroker: World._add_broker,
    st.RemoveBroker: World._remove_broker,
    st.AskBroker: lambda world, s: world.hosts[s.broker].ask(s),
    st.SwitchBroker: World._switch_broker,
    st.AddLink: World._add_link,
    st.AddPeerLink: World._add_link,
    st.RemoveLink: World._remove_link,
    st.MoveLink: World._move_link,
    st.ShuffleLinks: World._shuffle_links,
    st.UseBars: World._use_bars,
    st.UseLatencies: World._use_latencies,
    st.AddPublisher: World._add_publisher,
    st.ChangeRate: World._change_rate,
    st.Publish: World._publish,
    st.Advertise: World._advertise,
    st.Unadvertise: World._unadvertise,
    st.RemovePublisher: World._remove_publisher,
    st.AddSubscriber: World._add_subscriber,
    st.Subscribe: World._subscribe,
    st.Unsubscribe: World._unsubscribe,
    st.RemoveSubscriber: World._remove_subscriber,
    st.AddDurableSubscriber: World._add_subscriber,
    st.RestartSubscriber: World._restart_subscriber,
    st.PermitClient: World._permit,
    st.RedirectClient: World._redirect_client,
    st.CrashBroker: World._crash,
    st.RestartBroker: World._restart,
    st.FailNode: World._fail_node,
    st.SlowBroker: World._slow,
    st.FillStore: World._fill,
    st.FreeStore: World._free,
    st.CutLink: World._cut_link,
    st.HealLink: World._heal_link,
    st.DelayLink: World._delay_link,
    st.Partition: World._partition,
    st.HealPartition: World._heal_partition,
    st.VanishClient: World._vanish,
    st.ReturnClient: World._return,
    st.End: World._end,
}
