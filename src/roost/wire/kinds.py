"""The kinds of parcel, their tags, and the types that msgspec checks them against.

Everything about a kind but its tag follows from its class in `roost.broker.messages`: the items of a body are
the fields of the class in their order. Types of the language that msgspec doesn't know travel as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct

from roost.broker.messages import (
    CONTROL,
    DATA,
    Ack,
    Advertise,
    Answer,
    Arrived,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Done,
    DrainEcho,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    Inquiry,
    LinkHello,
    Locate,
    Located,
    Login,
    Marker,
    MarkerEcho,
    Members,
    Message,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    PausePlease,
    Ping,
    Pong,
    Priority,
    Probe,
    Probed,
    Publication,
    Redirect,
    Refused,
    Rewire,
    SessionEnded,
    Settle,
    Settled,
    Span,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)
from roost.language import (
    Advertisement,
    Event,
    Subscription,
    parse_advertisement,
    parse_subscription,
)
from roost.language.event import ATTRIBUTES_MAX
from roost.language.values import INT_MAX, INT_MIN, STRING_LENGTH_MAX
from roost.wire.limits import Limits

# A tag is one byte on the wire, and is never given to another kind.
UNNUMBERED_TAGS: Final[dict[type[Parcel], int]] = {
    Ack: 1,
    LinkHello: 2,
    Attach: 3,
    Attached: 4,
    AttachRefused: 5,
    Login: 6,
    Ping: 7,
    Pong: 8,
    Locate: 9,
    Located: 10,
}
# Fields at the end that came later than the kind itself, so many each time: left out, the last to come first,
# where they have nothing to say.
LATER: Final[dict[type[Struct], tuple[int, ...]]] = {
    Attach: (2, 1, 2),
    Attached: (2, 1, 3),
    AttachRefused: (1,),
    LinkHello: (9, 1, 3),
    Marker: (1,),
    MarkerEcho: (1, 1),
    DrainEcho: (1,),
    Members: (1,),
    HandOver: (1,),
    Settle: (1,),
    Settled: (1,),
    Publication: (1,),
}
# A frame has the tag of the message in it.
MESSAGE_TAGS: Final[dict[type[Message], int]] = {
    Publication: 16,
    Delivery: 17,
    Advertise: 18,
    Unadvertise: 19,
    Subscribe: 20,
    Unsubscribe: 21,
    Marker: 22,
    MarkerEcho: 23,
    SessionEnded: 25,
    Redirect: 26,
    Refused: 27,
    Dropped: 28,
    Settle: 29,
    Settled: 30,
    MigrationUpdate: 31,
    MigrationComplete: 32,
    Migrate: 33,
    Migrated: 34,
    MigrationFailed: 35,
    PausePlease: 36,
    Paused: 37,
    HandOver: 38,
    DrainEcho: 39,
    EndSession: 40,  # was 24, when it said more
    Note: 41,
    Probe: 42,
    Probed: 43,
    Inquiry: 44,
    Wants: 45,
    Answer: 46,
    Arrived: 48,
    Members: 47,
    Rewire: 49,
    Done: 50,
}
KINDS: Final[dict[int, type[Struct]]] = {
    tag: kind for tags in (UNNUMBERED_TAGS, MESSAGE_TAGS) for kind, tag in tags.items()
}

FRAME_ITEMS: Final = ("tag", "priority", "sequence", "hops")
# Its last field is the bytes of these.
PUBLICATION_ITEMS: Final = Publication.__struct_fields__[:-1]

# msgspec can't parse them; see `Decoder`.
PARSERS: Final[dict[object, Callable[[str], object]]] = {
    Subscription: parse_subscription,
    Advertisement: parse_advertisement,
}


class Text(NamedTuple):
    """A field that travels as text."""

    item: int  # counted behind the tag
    name: str
    parse: Callable[[str], object]


def items_of(kind: type[Struct]) -> tuple[str, ...]:
    """The names of the items of a body."""
    if kind is Publication:
        return (*FRAME_ITEMS, "publication")
    if kind is Delivery:
        return (*FRAME_ITEMS, "subscriptions", "publication")
    before = FRAME_ITEMS if kind in MESSAGE_TAGS else FRAME_ITEMS[:1]
    return (*before, *kind.__struct_fields__)


def texts_of(kind: type[Struct]) -> tuple[Text, ...]:
    """The fields that are to be parsed."""
    hints = get_type_hints(kind)
    return tuple(
        Text(item, name, PARSERS[hints[name]])
        for item, name in enumerate(items_of(kind)[1:])
        if hints.get(name) in PARSERS
    )


def wire_type(kind: type[Struct], tag: int, limits: Limits) -> Any:
    """What msgspec is to make of a body of this kind: a Struct of the items behind the tag."""
    hints = get_type_hints(kind) | get_type_hints(Frame) | {"publication": Raw}
    optional = 0 if kind is Publication else sum(LATER.get(kind, ()))  # its own part has them
    return _struct(kind.__name__, items_of(kind)[1:], hints, limits, tag, optional)


def publication_type(limits: Limits) -> Any:
    """What msgspec is to make of a publication's own part: a Struct of `PUBLICATION_ITEMS`."""
    hints, optional = get_type_hints(Publication), sum(LATER[Publication])
    return _struct("Publication", PUBLICATION_ITEMS, hints, limits, None, optional)


def _struct(
    name: str,
    items: Sequence[str],
    hints: Mapping[str, Any],
    limits: Limits,
    tag: int | None,
    optional: int = 0,
) -> type[Struct]:
    fields: list[Any] = [(item, _item_type(item, hints[item], limits)) for item in items]
    for place in range(len(items) - optional, len(items)):
        fields[place] += (hints[items[place]](),)  # without it: "" or 0
    return msgspec.defstruct(name, fields, array_like=True, forbid_unknown_fields=True, tag=tag)


def _item_type(name: str, hint: Any, limits: Limits) -> Any:
    """The type on the wire of an item of which its class says `hint`, with the limits in it."""
    if hint is str:
        length = limits.reason_length_max if name == "reason" else limits.name_length_max
        return _string(length)
    if hint is int:
        return Count
    if hint == tuple[Span, ...]:
        return GenericAlias(tuple, (GenericAlias(tuple, (Count, Count)), ...))
    if hint is bytes:
        return Annotated[bytes, Meta(max_length=limits.payload_bytes_max)]
    if hint is Event:
        return Attributes
    if hint in PARSERS:
        return _string(limits.filter_length_max)
    if hint == Priority:
        return Annotated[int, Meta(ge=CONTROL, le=DATA)]
    if hint == Mapping[str, str]:
        header = _string(limits.header_length_max)
        headers = GenericAlias(dict, (header, header))
        return Annotated[headers, Meta(max_length=limits.headers_max)]
    if hint == tuple[str, ...]:
        return GenericAlias(tuple, (_string(limits.name_length_max), ...))
    if hint == tuple[float, ...]:
        return hint
    # bool and float need no limits, and bytes of their own have theirs when they are read.
    assert hint in (bool, float, Raw), f"{name} is a {hint}, of which nothing says how it travels"
    return hint


def _string(length_max: int) -> Any:
    return Annotated[str, Meta(max_length=length_max)]


# The lengths of names are not in it: with them msgspec would make new names for each event instead of
# sharing them, and take half as long again. `Decoder` looks at the names.
# All of them are counts, or numbers of things counted.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=INT_MAX)]
Attributes: TypeAlias = Annotated[
    dict[
        str,
        bool
        | Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)]
        | float
        | Annotated[str, Meta(max_length=STRING_LENGTH_MAX)],
    ],
    Meta(max_length=ATTRIBUTES_MAX),
]
