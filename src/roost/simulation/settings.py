"""The settings of a run: one documented place, checked once at the edge."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from roost.broker.registry import Order
from roost.broker.routers import check_router
from roost.errors import UserError
from roost.wire.limits import Limits

# What a value may be. `msgspec` checks it where text is converted; that it is finite, `settings_with`.
FromZero = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Optimiser = Annotated[str, Meta(pattern="^(none|pop|grape-(load|delay)(100|[1-9]?[0-9]))$")]
PayloadBytes = Annotated[int, Meta(ge=0, le=Limits().payload_bytes_max)]


class Settings(Struct, frozen=True, kw_only=True):
    """What `T federation set KEY VALUE` can say."""

    # How events find their way: advertisements flood and subscriptions follow them back (001 section
    # 2.1.3), or subscriptions flood (`flooding`), or by a router of one's own (`package.module:Class`).
    routing: str = "advertisement"
    # Subscriptions that are covered by others are not forwarded.
    covering: bool = True
    # The same for advertisements.
    advertisement_covering: bool = False
    # Brokers write what they accept to a store before they acknowledge it.
    durability: bool = False
    # How long a broker's store takes to commit.
    commit_ms: FromZero = 5.0
    # How long a broker remembers a client that is away, and its subscriptions.
    linger_s: FromZero = 60.0
    # How long what settles waits for a neighbour that is lost: longer than a word takes to cross the
    # federation.
    absence_grace_s: FromZero = 2.0
    # Whether clients ask when their subscriptions are in place. Off: whoever watches finds out, and it
    # costs no messages.
    asking: bool = False
    # How many messages may wait for a neighbour, before those that could add to them are read no further.
    link_outbox_max: Positive = 100_000
    # How many deliveries may wait for a client, and what becomes of one more: it is dropped, and the client
    # told how many were; or the session ends, and the client begins anew.
    session_outbox_max: Positive = 100_000
    session_outbox_policy: Literal["drop", "end"] = "end"
    # An acknowledgement waits this long for more to acknowledge.
    ack_delay_s: FromZero = 5.0
    # Between a client and its broker, one way.
    client_latency_ms: FromZero = 0.0
    # For links that name no latency, without a matrix; one way.
    link_latency_ms: FromZero = 0.0
    # The seed of the quotes that publishers publish, unless bars are given. Generators set it, because
    # they take the bounds of subscriptions from the same quotes.
    market_seed: Count = 0
    # Bytes of payload on top of the attributes of a quote.
    payload_bytes: PayloadBytes = 0
    # How often the load indices of a broker are taken.
    load_period_s: AboveZero = 10.0
    # Who moves clients: none, pop, or grape with its goal, as grape-load100 or grape-delay25 (000).
    optimiser: Optimiser = "none"
    # Publications of a publisher that are traced before it is decided for.
    traces: Positive = 100
    # Whether grape moves subscribers, too.
    moves_subscribers: bool = False
    # Whether a move has to pay for itself, and the client rests after it. Off: as in the paper.
    moves_must_pay: bool = True
    # How long nobody moves a client that was moved, whoever wants to.
    rest_s: FromZero = 0.0
    # Modules of one's own, in every broker: `T federation optimiser ...` says them.
    modules: tuple[Order, ...] = ()


def settings_with(settings: Settings, key: str, value: str) -> Settings:
    """The settings with one of them changed, from text; UserError says what can be set."""
    if key not in FIELDS:
        raise UserError(f"unknown setting {key!r}; there are {', '.join(FIELDS)}")
    text: object = WORDS.get(value, value)
    try:
        converted = msgspec.convert(text, FIELDS[key], strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"setting {key}: {value!r} will not do: {error}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise UserError(f"setting {key}: {value!r} will not do: Expected a finite number")
    if key == "routing":
        check_router(str(converted))  # or it says what there is
    return msgspec.structs.replace(settings, **{key: converted})


def settings_changed(settings: Settings) -> dict[str, str]:
    """What differs from the defaults, as the text that `settings_with` reads."""
    default = Settings()
    return {
        key: _text(getattr(settings, key))
        for key in FIELDS
        if getattr(settings, key) != getattr(default, key)
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


WORDS = {"on": True, "off": False}
FIELDS = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if field.name != "modules"  # which has statements of its own
}
