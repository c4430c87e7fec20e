"""Rows of the trace tables, by name: what a column is called, of which type it is, and what it says.

The schemas (`schemas`) are made from these. A name that Python keeps for itself has a `_` behind it here.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
import pyarrow as pa

from roost.broker.commands import Decision
from roost.broker.events import LoadIndices

# A count of which nobody expects billions.
Small = Annotated[int, pa.int32()]


class DeliveryRow(NamedTuple):
    """A broker that a publication visits."""

    time: float  # when it had been matched, in seconds since the run began
    publisher: str
    sequence: int  # with the publisher: the publication
    broker: str
    hop: Small  # 0 at the publisher's broker
    local_subscribers: Small  # clients at this broker that it was delivered to
    forwarded: Small  # neighbours that it was sent on to
    bytes: Small
    queueing_s: float  # how long it waited in the input queue
    matching_s: float
    age_s: float  # since it was published


class LinkRow(NamedTuple):
    """A neighbour and a class of messages, at the end of a period."""

    time: float
    broker: str
    neighbour: str
    class_: str  # control, or data: publications, and what keeps its place behind them (markers of moves)
    sent: int  # messages since the broker began
    received: int
    waiting: int  # sent and not acknowledged
    queueing_s: float = 0.0  # how long data waited for it in the output queue


class LoadRow(NamedTuple):
    """How a broker fares: the load indices, whose names these are."""

    time: float
    broker: str
    input_utilisation: float
    matching_delay_s: float
    output_utilisation: float
    input_rate: float
    output_rate: float
    output_bytes_per_s: float
    input_queue: int
    output_queue: int
    input_queueing_delay_s: float
    output_queueing_delay_s: float
    cpu_utilisation: float
    memory_bytes: float
    memory_total_bytes: float
    subscriptions: int
    client_queueing_delay_s: float = 0.0


class DecisionRow(NamedTuple):
    """Something that an optimiser chose."""

    time: float
    broker: str
    module: str
    kind: str
    subject: str
    choice: str
    acted: bool
    evidence: str  # JSON
    predicted: str  # JSON
    cause: str


Row = DeliveryRow | LinkRow | LoadRow | DecisionRow


def load_row(time: float, broker: str, load: LoadIndices) -> LoadRow:
    """A row of `loads`."""
    indices = msgspec.structs.asdict(load)
    del indices["link_queueing_delay_s"]  # which is in `links`
    return LoadRow(time=time, broker=broker, **indices)


def decision_row(time: float, broker: str, decision: Decision) -> DecisionRow:
    """A row of `decisions`."""
    return DecisionRow(
        time=time,
        broker=broker,
        module=decision.module,
        kind=decision.kind,
        subject=decision.subject,
        choice=decision.choice,
        acted=decision.acted,
        evidence=msgspec.json.encode(decision.evidence).decode(),
        predicted=msgspec.json.encode(decision.predicted).decode(),
        cause=decision.cause,
    )
