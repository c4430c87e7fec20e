"""What a broker tells about a trace session: the contents of a Trace Information Answer (000 section 4.1).

The paper lists broker, neighbours, bit vector, total number of local deliveries, and the delays of input
queue, matching and output queue, the last to each neighbour and to the clients. Four things are added: the
latency of each link, without which predicted delays would be those of a network of no extent; the
utilisation ratios and the time that a message takes on the output, from which it follows whether a broker
has room for more subscribers; and where clients find the broker, if they are to move there. All can be left
out.
"""

from __future__ import annotations

from msgspec import Struct

from roost.broker.names import Address


class Neighbour(Struct, frozen=True, array_like=True):
    """What it takes to reach a neighbour."""

    broker: str
    output_queueing_s: float = 0.0
    latency_s: float = 0.0  # of the link, one way


class Answer(Struct, frozen=True, array_like=True):
    """The statistics of one broker."""

    broker: str
    neighbours: tuple[Neighbour, ...] = ()
    bits: bytes = b""  # which publications were delivered to clients here (`BitVector.to_bytes`)
    deliveries: int = 0  # of these publications to clients here, one a client
    input_queueing_s: float = 0.0
    matching_s: float = 0.0  # average
    output_queueing_s: float = 0.0  # to clients
    input_utilisation: float = 0.0
    output_utilisation: float = 0.0
    sending_s: float = 0.0  # that a message keeps the output busy
    address: Address = Address("")  # where clients find it

    @property
    def through_s(self) -> float:
        """Until a publication that has arrived is ready for its output queues."""
        return self.input_queueing_s + self.matching_s

    @property
    def to_clients_s(self) -> float:
        """What this broker adds to the delay of its own clients."""
        return self.through_s + self.output_queueing_s

    def to_s(self, neighbour: Neighbour) -> float:
        """What passing a publication on takes, until it has arrived there."""
        return self.through_s + neighbour.output_queueing_s + neighbour.latency_s


class Trace(Struct, frozen=True, array_like=True):
    """A trace session, as the publisher's first broker has seen it."""

    publications: int  # traced, one a bit
    rate_per_s: float  # at which they were published

    @property
    def per_s(self) -> float:
        """Turns what was counted over the session into a rate."""
        return self.rate_per_s / self.publications if self.publications else 0.0
