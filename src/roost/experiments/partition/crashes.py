"""A service whose matchers crash, one after the other or several at once (004 section IV.E, figure 10).

The rate is what the few that are left at the end bear. A crash is *noticed* when a dispatcher writes a table
in which somebody is to take over, and *mended* when all dispatchers have one without it. Whoever has
crashed stays away; at the end the operator takes them out, so that the checkers can say of every event
where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from random import Random
from statistics import fmean

from msgspec import Struct

from roost.experiments.partition.lab import JUDGED, judged, machines, response_s, workload_of
from roost.experiments.partition.setup import BEGIN_S, Phase, fluid, service_workload
from roost.partition.dispatcher import Dispatcher
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation import statements as st
from roost.simulation.world import World

# Of what as many matchers as are left at the end would bear, evenly divided: what is left is not even.
SHARE = 0.25
STEP_S = 0.1
FIRST_S = 20.0
POINTS_S = 5.0


class Crash(Struct):
    """Of one or more matchers."""

    at: float
    names: Sequence[str]
    noticed_s: float = nan
    mended_s: float = nan


def crashes_row(parameters: Parameters, seed: int) -> Row:
    like = workload_of(parameters)
    matchers, left = like["matchers"], int(parameters["left"])
    best_per_s, gap_s = float(parameters["best_per_s"]), float(parameters["gap_s"])
    crashes = planned(seed, matchers, left, gap_s, int(parameters.get("at_once", 1)))
    lasts_s = crashes[-1].at + gap_s
    down = [
        st.CrashBroker(at=BEGIN_S + crash.at, broker=name, keep_store=True)
        for crash in crashes
        for name in crash.names
    ]
    workload = service_workload(
        seed,
        phases=[Phase(SHARE * best_per_s, lasts_s)],
        entry_s=fluid(seed, **{**like, "matchers": left}).best / best_per_s,
        settings=JUDGED,
        more=down,
        **like,
    )
    world = World(workload.settings, workload.statements)
    seen: list[tuple[float, float]] = []
    for step in range(1, round(lasts_s / STEP_S) + 1):
        now = step * STEP_S
        world.run(BEGIN_S + now)
        seen.append((now, response_s(world)))
        for crash in crashes:
            if crash.at < now:
                observe(world, crash, now)
    for crash in crashes:
        for name in crash.names:
            world.plan(st.RemoveBroker(at=world.clock.now, broker=name))
    world.run(world.clock.now + 1.0)
    usual = fmean(time_s for at, time_s in seen if at < crashes[0].at)
    return {
        "crashes": len(crashes),
        "noticed_s": fmean(crash.noticed_s for crash in crashes),
        "noticed_s_max": max(crash.noticed_s for crash in crashes),
        "mended_s_max": max(crash.mended_s for crash in crashes),
        "response_s_before": usual,
        "response_s_last": fmean(time_s for at, time_s in seen if at > lasts_s - gap_s / 2),
        **{f"response_s_at_{at:.0f}": t for at, t in seen[:: round(POINTS_S / STEP_S)]},
        **judged(world),
    }


def planned(seed: int, matchers: int, left: int, gap_s: float, at_once: int) -> list[Crash]:
    """Any, so many at a time, until few are left."""
    every = [f"M{number}" for number in range(matchers)]
    names = Random(seed).sample(every, matchers - left)
    groups = [names[n : n + at_once] for n in range(0, len(names), at_once)]
    return [Crash(FIRST_S + gap_s * n, group) for n, group in enumerate(groups)]


def observe(world: World, crash: Crash, now: float) -> None:
    """Whether dispatchers have noticed by now, and are done."""
    tables = [each.steward.table for each in machines(world, Dispatcher).values()]
    owners = [{s.owner for row in t.segments for s in row if not s.heir} for t in tables]
    if not crash.noticed_s >= 0 and any(not their & set(crash.names) for their in owners):
        crash.noticed_s = now - crash.at
    if not crash.mended_s >= 0 and not any(set(crash.names) & set(t.matchers()) for t in tables):
        crash.mended_s = now - crash.at
