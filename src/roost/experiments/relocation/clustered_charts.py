"""The graphs of `relocation-clustered`, and which of the paper's headlines are reached where."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from roost.experiments.frame import Results
from roost.experiments.relocation.clustered_cells import (
    BRISK,
    DELAY,
    DENSE,
    LOAD,
    PEAK,
    Parts,
    less,
)
from roost.experiments.relocation.common import END, SPREAD_AXIS, name_of, spread_chart
from roost.experiments.relocation.setup import BASELINE, POP
from roost.pictures.charts import Chart, Series

# Of the abstract and section 1: what, the figure, who, and by how many per cent it falls.
HEADLINES = (
    ("message rate", "message_rate", LOAD, 84.0),
    ("message rate", "message_rate", POP, 85.0),
    ("input utilisation", "input_utilisation", LOAD, 68.0),
    ("input utilisation", "input_utilisation", POP, 64.0),
    ("delivery delay", "delay_ms", DELAY, 68.0),
    ("delivery delay", "delay_ms", POP, 63.0),
)
MEMORY = "Subscriptions and queues; what POP and GRAPE remember is not in the model."


def findings(results: Results) -> list[str]:
    """For each headline of the paper, where it is reached, and what comes nearest elsewhere."""
    parts = Parts(results)
    places = (
        ("constant latencies", parts.constant),
        ("wide-area latencies", parts.wide),
        (f"{DENSE} publishers", parts.dense),
        (f"brokers near saturation (the busiest of the baseline at {PEAK})", parts.saturated),
    )
    return [
        *(_headline(places, *headline) for headline in HEADLINES),
        _tracing(parts),
        _near_saturation(parts.saturated),
    ]


def _tracing(parts: Parts) -> str:
    """What of the message rate is due to the messages of tracing."""
    told = []
    for part, variant, where in (
        (parts.constant, LOAD, ""),
        (parts.constant, POP, ""),
        (parts.brisk, POP, f" with {BRISK:g} publications a minute"),
    ):
        all_, plain = (
            dict(_falls(part, variant, figure)) for figure in ("message_rate", "data_rate")
        )
        by_x = ", ".join(f"{all_[x]:.0f} and {plain[x]:.0f} % at X = {x:g}" for x in all_)
        told.append(f"{name_of(variant)}{where} {by_x}")
    return (
        "By how much all messages fall, and publications alone, without what tracing and moving take: "
        f"{'; '.join(told)}. POP has a message on each link for every traced publication, 50 a minute."
    )


def _near_saturation(saturated: Results) -> str:
    """The paper saw overloads with all but load100, under the random workload."""
    falls = ", ".join(
        f"{fall:.0f} % at X = {x:g}" for x, fall in _falls(saturated, DELAY, "delay_ms")
    )
    told = []
    for variant in (BASELINE, POP, DELAY, LOAD):
        peaks = saturated.where(variant=variant).values("input_utilisation_max")
        over = sum(peak > 100 for peak in peaks)
        told.append(f"{name_of(variant)} {over} of {len(peaks)}")
    return (
        f"Near saturation the delay of {name_of(DELAY)} falls by {falls}. Cells in which a broker gets more"
        f" than it can match at the end: {', '.join(told)}. The paper saw overloads with all but load100."
    )


def _headline(
    places: Sequence[tuple[str, Results]], what: str, figure: str, variant: str, paper: float
) -> str:
    reached, missed = [], []
    for name, part in places:
        falls = _falls(part, variant, figure)
        there = {x: fall for x, fall in falls if fall >= paper}
        if there:
            text = ", ".join(f"X = {x:g} ({fall:.0f} %)" for x, fall in there.items())
            reached.append(f"{name} at {text}")
        elif falls:
            x, fall = max(falls, key=lambda point: point[1])
            missed.append(f"{name} {fall:.0f} % at best (X = {x:g})")
    head = f"{name_of(variant)}: in the paper the {what} falls by {paper:g} %. "
    told = [f"Reached with {'; with '.join(reached)}."] if reached else ["Reached nowhere."]
    if missed:
        told.append(f"Not with {'; with '.join(missed)}.")
    return head + " ".join(told)


def _falls(part: Results, variant: str, figure: str) -> tuple[tuple[float, float], ...]:
    """By how much a figure is below the baseline's, by X."""
    points = ((x, less(part, variant, x, figure)) for x in part.parameter("spread"))
    return tuple((x, y) for x, y in points if not isnan(y))


def charts(results: Results) -> list[Chart]:
    """Figures 5a to 5f, and what the paper does not draw."""
    parts = Parts(results)
    constant, wide, saturated = parts.constant, parts.wide, parts.saturated
    rate, since = "messages/s and broker", "Since the clients joined."
    drawn = (
        ("fig 5a", "Broker message rate, wide-area", rate, wide, "message_rate", END),
        ("fig 5b", "Input utilisation, wide-area", "%", wide, "input_utilisation", END),
        ("fig 5c", "Delivery delay, wide-area", "ms", wide, "delay_ms", END),
        ("fig 5c", "Delivery delay, constant latencies", "ms", constant, "delay_ms", END),
        ("fig 5c", "Delivery delay, near saturation", "ms", saturated, "delay_ms", END),
        ("fig 5d", "Hop count, constant latencies", "hops", constant, "hops", END),
        ("fig 5e", "Memory of the model", "KB a broker", constant, "memory_kb", MEMORY),
        ("fig 5f", "Message overhead", "% of messages", constant, "overhead", since),
        ("section 5.2", "Output utilisation", "%", constant, "output_utilisation", END),
    )
    return [
        *(
            spread_chart(f"000 {where}", title, unit, part, figure, note=note)
            for where, title, unit, part, figure, note in drawn
        ),
        _optimum_chart(
            "message rate", constant, LOAD, "message_rate", ("data_rate", "data_rate_least")
        ),
        _optimum_chart(
            "delivery delay", constant, DELAY, "delay_ms", ("delay_placed_ms", "delay_least_ms")
        ),
    ]


def _optimum_chart(
    what: str, part: Results, variant: str, figure: str, placed: tuple[str, str]
) -> Chart:
    """How far a figure falls, next to the most that a placement could have given.

    `placed` are the figures of the baseline as it is placed and at best.
    """
    now, least = placed
    optimum = []
    for x in part.parameter("spread"):
        base = part.where(variant=BASELINE, spread=x)
        optimum.append((x, 100 * (1 - base.mean(least) / base.mean(now))))
    return Chart(
        id="000 section 5.2",
        title=f"How far the {what} falls, constant latencies",
        x=SPREAD_AXIS,
        y="% below the baseline",
        series=(
            Series("the optimum for the baseline's traffic", tuple(optimum)),
            *(Series(name_of(v), _falls(part, v, figure)) for v in (variant, POP)),
        ),
        doubling=True,
        note=END,
    )
