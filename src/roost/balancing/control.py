"""What load balancers say to each other, as events of the class LB_CONTROL (001 section 3.4).

An event names the broker that it is for, and who that is subscribes to its own name:

    [class,'LB_CONTROL'],[brokerID,'B2']                        with one of the messages below as its payload
    [class,eq,'LB_CONTROL'],[brokerID,eq,'B2']

A *session* has an id that its first broker gave, and that all messages about it carry. What comes for a
session that is over, or was never begun, is stale, and nobody's fault: a broker may have crashed meanwhile.

    local     BalanceRequest -> BalanceReply; then Migrating -> Done, and Withdrawn in between
    global    GlobalRequest -> GlobalReply; then GlobalRenewal now and then, and GlobalDone from either side
    cluster   Engage and Disengage from a cluster-head to its edge-brokers, GlobalWish the other way
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from roost.balancing.cards import LoadReport
from roost.balancing.indices import Action
from roost.balancing.states import Status
from roost.broker.errors import RemoteProtocolError
from roost.broker.names import Address
from roost.language import Filter, Operator, Predicate

if TYPE_CHECKING:
    from roost.broker.messages import Publication
    from roost.broker.module import Surroundings

LB_CONTROL = "LB_CONTROL"

# --- between two edge-brokers -----------------------------------------------------------------------


class BalanceRequest(Struct, frozen=True, array_like=True, tag=1):
    """Will you take load of mine?"""

    session: str
    sender: str
    action: Action
    drains: bool = False  # the sender wants to be rid of everybody


class BalanceReply(Struct, frozen=True, array_like=True, tag=2):
    """OK, and all that is needed to choose what to send; or the status that speaks against it."""

    session: str
    sender: str
    status: Status
    address: Address = Address("")
    report: LoadReport | None = None


class Migrating(Struct, frozen=True, array_like=True, tag=3):
    """These clients are on their way to you; none: the session is over.

    In the thesis each subscription carries the session and the number of clients. Here the broker is told
    their names, which says the same and more, and clients need not know what they take part in."""

    session: str
    sender: str
    clients: tuple[str, ...]
    decision: str = ""
    predicted: dict[str, float] = {}  # of the receiver, once they are there


class Withdrawn(Struct, frozen=True, array_like=True, tag=4):
    """These are not coming: they have left altogether."""

    session: str
    sender: str
    clients: tuple[str, ...]


class Done(Struct, frozen=True, array_like=True, tag=5):
    """Everybody has come, or the time is over."""

    session: str
    sender: str
    arrived: int


# --- between two cluster-heads ----------------------------------------------------------------------


class GlobalRequest(Struct, frozen=True, array_like=True, tag=6):
    """Shall our clusters balance?"""

    session: str
    sender: str
    is_overloaded: bool = False  # one of its edge-brokers is, and has found nobody


class GlobalReply(Struct, frozen=True, array_like=True, tag=7):
    """OK, or what speaks against it."""

    session: str
    sender: str
    status: Status


class GlobalRenewal(Struct, frozen=True, array_like=True, tag=8):
    """The session goes on. Who knows nothing of it answers that it is done."""

    session: str
    sender: str


class GlobalDone(Struct, frozen=True, array_like=True, tag=9):
    """The session is over."""

    session: str
    sender: str
    why: str


# --- within a cluster -------------------------------------------------------------------------------


class Engage(Struct, frozen=True, array_like=True, tag=10):
    """Listen to the local PIEs of another cluster, too; said again as long as it holds."""

    sender: str
    cluster: str


class Disengage(Struct, frozen=True, array_like=True, tag=11):
    """No longer, and forget its brokers."""

    sender: str
    cluster: str


class GlobalWish(Struct, frozen=True, array_like=True, tag=12):
    """An overloaded edge-broker has found nobody: the global load balancing request."""

    sender: str


Control: TypeAlias = (
    BalanceRequest
    | BalanceReply
    | Migrating
    | Withdrawn
    | Done
    | GlobalRequest
    | GlobalReply
    | GlobalRenewal
    | GlobalDone
    | Engage
    | Disengage
    | GlobalWish
)
# Sends one to a broker.
Post: TypeAlias = Callable[[str, Control], None]

_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def said(kind: str, **values: str) -> Filter:
    """The events of a class, with these values."""
    named = {"class": kind, **values}
    return Filter([Predicate(name, Operator.EQ, value) for name, value in named.items()])


def post_with(around: Surroundings) -> Post:
    """What sends a message, from this broker."""

    def post(broker: str, message: Control) -> None:
        body = msgspec.msgpack.encode(message)
        around.publish({"class": LB_CONTROL, "brokerID": broker}, body)

    return post


def read_control(publication: Publication) -> Control:
    """The message in an event; RemoteProtocolError if there is none."""
    try:
        return _decoder.decode(publication.payload)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"{publication.id} of {LB_CONTROL}: {error}") from None
