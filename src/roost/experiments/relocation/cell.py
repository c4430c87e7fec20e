"""The task of the experiments of 000: one simulation, from its trace to a row of figures.

    roost sweep roost.experiments.relocation.cell:CELL --set variant=baseline,load100 --set spread=1,16

A run is traced into a folder of its own, which is read and then forgotten: all figures come from the tables
of the trace (`figures`, `optimum`, `moves`), and the verdict of the checkers stands next to them.

With a `peak`, processors are chosen so slow that the busiest broker of the baseline has that input
utilisation; near 1, queues become long. Utilisation is in inverse proportion to the speed, so that a short
run of the baseline on fast processors says which speed that is.

The variant `decision` simulates nothing: it measures how long GRAPE's choice takes (`decision_time`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from msgspec.structs import replace

from roost.experiments.relocation.decision_time import DECISION, decision_time
from roost.experiments.relocation.figures import Clients, Window, figures, over_time
from roost.experiments.relocation.moves import (
    MovesHeard,
    by_path,
    selection_times,
    wait_times,
)
from roost.experiments.relocation.optimum import Links, optimum
from roost.experiments.relocation.setup import (
    BASELINE,
    CONSTANT,
    WIDE_AREA,
    Arrivals,
    Order,
    Setup,
    check_variant,
    prepared,
)
from roost.experiments.relocation.tables import Tables, read_tables
from roost.pipeline.sweeps.tasks import (
    BREACHES,
    FIRST_VIOLATION,
    VIOLATIONS,
    Parameters,
    Row,
    Task,
)
from roost.simulation import statements as st
from roost.simulation.generators.parameters import parameters_of, read_values
from roost.simulation.generators.parts import Count, Positive, Rate, Seconds, Share
from roost.simulation.latencies import read_matrix
from roost.simulation.run import Checks, end_of, run_workload, verdict
from roost.simulation.world import World
from roost.traces import TraceWriter

# The figures are those of the last three minutes, up to the last sample of the load.
LAST_S = 180.0
# Clients have joined after 5 s (`generators.parts`); subscriptions have settled by then, too.
JOINED_S = 20.0
FAST_MHZ = 3_000.0
# How long the baseline is run to see how busy brokers are.
CALIBRATION_S = 245.0
# Measured is what a run of 10 s or more has: a sample of the load.
SHOWN = (
    "message_rate",
    "delay_ms",
    "hops",
    "overhead",
    "rate_above_optimum",
    "delay_above_optimum",
)


def simulated(
    seed: int,
    *,
    distribution: Literal["clustered", "random"] = "clustered",
    spread: Positive = 16,
    variant: str = BASELINE,
    threshold: Count = 0,
    latencies: str = CONSTANT,
    arrivals: Arrivals = "regular",
    order: Order = "market",
    peak: Share = 0.0,
    brokers: Positive = 63,
    publishers: Positive = 10,
    subscribers: Count = 50,
    rate_per_min: Rate = 60.0,
    until_s: Seconds = 1_085.0,
    every_s: Seconds = 1e9,
    bars: str = "",
) -> Row:
    """Publishers of 000's workloads, with or without relocation, and the figures of its graphs."""
    setup = Setup(
        distribution=distribution,
        spread=spread,
        variant=variant,
        threshold=threshold,
        latencies=latencies,
        arrivals=arrivals,
        order=order,
        brokers=brokers,
        publishers=publishers,
        subscribers=subscribers,
        rate_per_min=rate_per_min,
        cpu_mhz=FAST_MHZ,
        until_s=until_s,
        bars=bars,
    )
    if peak:
        busiest = _run(replace(setup, variant=BASELINE, until_s=CALIBRATION_S), seed)
        most = figures(busiest.tables, busiest.window, busiest.clients)["input_utilisation_max"]
        setup = replace(setup, cpu_mhz=FAST_MHZ * most / 100 / peak)
    run = _run(setup, seed)
    tables, window, links = run.tables, run.window, run.links
    return {
        **_verdict(run.checks),
        **figures(tables, window, run.clients),
        **optimum(tables, window, links),
        **over_time(tables, every_s, window.end, run.clients),
        **by_path("selection_ms", selection_times(tables.decisions, links)),
        **by_path("wait_ms", wait_times(run.moved, run.homes, links)),
        "moves": len(run.moved),
        "cpu_mhz": setup.cpu_mhz,
    }


class _Run:
    """A simulation that is over, and what is known of it."""

    def __init__(self, setup: Setup, seed: int, folder: Path) -> None:
        with prepared(setup, seed) as ready:
            workload = ready.workload
            until = end_of(workload)
            with TraceWriter(folder, "cell", ways=False) as trace:
                world = World(
                    workload.settings,
                    workload.statements,
                    seed=seed,
                    trace=trace,
                    modules=ready.modules,
                )
                world.hearing = heard = MovesHeard(world)
                run_workload(world, workload, until)
                self.checks, _ = verdict(world, workload)
        self.moved = heard.moved
        self.homes = {
            s.publisher: s.broker for s in workload.statements if isinstance(s, st.AddPublisher)
        }
        self.tables: Tables = read_tables(trace.paths, tuple(world.hosts))
        period_s = workload.settings.load_period_s
        end = until // period_s * period_s
        self.window = Window(max(end - LAST_S, JOINED_S), end)
        self.clients = Clients(ready.client_latency_s, JOINED_S)
        overlay = world.overlay
        self.links: Links = {
            broker: {near: overlay.latency_s(broker, near) for near in overlay.neighbours(broker)}
            for broker in overlay.brokers()
        }


def _run(setup: Setup, seed: int) -> _Run:
    with TemporaryDirectory(prefix="roost-experiment-") as folder:
        return _Run(setup, seed, Path(folder))


def _verdict(checks: Checks) -> dict[str, Any]:
    counts = {name: getattr(checks, name) for name in BREACHES}
    return {
        "delivered": checks.delivered,
        **counts,
        VIOLATIONS: sum(counts.values()),
        FIRST_VIOLATION: checks.violations[0] if checks.violations else None,
    }


# --- as a task of a sweep ---------------------------------------------------------------------------

PARAMETERS = parameters_of(simulated)


def read(texts: Mapping[str, str]) -> Parameters:
    """Parameters from texts; what does not go together is refused."""
    parameters: Parameters = dict(read_values("relocation", PARAMETERS, texts))
    variant = str(parameters.get("variant", BASELINE))
    if variant != DECISION:
        check_variant(variant)
    for path in files(parameters):
        read_matrix(path)
        parameters["latencies"] = os.path.abspath(path)  # other processes may run elsewhere
    return parameters


def files(parameters: Parameters) -> Iterable[Path]:
    """The matrix of latencies, if it is a file."""
    latencies = str(parameters.get("latencies", CONSTANT))
    return [] if latencies in {CONSTANT, WIDE_AREA} else [Path(latencies)]


def cost(parameters: Parameters) -> float:
    """Runs grow with the publications, less with where they go."""
    known = {name: p.default for name, p in PARAMETERS.items()} | parameters
    events = float(known["publishers"]) * float(known["rate_per_min"]) * float(known["until_s"])
    return events * (8 + min(float(known["spread"]), 8.0))


def run(parameters: Parameters, seed: int) -> Row:
    """Publishers of 000's workloads, with or without relocation, and the figures of its graphs."""
    if parameters.get("variant") == DECISION:
        return decision_time(seed, int(parameters["brokers"]))
    return simulated(seed, **parameters)  # type: ignore[arg-type]


CELL = Task(run, read=read, cost=cost, files=files, show=SHOWN)
