"""A machine in the laboratory: a broker, or any other, with a processor, a network card, memory and a disk
(001 section 5.1).

**Input.** Messages wait in a queue; control goes first. What one takes is what the machine's costs say (see
`server.Costs`), over the speed of the processor: at a broker, a publication takes time in proportion to the
subscriptions in the table. What takes no time waits its turn all the same: for the message in hand, not for
those in the queue.

**Output.** Messages leave one after the other, at the speed of the network card. Control leaves at
once; what it takes of the bandwidth is charged to the data that is queued from then on, rather than to
what has its time already. So the total is right, and deliveries of one publication to all clients here
are one planned event, with their times worked out together.

**Memory** is what the table and queues take. It is reported; a machine that has more than it owns
goes on, as the thesis' do.

**Disk.** A transaction is safe so long after it was asked for. A crash takes with it what is not safe
yet.

A *life* is the time from a start to a crash. What was planned in an earlier one finds it over and does
nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from roost.broker.commands import (
    Answered,
    CancelTimer,
    Close,
    Command,
    Deliver,
    Fetch,
    OpenLink,
    PauseReading,
    Persist,
    Record,
    ResumeReading,
    Rewired,
    Send,
    SendRun,
    SetTimer,
    StoreKey,
)
from roost.broker.core import Broker
from roost.broker.events import (
    Asked,
    ConnectionClosed,
    Fetched,
    LoadIndices,
    LoadSampled,
    ModuleSwitched,
    Persisted,
    Received,
    Started,
    TimerFired,
)
from roost.broker.machine import Happening
from roost.broker.messages import DATA, Ack, Delivery, Frame, Parcel, Publication
from roost.broker.module import Module, ModuleState
from roost.chunks.taking import can_take
from roost.simulation.addresses import address_of
from roost.simulation.chunked import ChunkWay, spelled_out
from roost.simulation.network import Connection
from roost.traces.rows import LinkRow, link_counts
from roost.wire import delivery_sizes, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roost.broker.config import BrokerConfig
    from roost.broker.hops import Link
    from roost.broker.machines import MachineKind
    from roost.broker.server import Costs
    from roost.simulation.statements import AskBroker
    from roost.simulation.world import World

# What a subscription takes in the thesis' model, in which memory is linear in them.
SUBSCRIPTION_BYTES = 1_000
# A queued message, beyond its bytes.
QUEUED_BYTES = 300
BITS = 8


class Waits:
    """How long data has waited for a connection."""

    __slots__ = ("count", "waited_s")

    def __init__(self) -> None:
        self.waited_s = 0.0
        self.count = 0


class Meter:
    """What has been counted since the last sample of the load."""

    __slots__ = (
        "arrived",
        "busy_s",
        "bytes_out",
        "client_wait_s",
        "delivered",
        "link_waits",
        "matched",
        "matching_s",
        "others_out",
        "output_wait_s",
        "since",
        "wait_s",
    )

    def __init__(self, now: float) -> None:
        self.since = now
        self.arrived = 0  # publications
        self.matched = 0
        self.wait_s = 0.0
        self.matching_s = 0.0
        self.busy_s = 0.0
        self.others_out = 0  # messages other than data
        self.bytes_out = 0
        self.output_wait_s = 0.0
        self.client_wait_s = 0.0  # of which for clients,
        self.delivered = 0  # so many
        self.link_waits: defaultdict[int, Waits] = defaultdict(Waits)  # on any other connection

    @property
    def messages_out(self) -> int:
        """All of them; each is counted once, where it goes out."""
        data = sum(waits.count for waits in self.link_waits.values())
        return self.others_out + self.delivered + data


class Host:
    """A simulated machine, through all its lives."""

    def __init__(
        self,
        world: World,
        name: str,
        kind: MachineKind,
        costs: Costs,
        *,
        cpu_mhz: float,
        memory_mb: float,
        bandwidth_mbps: float,
        modules: Sequence[Module] = (),
        tap: Module | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.kind = kind
        # What a publication takes, and for each entry of the table; and other messages, if they take any.
        self.publication_s = costs.publication_s_mhz / cpu_mhz
        self.matching_s = costs.entry_s_mhz / cpu_mhz
        self.messages_s = {k: cost / cpu_mhz for k, cost in costs.messages_s_mhz.items() if cost}
        self.memory_bytes = memory_mb * 1e6
        self.bytes_per_s = bandwidth_mbps * 1e6 / BITS
        self.slowness = 1.0
        self.modules = modules
        self.tap = tap  # hears what is routed, if that is recorded
        self.store: dict[StoreKey, Any] = {}
        self.lives = 0
        self.life: Life | None = None
        self.last_load: LoadIndices | None = None
        self.answers: list[Answered] = []  # of its optimisers, to operators

    def start(self) -> None:
        """Begin a life, with what the store holds."""
        self.lives += 1
        config = self.world.broker_config(self.name, f"{self.name}~{self.lives}")
        self.life = self.make_life(config)
        if self.tap is not None:
            self.life.handle(ModuleSwitched(self.tap.name, ModuleState.OBSERVING.value))
        if self.kind.is_broker:
            for name, state in self.world.module_states.items():
                self.life.handle(ModuleSwitched(name, state.value))
        self.life.handle(Started(dict(self.store)))

    def make_life(self, config: BrokerConfig) -> Life:
        return Life(self, config)

    def answering(self) -> Life | None:
        """Whoever is reached by dialling it."""
        return self.life

    def end(self) -> None:
        """It leaves for good."""
        self.crash(keep_store=False)

    def crash(self, keep_store: bool) -> None:
        if self.life is not None:
            self.life.over = True
            self.life = None
        if not keep_store:
            self.store.clear()

    def ask(self, statement: AskBroker) -> None:
        """An operator wants something of its optimisers; see `answers`."""
        words = (word.partition("=") for word in (statement.arguments or "").split())
        arguments = {key: value for key, _, value in words}
        self.notice(Asked(f"line {statement.line}", statement.request, arguments))

    def notice(self, event: Happening) -> None:
        """Something happens to the machine, if it runs."""
        if self.life is not None:
            self.life.notice(event)


class Life:
    """A machine from its start to its crash: an actor of the network."""

    __slots__ = (
        "_busy",
        "_chunks",
        "_control_free_at",
        "_free_at",
        "_held",
        "_messages_s",
        "_paused",
        "_table",
        "_timer_count",
        "_timers",
        "clock",
        "control",
        "counts",
        "data",
        "host",
        "machine",
        "meter",
        "name",
        "network",
        "over",
        "traffic",
        "world",
    )

    def __init__(self, host: Host, config: BrokerConfig) -> None:
        self.host = host
        self.name = host.name
        self.world = host.world
        self.clock = host.world.clock
        self.network = host.world.network
        own = () if host.tap is None else (host.tap,)
        self.machine = host.kind.make(config, (*own, *host.modules))
        self.machine.identity.address = address_of(host.name)
        self.traffic = self.machine.traffic
        self._table = self.machine.table
        self._messages_s = host.messages_s
        self._chunks: ChunkWay | None = None
        if host.world.chunks and isinstance(self.machine, Broker) and can_take(self.machine):
            self._chunks = ChunkWay(self.machine)
        self.over = False
        self.control: deque[tuple[int, Frame]] = deque()
        self.data: deque[tuple[float, int, Frame]] = deque()  # when it came, connection, frame
        self.meter = Meter(self.clock.now)
        # Of the trace: (neighbour, class) -> what was last written of it.
        self.counts: dict[tuple[str, str], tuple[int, int, int]] = {}
        self._busy = False
        self._free_at = 0.0  # when the network card has sent all data
        self._control_free_at = 0.0
        self._timers: dict[str, int] = {}  # name -> the number of the one that counts
        self._timer_count = 0
        self._paused: dict[int, None] = {}
        self._held: deque[tuple[float, int, Frame]] = deque()  # of connections that are paused

    # --- input --------------------------------------------------------------------------------------

    def receive(self, connection: Connection, parcel: Parcel) -> None:
        if type(parcel) is not Frame:
            if type(parcel) is not Ack or not self.machine.take_ack(connection.id, parcel):
                self.handle(Received(connection.id, (parcel,)))
        elif parcel.priority == DATA:
            if type(parcel.message) is Publication:
                self.meter.arrived += 1
            now = self.clock.now
            if self._busy:
                self.data.append((now, connection.id, parcel))
            elif self._paused or self.data:  # of one that was paused a moment ago
                self.data.append((now, connection.id, parcel))
                self._serve_next()
            else:
                self._serve(now, connection.id, parcel)
        elif self._busy:
            self.control.append((connection.id, parcel))
        elif type(parcel.message) in self._messages_s:
            self._serve(self.clock.now, connection.id, parcel)
        else:
            self.handle(Received(connection.id, (parcel,)))

    def _serve(self, arrived: float, connection: int, frame: Frame) -> None:
        now = self.clock.now
        delay = 0.0
        if type(frame.message) is Publication:
            host = self.host
            delay = (host.publication_s + len(self._table) * host.matching_s) * host.slowness
            meter = self.meter
            meter.matched += 1
            meter.wait_s += now - arrived
            meter.matching_s += delay
        elif self._messages_s:
            delay = self._messages_s.get(type(frame.message), 0.0) * self.host.slowness
        self._busy = True
        self.clock.at(now + delay, self._served, arrived, now, connection, frame)

    def _served(self, arrived: float, begun: float, connection: int, frame: Frame) -> None:
        if self.over:
            return
        self._busy = False
        now = self.clock.now
        self.meter.busy_s += now - begun
        message = frame.message
        commands: list[Command] | None
        if self._chunks is not None and type(message) is Publication:
            commands = self._chunks.commands(connection, frame, now)
        else:
            commands = self.machine.take(connection, frame, now)
            if commands is None:
                commands = self.machine.handle(Received(connection, (frame,)), now)
        if type(message) is Publication:
            self.world.visited(self, frame, message, begun - arrived, now - begun)
        self.execute(commands)
        if self.data or self.control:
            self._serve_next()

    def _serve_next(self) -> None:
        while self.control and not self._busy:
            connection, control = self.control.popleft()
            if type(control.message) in self._messages_s:
                self._serve(self.clock.now, connection, control)
            else:
                self.handle(Received(connection, (control,)))
        while self.data and not self._busy:
            item = self.data.popleft()
            if item[1] in self._paused:
                self._held.append(item)
            else:
                self._serve(*item)

    def notice(self, event: Happening) -> None:
        if self.over:
            return
        if isinstance(event, ConnectionClosed):
            self._gone(event.connection)
        self.handle(event)

    def _gone(self, connection: int) -> None:
        """What was held of a connection that is gone will come again, on another."""
        if connection in self._paused:
            del self._paused[connection]
            self._held = deque(item for item in self._held if item[1] != connection)

    def _resume(self, connection: int) -> None:
        self._paused.pop(connection, None)
        back = [item for item in self._held if item[1] == connection]
        self._held = deque(item for item in self._held if item[1] != connection)
        self.data.extendleft(reversed(back))
        # Not at once: whoever resumes is still at work.
        self.clock.after(0.0, self._resumed)

    def _resumed(self) -> None:
        if not self.over:
            self._serve_next()

    # --- what the machine wants done ----------------------------------------------------------------

    def handle(self, event: Happening) -> None:
        self.execute(self.machine.handle(event, self.clock.now))

    def execute(self, commands: list[Command]) -> None:
        if self._chunks is not None:
            commands = spelled_out(commands)
        for command in commands:
            kind = type(command)
            if kind is Send:
                self._send(command.connection, command.parcel)  # type: ignore[union-attr]
            elif kind is Deliver:
                self._deliver(command)  # type: ignore[arg-type]
            else:
                self._execute_rare(command)

    def _execute_rare(self, command: Command) -> None:
        world = self.world
        if isinstance(command, SetTimer):
            self._timer_count = token = self._timer_count + 1
            self._timers[command.name] = token
            self.clock.after(command.delay_s, self._fire, command.name, token)
        elif isinstance(command, SendRun):
            for frame in command.run.frames():
                assert isinstance(frame.message, Delivery)
                self._deliver(Deliver(frame.message.publication, [(command.connection, frame)]))
        elif isinstance(command, CancelTimer):
            self._timers.pop(command.name, None)
        elif isinstance(command, Persist):
            self.clock.after(world.commit_s, self._committed, command)
        elif isinstance(command, OpenLink):
            world.dial_link(self, command.broker)
        elif isinstance(command, Close):
            self._gone(command.connection)
            world.network.close(
                self, command.connection, command.reason, max(self.clock.now, self._free_at)
            )
        elif isinstance(command, PauseReading):
            # It may have waited for the store, and the connection not for it.
            if command.connection in world.network.connections:
                self._paused[command.connection] = None
        elif isinstance(command, ResumeReading):
            self._resume(command.connection)
        elif isinstance(command, Fetch):
            store = self.host.store
            self.handle(Fetched(command, [store.get(key) for key in command.records]))
        elif isinstance(command, Rewired):
            world.rewired(*command.brokers)
        elif isinstance(command, Record):
            world.decided(self.host, command)
        elif isinstance(command, Answered):
            self.host.answers.append(command)

    def _fire(self, name: str, token: int) -> None:
        if not self.over and self._timers.get(name) == token:
            del self._timers[name]
            self.handle(TimerFired(name))

    def _committed(self, persist: Persist) -> None:
        if self.over:
            return
        store = self.host.store
        for key, value in persist.writes.items():
            if value is None:
                store.pop(key, None)
            else:
                store[key] = value
        self.handle(Persisted(persist.token))

    # --- output -------------------------------------------------------------------------------------

    def _send(self, connection: int, parcel: Parcel) -> None:
        size = size_of(parcel)
        now = self.clock.now
        host = self.host
        takes = size * host.slowness / host.bytes_per_s
        meter = self.meter
        meter.bytes_out += size
        free_at = self._free_at if self._free_at > now else now
        self._free_at = free_at + takes
        if type(parcel) is Frame and parcel.priority == DATA:
            waits = meter.link_waits[connection]
            waits.count += 1
            if free_at > now:
                waits.waited_s += free_at - now
                meter.output_wait_s += free_at - now
            departure = self._free_at
        else:
            meter.others_out += 1
            departure = max(now, self._control_free_at) + takes
            self._control_free_at = departure
        if self.world.storybook is not None:
            self.world.said(host.name, connection, parcel)
        self.network.send(self, connection, parcel, departure)

    def _deliver(self, command: Deliver) -> None:
        """To all clients here, one after the other: one event, when the last has gone out."""
        now = self.clock.now
        host, world, frames = self.host, self.world, command.frames
        per_byte = host.slowness / host.bytes_per_s
        time = self._free_at if self._free_at > now else now
        sizes = delivery_sizes(command.publication, frames)
        times: list[float] = []
        latency_s = world.client_latency_s
        waited = 0.0
        for size in sizes:
            waited += time
            time += size * per_byte
            times.append(time + latency_s)
        self._free_at = time
        meter = self.meter
        count = len(sizes)
        waited -= count * now
        meter.output_wait_s += waited
        meter.client_wait_s += waited
        meter.delivered += count
        meter.bytes_out += sum(sizes)
        if world.storybook is not None:
            for connection, frame in frames:
                world.said(host.name, connection, frame)
        self.network.fan_out(frames, times, time + latency_s)

    # --- load ---------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """The machine, of which it is known that it is a broker."""
        assert isinstance(self.machine, Broker)
        return self.machine

    def sample(self) -> None:
        """Work out the load indices since the last time, and tell the machine (001 eq. 3.1 to 3.3)."""
        meter, now = self.meter, self.clock.now
        self.meter = Meter(now)
        period = now - meter.since
        if period <= 0:
            return
        host = self.host
        subscriptions = len(self._table)
        matching_s = (host.publication_s + subscriptions * host.matching_s) * host.slowness
        backlog_bytes = max(0.0, self._free_at - now) * host.bytes_per_s
        messages_out = meter.messages_out
        mean_size = meter.bytes_out / messages_out if messages_out else 0.0
        queued = len(self.data) + len(self._held)
        output_s = meter.output_wait_s / messages_out if messages_out else 0.0
        load = LoadIndices(
            input_utilisation=meter.arrived / period * matching_s,
            matching_delay_s=meter.matching_s / meter.matched if meter.matched else matching_s,
            output_utilisation=meter.bytes_out / period / host.bytes_per_s,
            input_rate=meter.arrived / period,
            output_rate=messages_out / period,
            output_bytes_per_s=meter.bytes_out / period,
            input_queue=queued,
            # The queue is kept as the time at which it is empty.
            output_queue=round(backlog_bytes / mean_size) if mean_size else 0,
            input_queueing_delay_s=self._queueing_delay(meter, now),
            output_queueing_delay_s=output_s,
            cpu_utilisation=min(1.0, meter.busy_s / period),
            memory_bytes=subscriptions * SUBSCRIPTION_BYTES + queued * QUEUED_BYTES + backlog_bytes,
            memory_total_bytes=host.memory_bytes,
            subscriptions=subscriptions,
            client_queueing_delay_s=(
                meter.client_wait_s / meter.delivered if meter.delivered else output_s
            ),
            link_queueing_delay_s=dict(self._link_waits(meter)),
        )
        host.last_load = load
        self.world.sampled(host, load)
        self.handle(LoadSampled(load))

    def link_rows(self, load: LoadIndices) -> Iterator[LinkRow]:
        """Of the trace: neighbours with which something has changed since they were last asked for."""
        waits = load.link_queueing_delay_s
        for link in self.machine.links.values():
            if (link.name, "data") not in self.counts:
                yield from self._link_rows(link, waits, before=True)
            yield from self._link_rows(link, waits)

    def _link_rows(
        self, link: Link, waits: Mapping[str, float], *, before: bool = False
    ) -> Iterator[LinkRow]:
        now, life = self.clock.now, self.host.lives
        for name, counts in link_counts(link, before=before):
            if self.counts.get((link.name, name)) != counts:  # else it would be repeated
                self.counts[link.name, name] = counts
                waited_s = waits.get(link.name, 0.0) if name == "data" else 0.0
                yield LinkRow(now, self.name, link.name, name, *counts, waited_s, life)

    def _link_waits(self, meter: Meter) -> Iterator[tuple[str, float]]:
        """How long data has waited for each neighbour that it went to."""
        for link in self.machine.links.values():
            if link.connection is not None and link.connection in meter.link_waits:
                waits = meter.link_waits[link.connection]
                yield link.name, waits.waited_s / waits.count

    def _queueing_delay(self, meter: Meter, now: float) -> float:
        if meter.matched:
            return meter.wait_s / meter.matched
        return now - self.data[0][0] if self.data else 0.0

    @property
    def queued(self) -> int:
        """Messages that wait to be handled, the one in hand included."""
        return len(self.control) + len(self.data) + len(self._held) + self._busy
