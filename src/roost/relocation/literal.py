"""Algorithms 1 to 3 of 000 section 4.2, as they are printed: one candidate at a time, by recursion.

They are what `grape` is held to, and what its benchmark compares with; they take O(N) for a candidate and
O(N^2) for all. Said in the prose and not in Algorithm 1: the delay begins with the time from the publisher
to the candidate. Said in neither: the latency of links, which `Answer.to_s` includes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roost.optimising.bitvector import BitVector
from roost.relocation.statistics import Answer


@dataclass(eq=False)
class BrokerFigures:
    """What the algorithms read of one broker, and what Algorithm 3 keeps there."""

    name: str
    total_deliveries: int
    bit_vector: BitVector
    delay_to_clients: float
    # The neighbours that have answered too, with the delays to them.
    neighbours: list[tuple[BrokerFigures, float]] = field(default_factory=list)
    downstream_bv_to: dict[str, BitVector] = field(default_factory=dict)


@dataclass
class DeliveryStats:
    """Sums over all deliveries."""

    total_delay: float = 0.0
    total_deliveries: int = 0


def brokers_of(answers: Sequence[Answer]) -> dict[str, BrokerFigures]:
    """The brokers of the answers, joined."""
    brokers = {
        answer.broker: BrokerFigures(
            answer.broker,
            answer.deliveries,
            BitVector.from_bytes(answer.bits),
            answer.to_clients_s,
        )
        for answer in answers
    }
    for answer in answers:
        brokers[answer.broker].neighbours = [
            (brokers[neighbour.broker], answer.to_s(neighbour))
            for neighbour in answer.neighbours
            if neighbour.broker in brokers
        ]
    return brokers


def calc_avg_delay(
    stats: DeliveryStats,
    cumulative_delay: float,
    current: BrokerFigures,
    previous: BrokerFigures | None = None,
) -> None:
    """Algorithm 1: adds the deliveries of clients at and behind `current` to `stats`."""
    # Delivery statistics of clients on the current broker
    stats.total_delay += current.total_deliveries * (cumulative_delay + current.delay_to_clients)
    stats.total_deliveries += current.total_deliveries
    for neighbour, delay in current.neighbours:
        # Skip the upstream broker
        if neighbour is previous:
            continue
        # Accumulate this broker's delays, and gather those of clients at downstream brokers
        calc_avg_delay(stats, cumulative_delay + delay, neighbour, current)


def calc_total_msg_rate(current: BrokerFigures, previous: BrokerFigures | None = None) -> int:
    """Algorithm 2: the messages that all brokers at and behind `current` receive in a session."""
    local = calc_downstream_bv(current, previous).count()
    downstream = 0
    for neighbour, _ in current.neighbours:
        if neighbour is previous:
            continue
        downstream += calc_total_msg_rate(neighbour, current)
    return local + downstream


def calc_downstream_bv(current: BrokerFigures, previous: BrokerFigures | None = None) -> BitVector:
    """Algorithm 3: the publications delivered at or behind `current`."""
    aggregated = current.bit_vector
    for neighbour, _ in current.neighbours:
        if neighbour is previous:
            continue
        downstream = current.downstream_bv_to.get(neighbour.name)
        if downstream is None:
            # Calculate the downstream bit vector and store for future retrieval
            downstream = calc_downstream_bv(neighbour, current)
            current.downstream_bv_to[neighbour.name] = downstream
        aggregated = aggregated | downstream
    return aggregated


def predictions(
    answers: Sequence[Answer], reaching_s: Mapping[str, float]
) -> dict[str, tuple[float, int]]:
    """Average delivery delay and messages in a session, with the publisher at each broker.

    `reaching_s` is the time from the publisher to a broker; 0 where it is not given.
    """
    found = {}
    for name, broker in brokers_of(answers).items():
        stats = DeliveryStats()
        reaching = reaching_s.get(name, 0.0)
        calc_avg_delay(stats, reaching, broker)
        # Of no deliveries the average is what one would at least take.
        average = stats.total_delay / stats.total_deliveries if stats.total_deliveries else reaching
        found[name] = (average, calc_total_msg_rate(broker))
    return found
