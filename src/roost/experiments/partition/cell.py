"""The task of the experiments of 004: a fluid, or a service in the simulator, to a row of figures.

    roost sweep roost.experiments.partition.cell:cell --set what=fluid --set matchers=5,20 \\
        --set subscriptions=40000

`fluid` works out at how many messages a second each way of forwarding saturates, in units in which a
subscription takes a second. `simulated` runs the machines at a *share* of what the best division would
bear, and looks whether the events that are held keep growing (IV.B: that is saturation).
"""

from __future__ import annotations

from statistics import fmean
from typing import cast

from roost.experiments.partition.setup import BEGIN_S, fluid, service_workload
from roost.partition.dispatcher import Dispatcher
from roost.partition.fluid import normalised_deviation
from roost.partition.matcher import Matcher
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation.world import World

# Held events that grow by more than this share of the rate, each second, do not stop growing.
GROWTH = 0.03


def cell(parameters: Parameters, seed: int) -> Row:
    """One fluid, or one run."""
    return (
        fluid_row(parameters, seed)
        if parameters["what"] == "fluid"
        else simulated_row(parameters, seed)
    )


def fluid_row(parameters: Parameters, seed: int) -> Row:
    found = fluid(
        seed,
        matchers=int(parameters["matchers"]),
        subscriptions=int(parameters["subscriptions"]),
        dimensions=int(parameters.get("dimensions", 4)),
        deviation=float(parameters.get("deviation", 250)),
        adverse=int(parameters.get("adverse", 0)),
        exponent=float(parameters.get("exponent", 1)),
        stride=int(parameters.get("stride", 0)),
    )
    return {
        "best": found.best,
        "amount": found.amount,
        "random": found.random,
        "p2p_most": max(found.p2p),
        "p2p_least": min(found.p2p),
        "replicated": found.replicated,
        "over_p2p": found.best / max(found.p2p),
        "over_replication": found.best / found.replicated,
        "deviation_p2p": found.deviation_p2p,
        "largest_set": found.largest_set,
    }


def simulated_row(parameters: Parameters, seed: int) -> Row:
    matchers, subscriptions = int(parameters["matchers"]), int(parameters["subscriptions"])
    best_per_s, lasts_s = float(parameters["best_per_s"]), float(parameters["lasts_s"])
    rate_per_s = best_per_s * float(parameters["share"])
    best = fluid(seed, matchers=matchers, subscriptions=subscriptions).best
    workload = service_workload(
        seed,
        policy=str(parameters["policy"]),
        matchers=matchers,
        subscriptions=subscriptions,
        rate_per_s=rate_per_s,
        entry_s=best / best_per_s,
        lasts_s=lasts_s,
    )
    world = World(workload.settings, workload.statements)
    held = []
    for second in range(1, int(lasts_s) + 1):
        world.run(BEGIN_S + second)
        held.append(sum(len(_dispatcher(world, name).holding) for name in ("D0", "D1")))
    third = len(held) // 3
    growth = (fmean(held[-third:]) - fmean(held[third:-third])) / third / rate_per_s
    busy = [_matcher(world, f"M{number}").queues.busy_s for number in range(matchers)]
    oracle = world.oracle
    return {
        "bears": growth < GROWTH,
        "growth": growth,
        "held": held[-1],
        "deviation": normalised_deviation(busy),
        "delay_ms": 1e3 * world.delays.mean,
        "delivered": oracle.delivered,
        # What is lost can't be judged of a run that ends in the middle: `roost sim fuzz` does that.
        "doubled": oracle.doubled,
        "reordered": oracle.reordered,
        "unwanted": oracle.unwanted,
        "violations": oracle.doubled + oracle.reordered + oracle.unwanted,
    }


def _dispatcher(world: World, name: str) -> Dispatcher:
    life = world.hosts[name].life
    assert life is not None
    return cast(Dispatcher, life.machine)


def _matcher(world: World, name: str) -> Matcher:
    life = world.hosts[name].life
    assert life is not None
    return cast(Matcher, life.machine)
