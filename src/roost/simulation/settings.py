"""The settings of a run: one documented place, checked once at the edge."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from roost.broker.config import FederationSettings
from roost.broker.registry import ModuleOrder
from roost.broker.routers import check_router
from roost.errors import UserError
from roost.settings import Count, Positive, Seconds
from roost.simulation.optimisers import check_optimiser
from roost.wire.limits import Limits

# What a value may be. `msgspec` checks it where text is converted; that it is finite, `settings_with`.
FromZero = Annotated[float, Meta(ge=0)]
AboveZero = Annotated[float, Meta(gt=0)]
PayloadBytes = Annotated[int, Meta(ge=0, le=Limits().payload_bytes_max)]


class Settings(FederationSettings, frozen=True, kw_only=True):
    """What `T federation set KEY VALUE` can say: as live, and what there is only in the laboratory."""

    # Brokers write what they accept to a store before they acknowledge it.
    durability: bool = False
    # Each broker has a standby (`overlay.twin`), with durability on; and whether it goes on while that is
    # away, if a witness agrees.
    standbys: bool = False
    standbys_alone: bool = False
    # How long a broker's store takes to commit.
    commit_ms: FromZero = 5.0
    # Shorter than live: who is gone is noticed at once here, and a word is quick to cross the federation.
    absence_grace_s: Seconds = 2.0
    # Whether clients ask when their subscriptions are in place. Off: whoever watches finds out, and it
    # costs no messages.
    asking: bool = False
    # Whether brokers tell each other who is behind them, as they do live (`broker.membership`). Off: messages
    # between brokers are what experiments count.
    members: bool = False
    # Longer than live: messages between brokers are what experiments count.
    ack_delay_s: Seconds = 5.0
    # Between a client and its broker, one way.
    client_latency_ms: FromZero = 0.0
    # For links that name no latency, without a matrix; one way.
    link_latency_ms: FromZero = 0.0
    # The seed of the quotes that publishers publish, unless bars are given. Generators set it, because
    # they take the bounds of subscriptions from the same quotes.
    market_seed: Count = 0
    # Bytes of payload on top of the attributes of a quote.
    payload_bytes: PayloadBytes = 0
    # What a subscription takes a broker, its end, an advertisement and its end: in seconds times MHz, so 0.5
    # is half a millisecond at 1,000 MHz. In the thesis they take no time.
    subscribing_s_mhz: FromZero = 0.0
    unsubscribing_s_mhz: FromZero = 0.0
    advertising_s_mhz: FromZero = 0.0
    unadvertising_s_mhz: FromZero = 0.0
    # How often the load indices of a broker are taken.
    load_period_s: AboveZero = 10.0
    # Who rearranges things: none, pop, or grape with its goal, as grape-load100 or grape-delay25 (000); or
    # another module of Roost's by its name, with its defaults. Several, or with settings: see `modules`.
    optimiser: str = "none"
    # Publications of a publisher that are traced before it is decided for.
    traces: Positive = 100
    # Whether grape moves subscribers, too.
    moves_subscribers: bool = False
    # Whether a move has to pay for itself, and the client rests after it. Off: as in the paper.
    moves_must_pay: bool = True
    # How long nobody moves a client that was moved, whoever wants to. None: as in the papers.
    rest_s: Seconds = 0.0
    # Modules in every broker, those of one's own among them: `T federation optimiser ...` says them.
    modules: tuple[ModuleOrder, ...] = ()


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
    if key == "optimiser":
        check_optimiser(str(converted))
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
