"""How much a peer may ask us to read. What an event may hold is the language's own to say."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from roost.language.values import INT_MAX
from roost.settings import Count, Positive, why

FrameBytes = Annotated[int, Meta(ge=1, le=(1 << 32) - 1)]  # a frame's length has 32 bits


class Limits(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The largest that is taken; lengths of strings are in characters."""

    frame_bytes_max: Annotated[
        FrameBytes,
        why("The body of a frame. Neighbours need the same, or they refuse each other's."),
    ] = 1 << 20
    publication_bytes_max: Annotated[
        FrameBytes,
        why(
            "An event with its payload. Less than a frame, which has to hold the ids of the subscriptions"
            " that a delivery is for as well."
        ),
    ] = (1 << 20) - (1 << 16)
    payload_bytes_max: Annotated[Count, why("The payload of an event.")] = 1 << 19
    headers_max: Annotated[Count, why("Headers of an event.")] = 64
    header_length_max: Annotated[
        Positive, why("Characters in the name or the value of a header.")
    ] = 4_096
    name_length_max: Annotated[
        Positive, why("Characters in names of brokers and clients, ids, causes, content types.")
    ] = 1_024
    reason_length_max: Annotated[
        Positive, why("Characters in the reason of a refusal or an end.")
    ] = 16_384
    filter_length_max: Annotated[
        Positive, why("Characters in a subscription or an advertisement, as text.")
    ] = 1 << 18


DEFAULT_LIMITS = Limits()
# For what we wrote ourselves, under limits that may have been others.
NO_LIMITS = Limits(**dict.fromkeys(Limits.__struct_fields__, INT_MAX))
