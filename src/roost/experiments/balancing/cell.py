"""The task of the experiments of 001: one simulation with load balancing, from its trace to a row of
figures.

    roost sweep roost.experiments.balancing.cell:CELL --set workload=local --set profile=thesis,roost

`settings` are those of the module, as KEY=VALUE with commas between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from roost.balancing import Balancing, BalancingConfig
from roost.broker.module import Module
from roost.broker.registry import settings_of
from roost.errors import UserError
from roost.experiments.balancing import figures
from roost.experiments.balancing.agreement import agreement
from roost.experiments.balancing.figures import Course
from roost.experiments.relocation.tables import read_tables
from roost.pipeline.sweeps.tasks import (
    BREACHES,
    FIRST_VIOLATION,
    VIOLATIONS,
    Parameters,
    Row,
    Task,
)
from roost.relocation import Grape, GrapeConfig
from roost.simulation.faults import with_faults
from roost.simulation.generators import generate
from roost.simulation.generators.clusters import Clusters
from roost.simulation.generators.parameters import parameters_of, read_values
from roost.simulation.generators.parts import Count, Positive, Seconds, Share
from roost.simulation.run import Checks, run_workload, verdict
from roost.simulation.workload_file import Workload, parse_workload, write_workload
from roost.simulation.world import World
from roost.traces import TraceWriter

# With this a quote has about 300 bytes when it is delivered, which gives output ratios like the thesis'.
PAYLOAD_BYTES = 64
JOINING_FROM_S, JOINING_PER_S = 10.0, 2.0
CROWDED = {"local": "B1", "global": "B11"}
STEADY_AFTER_S = {"local": figures.STEADY_AFTER_S, "global": figures.CLUSTERS_STEADY_AFTER_S}
SHOWN = ("converged_s", "reconverged_s", "overhead", "sessions")
Faults = Literal["none", "network", "crash", "all"]
Beside = Literal["nothing", "grape"]
# GRAPE as it is by itself, but for subscribers: those move, too.
BESIDE: dict[Beside, Callable[[], tuple[Module, ...]]] = {
    "nothing": lambda: (),
    "grape": lambda: (Grape(GrapeConfig(subscribers=True)),),
}


def simulated(
    seed: int,
    *,
    workload: Literal["local", "global"] = "local",
    profile: Literal["thesis", "roost"] = "thesis",
    settings: str = "",
    publishers: Positive = 40,
    subscribers: Count = 2_000,
    times: Positive = 1,
    joining_per_s: Annotated[float, Meta(gt=0)] = JOINING_PER_S,
    edges: Count = 0,
    clusters: Clusters = 4,
    shape: Literal["chain", "star"] = "chain",
    machines: Literal["macro", "micro", "equal"] = "macro",
    zero_traffic: Share = 0.25,
    change_at_s: Seconds = 3_000.0,
    until_s: Seconds = 5_000.0,
    every_s: Seconds = 1e9,
    payload_bytes: Count = PAYLOAD_BYTES,
    faults: Faults = "none",
    beside: Beside = "nothing",
    rest_s: Seconds = 0.0,
) -> Row:
    """The thesis' experiments on load balancing, and the figures of its graphs.

    There are `times` as many subscribers. `edges` are of one cluster, equal ones, if it is not 0; `clusters`,
    `shape` and `machines` are those of several. With `faults` brokers keep what they have accepted on disk:
    else nothing is promised. `beside` is an optimiser that acts at the same time, and `rest_s` for how long
    nobody moves a client that has moved.
    """
    joined_s = JOINING_FROM_S + subscribers * times / joining_per_s
    given: dict[str, object] = {
        "publishers": publishers,
        "subscribers": subscribers * times,
        "joined_s": joined_s,
        "zero_traffic": zero_traffic,
        "change_at_s": change_at_s,
        "until_s": until_s,
    }
    if workload == "local":
        given["edges"] = edges
    else:
        given |= {"clusters": clusters, "shape": shape, "machines": machines}
    statements = generate(workload, seed, {name: str(value) for name, value in given.items()})
    planned = parse_workload(write_workload(statements), workload, None)
    settings_ = replace(planned.settings, payload_bytes=payload_bytes, rest_s=rest_s)
    planned = replace(planned, settings=replace(settings_, durability=faults != "none"))
    if faults != "none":
        planned = with_faults(planned, faults, seed, until_s)
    config = config_of(profile, settings)
    with TemporaryDirectory(prefix="roost-experiment-") as folder:
        return _run(
            planned,
            config,
            BESIDE[beside],
            seed,
            Path(folder),
            Course((), joined_s, change_at_s, until_s, CROWDED[workload], STEADY_AFTER_S[workload]),
            every_s,
        )


def _run(
    planned: Workload,
    config: BalancingConfig,
    others: Callable[[], tuple[Module, ...]],
    seed: int,
    folder: Path,
    course: Course,
    every_s: float,
) -> Row:
    with TraceWriter(folder, "cell", ways=False) as trace:
        world = World(
            planned.settings,
            planned.statements,
            seed=seed,
            trace=trace,
            modules=lambda _: (Balancing(config), *others()),
        )
        run_workload(world, planned, course.end_s)
        placed = Counter(client.broker for client in world.clients.values())
        near = {name: list(world.overlay.neighbours(name)) for name in world.hosts}
        checks, _ = verdict(world, planned)
    tables = read_tables(trace.paths, tuple(world.hosts))
    edges = tuple(name for name, others in near.items() if len(others) == 1)
    clusters = {
        name: [other for other in others if other in edges]
        for name, others in near.items()
        if name not in edges
    }
    pairs = [(one, other) for one in clusters for other in near[one] if other in clusters]
    course = course._replace(edges=edges)
    return {
        **_verdict(checks),
        **figures.figures(tables, course, config),
        **figures.cluster_figures(tables, clusters, pairs, course, config),
        **figures.over_time(tables, course, every_s),
        **agreement(tables.decisions, planned.settings.rest_s),
        **{f"subscribers_{edge}": placed[edge] for edge in edges},
    }


def _verdict(checks: Checks) -> dict[str, Any]:
    counts = {name: getattr(checks, name) for name in BREACHES}
    return {
        "delivered": checks.delivered,
        **counts,
        VIOLATIONS: sum(counts.values()),
        FIRST_VIOLATION: checks.violations[0] if checks.violations else None,
    }


def config_of(profile: str, settings: str) -> BalancingConfig:
    """The settings of the module; UserError says what will not do."""
    words = dict(word.partition("=")[::2] for word in settings.split(",") if word)
    found = settings_of("balancing", BalancingConfig, {"profile": profile, **words})
    assert isinstance(found, BalancingConfig)
    return found


# --- as a task of a sweep ---------------------------------------------------------------------------

PARAMETERS = parameters_of(simulated)


def read(texts: Mapping[str, str]) -> Parameters:
    """Parameters from texts; what does not go together is refused."""
    parameters: Parameters = dict(read_values("balancing", PARAMETERS, texts))
    config_of(str(parameters.get("profile", "thesis")), str(parameters.get("settings", "")))
    known = {name: p.default for name, p in PARAMETERS.items()} | parameters
    subscribers = int(known["subscribers"]) * int(known["times"])
    joined_s = JOINING_FROM_S + subscribers / float(known["joining_per_s"])
    if float(known["until_s"]) <= joined_s:
        raise UserError(f"until_s: subscribers join until {joined_s:g} s; expected more")
    return parameters


def cost(parameters: Parameters) -> float:
    """Runs grow with the publications, and with who gets them."""
    known = {name: p.default for name, p in PARAMETERS.items()} | parameters
    subscribers = float(known["subscribers"]) * float(known["times"])
    return float(known["publishers"]) * subscribers * float(known["until_s"])


def run(parameters: Parameters, seed: int) -> Row:
    """The thesis' experiments on load balancing, and the figures of its graphs."""
    return simulated(seed, **parameters)  # type: ignore[arg-type]


CELL = Task(run, read=read, cost=cost, show=SHOWN)
