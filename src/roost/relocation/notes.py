"""What relocation modules say to their like at a neighbour, as the bodies of notes.

Names are those of the paper: TRM, RRM and RAM are POP's (000 sections 3.1 and 3.2), TIR and TIA GRAPE's
(section 4.1). A body is one MessagePack array, so that what one broker adds to an answer is about 100 bytes.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from roost.broker.errors import RemoteProtocolError
from roost.broker.names import Address
from roost.relocation.history import History
from roost.relocation.pop import Request
from roost.relocation.statistics import Answer, Trace

# --- both -------------------------------------------------------------------------------------------


class Arriving(Struct, frozen=True, array_like=True, tag=1):
    """A client is about to move to the last broker of the path, which is to see what comes of it."""

    client: str
    path: tuple[str, ...]  # the brokers that it has still to pass
    decision: str
    predicted: dict[str, float]
    history: History = ()  # what GRAPE knows of it, if it publishes
    publishes_per_s: float = 0.0


# --- POP --------------------------------------------------------------------------------------------


class TraceResult(Struct, frozen=True, array_like=True, tag=2):
    """TRM: to how many subscribers a traced publication went, at this broker and behind it."""

    publisher: str
    sequence: int
    subscribers: int
    hops: int  # from this broker to theirs, over all of them


class RelocationRequest(Struct, frozen=True, array_like=True, tag=3):
    """RRM."""

    request: Request


class RelocationAnswer(Struct, frozen=True, array_like=True, tag=4):
    """RAM: goes back along the path of the request."""

    request: Request  # whose path begins with the chosen broker, as it does on the way
    address: Address  # of the chosen broker
    back: tuple[str, ...]  # the brokers that it has still to pass


# --- GRAPE ------------------------------------------------------------------------------------------


class LinkPing(Struct, frozen=True, array_like=True, tag=5):
    """To be answered at once."""

    at: float
    found_s: float  # the round trip that was found so far; negative: none


class LinkPong(Struct, frozen=True, array_like=True, tag=6):
    """The answer, with what the other one said."""

    at: float


class TraceInformationRequest(Struct, frozen=True, array_like=True, tag=7):
    """TIR: what became of this session? (Behind its last publication.)"""

    publisher: str
    first: int
    count: int


class TraceInformationAnswer(Struct, frozen=True, array_like=True, tag=8):
    """TIA: the statistics of this broker and of all behind it."""

    publisher: str
    first: int
    answers: tuple[Answer, ...]
    objection: str = ""  # why there are none


class SessionRequest(Struct, frozen=True, array_like=True, tag=9):
    """The broker of a subscriber asks that of a publisher for its last session; goes the way back."""

    publisher: str
    path: tuple[str, ...]  # the brokers that it has passed, the last first


class SessionAnswer(Struct, frozen=True, array_like=True, tag=10):
    """What that session was, for the broker at the end of the path."""

    publisher: str
    first: int
    broker: str  # where the publisher is
    trace: Trace
    answers: tuple[Answer, ...]
    path: tuple[str, ...]  # the brokers that it has still to pass


RelocationNote: TypeAlias = (
    Arriving
    | TraceResult
    | RelocationRequest
    | RelocationAnswer
    | LinkPing
    | LinkPong
    | TraceInformationRequest
    | TraceInformationAnswer
    | SessionRequest
    | SessionAnswer
)

_decoder: msgspec.msgpack.Decoder[RelocationNote] = msgspec.msgpack.Decoder(RelocationNote)
body_of = msgspec.msgpack.Encoder().encode


def read_note(neighbour: str, body: bytes) -> RelocationNote:
    """What a neighbour says; RemoteProtocolError if it is nothing that modules say."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise RemoteProtocolError(f"a note of {neighbour} can't be read: {error}") from None
