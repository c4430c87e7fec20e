"""A broker that is to be emptied: who goes to a partner, and when it may stop.

An operator who takes a broker out wants its clients elsewhere first, and nobody overloaded by that. So a
drain is a chain of sessions like any other (`mediation`), with everybody who is willing, the least loaded
first; only the choice is another: all clients that the partner has room for, by the same estimates, until
one of its ratios is at the limit to which accepting brokers are filled. What would bring the partner
nothing new goes first.

Meanwhile the broker says BUSY, so that nobody sends it anything, and its neighbours know that it takes no
newcomers. Durable clients stay, as their sessions do: they are named in the answer."""

from __future__ import annotations

from roost.balancing.cards import LoadReport, Offload, Spectrum, SubscriptionLoad
from roost.balancing.estimation import (
    BrokerModel,
    additional_rate,
    like,
    model_of,
    publication_rate,
)
from roost.balancing.indices import Action, BrokerIndices
from roost.balancing.settings import BalancingConfig
from roost.optimising.bitvector import BitVector


def choose_drain(
    own: LoadReport, other: LoadReport, spectrum: Spectrum, config: BalancingConfig
) -> Offload:
    """As many clients as the partner has room for."""
    samples, rate = spectrum.samples, spectrum.input_rate
    model, css = model_of(like(other, own)), BitVector.from_bytes(spectrum.css_bits)
    own_model, limit = model_of(own), config.rules.accept_limit
    chosen: list[str] = []
    considered = 0

    def new_rate(load: SubscriptionLoad) -> float:
        return additional_rate(BitVector.from_bytes(load.bits), css, samples, rate)

    for load in sorted(spectrum.loads, key=new_rate):
        considered += 1
        bits = BitVector.from_bytes(load.bits)
        extra = additional_rate(bits, css, samples, rate)
        sent = publication_rate(bits, samples, rate)
        count = _room(model, load, extra, sent, limit)
        if not count:
            continue
        chosen += load.clients[:count]
        model = _with(model, load, count, extra, sent)
        own_model = _with(own_model, load, -count, 0.0, sent)
        css = css | bits
    left = sum(len(load.clients) for load in spectrum.loads) - len(chosen)
    return Offload(
        action=Action.INPUT,
        is_overloaded=False,
        clients=tuple(chosen),
        cards=(),
        considered=considered,
        ended="everybody has a place" if not left else f"no room for {left} clients",
        own=model_of(own).indices(),
        other=model_of(like(other, own)).indices(),
        own_predicted=own_model.indices(),
        other_predicted=model.indices(),
    )


def _with(
    model: BrokerModel, load: SubscriptionLoad, count: int, extra: float, sent: float
) -> BrokerModel:
    return model.changed(
        count * len(load.interests), extra, count * sent, count * sent * load.message_bytes
    )


def _room(
    model: BrokerModel, load: SubscriptionLoad, extra: float, sent: float, limit: float
) -> int:
    """How many of these clients the partner can have."""
    low, high = 0, len(load.clients)
    while low < high:
        middle = (low + high + 1) // 2
        if _busiest(_with(model, load, middle, extra, sent).indices()) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _busiest(indices: BrokerIndices) -> float:
    return max(indices.input_ratio, indices.output_ratio, indices.cpu_ratio, indices.memory_ratio)
