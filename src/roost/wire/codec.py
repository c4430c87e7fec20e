"""Parcels to bytes and back.

A *frame of bytes* is four bytes of length, big-endian, and a body of that length. The body is one MessagePack
array, whose first item is the tag of its kind (see `kinds`):

    Ack, greetings      [tag, field, ...]
    a message           [tag, priority, sequence, hops, field, ...]
    a publication       [tag, priority, sequence, hops, PUBLICATION]
    a delivery          [tag, priority, sequence, hops, [subscription id, ...], PUBLICATION]

    PUBLICATION         [publisher, sequence, {name: value, ...}, payload, content type, {header: value, ...},
                         published at, priority, traced]

Fields stand in the order of their class; subscriptions and advertisements are their readable text. An array
has just these items: another format is another version in the preface (see `stream`). Only fields that came
later than their kind (`kinds.LATER`) are left out, from the end, where they have nothing to say; so a peer
of the version before reads all that is meant for it. The reader takes any spelling that MessagePack has for a
number or a length. The writer takes the shortest, except that the sequence of a frame takes 5 bytes (9 from
2^32 on), so that the size of a frame doesn't depend on how long its link has been up. Of a name that stands
twice in a map, the last counts.

PUBLICATION is the same wherever a publication goes, and stands last. So it is encoded once and kept with it
(`Publication.encoded`), whoever forwards it puts other bytes in front of the same, and the size of a frame
around it is a sum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final

from msgspec import Struct, msgpack
from msgspec.structs import astuple, force_setattr

from roost.broker.messages import DATA, Delivery, Frame, Parcel, Publication
from roost.language import Advertisement, Event, Subscription
from roost.language.values import NAME_LENGTH_MAX
from roost.wire import kinds
from roost.wire.errors import WireError, refusal
from roost.wire.limits import DEFAULT_LIMITS, NO_LIMITS, Limits

# Length, mark of the array, tag, priority, mark of a uint32, sequence, hops.
_HEAD: Final = struct.Struct(">IBBBBIB")
_HEAD_SIZE: Final = _HEAD.size
PREFIX_SIZE: Final = 4
_FRAME_ITEMS: Final = len(kinds.FRAME_ITEMS)

# MessagePack's marks: of an array of up to 15 items (to which their number is added) and of numbers.
_ARRAY: Final = 0x90
_UINT32, _UINT64 = 0xCE, 0xCF
_UINT32_MAX: Final = 0xFFFF_FFFF
_FIXINT_MAX: Final = 0x7F  # up to here a number is its own mark
_FIXSTR_MAX: Final = 31  # up to here the mark of a string holds its length

_pack_head = _HEAD.pack
_pack_uint32 = struct.Struct(">BI").pack
_pack_uint64 = struct.Struct(">BQ").pack

_PUBLICATION: Final = kinds.MESSAGE_TAGS[Publication]
_DELIVERY: Final = kinds.MESSAGE_TAGS[Delivery]
_PUBLICATION_MARK: Final = _ARRAY + _FRAME_ITEMS + 1
_DELIVERY_MARK: Final = _ARRAY + _FRAME_ITEMS + 2
_FIXSTR: Final = 0xA0

# The usual head again, without the length, and behind it the marks of the ids of a delivery and the first.
_BODY_HEAD_SIZE: Final = _HEAD_SIZE - PREFIX_SIZE
_read_head = struct.Struct(">BBBBIBBB").unpack_from
_FAST_SIZE: Final = _BODY_HEAD_SIZE + 2
_new_event = Event.__new__

# ValueError: msgspec's own errors, those of the language, and strings that are or have no UTF-8.
_UNREADABLE: Final = (ValueError, RecursionError)
_UNWRITABLE: Final = (ValueError, TypeError, OverflowError, RecursionError, struct.error)


def _written(value: object) -> object:
    """What stands on the wire for a value that msgspec doesn't know."""
    if isinstance(value, Subscription | Advertisement):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"found {type(value).__name__}, which has no form on the wire")


_encode = msgpack.Encoder(enc_hook=_written).encode


def encode(parcel: Parcel) -> bytes:
    """The parcel as bytes, with its length in front; WireError if it holds what the wire can't say."""
    try:
        if type(parcel) is Frame:
            return _encode_frame(parcel)
        tag = _tag(kinds.UNNUMBERED_TAGS, parcel)
        body = _encode((tag, *_fields(parcel)))
        return len(body).to_bytes(PREFIX_SIZE, "big") + body
    except _UNWRITABLE as error:
        raise WireError(f"{type(parcel).__name__} can't be written: {error}") from error


def publication_bytes(publication: Publication) -> bytes:
    """The publication's own part, the same in every frame; made once and kept in `encoded`."""
    encoded = publication.encoded
    if not encoded:
        try:
            items = (
                publication.publisher,
                publication.sequence,
                publication.event.attributes,
                publication.payload,
                publication.content_type,
                publication.headers,
                publication.published_at,
                publication.priority,
            )
            encoded = _encode((*items, True) if publication.traced else items)
        except _UNWRITABLE as error:
            raise WireError(f"Publication can't be written: {error}") from error
        force_setattr(publication, "encoded", encoded)
    return encoded


def size_of(parcel: Parcel) -> int:
    """How many bytes `encode` gives."""
    if type(parcel) is Frame:
        message = parcel.message
        if type(message) is Publication:
            size = len(message.encoded or publication_bytes(message))
            return _head_size(parcel.sequence, parcel.hops) + size
        if type(message) is Delivery:
            size = len(message.publication.encoded or publication_bytes(message.publication))
            return (
                _head_size(parcel.sequence, parcel.hops) + _ids_size(message.subscriptions) + size
            )
    return len(encode(parcel))


def delivery_sizes(publication: Publication, frames: Iterable[tuple[int, Frame]]) -> list[int]:
    """The same for the frames of one `Deliver`: what they have in common is measured once."""
    body = len(publication.encoded or publication_bytes(publication))
    usual = body + _HEAD_SIZE
    sizes = []
    for _, frame in frames:
        ids = frame.message.subscriptions  # type: ignore[attr-defined]  # they are deliveries
        if len(ids) == 1 and len(ids[0]) <= _FIXSTR_MAX and ids[0].isascii():
            size = usual + len(ids[0]) + 2
        else:
            size = usual + _ids_size(ids)
        if frame.sequence > _UINT32_MAX or frame.hops > _FIXINT_MAX:
            size += _head_size(frame.sequence, frame.hops) - _HEAD_SIZE
        sizes.append(size)
    return sizes


def decode(body: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> Parcel:
    """The parcel of a body (the length in front is `StreamDecoder`'s); WireError if it is none."""
    return decoder_for(limits).decode(body)


def publication_of(own: bytes) -> Publication:
    """The publication whose own part that is; of what we have read before, or written ourselves."""
    return decoder_for(NO_LIMITS).publication(own, own)


def _ids_size(subscriptions: tuple[str, ...]) -> int:
    """How many bytes the ids of subscriptions take: mostly one, and short."""
    if len(subscriptions) == 1:
        (only,) = subscriptions
        if only.isascii() and len(only) <= _FIXSTR_MAX:
            return len(only) + 2
    return len(_encode(subscriptions))


# --- writing --------------------------------------------------------------------------------------


def delivery_head(frame: Frame, body_size: int) -> bytes:
    """What stands in front of the publication's own part in the frame of a delivery.

    With `publication_bytes` behind it, the same as `encode`, for whoever writes one publication to many.
    """
    sequence, hops = frame.sequence, frame.hops
    subscriptions = frame.message.subscriptions  # type: ignore[attr-defined]  # it is a delivery
    ids = _ids.get(subscriptions)
    if ids is None:
        ids = _encode(subscriptions)
        if len(ids) <= _IDS_BYTES_MAX:
            if len(_ids) >= _IDS_MAX:
                _ids.clear()
            _ids[subscriptions] = ids
    if sequence <= _UINT32_MAX and hops <= _FIXINT_MAX:
        length = _HEAD_SIZE - PREFIX_SIZE + len(ids) + body_size
        return _pack_head(length, _DELIVERY_MARK, _DELIVERY, DATA, _UINT32, sequence, hops) + ids
    head = bytes((_DELIVERY_MARK, _DELIVERY, frame.priority)) + _wide(sequence, hops) + ids
    return (len(head) + body_size).to_bytes(PREFIX_SIZE, "big") + head


# The bytes of ids that were written before: mostly one, of a client that gets many events for it.
_ids: dict[tuple[str, ...], bytes] = {}
_IDS_MAX: Final = 65_536
_IDS_BYTES_MAX: Final = 256


def _encode_frame(frame: Frame) -> bytes:
    message = frame.message
    if type(message) is Publication:
        items, tag = 1, _PUBLICATION
        rest = message.encoded or publication_bytes(message)
    elif type(message) is Delivery:
        items, tag = 2, _DELIVERY
        rest = _encode(message.subscriptions) + publication_bytes(message.publication)
    else:
        tag = _tag(kinds.MESSAGE_TAGS, message)
        fields = _fields(message)
        items = len(fields)
        # They go into the array of the frame, so without the mark of their own.
        rest = _encode(fields)[1:]
    sequence, hops = frame.sequence, frame.hops
    if sequence <= _UINT32_MAX and hops <= _FIXINT_MAX:
        length = _HEAD_SIZE - PREFIX_SIZE + len(rest)
        mark = _ARRAY + _FRAME_ITEMS + items
        return _pack_head(length, mark, tag, frame.priority, _UINT32, sequence, hops) + rest
    head = bytes((_ARRAY + _FRAME_ITEMS + items, tag, frame.priority)) + _wide(sequence, hops)
    return (len(head) + len(rest)).to_bytes(PREFIX_SIZE, "big") + head + rest


def _fields(value: Struct) -> tuple[Any, ...]:
    """Without those at the end that came later than their kind and have nothing to say."""
    fields = astuple(value)
    for count in reversed(kinds.LATER.get(type(value), ())):
        if any(fields[-count:]):
            break
        fields = fields[:-count]
    return fields


def _tag(tags: Mapping[type[Any], int], value: object) -> int:
    tag = tags.get(type(value))
    if tag is None:
        raise TypeError(f"found {type(value).__name__}, which has no tag")
    return tag


def _wide(sequence: int, hops: int) -> bytes:
    """The two numbers of a frame, if the usual head has no room for one of them."""
    number = (
        _pack_uint64(_UINT64, sequence)
        if sequence > _UINT32_MAX
        else _pack_uint32(_UINT32, sequence)
    )
    return number + _encode(hops)


def _head_size(sequence: int, hops: int) -> int:
    """How many bytes stand in front of a message's own items."""
    if sequence <= _UINT32_MAX and hops <= _FIXINT_MAX:
        return _HEAD_SIZE
    return PREFIX_SIZE + 3 + len(_wide(sequence, hops))


# --- reading --------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def decoder_for(limits: Limits) -> Decoder:
    """The decoder of these limits; making one takes milliseconds."""
    return Decoder(limits)


class Decoder:
    """Reads bodies, within limits."""

    def __init__(self, limits: Limits) -> None:
        types = {kind: kinds.wire_type(kind, tag, limits) for tag, kind in kinds.KINDS.items()}
        # The tags tell them apart.
        self._read = msgpack.Decoder(reduce(or_, types.values())).decode
        self._publication_frame = types[Publication]
        self._delivery_frame = types[Delivery]
        self._unnumbered = {types[kind]: kind for kind in kinds.UNNUMBERED_TAGS}
        self._messages = {types[kind]: (kind, kinds.texts_of(kind)) for kind in kinds.MESSAGE_TAGS}
        self._read_publication = msgpack.Decoder(kinds.publication_type(limits)).decode
        self._publication_bytes_max = limits.publication_bytes_max
        self._short_id_max = min(_FIXSTR_MAX, limits.name_length_max)
        self._ids: dict[bytes, tuple[str, ...]] = {}

    def decode(self, body: bytes | memoryview) -> Parcel:
        """The parcel of a body; WireError, and nothing else, if it is none."""
        if len(body) > _FAST_SIZE:
            # Most bodies are of publications and deliveries, in our own spelling: read off, in a fifth of
            # the time. Any other spelling takes the long way, to the same end.
            mark, tag, priority, number, sequence, hops, ids, id_mark = _read_head(body)
            if number == _UINT32 and hops <= _FIXINT_MAX and priority <= DATA:
                if tag == _PUBLICATION and mark == _PUBLICATION_MARK:
                    publication = self.publication(body[_BODY_HEAD_SIZE:], body)
                    return Frame(priority, sequence, publication, hops)
                if tag == _DELIVERY and mark == _DELIVERY_MARK and ids == _ARRAY + 1:
                    length = id_mark - _FIXSTR
                    if 0 <= length <= self._short_id_max:
                        stop = _FAST_SIZE + length
                        id_ = self._id(body[_FAST_SIZE:stop])
                        if id_ is not None:
                            publication = self.publication(body[stop:], body)
                            return Frame(priority, sequence, Delivery(publication, id_), hops)
        try:
            wire: Any = self._read(body)
        except _UNREADABLE as error:
            raise _refusal(error, bytes(body)) from error
        wire_type = type(wire)
        if wire_type is self._publication_frame:
            publication = self.publication(bytes(wire.publication), body)
            return Frame(wire.priority, wire.sequence, publication, wire.hops)
        if wire_type is self._delivery_frame:
            publication = self.publication(bytes(wire.publication), body)
            delivery = Delivery(publication, wire.subscriptions)
            return Frame(wire.priority, wire.sequence, delivery, wire.hops)
        if wire_type in self._unnumbered:
            return self._unnumbered[wire_type](*astuple(wire))
        kind, texts = self._messages[wire_type]
        items = list(astuple(wire))
        for text in texts:
            items[text.item] = _parse(text, items[text.item], kind)
        priority, sequence, hops, *fields = items
        return Frame(priority, sequence, kind(*fields), hops)

    def _id(self, raw: bytes | memoryview) -> tuple[str, ...] | None:
        """The id of the one subscription that a delivery is for, seen before more often than not."""
        ids = self._ids.get(raw)  # type: ignore[arg-type]
        if ids is None:
            try:
                ids = (str(raw, "utf-8"),)
            except UnicodeDecodeError:
                return None
            if len(self._ids) >= _IDS_MAX:
                self._ids.clear()
            self._ids[bytes(raw)] = ids
        return ids

    def publication(self, raw: bytes | memoryview, body: bytes | memoryview) -> Publication:
        """A publication's own part, which stands at the end of a body."""
        raw = bytes(raw)
        if len(raw) > self._publication_bytes_max:
            raise WireError(
                f"Publication: {len(raw):,} bytes; at most {self._publication_bytes_max:,} are allowed",
                field="Publication",
            )
        try:
            wire: Any = self._read_publication(raw)
        except _UNREADABLE as error:
            offset = len(body) - len(raw)
            raise refusal(error, "Publication", kinds.PUBLICATION_ITEMS, raw, offset) from error
        attributes = wire.event
        # msgspec doesn't check the names (see `kinds`). An attribute takes 3 bytes or more, so in few bytes
        # there is no room for a long name; and names that are short together are joined quicker than
        # measured.
        if "" in attributes or (
            len(raw) > NAME_LENGTH_MAX + 3 * len(attributes)
            and len("".join(attributes)) > NAME_LENGTH_MAX
            and max(map(len, attributes)) > NAME_LENGTH_MAX
        ):
            raise WireError(
                "Publication.event: an attribute name is empty or too long;"
                f" expected 1 to {NAME_LENGTH_MAX} characters",
                field="Publication.event",
            )
        event = _new_event(Event)
        event.attributes = attributes
        return Publication(
            wire.publisher,
            wire.sequence,
            event,
            wire.payload,
            wire.content_type,
            wire.headers,
            wire.published_at,
            wire.priority,
            wire.traced,
            raw,
        )


def _parse(text: kinds.Text, value: str, kind: type[Struct]) -> object:
    try:
        return text.parse(value)
    except _UNREADABLE as error:
        field = f"{kind.__name__}.{text.name}"
        raise WireError(f"{field}: {error}", field=field) from error


def _refusal(error: Exception, body: bytes) -> WireError:
    """What is wrong with a body, in the words of the kind that it would be."""
    # Any encoder writes the array and the tag so; for others the kind has no name.
    tag = body[1] if len(body) > 1 and body[0] & 0xF0 == _ARRAY else 0
    kind = kinds.KINDS.get(tag)
    if kind is not None:
        return refusal(error, kind.__name__, kinds.items_of(kind), body)
    found = refusal(error, "parcel", kinds.FRAME_ITEMS[:1], body)
    if found.field != "parcel.tag":
        return found
    tags = ", ".join(map(str, kinds.KINDS))
    return WireError(f"{found}; expected one of {tags}", field=found.field, offset=1)
