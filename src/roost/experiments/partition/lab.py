"""What the cells of 004's experiments have in common: parameters, the machines of a run, its verdict."""

from __future__ import annotations

from typing import Any, TypeVar

from roost.partition.dispatcher import Dispatcher
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation.run import Checks, check, rest
from roost.simulation.world import World

M = TypeVar("M")

# The settings of a run that `judged` can judge: subscribers say when they are ready, and gossip, which never
# ends, is acknowledged at once, so that there are moments of rest.
JUDGED = ("asking on", "ack_delay_s 0")


def workload_of(parameters: Parameters) -> dict[str, Any]:
    """The service and its workload, as `fluid` and `service_workload` take them."""
    return {
        "matchers": int(parameters["matchers"]),
        "subscriptions": int(parameters["subscriptions"]),
        "dimensions": int(parameters.get("dimensions", 4)),
        "deviation": float(parameters.get("deviation", 250)),
        "adverse": int(parameters.get("adverse", 0)),
    }


def machines(world: World, kind: type[M]) -> dict[str, M]:
    """Those of a kind that run now."""
    lives = {name: host.life for name, host in world.hosts.items() if host.life is not None}
    return {name: life.machine for name, life in lives.items() if isinstance(life.machine, kind)}


def response_s(world: World) -> float:
    """From acceptance to answer, in the last second, of the slower dispatcher."""
    return max(each.pulse.last_s for each in machines(world, Dispatcher).values())


def judged(world: World) -> Row:
    """When everything has arrived: what the checkers say."""
    return verdict_row(check(world, rested=rest(world)))


def verdict_row(checks: Checks) -> Row:
    return {
        "delivered": checks.delivered,
        "lost": checks.lost,
        "doubled": checks.doubled,
        "reordered": checks.reordered,
        "unwanted": checks.unwanted,
        "rested": checks.rested,
        "violations": checks.broken,
        "first_violation": next(iter(checks.violations), None),
    }
