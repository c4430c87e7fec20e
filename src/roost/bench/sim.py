"""The simulator benchmark: publication hops a second, and how their cost grows.

A *hop* is a publication that a broker takes from its input queue, matches and routes; what it delivers to
its own clients is part of it. The world is a balanced binary tree with the thesis' publishers and
subscribers, a quarter of them without traffic (001 section 5.2.1), checked by the oracle as always, with
traces on unless said otherwise. Each run has a process of its own, so that none inherits another's
memory, and is measured when everybody has joined and published.

Baselines, in the same run: the same world without traces, and with those that also say where each event came
from and whom it reached (which experiments do without, and profiles need); and with one planned event for
each delivery instead of one for all clients of a broker. Growth is shown for brokers at the same number of
subscriptions, and for subscriptions at the same number of brokers. A hop in a larger world finds less of
what it needs in the processor's caches.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from roost.bench.fresh import resident_bytes, run_child
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.sizes import SIM_BROKERS as BROKERS
from roost.bench.sizes import SIM_SUBSCRIBERS as SUBSCRIBERS
from roost.bench.timing import Say, silent
from roost.broker.messages import Frame
from roost.simulation.generators import generate
from roost.simulation.network import Network
from roost.simulation.pages import use_large_pages
from roost.simulation.run import check, rest
from roost.simulation.run import run as run_world
from roost.simulation.settings import Settings, settings_with
from roost.simulation.statements import Set, Statement
from roost.simulation.world import World
from roost.traces import TraceWriter, read_table

ZERO_TRAFFIC = 0.25
GROWTH_BROKERS = (10, 100, 1_000)
GROWTH_SUBSCRIBERS = (200, 2_000, 20_000)
LARGE = (1_000, 100_000)  # brokers, subscribers
# Virtual seconds until everybody has joined and most have published.
WARM_UP_S = 60.0
RUNS = 3
SLICES = 10
SLICE_HOPS = 25_000
SLICE_HOPS_LARGE = 10_000
STEP_S = 1.0
MB = 1e6


class Measured(msgspec.Struct, frozen=True):
    """What a child has measured."""

    set_up_s: float
    hops_per_s: float  # the median of the slices
    best_hops_per_s: float
    deliveries_per_hop: float
    resident_mb: float
    grown_mb: float  # from the first slice to the last
    virtual_s: float
    violations: int


# --- in the child -----------------------------------------------------------------------------------


def world_of(statements: Sequence[Statement], trace: TraceWriter | None) -> World:
    settings = Settings()
    for statement in statements:
        if isinstance(statement, Set):
            settings = settings_with(settings, statement.key, statement.value)
    kept = [s for s in statements if not isinstance(s, Set)]
    return World(settings, kept, trace=trace)


def one_event_a_delivery(
    self: Network, frames: Sequence[tuple[int, Frame]], times: Sequence[float], _: float
) -> None:
    """The obvious way, as a baseline: `Network.fan_out` with an event for each frame."""
    self.sent += len(frames)
    for frame, at in zip(frames, times, strict=True):
        self.clock.at(at, self._fan_in, [frame], [at])


def stay_on_one_core() -> None:
    """Where the system lets us choose; its caches are warm then."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure(
    brokers: int,
    subscribers: int,
    seed: int,
    traced: bool,
    batched: bool,
    slice_hops: int,
    ways: bool = False,
) -> None:
    """Runs in the child: prints what it measured, as JSON."""
    stay_on_one_core()
    if not batched:
        Network.fan_out = one_event_a_delivery  # type: ignore[method-assign,assignment]
    sizes = {
        "brokers": str(brokers),
        "subscribers": str(subscribers),
        "zero_traffic": str(ZERO_TRAFFIC),
        "until_s": "1000000",
    }
    statements = generate("tree", seed, sizes)
    with tempfile.TemporaryDirectory() as folder:
        trace = TraceWriter(Path(folder), "bench", ways=ways) if traced else None
        start = time.perf_counter()
        world = world_of(statements, trace)
        world.run(WARM_UP_S)
        set_up_s = time.perf_counter() - start
        del statements
        gc.collect()
        gc.freeze()
        use_large_pages()
        rates: list[float] = []
        first_hops, first_deliveries = world.hops, world.oracle.delivered
        memory = []
        for _ in range(SLICES):
            hops, start = world.hops, time.perf_counter()
            while world.hops - hops < slice_hops:
                world.run(world.clock.now + STEP_S)
            rates.append((world.hops - hops) / (time.perf_counter() - start))
            memory.append(resident_bytes())
        deliveries = world.oracle.delivered - first_deliveries
        per_hop = deliveries / (world.hops - first_hops)
        virtual_s = world.clock.now
        violations = len(check(world, rested=rest(world), must_rest=True).violations)
        if trace is not None:
            trace.close()
    result = Measured(
        set_up_s=set_up_s,
        hops_per_s=statistics.median(rates),
        best_hops_per_s=max(rates),
        deliveries_per_hop=per_hop,
        resident_mb=memory[-1] / MB,
        grown_mb=(memory[-1] - memory[0]) / MB,
        virtual_s=virtual_s,
        violations=violations,
    )
    sys.stdout.write(msgspec.json.encode(result).decode())


def measure_local(seed: int) -> None:
    """Runs in the child: the thesis' local set-up without balancing (001 section 5.2.1)."""
    statements = generate("local", seed, {})
    until = statements[-1].at
    with tempfile.TemporaryDirectory() as folder:
        with TraceWriter(Path(folder), "bench", ways=False) as trace:
            start = time.perf_counter()
            world = world_of(statements, trace)
            run_world(world, until)
            wall_s = time.perf_counter() - start
            checks = check(world, rested=False)
        loads = read_table(trace.paths["loads"]).to_pylist()
    of_b1 = [row for row in loads if row["broker"] == "B1"]
    calm = [row["time"] for row in of_b1 if row["input_utilisation"] < 1]
    figures = {
        "wall_s": wall_s,
        "b1_overloaded_after_s": max(calm),
        "b1_queueing_delay_s_at_1000": _at(of_b1, 1000.0),
        "b1_queueing_delay_s_at_3000": _at(of_b1, 3000.0),
        "b1_queueing_delay_s_at_5000": _at(of_b1, 5000.0),
        "violations": float(len(checks.violations)),
    }
    sys.stdout.write(msgspec.json.encode(figures).decode())


def _at(rows: list[dict[str, Any]], time_: float) -> float:
    return float(next(r["input_queueing_delay_s"] for r in rows if r["time"] >= time_))


# --- in the parent ----------------------------------------------------------------------------------


def child(
    brokers: int,
    subscribers: int,
    seed: int,
    *,
    traced: bool = True,
    batched: bool = True,
    slice_hops: int = SLICE_HOPS,
    ways: bool = False,
) -> Measured:
    arguments = (brokers, subscribers, seed, traced, batched, slice_hops, ways)
    printed = run_child(f"from roost.bench.sim import measure; measure{arguments}")
    return msgspec.json.decode(printed, type=Measured)


def quietest(*world: int, **how: Any) -> Measured:
    """The run that the rest of the machine disturbed least. (Each says the median of its slices.)"""
    runs = [child(*world, **how) for _ in range(RUNS)]
    return max(runs, key=lambda measured: measured.hops_per_s)


def run(
    brokers: int,
    subscribers: int,
    seed: int,
    say: Say = silent,
    *,
    grow: bool = True,
    slice_hops: int = SLICE_HOPS,
) -> Result:
    """Measure a tree of brokers, its baselines and, if wanted, how it grows."""
    say(f"{brokers} brokers, {subscribers:,} subscribers")
    main = quietest(brokers, subscribers, seed, slice_hops=slice_hops)
    say("the same without traces")
    untraced = quietest(brokers, subscribers, seed, traced=False, slice_hops=slice_hops)
    say("the same with traces that say where events came from and went")
    wayward = quietest(brokers, subscribers, seed, ways=True, slice_hops=slice_hops)
    say("the same with one event a delivery")
    unbatched = quietest(brokers, subscribers, seed, batched=False, slice_hops=slice_hops)
    figures: dict[str, float] = dict(msgspec.structs.asdict(main))
    figures["hops_per_s_without_traces"] = untraced.hops_per_s
    figures["hops_per_s_with_ways_traced"] = wayward.hops_per_s
    figures["hops_per_s_with_one_event_a_delivery"] = unbatched.hops_per_s
    if grow:
        figures |= _growth(seed, say)
    return {
        "bench": "sim",
        "config": {
            "workload": "tree",
            "brokers": brokers,
            "subscriptions": subscribers,
            "publishers": 40,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": _ratios(figures, grow),
    }


def _growth(seed: int, say: Say) -> dict[str, float]:
    figures: dict[str, float] = {}
    runs = [(n, SUBSCRIBERS, SLICE_HOPS) for n in GROWTH_BROKERS]
    runs += [(BROKERS, n, SLICE_HOPS) for n in GROWTH_SUBSCRIBERS if n != SUBSCRIBERS]
    runs.append((*LARGE, SLICE_HOPS_LARGE))
    for brokers, subscribers, hops in runs:
        say(f"{brokers:,} brokers, {subscribers:,} subscribers")
        found = child(brokers, subscribers, seed, slice_hops=hops)
        name = f"at_{brokers}_brokers_{subscribers}_subscribers"
        figures |= {f"{k}_{name}": v for k, v in msgspec.structs.asdict(found).items()}
    say("the thesis' local set-up")
    printed = run_child(f"from roost.bench.sim import measure_local; measure_local({seed})")
    local = msgspec.json.decode(printed, type=dict[str, float])
    return figures | {f"local_{name}": value for name, value in local.items()}


def _ratios(figures: dict[str, float], grow: bool) -> dict[str, float]:
    ratios = {
        "traced_over_untraced": figures["hops_per_s"] / figures["hops_per_s_without_traces"],
        "one_event_over_one_a_delivery": figures["hops_per_s"]
        / figures["hops_per_s_with_one_event_a_delivery"],
    }
    if grow:
        few, many = GROWTH_BROKERS[0], GROWTH_BROKERS[-1]
        for n in (GROWTH_BROKERS[1], many):
            ratios[f"hop_cost_{n}_over_{few}_brokers"] = (
                figures[f"hops_per_s_at_{few}_brokers_{SUBSCRIBERS}_subscribers"]
                / figures[f"hops_per_s_at_{n}_brokers_{SUBSCRIBERS}_subscribers"]
            )
    return ratios


def table(result: Result) -> Table:
    """The figures for people."""
    config, figures = result["config"], result["results"]
    brokers, subscribers = config["brokers"], config["subscriptions"]
    rows = [_row(f"{brokers} brokers, {subscribers:,} subscribers", figures, "")]
    for n, m in (
        *((n, SUBSCRIBERS) for n in GROWTH_BROKERS),
        *((BROKERS, n) for n in GROWTH_SUBSCRIBERS),
        LARGE,
    ):
        suffix = f"_at_{n}_brokers_{m}_subscribers"
        if f"hops_per_s{suffix}" in figures:
            rows.append(_row(f"{n:,} brokers, {m:,} subscribers", figures, suffix))
    notes = [
        f"Without traces {figures['hops_per_s_without_traces']:,.0f} hops/s; with traces that say where"
        f" events came from and went {figures['hops_per_s_with_ways_traced']:,.0f}; with one event a"
        f" delivery {figures['hops_per_s_with_one_event_a_delivery']:,.0f}.",
        "A hop is a publication that a broker matches and routes; its deliveries to clients of that"
        " broker are part of it. All runs with traces and all checkers, on one core. Rates are medians of"
        " ten slices; of the first world and its baselines, in the best of three runs.",
    ]
    if "local_wall_s" in figures:
        notes.append(
            "The thesis' local set-up without balancing, 5,000 s, takes"
            f" {figures['local_wall_s']:.0f} s; B1 is overloaded from"
            f" {figures['local_b1_overloaded_after_s']:.0f} s on, and its input queueing delay is"
            f" {figures['local_b1_queueing_delay_s_at_1000']:,.0f} s at 1,000 s,"
            f" {figures['local_b1_queueing_delay_s_at_3000']:,.0f} at 3,000,"
            f" {figures['local_b1_queueing_delay_s_at_5000']:,.0f} at 5,000."
        )
    return Table(
        key=f"sim/{brokers}/{subscribers}",
        title="Simulator: a balanced binary tree, 40 publishers",
        columns=["", "hops/s", "us a hop", "deliveries a hop", "set-up s", "MB", "grown MB"],
        rows=rows,
        notes=notes,
    )


def _row(label: str, figures: dict[str, float], suffix: str) -> list[str]:
    def figure(name: str) -> float:
        return figures[f"{name}{suffix}"]

    return [
        label,
        f"{figure('hops_per_s'):,.0f}",
        f"{1e6 / figure('hops_per_s'):.1f}",
        f"{figure('deliveries_per_hop'):.2f}",
        f"{figure('set_up_s'):.1f}",
        f"{figure('resident_mb'):,.0f}",
        f"{figure('grown_mb'):,.1f}",
    ]
