"""Values to bytes and back for a store.

A record is one MessagePack value. Scalars and lists are MessagePack's own; for what it doesn't have there
are extensions. What a connection can carry is stored as its body on the wire: there is one format
to keep and one set of checks, and a publication is encoded neither to be stored nor after it was loaded.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from msgspec import msgpack

from roost.broker.messages import CONTROL, Delivery, Frame, Message, Parcel, Publication
from roost.broker.runs import Run
from roost.language import Advertisement, Subscription, parse_advertisement, parse_subscription
from roost.wire import kinds
from roost.wire.codec import PREFIX_SIZE, decoder_for, encode, publication_bytes
from roost.wire.errors import WireError
from roost.wire.limits import NO_LIMITS
from roost.wire.runs import AS_SENT

# The codes of extensions, and what stands in them.
_TUPLE: Final = 1  # the same as a list
_PARCEL: Final = 2  # its body
_MESSAGE: Final = 3  # the body of a frame around it
_SUBSCRIPTION: Final = 4  # its text
_ADVERTISEMENT: Final = 5  # its text
_RUN: Final = 6  # the numbers of its first and last message, and their bytes

_SCALARS: Final = frozenset((str, int, float, bool, bytes, type(None)))

_pack = msgpack.Encoder().encode

# (publication, hops) and (delivery, hops) begin with the mark of an extension, its length, its code and the
# mark of its list of two; then the same for the message, whose code is followed by the head of a frame.
_SENT: Final = struct.Struct(">BH3sH10s")
_EXT16: Final = 0xC8
_LIST_OF_TWO: Final = bytes((_TUPLE, 0x92, _EXT16))
# What the outer extension has beside the body: mark of the list; mark, length and code of the message; hops.
_AROUND_SIZE: Final = 6
_FRAME_HEAD_SIZE: Final = 9
_FIXINTS: Final = tuple(bytes((number,)) for number in range(0x80))


def _sent_head(kind: type[Message], items: int) -> bytes:
    """The code of a message and the head of a frame, with no number in it, as `encode` writes it."""
    mark = 0x90 + len(kinds.FRAME_ITEMS) + items
    return bytes((_MESSAGE, mark, kinds.MESSAGE_TAGS[kind], CONTROL, 0xCE, 0, 0, 0, 0, 0))


_PUBLICATION: Final = _sent_head(Publication, 1)
_DELIVERY: Final = _sent_head(Delivery, 2)
_pack_head = _SENT.pack


def pack_record(value: object) -> bytes:
    """The value as bytes; WireError if it holds anything that a record can't."""
    try:
        if type(value) is tuple and len(value) == 2 and type(value[1]) is int:
            sent = _pack_sent(*value)
            if sent is not None:
                return sent
        return _pack(_packable(value))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"a record can't be written: {error}") from error


def unpack_record(record: bytes) -> Any:
    """The value that was packed; WireError if the bytes are no record."""
    try:
        return _unpack(record)
    # TypeError: a map with keys that Python's have not. MemoryError: lists inside each other that
    # declare to be long.
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise WireError(f"a record can't be read: {error}") from error


def _pack_sent(message: object, hops: int) -> bytes | None:
    """A short way for what is stored most: an event that is sent. None: it is not that simple.

    What it gives means the same as what the long way does, and takes a third of the time.
    """
    if type(message) is Publication:
        head, body = _PUBLICATION, message.encoded or publication_bytes(message)
    elif type(message) is Delivery:
        head = _DELIVERY
        body = _pack(message.subscriptions) + publication_bytes(message.publication)
    else:
        return None
    size = _FRAME_HEAD_SIZE + len(body)
    if size + _AROUND_SIZE > 0xFFFF or not 0 <= hops < len(_FIXINTS):
        return None
    head = _pack_head(_EXT16, size + _AROUND_SIZE, _LIST_OF_TWO, size, head)
    return head + body + _FIXINTS[hops]


def _packable(value: object) -> object:
    """The value in terms of what msgspec writes as we want it."""
    if type(value) in _SCALARS:
        return value
    if type(value) is list:
        return [_packable(item) for item in value]
    if type(value) is tuple:
        return msgpack.Ext(_TUPLE, _pack([_packable(item) for item in value]))
    if isinstance(value, Message):
        return msgpack.Ext(_MESSAGE, encode(Frame(CONTROL, 0, value))[PREFIX_SIZE:])
    if isinstance(value, Parcel):
        return msgpack.Ext(_PARCEL, encode(value)[PREFIX_SIZE:])
    if isinstance(value, Subscription):
        return msgpack.Ext(_SUBSCRIPTION, str(value).encode())
    if isinstance(value, Advertisement):
        return msgpack.Ext(_ADVERTISEMENT, str(value).encode())
    if type(value) is Run:
        return msgpack.Ext(_RUN, _pack((value.first, value.last, value.data)))
    raise WireError(f"a record can't be written: it holds a {type(value).__name__}")


def _extension(code: int, data: memoryview) -> object:
    if code == _TUPLE:
        return tuple(_unpack_list(data))
    if code == _PARCEL:
        return decoder_for(NO_LIMITS).decode(data)
    if code == _MESSAGE and isinstance(frame := decoder_for(NO_LIMITS).decode(data), Frame):
        return frame.message
    if code == _SUBSCRIPTION:
        return parse_subscription(str(data, "utf-8"))
    if code == _ADVERTISEMENT:
        return parse_advertisement(str(data, "utf-8"))
    if code == _RUN:
        return Run(*_unpack_run(data), AS_SENT)
    raise WireError(f"a record can't be read: it has an extension {code} that says nothing")


_unpack = msgpack.Decoder(ext_hook=_extension).decode
_unpack_run = msgpack.Decoder(tuple[int, int, bytes]).decode
_unpack_list = msgpack.Decoder(list[Any], ext_hook=_extension).decode
