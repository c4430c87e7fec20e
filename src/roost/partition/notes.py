"""What dispatchers and matchers tell each other, in notes.

Every note is one of these structures, as MessagePack. D is a dispatcher, M a matcher.

    Hello     M -> D   I begin, and know nothing: fill me
    Fill      D -> M   subscriptions of my clients, or their end; what I promise to tell you of from now on
    Asks      D -> M   which subscriptions does each of these events match?
    Answers   M -> D   of each: these (Found), or I can't say, ask somebody else (Bounced)
    Paces     M -> D   how busy my queues are
    Need      D -> D   who matches an event has to have heard this much of me
    Heard     D -> D   I know
    Known     D -> D   I have this table
    Tables    any      a table
    Pull      any      which table do you have?
    Join      M -> D   I am here, and have no segments
    Filled    M -> D   all dispatchers have filled me for all that this table says I am to have
    Leave     M -> D   I want to go
    Suspect   M -> D   I am sure that this matcher is gone
    Barrier   D -> D   tell me when all that is on the way now has come
    Passed    D -> D   it has: this is behind it
    Digest    M -> M   gossip
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from roost.language import Value
from roost.partition.dimensions import Dimension, Point
from roost.partition.forwarding import Pace
from roost.partition.gossip import Digest
from roost.partition.segments import Region, SegmentTable, SetKey

# Of a dispatcher: which of its lives, and how many changes of its subscriptions.
Mark: TypeAlias = tuple[str, int]


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    life: str


class Fill(Struct, frozen=True, array_like=True, tag="fill"):
    life: str  # of the matcher: what was for another one is void
    epoch: str  # of the dispatcher: a new one replaces all that came before, when its first promise comes
    number: int
    added: tuple[tuple[str, str], ...] = ()  # (id, subscription)
    removed: tuple[str, ...] = ()
    # All regions that are promised from now on, on these dimensions; None: as before.
    promised: tuple[Region, ...] | None = None
    dimensions: tuple[Dimension, ...] = ()


class Ask(Struct, frozen=True, array_like=True):
    request: str
    key: SetKey
    point: Point
    attributes: dict[str, Value]
    needs: dict[str, Mark]


class Found(Struct, frozen=True, array_like=True, tag="found"):
    request: str
    matches: dict[str, tuple[str, ...]]  # the dispatcher of its client -> ids


class Bounced(Struct, frozen=True, array_like=True, tag="bounced"):
    request: str
    reason: str


class Asks(Struct, frozen=True, array_like=True, tag="asks"):
    asks: tuple[Ask, ...]


class Answers(Struct, frozen=True, array_like=True, tag="answers"):
    answers: tuple[Found | Bounced, ...]


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


class Pull(Struct, frozen=True, array_like=True, tag="pull"):
    pass


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
    | Answers
    | Paces
    | Need
    | Heard
    | Known
    | Tables
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
BEHIND = (Asks, Answers, Barrier, Passed)

# Questions and answers go many in a note, but no more than fit: a frame has a bound.
BULK_BYTES = 100_000

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Said).decode
encode_table = msgspec.msgpack.Encoder().encode
decode_table = msgspec.msgpack.Decoder(SegmentTable).decode


def in_bulk(items: Sequence[Ask] | Sequence[Found | Bounced]) -> Iterator[tuple[Any, ...]]:
    """Parts that fit a note each, encoded: they stand in a note as what they say."""
    part: list[msgspec.Raw] = []
    size = 0
    for item in items:
        body = encode(item)
        if part and size + len(body) > BULK_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(msgspec.Raw(body))
        size += len(body)
    if part:
        yield tuple(part)
