"""What modules of brokers next to each other say, as the bodies of notes: one MessagePack array each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from roost.broker.errors import RemoteProtocolError


class RoomRequest(Struct, frozen=True, array_like=True, tag=1):
    """To the anchor: may a neighbour of mine become yours?"""

    number: int  # of the attempt
    mover: str


class RoomAnswer(Struct, frozen=True, array_like=True, tag=2):
    """What speaks against it; "" for nothing, and then there is room for it for some time."""

    number: int
    objection: str


class Degree(Struct, frozen=True, array_like=True, tag=5):
    """To all neighbours: how many I have."""

    neighbours: int


class RoomReturned(Struct, frozen=True, array_like=True, tag=4):
    """To the anchor, which had said yes: nothing comes of it."""

    mover: str


class Rewarded(Struct, frozen=True, array_like=True, tag=3):
    """To the anchor, when it has the link: what was predicted, so that it sees what comes of it."""

    decision: str
    mover: str
    messages: int  # that passed the links of the three while the middle trained
    crossings: int  # of those links, by these messages
    saves: float  # of these crossings, as predicted
    load_per_s: float  # what is left of them a second


class Found(Struct, frozen=True, array_like=True, tag=6):
    """Back to the middle: what has been saved, where so much was predicted."""

    saves: float
    saved: float


OverlayNote: TypeAlias = RoomRequest | RoomAnswer | RoomReturned | Rewarded | Degree | Found
_decoder: msgspec.msgpack.Decoder[OverlayNote] = msgspec.msgpack.Decoder(OverlayNote)
body_of = msgspec.msgpack.encode


def read_overlay_note(neighbour: str, body: bytes) -> OverlayNote:
    """What a neighbour says; RemoteProtocolError if it is nothing that these modules say."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise RemoteProtocolError(f"a note of {neighbour} can't be read: {error}") from None
