"""The task of the experiments of 004: a fluid, or a service in the simulator, to a row of figures.

    roost sweep roost.experiments.partition.cell:cell --set what=fluid --set matchers=5,20 \\
        --set subscriptions=40000

`fluid` works out at how many messages a second each way of forwarding saturates, in units in which a
subscription takes a second; `indexed` does so with what our index takes. `simulated` runs the machines at a
*share* of what the best division would bear, and looks whether the events that are held keep growing (IV.B:
that is saturation). `ramp`, `crashes`, `traffic` and `layouts` are modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from roost.experiments.partition.crashes import crashes_row
from roost.experiments.partition.index_cost import measured_cost
from roost.experiments.partition.lab import machines, workload_of
from roost.experiments.partition.layouts import layouts_row
from roost.experiments.partition.ramp import ramp_row
from roost.experiments.partition.setup import BEGIN_S, Phase, fluid, service_workload
from roost.experiments.partition.traffic import simulated_traffic_row, traffic_row
from roost.partition.capacity import Cost, power
from roost.partition.direct import ORDERED
from roost.partition.dispatcher import Dispatcher
from roost.partition.fluid import normalised_deviation
from roost.partition.matcher import Matcher
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation.world import World

# Held events that grow by more than this share of the rate, each second, do not stop growing.
GROWTH = 0.03


def cell(parameters: Parameters, seed: int) -> Row:
    """One fluid, or one run."""
    return ROWS[str(parameters["what"])](parameters, seed)


def fluid_row(parameters: Parameters, seed: int) -> Row:
    return saturation_row(parameters, seed, power(float(parameters.get("exponent", 1))))


def indexed_row(parameters: Parameters, seed: int) -> Row:
    """The same with what a search of our index takes, measured here and now."""
    measured = measured_cost(seed, int(parameters["subscriptions"]))
    return {**saturation_row(parameters, seed, measured.cost), "exponent_found": measured.exponent}


def saturation_row(parameters: Parameters, seed: int, cost: Cost) -> Row:
    like, stride = workload_of(parameters), int(parameters.get("stride", 0))
    found = fluid(seed, cost=cost, stride=stride, **like)
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
    best_per_s, lasts_s = float(parameters["best_per_s"]), int(parameters["lasts_s"])
    rate_per_s = best_per_s * float(parameters["share"])
    like = workload_of(parameters)
    best = fluid(seed, **like).best
    workload = service_workload(
        seed,
        phases=[Phase(rate_per_s, lasts_s)],
        entry_s=best / best_per_s,
        words=f"policy={parameters['policy']} delivery={parameters.get('delivery', ORDERED)}",
        **like,
    )
    world = World(workload.settings, workload.statements)
    held = []
    for second in range(1, lasts_s + 1):
        world.run(BEGIN_S + second)
        held.append(sum(len(each.holding) for each in machines(world, Dispatcher).values()))
    third = len(held) // 3
    growth = (fmean(held[-third:]) - fmean(held[third:-third])) / third / rate_per_s
    busy = [each.queues.busy_s for each in machines(world, Matcher).values()]
    oracle = world.oracle
    return {
        "bears": growth < GROWTH,
        "growth": growth,
        "held": held[-1],
        "load_deviation": normalised_deviation(busy),
        "delay_ms": 1e3 * world.delays.mean,
        "best": best,
        **{f"busy_{n}": s / fmean(busy) for n, s in enumerate(sorted(busy))},
        "delivered": oracle.delivered,
        "overtaken_share": oracle.overtaken / max(1, oracle.delivered),
        # What is lost can't be judged of a run that ends in the middle: `roost sim fuzz` does that.
        "doubled": oracle.doubled,
        "reordered": oracle.reordered,
        "unwanted": oracle.unwanted,
        "violations": oracle.doubled + oracle.reordered + oracle.unwanted,
    }


ROWS: Mapping[str, Callable[[Parameters, int], Row]] = {
    "fluid": fluid_row,
    "indexed": indexed_row,
    "simulated": simulated_row,
    "ramp": ramp_row,
    "crashes": crashes_row,
    "simulated_traffic": simulated_traffic_row,
    "traffic": traffic_row,
    "layouts": layouts_row,
}
