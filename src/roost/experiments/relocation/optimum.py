"""The best that a placement of the publishers could have given, from a run's own traffic.

Every publication of the window is sent over the tree from every broker (`relocation.brute_force`), with the
delays that brokers had and the latencies of the links. What is least is the *optimum*, for the messages that
brokers receive or for the delay, publisher by publisher. The same is counted with the publishers where they
are, so that what is above the optimum is the placement's fault and not the model's.

Publications that were delivered alike count as one with a weight: with three kinds of filters a publisher
has few kinds of publications.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from roost.experiments.relocation.figures import MS, PERCENT, Window, output_s
from roost.experiments.relocation.tables import Floats, Tables, Visits
from roost.relocation import Answer, Neighbour, publisher_everywhere

# Of a broker, its neighbours and the latency to each, in seconds.
Links = Mapping[str, Mapping[str, float]]
# Of a publication, how many clients got it at which broker.
Pattern = frozenset[tuple[str, int]]


class Placement(NamedTuple):
    """Over all publishers: where they are, and where they had best be."""

    messages: int  # that brokers received
    messages_least: int
    delay_s: float  # over all deliveries
    delay_least_s: float


def optimum(tables: Tables, window: Window, links: Links) -> dict[str, float]:
    """The figures of the optimum, and how far the placement is above it, in %."""
    visits = window.of(tables.visits)
    whole = placement(visits, answers_of(tables, window, links), tables.brokers)
    deliveries = max(int(visits.local.sum()), 1)
    return {
        "data_rate_least": whole.messages_least / window.seconds / len(tables.brokers),
        "rate_above_optimum": _above(whole.messages, whole.messages_least),
        # Without the ways between clients and their brokers, which no placement changes.
        "delay_least_ms": whole.delay_least_s / deliveries / MS,
        "delay_placed_ms": whole.delay_s / deliveries / MS,
        "delay_above_optimum": _above(whole.delay_s, whole.delay_least_s),
    }


def _above(value: float, least: float) -> float:
    return PERCENT * (value / least - 1) if least else 0.0


def placement(visits: Visits, answers: list[Answer], brokers: tuple[str, ...]) -> Placement:
    """Where the publishers are in these visits, and where they had best be."""
    total = Placement(0, 0, 0.0, 0.0)
    for publisher in np.unique(visits.publisher).tolist():
        own = visits.where(visits.publisher == publisher)
        here = brokers[int(own.broker[np.flatnonzero(own.hop == 0)[-1]])]
        messages: Counter[str] = Counter()
        delays: Counter[str] = Counter()
        for pattern, times in patterns(own, brokers).items():
            sent = publisher_everywhere(answers, {broker: [n] for broker, n in pattern})
            for broker, outcome in sent.items():
                # What nobody gets still comes to the publisher's broker.
                messages[broker] += times * max(outcome.messages, 1)
                delays[broker] += times * outcome.delay_s  # type: ignore[assignment]
        total = Placement(
            total.messages + messages[here],
            total.messages_least + min(messages.values()),
            total.delay_s + delays[here],
            total.delay_least_s + min(delays.values()),
        )
    return total


def patterns(visits: Visits, brokers: tuple[str, ...]) -> Counter[Pattern]:
    """How often publications of one publisher were delivered alike."""
    where: dict[int, list[tuple[str, int]]] = {}
    columns = (visits.sequence, visits.broker, visits.local)
    for sequence, broker, local in zip(*(column.tolist() for column in columns), strict=True):
        found = where.setdefault(sequence, [])
        if local:
            found.append((brokers[broker], local))
    return Counter(frozenset(found) for found in where.values())


def answers_of(tables: Tables, window: Window, links: Links) -> list[Answer]:
    """The delays of all brokers in a window, as they would tell them."""
    weights = tables.loads.between("input_rate", *window)
    inside = (tables.loads.times > window.start) & (tables.loads.times <= window.end)

    def mean(samples: Floats) -> Floats:
        # A broker without any input has the same delays at all times.
        means: Floats = np.average(samples, axis=0, weights=weights + 1e-9)
        return means

    queueing = mean(tables.loads.between("input_queueing_delay_s", *window))
    matching = mean(tables.loads.between("matching_delay_s", *window))
    output = mean(output_s(tables)[inside])
    return [
        Answer(
            broker=name,
            neighbours=tuple(
                Neighbour(other, float(output[i]), latency_s)
                for other, latency_s in links[name].items()
            ),
            input_queueing_s=float(queueing[i]),
            matching_s=float(matching[i]),
            output_queueing_s=float(output[i]),
        )
        for i, name in enumerate(tables.brokers)
    ]
