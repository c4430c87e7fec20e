"""How much a peer may ask us to read. What an event may hold is the language's own to say."""

from __future__ import annotations

from msgspec import Struct

from roost.language.values import INT_MAX


class Limits(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The largest that is taken; lengths of strings are in characters."""

    # The body of a frame, which is what its length prefix declares.
    frame_bytes_max: int = 1 << 20
    # A publication's own part. Less than a frame, so that the frame of a delivery, with the ids of
    # the subscriptions that it is for, has room for whatever was once taken.
    publication_bytes_max: int = (1 << 20) - (1 << 16)
    payload_bytes_max: int = 1 << 19
    headers_max: int = 64
    # The name or the value of a header.
    header_length_max: int = 4_096
    # Names of brokers and clients, ids, causes, content types.
    name_length_max: int = 1_024
    # The reason of a refusal or an end.
    reason_length_max: int = 16_384
    # A subscription or advertisement as text.
    filter_length_max: int = 1 << 18


DEFAULT_LIMITS = Limits()
# For what we wrote ourselves, under limits that may have been others.
NO_LIMITS = Limits(**dict.fromkeys(Limits.__struct_fields__, INT_MAX))
