"""A service under a rate that rises and falls in steps, with a provisioner (004 section IV.E, figure 9).

It begins with few matchers, at 60 % of what they bear at best; each step adds 30 % of that. (The paper's
steps of 500 messages a second do not fit what it says of saturation, 114,000 with 20 matchers.) At the top
the rate stays for a step, then it falls as it rose, and in the end to half of the first rate. Hosts are there
a second after they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from roost.experiments.partition.lab import JUDGED, judged, machines, response_s, workload_of
from roost.experiments.partition.setup import (
    BEGIN_S,
    LATENCY_MS,
    Phase,
    fluid,
    matcher_machine,
    service_workload,
)
from roost.partition.dispatcher import Dispatcher
from roost.partition.naming import MATCHER
from roost.partition.provisioning import Bounds, Provisioner
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation.provisioning import HostPlan, HostProvisioner
from roost.simulation.world import World

FIRST_SHARE, STEP_SHARE = 0.6, 0.3
# A response time above this is that of a service which has more to do than it can.
SATURATED_S = 2.0
# After a matcher was added the response time is looked at for so long.
FALLS_WITHIN_S = 30.0
FALLEN = 0.8
WISHED_S = 3.0
POINTS_S = 5


class Second(Struct, frozen=True):
    """What was seen at the end of one."""

    at: float
    response_s: float
    matchers: int


def ramp_row(parameters: Parameters, seed: int) -> Row:
    like = workload_of(parameters)
    best_per_s, most = float(parameters["best_per_s"]), int(parameters["matchers_max"])
    entry_s = fluid(seed, **like).best / best_per_s
    phases = stairs(
        best_per_s,
        int(parameters["steps"]),
        float(parameters["step_s"]),
        float(parameters["rest_s"]),
    )
    workload = service_workload(
        seed,
        phases=phases,
        entry_s=entry_s,
        settings=JUDGED,
        words=f"idle_s={parameters['idle_s']}",
        **like,
    )
    world = World(workload.settings, workload.statements)
    machine = matcher_machine(f"{MATCHER} dispatchers=D0,D1", entry_s)
    bounds = Bounds(matchers_min=like["matchers"], matchers_max=most)
    plan = HostPlan(machine=machine, latency_ms=LATENCY_MS)
    hosts = HostProvisioner(world, Provisioner(bounds), plan)
    seen = []
    for second in range(1, int(sum(phase.lasts_s for phase in phases)) + 1):
        world.run(BEGIN_S + second)
        table = machines(world, Dispatcher)["D0"].steward.table
        seen.append(Second(float(second), response_s(world), len(table.matchers())))
    added = [at + plan.boots_s - BEGIN_S for at, step in hosts.steps if step.what == "start"]
    falls = [fall_s(seen, at) for at in added]
    return {
        "matchers_most": max(each.matchers for each in seen),
        "matchers_last": seen[-1].matchers,
        "added": len(added),
        "ended": sum(step.what == "end" for _, step in hosts.steps),
        "fall_s": fmean(falls) if falls else None,
        "fall_s_max": max(falls, default=None),
        "saturated_s_longest": longest([s.response_s > SATURATED_S for s in seen]),
        "response_s_max": max(each.response_s for each in seen),
        **{f"response_s_at_{s.at:.0f}": s.response_s for s in seen[::POINTS_S]},
        **{f"matchers_at_{s.at:.0f}": s.matchers for s in seen[::POINTS_S]},
        **judged(world),
    }


def stairs(best_per_s: float, steps: int, step_s: float, rest_s: float) -> list[Phase]:
    """Up so many times, and down again; then it rests."""
    up = [Phase(best_per_s * (FIRST_SHARE + STEP_SHARE * n), step_s) for n in range(steps + 1)]
    return [*up, *up[-2::-1], Phase(best_per_s * FIRST_SHARE / 2, rest_s)]


def fall_s(seen: Sequence[Second], added_at: float) -> float:
    """From when a matcher was added until the response time is a fifth below its highest since the wish."""
    highest = 0.0
    for second in seen:
        if second.at > added_at and second.response_s <= FALLEN * highest:
            return second.at - added_at
        if second.at > added_at - WISHED_S:
            highest = max(highest, second.response_s)
    return FALLS_WITHIN_S


def longest(flags: Sequence[bool]) -> int:
    """How many in a row are true, at most."""
    most = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        most = max(most, run)
    return most
