"""The workload of 004 section IV.B as arrays, and a service under it as a workload of the simulator.

Event by event the paper's 114,000 messages a second can't be simulated for minutes. So a subscription is
made to take so long that the best division of messages saturates at a rate of our choice, and what is
claimed are ratios.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec import structs

from roost.language import Event
from roost.partition.capacity import Cost, Floats, Saturation, proportional, saturation
from roost.partition.dimensions import Dimension
from roost.partition.handover import first_table
from roost.partition.naming import MATCHER, plan_service
from roost.pipeline.workload.bluedove import CENTRE_MEANS, cropped_normal, ranges_around
from roost.simulation import statements as st
from roost.simulation.workload_file import Workload, parse_workload

LENGTH = 1000.0
MESSAGES = 4_000  # of a sample
CLIENTS = 10
LATENCY_MS = 0.2
# Subscriptions are in place by then.
BEGIN_S = 4.0


def dimensions_of(count: int) -> list[Dimension]:
    return [Dimension(f"d{number}", 0.0, LENGTH) for number in range(count)]


def ranges(seed: int, count: int, deviation: float = 250.0) -> tuple[Floats, Floats]:
    """Where the ranges of subscriptions begin and end, a column a dimension."""
    rng = np.random.default_rng([seed, 1])
    found = [ranges_around(cropped_normal(rng, mean, count, deviation)) for mean in CENTRE_MEANS]
    return np.stack([low for low, _ in found], 1), np.stack([high for _, high in found], 1)


def subscription_texts(seed: int, count: int, deviation: float = 250.0) -> Iterator[str]:
    """The same as subscriptions."""
    low, high = ranges(seed, count, deviation)
    for lows, highs in zip(low.tolist(), high.tolist(), strict=True):
        yield " and ".join(f"d{d} >= {lows[d]:.6f} and d{d} < {highs[d]:.6f}" for d in range(4))


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
    cost: Cost = proportional,
    stride: int = 0,
) -> Saturation:
    """What the workload saturates at, by way of forwarding."""
    low, high = ranges(seed, subscriptions, deviation)
    sample = points(seed, MESSAGES, adverse=adverse, deviation=deviation)
    names = [f"M{number}" for number in range(matchers)]
    table = first_table(dimensions_of(dimensions), names, stride)
    some = slice(None, dimensions)
    return saturation(table, low[:, some], high[:, some], sample[:, some], cost)


class Phase(NamedTuple):
    """Messages at a rate, for so long."""

    rate_per_s: float
    lasts_s: float


def service_workload(
    seed: int,
    *,
    matchers: int,
    subscriptions: int,
    phases: Sequence[Phase],
    entry_s: float,
    dimensions: int = 4,
    deviation: float = 250.0,
    adverse: int = 0,
    words: str = "",
    settings: Sequence[str] = ("ack_delay_s 1",),
    more: Sequence[st.Statement] = (),
    machines: Mapping[str, str] | None = None,
) -> Workload:
    """Two dispatchers, which `words` are more settings of, so many matchers, and messages from `BEGIN_S` on.

    Subscriptions have predicates on all four attributes, however many of them are dimensions. `more`: what
    else happens. `machines` take the place of others.
    """
    plan = plan_service(2, matchers, dimensions_of(dimensions), words)
    lines = [f"0.0 federation set {setting}" for setting in settings]
    for name in plan.names:
        machine = plan.machines[name]
        if machine.startswith(MATCHER):
            machine = matcher_machine(machine, entry_s)
        for kind, other in (machines or {}).items():
            machine = machine.replace(kind, other)
        lines.append(f"0.0 broker add {name} 1000 64 1000 {machine}")
    lines += [f"0.0 link add {a} {b} {LATENCY_MS}" for a, b in combinations(plan.names, 2)]
    for number in range(CLIENTS):
        lines += [
            f"0.5 subscriber add S{number} D{number % 2} d0 = -1",
            f"0.5 publisher add P{number} - 0 D{number % 2}",
        ]
    for number, text in enumerate(subscription_texts(seed, subscriptions, deviation)):
        lines.append(f"1.0 subscriber subscribe S{number % CLIENTS} s{number} {text}")
    end = BEGIN_S + sum(phase.lasts_s for phase in phases)
    begun = parse_workload("\n".join([*lines, f"{end:.3f} end"]), "partition", None)
    happens = [*_messages(seed, phases, adverse, deviation), *more, *begun.statements]
    return structs.replace(begun, statements=tuple(sorted(happens, key=lambda s: s.at)))


def matcher_machine(machine: str, entry_s: float) -> str:
    """What a matcher is, in a laboratory where a subscription takes so long."""
    return f"{machine} entry_s={entry_s:.9g}"


def _messages(
    seed: int, phases: Sequence[Phase], adverse: int, deviation: float
) -> Iterator[st.Publish]:
    rng = np.random.default_rng([seed, 3])
    begins_s, times = BEGIN_S, []
    for phase in phases:
        gaps = rng.exponential(1 / phase.rate_per_s, int(phase.rate_per_s * phase.lasts_s))
        times += (begins_s + np.cumsum(gaps)).tolist()
        begins_s += phase.lasts_s
    times.sort()  # the last of one phase may be later than the first of the next
    found = points(seed, len(times), adverse=adverse, deviation=deviation).tolist()
    for number, (at, point) in enumerate(zip(times, found, strict=True)):
        event = Event({f"d{d}": round(value, 3) for d, value in enumerate(point)})
        yield st.Publish(at=round(at, 5), publisher=f"P{number % CLIENTS}", event=event)
