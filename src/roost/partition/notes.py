"""What dispatchers and matchers tell each other, in notes.

Every note is one of these structures, as MessagePack. D is a dispatcher, M a matcher.

    Hello     M -> D   I begin, and know nothing: fill me
    Fill      D -> M   subscriptions of my clients, or their end; what I promise to tell you of from now on
    Asks      D -> M   which subscriptions does each of these events match? Or: deliver them
    Found     M -> D   of each, or some: these
    Bounced   M -> D   of all, or some: I can't say, ask somebody else
    Paces     M -> D   how busy my queues are
    Need      D -> D   who matches an event has to have heard this much of me
    Heard     D -> D   I know
    Known     D -> D   I have this table
    Tables    any      a table
    Patch     D -> any what is new in the next table
    Pull      any      do you have a newer table than this?
    Join      M -> D   I am here, and have no segments
    Filled    M -> D   all dispatchers have filled me for all that this table says I am to have
    Leave     M -> D   I want to go
    Suspect   M -> D   I am sure that this matcher is gone
    Barrier   D -> D   tell me when all that is on the way now has come
    Passed    D -> D   it has: this is behind it
    Digest    M -> M   gossip
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from roost.partition.batch import CHARACTER_BYTES, Written
from roost.partition.dimensions import Dimension
from roost.partition.direct import Envelope
from roost.partition.forwarding import Pace
from roost.partition.gossip import Digest
from roost.partition.patches import Patch
from roost.partition.segments import Region, SegmentTable, SetKey

# Of a dispatcher: which of its lives, and how many changes of its subscriptions.
Mark: TypeAlias = tuple[str, int]


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    life: str


class Fill(Struct, frozen=True, array_like=True, tag="fill"):
    life: str  # of the matcher: what was for another one is void
    epoch: str  # of the dispatcher: a new one replaces all that came before, when its first promise comes
    number: int
    added: tuple[tuple[str, str, int], ...] = ()  # (id, subscription, slot)
    removed: tuple[str, ...] = ()
    # All regions that are promised from now on, on these dimensions; None: as before.
    promised: tuple[Region, ...] | None = None
    dimensions: tuple[Dimension, ...] = ()


class Asks(Struct, frozen=True, array_like=True, tag="asks"):
    life: str  # of the dispatcher: answers to an earlier one are void
    request: int
    key: SetKey
    needs: dict[str, Mark]
    events: Written
    # The same events whole, in place of columns: the matcher is to deliver them itself. See `direct`.
    whole: tuple[Envelope, ...] = ()


class Found(Struct, frozen=True, array_like=True, tag="found"):
    life: str
    request: int
    rows: tuple[int, ...] | None  # which of its events; None: all of them
    # Of the subscriptions of whoever asks, their slots, as an array of uint32; and where each event's end.
    ends: bytes
    slots: bytes
    # Of other dispatchers the ids, and where each event's end.
    others: dict[str, tuple[bytes, tuple[str, ...]]] = {}


class Bounced(Struct, frozen=True, array_like=True, tag="bounced"):
    life: str
    request: int
    rows: tuple[int, ...] | None
    reason: str


class Paces(Struct, frozen=True, array_like=True, tag="paces"):
    paces: tuple[tuple[SetKey, Pace], ...]
    busy: float  # the share of its time that it has been, of late


class Need(Struct, frozen=True, array_like=True, tag="need"):
    mark: Mark


class Heard(Struct, frozen=True, array_like=True, tag="heard"):
    mark: Mark


class Known(Struct, frozen=True, array_like=True, tag="known"):
    version: int
    writer: str


class Tables(Struct, frozen=True, array_like=True, tag="table"):
    table: SegmentTable
    space: str = ""  # between matchers; a dispatcher has one space only


class Pull(Struct, frozen=True, array_like=True, tag="pull"):
    stamp: tuple[int, str]  # of the one that is there
    space: str = ""


class Join(Struct, frozen=True, array_like=True, tag="join"):
    pass


class Filled(Struct, frozen=True, array_like=True, tag="filled"):
    version: int
    writer: str


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    pass


class Suspect(Struct, frozen=True, array_like=True, tag="suspect"):
    matcher: str


class Barrier(Struct, frozen=True, array_like=True, tag="barrier"):
    id: str


class Passed(Struct, frozen=True, array_like=True, tag="passed"):
    id: str


Said: TypeAlias = (
    Hello
    | Fill
    | Asks
    | Found
    | Bounced
    | Paces
    | Need
    | Heard
    | Known
    | Tables
    | Patch
    | Pull
    | Join
    | Filled
    | Leave
    | Suspect
    | Barrier
    | Passed
    | Digest
)

# These travel with data, so that they keep their order with what they speak of.
BEHIND = (Asks, Found, Bounced, Barrier, Passed)

# Questions go many in a note: so many, ...
EVENTS_MAX = 256
# ... and no more than fit. A frame has a bound.
BULK_BYTES = 250_000

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Said).decode
encode_table = msgspec.msgpack.Encoder().encode
decode_table = msgspec.msgpack.Decoder(SegmentTable).decode


def size_of(found: Found) -> int:
    """About how many bytes it takes, and no fewer."""
    size = len(found.ends) + len(found.slots) + 9 * len(found.rows or ())
    for ends, ids in found.others.values():
        size += len(ends) + CHARACTER_BYTES * sum(map(len, ids)) + 5 * len(ids)
    return size
