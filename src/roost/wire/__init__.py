"""Messages to and from bytes: what connections carry, and what stores keep. `codec` has the layout."""

from roost.wire.codec import (
    decode,
    delivery_head,
    delivery_sizes,
    encode,
    publication_bytes,
    size_of,
)
from roost.wire.errors import WireError
from roost.wire.limits import DEFAULT_LIMITS, Limits
from roost.wire.record import pack_record, unpack_record
from roost.wire.stream import PREFACE, WIRE_VERSION, StreamDecoder

__all__ = [
    "DEFAULT_LIMITS",
    "PREFACE",
    "WIRE_VERSION",
    "Limits",
    "StreamDecoder",
    "WireError",
    "decode",
    "delivery_head",
    "delivery_sizes",
    "encode",
    "pack_record",
    "publication_bytes",
    "size_of",
    "unpack_record",
]
