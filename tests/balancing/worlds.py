"""Two brokers and the subscriptions of one of them, for tests of offloads: real filters, real events."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from roost.balancing import LoadReport, Spectrum, SubscriptionLoad
from roost.language import Event, Subscription, parse_subscription
from roost.optimising.bitvector import BitVector

# No sum of a few of these is a threshold: rounding decides nothing.
ODD = 0.9173205080756887
SUBSCRIPTION_BYTES = 1_000.0

TEXTS = (
    "class = 'STOCK'",
    "class = 'STOCK' and symbol = 'A'",
    "class = 'STOCK' and symbol = 'B'",
    "class = 'STOCK' and symbol = 'C'",
    "class = 'STOCK' and symbol = 'A' and volume > 3",
    "class = 'STOCK' and symbol = 'A' and volume > 6",
    "class = 'STOCK' and symbol = 'B' and volume > 5",
    "class = 'STOCK' and volume > 2",
    "class = 'STOCK' and volume > 7",
    "class = 'SPORTS'",
    "class = 'SPORTS' and volume < 4",
    "class = 'NEWS'",
)


class World(NamedTuple):
    """What a decision is given."""

    own: LoadReport
    other: LoadReport
    spectrum: Spectrum


def report(
    *,
    input_rate: float,
    subscriptions: int,
    slope_s: float,
    fixed_s: float = 0.0,
    delivery_s: float = 0.0,
    output_rate: float = 0.0,
    output_bytes_per_s: float = 0.0,
    output_total_bytes_per_s: float = 1e5,
    memory_total_bytes: float = 1e7,
    queues_bytes: float = 0.0,
    css: tuple[str, ...] = (),
    cpu_ratio: float | None = None,
    is_sure: bool = True,
) -> LoadReport:
    """A broker whose matching takes what it says, and whose processor does nothing else."""
    busy = input_rate * (fixed_s + slope_s * subscriptions) + delivery_s * output_rate
    return LoadReport(
        css=css,
        cpu_ratio=min(1.0, busy) if cpu_ratio is None else cpu_ratio,
        input_bytes_per_s=input_rate * 100,
        input_queue_bytes=queues_bytes,
        input_rate=input_rate,
        matching_slope_s=slope_s,
        memory_total_bytes=memory_total_bytes,
        output_total_bytes_per_s=output_total_bytes_per_s,
        subscriptions=subscriptions,
        output_bytes_per_s=output_bytes_per_s,
        output_queue_bytes=queues_bytes,
        matching_delay_s=busy / input_rate if input_rate else fixed_s + slope_s * subscriptions,
        input_ratio=busy,
        matching_memory_bytes=SUBSCRIPTION_BYTES * subscriptions,
        memory_slope_bytes=SUBSCRIPTION_BYTES,
        output_rate=output_rate,
        publication_s=fixed_s,
        delivery_s=delivery_s,
        is_sure=is_sure,
    )


def bits_of(subscriptions: list[Subscription], samples: list[Event]) -> BitVector:
    """Which samples match any of these."""
    return BitVector(
        k for k, event in enumerate(samples) if any(s.matches(event) for s in subscriptions)
    )


events = st.builds(
    lambda class_, symbol, volume: Event({"class": class_, "symbol": symbol, "volume": volume}),
    st.sampled_from(["STOCK", "STOCK", "STOCK", "SPORTS"]),
    st.sampled_from(["A", "B", "C"]),
    st.integers(0, 9),
)


@st.composite
def worlds(draw: st.DrawFn, *, with_deliveries: bool = False) -> World:
    """Any two brokers; the offloading one has the subscriptions."""
    samples = draw(st.lists(events, min_size=1, max_size=12))
    wanted = draw(
        st.lists(
            st.lists(st.sampled_from(TEXTS), min_size=1, max_size=2, unique=True).map(sorted),
            min_size=1,
            max_size=7,
            unique_by=tuple,
        )
    )
    input_rate = draw(st.integers(1, 40)) * ODD
    loads = []
    client = 0
    for texts in wanted:
        interests = [parse_subscription(text) for text in texts]
        n = draw(st.integers(1, 6))
        loads.append(
            SubscriptionLoad(
                clients=tuple(f"S{client + k}" for k in range(n)),
                interests=tuple(interests),
                bits=bits_of(interests, samples).to_bytes(),
                message_bytes=draw(st.integers(100, 400)) * ODD,
                kept=draw(st.sampled_from([0, 0, 0, 1])),
            )
        )
        client += n
    css = draw(st.lists(st.sampled_from(TEXTS), max_size=2, unique=True))
    css_bits = bits_of([parse_subscription(text) for text in css], samples)
    kept = draw(st.lists(st.integers(0, len(samples) - 1), max_size=2))
    n = len(samples)
    counts = [BitVector.from_bytes(load.bits).count() for load in loads]
    rates = [input_rate * count / n for count in counts]
    output_rate = sum(r * len(load.clients) for r, load in zip(rates, loads, strict=True))
    sent = sum(
        r * len(load.clients) * load.message_bytes for r, load in zip(rates, loads, strict=True)
    )
    delivery_s = draw(st.integers(0, 20)) * 1e-4 * ODD if with_deliveries else 0.0
    own = report(
        input_rate=input_rate,
        subscriptions=sum(len(load.clients) * len(load.interests) for load in loads) + 3,
        slope_s=draw(st.integers(1, 60)) * 1e-4 * ODD,
        fixed_s=draw(st.sampled_from([0.0, 0.001])),
        delivery_s=delivery_s,
        output_rate=output_rate,
        output_bytes_per_s=sent,
        output_total_bytes_per_s=max(sent, 1.0) / (draw(st.integers(5, 100)) / 100) * ODD,
        memory_total_bytes=draw(st.integers(30, 300)) * 1e3 * ODD,
        queues_bytes=draw(st.sampled_from([0.0, 3_000.0])),
    )
    there = draw(st.integers(0, 30)) * ODD
    other = report(
        input_rate=there,
        subscriptions=draw(st.integers(1, 60)),
        slope_s=draw(st.integers(1, 60)) * 1e-4 * ODD,
        delivery_s=delivery_s,
        output_rate=there,
        output_bytes_per_s=there * 300 * ODD,
        output_total_bytes_per_s=draw(st.integers(4, 60)) * 1e3 * ODD,
        memory_total_bytes=draw(st.integers(30, 300)) * 1e3 * ODD,
        css=tuple(css),
    )
    spectrum = Spectrum(
        samples=n,
        input_rate=input_rate,
        loads=tuple(loads),
        css_bits=css_bits.to_bytes(),
        kept_bits=BitVector(kept).to_bytes(),
    )
    return World(own, other, spectrum)
