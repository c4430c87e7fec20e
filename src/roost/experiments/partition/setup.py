"""The workload of 004 section IV.B as arrays, and a service under it as a workload of the simulator.

Event by event the paper's 114,000 messages a second can't be simulated for minutes. So a subscription is
made to take so long that the best division of messages saturates at a rate of our choice, and what is
claimed are ratios.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from roost.partition.capacity import Floats, Saturation, saturation
from roost.partition.dimensions import Dimension
from roost.partition.handover import first_table
from roost.partition.naming import MATCHER, plan_service
from roost.pipeline.workload.bluedove import CENTRE_MEANS, cropped_normal, ranges_around
from roost.simulation.workload_file import Workload, parse_workload

LENGTH = 1000.0
MESSAGES = 4_000  # of a sample
CLIENTS = 10
# Subscriptions are in place by then.
BEGIN_S = 4.0


def dimensions_of(count: int) -> list[Dimension]:
    return [Dimension(f"d{number}", 0.0, LENGTH) for number in range(count)]


def ranges(seed: int, count: int, deviation: float = 250.0) -> tuple[Floats, Floats]:
    """Where the ranges of subscriptions begin and end, a column a dimension."""
    rng = np.random.default_rng([seed, 1])
    found = [ranges_around(cropped_normal(rng, mean, count, deviation)) for mean in CENTRE_MEANS]
    return np.stack([low for low, _ in found], 1), np.stack([high for _, high in found], 1)


def points(seed: int, count: int, *, adverse: int = 0, deviation: float = 250.0) -> Floats:
    """Messages: anywhere; in the first `adverse` dimensions where the subscriptions are (IV.F)."""
    rng = np.random.default_rng([seed, 2])
    columns = [
        cropped_normal(rng, mean, count, deviation)
        if number < adverse
        else rng.uniform(0, LENGTH, count)
        for number, mean in enumerate(CENTRE_MEANS)
    ]
    return np.stack(columns, 1)


def fluid(
    seed: int,
    *,
    matchers: int,
    subscriptions: int,
    dimensions: int = 4,
    deviation: float = 250.0,
    adverse: int = 0,
    exponent: float = 1.0,
    stride: int = 0,
) -> Saturation:
    """What the workload saturates at, by way of forwarding."""
    low, high = ranges(seed, subscriptions, deviation)
    sample = points(seed, MESSAGES, adverse=adverse, deviation=deviation)
    names = [f"M{number}" for number in range(matchers)]
    table = first_table(dimensions_of(dimensions), names, stride)
    some = slice(None, dimensions)
    return saturation(table, low[:, some], high[:, some], sample[:, some], exponent=exponent)


def service_workload(
    seed: int,
    *,
    policy: str,
    matchers: int,
    subscriptions: int,
    rate_per_s: float,
    entry_s: float,
    lasts_s: float,
) -> Workload:
    """Two dispatchers, so many matchers, and messages at a rate."""
    plan = plan_service(2, matchers, dimensions_of(4), f"policy={policy}")
    lines = ["0.0 federation set ack_delay_s 1"]
    for name in plan.names:
        machine = plan.machines[name]
        more = f" entry_s={entry_s:.9g}" if machine.startswith(MATCHER) else ""
        lines.append(f"0.0 broker add {name} 1000 64 1000 {machine}{more}")
    lines += [f"0.0 link add {a} {b} 0.2" for a, b in combinations(plan.names, 2)]
    for number in range(CLIENTS):
        lines += [
            f"0.5 subscriber add S{number} D{number % 2} d0 = -1",
            f"0.5 publisher add P{number} - 0 D{number % 2}",
        ]
    low, high = ranges(seed, subscriptions)
    for number, (lows, highs) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        text = " and ".join(f"d{d} >= {lows[d]:.6f} and d{d} < {highs[d]:.6f}" for d in range(4))
        lines.append(f"1.0 subscriber subscribe S{number % CLIENTS} s{number} {text}")
    gaps = np.random.default_rng([seed, 3]).exponential(1 / rate_per_s, int(rate_per_s * lasts_s))
    times = BEGIN_S + np.cumsum(gaps)
    for number, (at, point) in enumerate(
        zip(times.tolist(), points(seed, len(times)).tolist(), strict=True)
    ):
        event = ",".join(f"[d{d},{value:.3f}]" for d, value in enumerate(point))
        lines.append(f"{at:.5f} publisher publish P{number % CLIENTS} {event}")
    return parse_workload("\n".join([*lines, f"{BEGIN_S + lasts_s:.3f} end"]), "partition", None)
