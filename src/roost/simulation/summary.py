"""What a run came to: the figures that people read first, and programs by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roost.broker.events import LoadIndices
from roost.simulation.run import Checks

if TYPE_CHECKING:
    import pyarrow as pa

    from roost.simulation.world import World

# Above it more publications arrive than can be matched.
FULL = 1.0
MS = 1e-3


class BrokerSummary(Struct, frozen=True, kw_only=True):
    """A broker, as its last sample before the end of the run found it."""

    broker: str
    up: bool
    load: LoadIndices | None  # None: it was never sampled
    memory_share: float
    store_records: int
    overloaded: bool  # in the last sample
    # The first sample since which it was overloaded all the time; None also when no trace tells.
    overloaded_since_s: float | None

    def row(self) -> tuple[str, ...]:
        """For a table with the columns `BROKER_COLUMNS`."""
        name = self.broker if self.up else f"{self.broker} (down)"
        load = self.load
        if load is None:
            return (name, *["-"] * (len(BROKER_COLUMNS) - 2), f"{self.store_records:,}")
        return (
            name,
            percent(load.input_utilisation),
            percent(load.output_utilisation),
            duration(load.matching_delay_s),
            f"{load.input_queue:,}",
            f"{load.output_queue:,}",
            duration(load.input_queueing_delay_s),
            duration(load.output_queueing_delay_s),
            percent(self.memory_share),
            f"{load.subscriptions:,}",
            f"{self.store_records:,}",
        )


BROKER_COLUMNS = (
    "broker",
    "input",
    "output",
    "matching",
    "in queue",
    "out queue",
    "in wait",
    "out wait",
    "memory",
    "subs",
    "store",
)


class Summary(Struct, frozen=True, kw_only=True):
    """Programs read these names."""

    virtual_s: float  # the time that the workload had
    rest_s: float  # ... and what it had afterwards, for all to arrive
    wall_s: float
    hops_per_s: float  # of wall time
    brokers: int
    clients: int
    publications: int
    deliveries: int
    hops: int  # publications that a broker has matched and routed
    # Messages from broker to broker: over the links that there are at the end, since either end of
    # each last lost its memory.
    control_messages: int
    data_messages: int
    control_share: float
    delay_mean_s: float  # from publication to delivery
    delay_p50_s: float
    delay_p99_s: float
    delay_max_s: float
    per_broker: tuple[BrokerSummary, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        return whole

    def rows(self) -> list[tuple[str, str]]:
        """What it says, in words and figures; the brokers each have a row of their own."""
        rest = f", and {self.rest_s:g} s of rest" if self.rest_s else ""
        delays = (
            ("mean", self.delay_mean_s),
            ("median", self.delay_p50_s),
            ("99 %", self.delay_p99_s),
            ("longest", self.delay_max_s),
        )
        return [
            ("virtual time", f"{self.virtual_s:,.10g} s{rest}"),
            ("wall time", f"{self.wall_s:,.2f} s, {self.hops_per_s:,.0f} hops/s"),
            ("federation", f"{self.brokers:,} brokers, {self.clients:,} clients"),
            (
                "events",
                f"{self.publications:,} published, {self.hops:,} hops,"
                f" {self.deliveries:,} deliveries",
            ),
            ("delivery delay", ", ".join(f"{name} {duration(s)}" for name, s in delays)),
            (
                "between brokers",
                f"{self.data_messages:,} data messages, {self.control_messages:,} of control"
                f" ({percent(self.control_share)})",
            ),
        ]


def last_loads(world: World) -> dict[str, LoadIndices]:
    """The last sample of each broker. To be taken at the end of the run, before it comes to rest."""
    return {name: h.last_load for name, h in world.hosts.items() if h.last_load is not None}


def summarise(
    world: World,
    checks: Checks,
    *,
    until: float,
    wall_s: float,
    loads: Mapping[str, LoadIndices],
    trace: pa.Table | None = None,
) -> Summary:
    """The figures of a run that had time until then; `trace` is the table of its loads."""
    control, data = messages_between_brokers(world)
    since = overloaded_since(trace, until) if trace is not None else {}
    delays = world.delays
    return Summary(
        virtual_s=until,
        rest_s=world.clock.now - until,
        wall_s=wall_s,
        hops_per_s=world.hops / wall_s if wall_s > 0 else 0.0,
        brokers=len(world.hosts),
        clients=len(world.clients),
        publications=world.oracle.published_count,
        deliveries=checks.delivered,
        hops=world.hops,
        control_messages=control,
        data_messages=data,
        control_share=control / (control + data) if control + data else 0.0,
        delay_mean_s=delays.mean,
        delay_p50_s=delays.quantile(0.5),
        delay_p99_s=delays.quantile(0.99),
        delay_max_s=delays.maximum,
        per_broker=tuple(
            _broker(world, name, loads.get(name), since.get(name)) for name in world.hosts
        ),
    )


def _broker(
    world: World, name: str, load: LoadIndices | None, since: float | None
) -> BrokerSummary:
    host = world.hosts[name]
    return BrokerSummary(
        broker=name,
        up=host.life is not None,
        load=load,
        memory_share=load.memory_bytes / load.memory_total_bytes if load is not None else 0.0,
        store_records=len(host.store),
        overloaded=load is not None and load.input_utilisation > FULL,
        overloaded_since_s=since,
    )


def messages_between_brokers(world: World) -> tuple[int, int]:
    """(control, data), by the numbers that were given to them."""
    lives = [host.life for host in world.hosts.values() if host.life is not None]
    channels = [link.channel for life in lives for link in life.machine.links.values()]
    return sum(c.control.sent for c in channels), sum(c.data.sent for c in channels)


def overloaded_since(loads: pa.Table, until: float) -> dict[str, float]:
    """Brokers that were overloaded in the last sample up to a time: since when without a break."""
    since: dict[str, float] = {}
    columns = (loads[name].to_pylist() for name in ("time", "broker", "input_utilisation"))
    for time, broker, utilisation in zip(*columns, strict=True):
        if time > until:
            break
        if utilisation > FULL:
            since.setdefault(broker, time)
        else:
            since.pop(broker, None)
    return since


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:,.1f} %"


def duration(seconds: float) -> str:
    """A time as people read it, to three figures."""
    if seconds == 0:
        return "0 s"
    if seconds < MS * MS:
        return "<1 µs"
    if seconds < MS:
        return f"{seconds / MS / MS:.3g} µs"
    if seconds < 1:
        return f"{seconds / MS:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
