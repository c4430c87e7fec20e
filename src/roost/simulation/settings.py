"""The settings of a run: one documented place, checked once at the edge."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from roost.errors import UserError


class Settings(Struct, frozen=True, kw_only=True):
    """What `T federation set KEY VALUE` can say."""

    # How events find their way: advertisements flood and subscriptions follow them back (001 section
    # 2.1.3), or subscriptions flood.
    routing: Literal["advertisement", "flooding"] = "advertisement"
    # Subscriptions that are covered by others are not forwarded.
    covering: bool = True
    # The same for advertisements.
    advertisement_covering: bool = False
    # Brokers write what they accept to a store before they acknowledge it.
    durability: bool = False
    # How long a broker's store takes to commit.
    commit_ms: float = 5.0
    # How long a broker remembers a client that is away, and its subscriptions.
    linger_s: float = 60.0
    # How many messages may wait for a neighbour, before those that could add to them are read no further.
    link_outbox_max: int = 100_000
    # An acknowledgement waits this long for more to acknowledge.
    ack_delay_s: float = 1.0
    # Between a client and its broker, one way.
    client_latency_ms: float = 0.0
    # For links that name no latency, without a matrix; one way.
    link_latency_ms: float = 0.0
    # The seed of the quotes that publishers publish, unless bars are given. Generators set it, because
    # they take the bounds of subscriptions from the same quotes.
    market_seed: int = 0
    # Bytes of payload on top of the attributes of a quote.
    payload_bytes: int = 0
    # How often the load indices of a broker are taken.
    load_period_s: float = 10.0


def settings_with(settings: Settings, key: str, value: str) -> Settings:
    """The settings with one of them changed, from text; UserError says what can be set."""
    fields = {field.name: field for field in msgspec.structs.fields(Settings)}
    if key not in fields:
        raise UserError(f"unknown setting {key!r}; there are {', '.join(fields)}")
    text: object = {"on": True, "off": False}.get(value, value)
    try:
        converted = msgspec.convert(text, fields[key].type, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"setting {key}: {value!r} will not do: {error}") from None
    return msgspec.structs.replace(settings, **{key: converted})
