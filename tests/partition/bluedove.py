"""The workload of 004 section IV.B, small, on a service of five matchers and two dispatchers."""

from __future__ import annotations

import numpy as np

from roost.partition.capacity import Floats, Saturation, saturation
from roost.partition.dimensions import Dimension
from roost.partition.handover import first_table
from roost.pipeline.workload.bluedove import CENTRE_MEANS, cropped_normal, ranges_around
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.partition.worlds import service

DIMENSIONS = [Dimension(f"d{number}", 0, 1000) for number in range(4)]
CLIENTS = 10
BEGIN_S, LASTS_S = 4.0, 10.0


def subscriptions(count: int, seed: int = 1, deviation: float = 250.0) -> tuple[Floats, Floats]:
    """Where their ranges begin and end, a column a dimension."""
    rng = np.random.default_rng(seed)
    ranges = [ranges_around(cropped_normal(rng, mean, count, deviation)) for mean in CENTRE_MEANS]
    return np.stack([low for low, _ in ranges], 1), np.stack([high for _, high in ranges], 1)


def points(count: int, seed: int = 5) -> Floats:
    return np.random.default_rng(seed).uniform(0, 1000, (count, 4))


def fluid(matchers: int, low: Floats, high: Floats, *, exponent: float = 1.0) -> Saturation:
    table = first_table(DIMENSIONS, [f"M{n}" for n in range(matchers)])
    return saturation(table, low, high, points(4000), exponent=exponent)


def loaded(*, share: float, policy: str, count: int = 400, best_per_s: float = 150.0) -> World:
    """A service under a part of the best load that it could bear, after ten seconds of it."""
    low, high = subscriptions(count)
    entry_s = fluid(5, low, high).best / best_per_s
    lines = service(
        5,
        dimensions=",".join(f"{d.attribute}:0:1000" for d in DIMENSIONS),
        settings=("ack_delay_s 1",),
        dispatcher_words=f"policy={policy}",
        matcher_words=f"entry_s={entry_s:.9g}",
        latency_ms=0.2,
    )
    for n in range(CLIENTS):
        lines += [
            f"0.5 subscriber add S{n} D{n % 2} d0 = -1",
            f"0.5 publisher add P{n} - 0 D{n % 2}",
        ]
    for n, (lows, highs) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        ranges = [f"d{d} >= {lows[d]:.6f} and d{d} < {highs[d]:.6f}" for d in range(4)]
        lines.append(f"1.0 subscriber subscribe S{n % CLIENTS} s{n} {' and '.join(ranges)}")
    rng, at = np.random.default_rng(7), BEGIN_S
    for n, point in enumerate(points(int(best_per_s * share * LASTS_S)).tolist()):
        event = ",".join(f"[d{d},{value:.3f}]" for d, value in enumerate(point))
        lines.append(f"{at:.5f} publisher publish P{n % CLIENTS} {event}")
        at += float(rng.exponential(1 / (best_per_s * share)))
    workload = parse_workload("\n".join([*lines, f"{at + 1:.3f} end"]), "bluedove", None)
    world = World(workload.settings, workload.statements)
    world.run(at)
    return world
