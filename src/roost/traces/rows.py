"""Rows of the trace tables, by name: what a column is called, of which type it is, and what it says.

The schemas (`schemas`) are made from these. A name that Python keeps for itself has a `_` behind it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec
import pyarrow as pa

from roost.broker.commands import Decision
from roost.broker.events import LoadIndices
from roost.broker.hops import Link
from roost.broker.messages import Publication
from roost.broker.module import Module
from roost.language import LanguageError, to_json
from roost.wire import publication_bytes

# A count of which nobody expects billions.
Small = Annotated[int, pa.int32()]
Names = Annotated[tuple[str, ...], pa.list_(pa.string())]
# Clients, and the subscriptions of each.
Reached = Annotated[
    tuple[tuple[str, tuple[str, ...]], ...],
    pa.list_(pa.struct([("client", pa.string()), ("subscriptions", pa.list_(pa.string()))])),
]
MaybeText = Annotated[str | None, pa.string()]


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
    source: MaybeText = (
        None  # the neighbour or client that it came from; null if it was not routed, ...
    )
    from_client: bool = False  # ... because it came a second time, or its client may not publish it
    neighbours: Names = ()  # where it went on to
    clients: Reached = ()  # whom it was delivered to here, and for what
    traced: bool = False  # by POP's draw
    life: int = 0  # of the broker: rises with every start


class LinkRow(NamedTuple):
    """A neighbour and a class of messages, at the end of a period."""

    time: float
    broker: str
    neighbour: str
    class_: str  # control, or data: publications, and what keeps its place behind them (markers of moves)
    sent: int  # messages since the channel began; the first row of a life has what was before it
    received: int
    waiting: int  # sent and not acknowledged
    queueing_s: float = 0.0  # how long data waited for it in the output queue
    life: int = 0  # of the broker: rises with every start, with which counts may begin again


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


class InterestRow(NamedTuple):
    """A subscription or advertisement of a client that has come or gone; what was there comes first."""

    time: float  # of the sample at which that was seen
    broker: str
    life: int  # as in `links`
    client: str
    id: str
    kind: str  # subscription or advertisement
    filter: str
    added: bool  # else it was withdrawn, or its client has gone


class MeasureRow(NamedTuple):
    """Something that an optimiser has measured, when it made use of it."""

    time: float
    broker: str
    module: str
    kind: str  # link (one way, in s), round trip (in s), expected (publications/s of those on their way here)
    subject: str  # the neighbour, or the client
    other: str  # of a round trip: the address of the broker
    value: float


class EventRow(NamedTuple):
    """A publication, as its first broker has it; only if content is recorded."""

    time: float
    broker: str
    publisher: str
    sequence: int
    event: str  # JSON; one with infinite numbers, which that has not, in the papers' syntax
    bytes: Small


Row = DeliveryRow | LinkRow | LoadRow | DecisionRow | InterestRow | MeasureRow | EventRow


def link_counts(link: Link, *, before: bool = False) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Of each class what was sent, received, and waits; now, or before this life of the broker."""
    if before:
        marks = link.before
        yield "control", (marks.control_sent, marks.control_received, 0)
        yield "data", (marks.data_sent, marks.data_received, 0)
    else:
        for name, lane in (("control", link.channel.control), ("data", link.channel.data)):
            yield name, (lane.sent, lane.received, lane.waiting)


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


def measure_rows(broker: str, module: Module) -> Iterator[MeasureRow]:
    """Rows of `measures`, for what a module has measured since the last time."""
    measured, module.measured = module.measured or (), []
    for time, kind, subject, other, value in measured:
        yield MeasureRow(time, broker, module.name, kind, subject, other, value)


def event_row(now: float, broker: str, publication: Publication) -> EventRow:
    """A row of `events`."""
    try:
        text = to_json(publication.event)
    except LanguageError:
        text = str(publication.event)
    size = len(publication_bytes(publication))
    return EventRow(now, broker, publication.publisher, publication.sequence, text, size)
