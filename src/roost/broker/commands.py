"""What a machine wants done: the answers of `handle`. Who does it is the driver's business.

`Command` is any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from roost.broker.messages import Frame, Parcel, Publication
from roost.broker.runs import Run

StoreKey = tuple[str | int, ...]


class _Plain(Struct, frozen=True, gc=False):
    """Something for the driver to do."""


class Send(_Plain, frozen=True):
    """Put this on a connection. On one that is closed by now, nothing happens: it will be sent again."""

    connection: int
    parcel: Parcel


class Deliver(_Plain, frozen=True):
    """Put one publication on many connections of clients: to each its frame, with a `Delivery`."""

    publication: Publication
    frames: Sequence[tuple[int, Frame]]  # connection, frame


class SendRun(_Plain, frozen=True):
    """Put messages on a connection, as their bytes."""

    connection: int
    run: Run


class SetTimer(_Plain, frozen=True):
    """`TimerFired(name)` after so long; one of that name that runs is replaced."""

    name: str
    delay_s: float


class CancelTimer(_Plain, frozen=True):
    """Forget that timer; if it is not there, so much the better."""

    name: str


class OpenLink(_Plain, frozen=True):
    """Connect to a broker: `LinkOpened` or `LinkRefused`."""

    broker: str
    address: str = ""  # where it is found, for a driver that has not been told


class Close(_Plain, frozen=True):
    """Close a connection, after what was sent on it; the reason is for the peer and the log."""

    connection: int
    reason: str


class Persist(_Plain, frozen=True):
    """Write all of this to the store, or none of it: `Persisted(token)`. None deletes."""

    token: int
    writes: Mapping[StoreKey, Any]


class Fetch(_Plain, frozen=True):
    """Read messages of a lane that are in the store only: `Fetched`, with the records that have them."""

    key: StoreKey  # of the lane
    first: int
    count: int
    records: Sequence[StoreKey]


class PauseReading(_Plain, frozen=True):
    """Take no more data from this connection (control goes on) until `ResumeReading`.

    `briefly`: it is over within a second or two, and nobody waits for what the peer has to say meanwhile. It
    need not be read at all, so that what it sends is taken as it comes afterwards (`roost.chunks`).
    """

    connection: int
    briefly: bool = False


class ResumeReading(_Plain, frozen=True):
    """Go on."""

    connection: int


class Decision(Struct, frozen=True, gc=False):
    """What an optimiser chose, and why: the record that it leaves behind."""

    module: str
    kind: str  # what sort of decision, as the optimiser calls it
    subject: str  # who or what is to move
    choice: str
    acted: bool  # False: only observing
    evidence: Mapping[str, Any]  # what it knew
    predicted: Mapping[str, float]
    cause: str


class Record(_Plain, frozen=True):
    """Keep a decision in the trace."""

    decision: Decision


class Answered(_Plain, frozen=True):
    """What the optimisers that an operator has `Asked` say to it, by their names."""

    id: str
    answers: Mapping[str, Any]
    objections: Mapping[str, str]  # what is wrong with the arguments


class Rewired(_Plain, frozen=True):
    """A link has moved (see `rewiring`): the mover is a neighbour of the anchor now, not of the middle."""

    brokers: tuple[str, ...]  # the middle, the mover and the anchor


class Superseded(_Plain, frozen=True):
    """Somebody knows another node to speak for this broker, in a later epoch (see `epochs`)."""

    epoch: int


class Report(_Plain, frozen=True):
    """Something that operators may want to know, for the log; nobody acts on it."""

    level: str  # debug, info, warning or error
    what: str  # the kind of event, of a small and fixed set
    about: str  # whom it concerns: a neighbour, a session
    detail: str


# --- clients only -----------------------------------------------------------------------------------


class Hand(_Plain, frozen=True):
    """An event for the application."""

    publication: Publication
    subscriptions: tuple[str, ...]  # its names for what matched
    number: int  # of the delivery: for `Handled`


class Tell(_Plain, frozen=True):
    """News for the application: `attached`, `detached`, `refused`, `dropped`, `settled`, `ended`."""

    what: str
    about: str = ""
    reason: str = ""


Command: TypeAlias = (
    Send
    | Deliver
    | SendRun
    | SetTimer
    | CancelTimer
    | OpenLink
    | Close
    | Persist
    | Fetch
    | PauseReading
    | ResumeReading
    | Record
    | Answered
    | Rewired
    | Superseded
    | Report
    | Hand
    | Tell
)
