"""What can happen to a broker or a client: the arguments of `handle`.

Names are paired with those of `commands`: `OpenLink` is answered by `LinkOpened` or `LinkRefused`,
`Persist` by `Persisted`, `SetTimer` by `TimerFired`; and `Asked` by `Answered`. A *connection* is a number
that the driver gives to each connection that it makes or accepts; it is never used again, so that what comes
late from an old one can't be mistaken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.broker.commands import Fetch
from roost.broker.messages import Parcel, Span
from roost.broker.names import Address, Rank
from roost.broker.permissions import Permission
from roost.language import Advertisement, Event, Subscription

# --- connections: brokers and clients ---------------------------------------------------------------


class Received(Struct, frozen=True, gc=False):
    """Parcels that arrived together on a connection, in their order."""

    connection: int
    parcels: Sequence[Parcel]


class ConnectionClosed(Struct, frozen=True, gc=False):
    """It is gone, and so is whatever was on the way."""

    connection: int
    reason: str = ""


class TimerFired(Struct, frozen=True, gc=False):
    """A timer that was set has run out. Its name is the machine's own."""

    name: str


class LinkOpened(Struct, frozen=True, gc=False):
    """A connection to the broker of `OpenLink` is there."""

    broker: str
    connection: int


class LinkRefused(Struct, frozen=True, gc=False):
    """It could not be reached."""

    broker: str
    reason: str = ""


# --- brokers only -----------------------------------------------------------------------------------


class Congested(Struct, frozen=True, gc=False):
    """The other end of a connection does not read as fast as we write: write no more data for now."""

    connection: int


class Relieved(Struct, frozen=True, gc=False):
    """It has caught up."""

    connection: int


class Identified(Struct, frozen=True, gc=False):
    """The driver knows who is on a connection, and what they may do; again when that has changed."""

    connection: int
    permission: Permission


class Started(Struct, frozen=True, gc=False):
    """The broker begins, with what its store holds, if it has one."""

    records: Mapping[tuple[str | int, ...], object] = {}


class ConnectionAccepted(Struct, frozen=True, gc=False):
    """Somebody connected; the greeting will say who."""

    connection: int


class NeighboursConfigured(Struct, frozen=True, gc=False):
    """The neighbours that the settings name, each with whether it is on us to dial.

    Who has a store has neighbours from before, too: links that were made or moved since stay as they are.
    What counts is how the settings differ from those of the last start.
    """

    neighbours: Mapping[str, bool]
    ranks: Mapping[str, Rank] = {}  # of those that have one


class LinkAdded(Struct, frozen=True, gc=False):
    """From now on a neighbour. One of the two is to dial."""

    broker: str
    dial: bool
    address: Address = Address("")  # where to, unless the driver knows
    rank: Rank = ""  # what it is to us, where brokers have ranks
    # Two federations become one, at run time: nothing is promised between them, and nothing kept for the
    # neighbour, before it has greeted.
    joins: bool = False


class LinkRemoved(Struct, frozen=True, gc=False):
    """No longer a neighbour."""

    broker: str
    cause: str


class RewiringRequested(Struct, frozen=True, gc=False):
    """The operator, or an optimiser, wants a neighbour to become one of another neighbour instead."""

    mover: str
    anchor: str
    cause: str


class WaySwitched(Struct, frozen=True, gc=False):
    """The operator wants the broker to go another way: as in a tree, or as in a cluster (`hierarchy`)."""

    way: str
    cause: str


class ClientRedirected(Struct, frozen=True, gc=False):
    """The operator, or an optimiser, wants a client to move."""

    client: str
    address: Address
    cause: str


class SessionDismissed(Struct, frozen=True, gc=False):
    """The operator ends a session, with all that waits in it; the client is told, if it is there."""

    session: str
    reason: str


class Persisted(Struct, frozen=True, gc=False):
    """Everything up to this `Persist` is safe."""

    token: int


class Fetched(Struct, frozen=True, gc=False):
    """What was asked for: the values of those records, in order; None for what is not there any more."""

    fetch: Fetch
    records: Sequence[Any]


class StoreFilled(Struct, frozen=True, gc=False):
    """The store has reached its limit (new events are refused), or has room again."""

    is_full: bool


class ModuleSwitched(Struct, frozen=True, gc=False):
    """The operator turns an optimiser off, to observing or to acting."""

    module: str
    state: str


class Asked(Struct, frozen=True, gc=False):
    """An operator wants something of the optimisers: `Answered`, with the same id."""

    id: str
    request: str  # as they call it: "drain"
    arguments: Mapping[str, Any] = {}
    module: str = ""  # the one that is meant; "": whoever knows the request


class LoadSampled(Struct, frozen=True, gc=False):
    """The driver has measured what only it can: queues, delays, bandwidth, memory."""

    load: LoadIndices


class LoadIndices(Struct, frozen=True, gc=False):
    """How a broker fares (001 section 3.3.1), over the period since the last sample."""

    input_utilisation: float  # I_r: arriving publications over what matching can take; 001 eq. 3.1
    matching_delay_s: float  # d_m, the average
    output_utilisation: float  # O_r: used bandwidth over all of it; 001 eq. 3.3
    input_rate: float  # publications a second
    output_rate: float  # messages a second
    output_bytes_per_s: float
    input_queue: int
    output_queue: int
    input_queueing_delay_s: float
    output_queueing_delay_s: float
    cpu_utilisation: float
    memory_bytes: float
    memory_total_bytes: float
    subscriptions: int
    # The output queue, by where it leads: to clients here, and to each neighbour that something is known of.
    client_queueing_delay_s: float = 0.0
    link_queueing_delay_s: Mapping[str, float] = {}


# --- clients only: what the application asks for ----------------------------------------------------


class PublishRequested(Struct, frozen=True, gc=False):
    """The application publishes an event."""

    event: Event
    payload: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = {}


class SubscribeRequested(Struct, frozen=True, gc=False):
    """The application subscribes, under a name of its own."""

    name: str
    subscription: Subscription


class UnsubscribeRequested(Struct, frozen=True, gc=False):
    """The application ends a subscription."""

    name: str


class AdvertiseRequested(Struct, frozen=True, gc=False):
    """The application advertises, under a name of its own."""

    name: str
    advertisement: Advertisement


class UnadvertiseRequested(Struct, frozen=True, gc=False):
    """The application withdraws an advertisement."""

    name: str


class AttachRequested(Struct, frozen=True, gc=False):
    """The application connects, to the broker there."""

    address: Address


class LeaveRequested(Struct, frozen=True, gc=False):
    """The application leaves for good."""


class SettleRequested(Struct, frozen=True, gc=False):
    """The application wants to be told `settled` when what it has asked for is in effect everywhere."""

    id: str


class Handled(Struct, frozen=True, gc=False):
    """The application is done with all deliveries up to this number (of `Hand`), and needs them no more.

    And with those in the spans, which are beyond that, and have not been said before.
    """

    number: int
    beyond: tuple[Span, ...] = ()


class PauseRequested(Struct, frozen=True, gc=False):
    """What is published is kept back, until `ResumeRequested`."""


class ResumeRequested(Struct, frozen=True, gc=False):
    """What was kept back goes out, in order."""
