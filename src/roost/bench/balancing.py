"""How long it takes to decide who is to move off a hot broker, and how that grows with the subscriptions.

A decision is one offload, from what PRESS has found and what both brokers report to the clients, with what
is predicted. Subscriptions are the thesis' (001 table 5.1, a quarter of them without traffic), at 40
publishers, with 50 samples. The accepting broker has nothing yet, and is twice as capable; capacities grow
with the subscriptions, so that about two thirds of them move, however many they are. The baseline is the
thesis' pseudocode as printed, where it ends in reasonable time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roost.balancing import (
    Action,
    BalancingConfig,
    LoadReport,
    Offload,
    Spectrum,
    SubscriptionLoad,
    SubscriptionPoset,
    choose,
)
from roost.balancing.offload.literal import choose_literally
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import BUDGET_S, Say, durations_us, percentile, silent, steady_memory
from roost.language import Event
from roost.optimising.bitvector import BitVector
from roost.simulation.generators.parts import draws, market_of
from roost.simulation.generators.thesis import ThesisSubscriptions

SIZES = (300, 1_000, 3_000)
# Twice the subscriptions, eight times the time.
LITERAL_MAX = 300
PUBLISHERS, SAMPLES, RATE = 40, 50, 20.0
ZERO_TRAFFIC = 0.25
MESSAGE_BYTES = 300.0
# Of the offloading broker, for each subscription: seconds times MHz, and what 2,000 of them have.
ENTRY_S_MHZ = 1 / 60
CAPACITY_MHZ, CAPACITY_BYTES_PER_S, CAPACITY_OF = 500.0, 5e6 / 8, 2_000
ROUNDS_MIN, ROUNDS_MAX = 3, 100
CONFIG = BalancingConfig(profile="thesis")


def spectrum_of(subscriptions: int, seed: int) -> Spectrum:
    """What PRESS would have found among so many of the thesis' subscribers."""
    market = market_of(seed, PUBLISHERS, "")
    symbols = market.symbols[:PUBLISHERS]
    drawn, rng = ThesisSubscriptions(market, symbols), draws(seed, "bench balancing")
    samples: list[Event] = []
    for _ in range(SAMPLES):
        quotes = market.quotes(symbols[int(rng.integers(PUBLISHERS))])
        samples.append(quotes[int(rng.integers(len(quotes)))])
    groups: dict[str, SubscriptionLoad] = {}
    for k in range(subscriptions):
        silent_one = rng.random() < ZERO_TRAFFIC
        wanted = drawn.draw_silent(rng) if silent_one else drawn.draw(rng)
        text, client = str(wanted), f"S{k}"
        if text in groups:
            there = groups[text]
            clients = (*there.clients, client)
            groups[text] = SubscriptionLoad(clients, there.interests, there.bits, MESSAGE_BYTES)
        else:
            bits = BitVector(i for i, event in enumerate(samples) if wanted.matches(event))
            groups[text] = SubscriptionLoad((client,), (wanted,), bits.to_bytes(), MESSAGE_BYTES)
    return Spectrum(SAMPLES, RATE, tuple(groups.values()), b"")


def brokers_of(spectrum: Spectrum) -> tuple[LoadReport, LoadReport]:
    """The broker that has all of these, and one that has none."""
    n = sum(len(load.clients) for load in spectrum.loads)
    sent = sum(
        len(load.clients) * BitVector.from_bytes(load.bits).count() for load in spectrum.loads
    )
    size, per_s = n / CAPACITY_OF, sent / SAMPLES * RATE
    own = _report(n, RATE, per_s, CAPACITY_MHZ * size, CAPACITY_BYTES_PER_S * size)
    return own, _report(1, 0.0, 0.0, 2 * CAPACITY_MHZ * size, CAPACITY_BYTES_PER_S * size)


def _report(n: int, rate: float, sent: float, mhz: float, bytes_per_s: float) -> LoadReport:
    slope_s = ENTRY_S_MHZ / mhz
    return LoadReport(
        cpu_ratio=min(1.0, rate * slope_s * n),
        input_bytes_per_s=rate * MESSAGE_BYTES,
        input_queue_bytes=0.0,
        input_rate=rate,
        matching_slope_s=slope_s,
        memory_total_bytes=1e9,
        output_total_bytes_per_s=bytes_per_s,
        subscriptions=n,
        output_bytes_per_s=sent * MESSAGE_BYTES,
        output_queue_bytes=0.0,
        matching_delay_s=slope_s * n,
        input_ratio=rate * slope_s * n,
        matching_memory_bytes=1_000.0 * n,
        memory_slope_bytes=1_000.0,
        output_rate=sent,
    )


def sizes_up_to(subscriptions: int) -> tuple[int, ...]:
    """The usual sizes that are smaller, and this one."""
    return (*(n for n in SIZES if n < subscriptions), subscriptions)


def run(sizes: tuple[int, ...], seed: int, say: Say = silent, budget_s: float = BUDGET_S) -> Result:
    """Measure offloads among so many subscriptions."""
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for n in sizes:
        say(f"{n:,} subscriptions")
        found = _measure(spectrum_of(n, seed), budget_s, with_literal=n <= LITERAL_MAX)
        figures |= {f"{name}_at_{n}": x for name, x in found.items()}
        for action in Action:
            if n <= LITERAL_MAX:
                printed, ours = found[f"literal_{action}_ms"], found[f"{action}_ms"]
                ratios[f"literal_over_{action}_at_{n}"] = printed / ours
    first, last = next((n for n in sizes if n > LITERAL_MAX), sizes[0]), sizes[-1]
    for action in Action:
        grown = figures[f"{action}_ms_at_{last}"] / figures[f"{action}_ms_at_{first}"]
        ratios[f"{action}_a_subscription_{last}_over_{first}"] = grown * first / last
    return {
        "bench": "balancing",
        "config": {
            "subscriptions": list(sizes),
            "samples": SAMPLES,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": ratios,
    }


def _measure(spectrum: Spectrum, budget_s: float, *, with_literal: bool) -> dict[str, float]:
    own, other = brokers_of(spectrum)
    figures = {
        "distinct": float(len(spectrum.loads)),
        "covering_ms": _median_ms(lambda: SubscriptionPoset().covering(spectrum.loads), budget_s),
    }
    kept = SubscriptionPoset()
    for action in Action:

        def decide(action: Action = action, poset: SubscriptionPoset | None = None) -> Offload:
            return choose(action, own, other, spectrum, CONFIG, poset=poset)

        def again(action: Action = action) -> Offload:
            return decide(action, kept)

        figures[f"{action}_ms"] = _median_ms(decide, budget_s)
        figures[f"{action}_again_ms"] = _median_ms(again, budget_s)
        offload = decide()
        figures[f"{action}_clients"] = float(len(offload.clients))
        figures[f"{action}_cards"] = float(len(offload.cards))
        if with_literal:
            (us,) = durations_us(
                lambda a: choose_literally(a, own, other, spectrum, CONFIG), [action]
            )
            figures[f"literal_{action}_ms"] = us / 1_000
    return figures


def _median_ms(work: Callable[[], object], budget_s: float) -> float:
    """The median over as many times as fit the budget, after one that warms up."""
    (once,) = durations_us(lambda _: work(), [None])
    rounds = int(np.clip(budget_s * 1e6 / once, ROUNDS_MIN, ROUNDS_MAX))
    with steady_memory():
        return percentile(durations_us(lambda _: work(), [None] * rounds), 50) / 1_000


def table(result: Result) -> Table:
    """The figures for people."""
    figures, ratios = result["results"], result["ratios"]
    sizes = result["config"]["subscriptions"]

    def row(label: str, name: str, form: str) -> list[str]:
        values = (figures.get(f"{name}_at_{n}") for n in sizes)
        return [label, *("" if value is None else format(value, form) for value in values)]

    rows = [row("distinct ones", "distinct", ",.0f")]
    for action in Action:
        rows += [
            row(f"{action} offload, ms", f"{action}_ms", ",.1f"),
            row("  with the poset that is kept, ms", f"{action}_again_ms", ",.1f"),
            row("  clients that are to move", f"{action}_clients", ",.0f"),
            row("  the thesis' pseudocode, ms", f"literal_{action}_ms", ",.0f"),
        ]
    rows.append(row("what covers what, ms", "covering_ms", ",.1f"))
    measured = [n for n in sizes if f"literal_over_input_at_{n}" in ratios]
    return Table(
        key="balancing",
        title="Load balancing: which subscribers are to move",
        columns=["subscriptions", *(f"{n:,}" for n in sizes)],
        rows=rows,
        notes=[
            "Medians, on one core; the pseudocode once. An offload includes what covers what, but for match,"
            " which does not ask. A broker keeps that poset from one offload to the next.",
            *(
                f"The pseudocode takes {ratios[f'literal_over_{action}_at_{n}']:,.0f} times as long for"
                f" {action} at {n:,} subscriptions."
                for n in measured[-1:]
                for action in Action
            ),
        ],
    )
