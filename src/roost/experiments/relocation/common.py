"""What the experiments of 000 have in common: their scales, their grids, and charts over the spread X."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

from roost.experiments.frame import Grid, Results, Scale
from roost.experiments.relocation.setup import BASELINE, CONSTANT, POP
from roost.pictures.charts import Chart, Series
from roost.pipeline.sweeps.tasks import Value

TASK = "roost.experiments.relocation.cell:CELL"
VARIANTS = (BASELINE, POP, "load100", "delay100")
NAMES = {BASELINE: "baseline", POP: "POP"}
SPREADS = (1, 2, 4, 8, 16, 32)
END = "last 3 of 18 min"
SPREAD_AXIS = "brokers with subscribers of a publisher (X)"

# POP traces up to 50 publications a minute and publisher, so its overhead follows from their rate. With this
# one it comes to the most that the paper has seen.
RATE = 100.0

SMALL, PAPER = "small", "paper"
SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            SMALL,
            10,
            {"brokers": 63, "publishers": 6, "rate_per_min": RATE, "until_s": 1_085.0},
            f"63 brokers, 6 publishers of {RATE:g} publications a minute, 50 subscribers each, 18 minutes",
        ),
        Scale(
            PAPER,
            10,
            {"brokers": 63, "publishers": 40, "rate_per_min": RATE, "until_s": 1_085.0},
            f"63 brokers, 40 publishers of {RATE:g} publications a minute, 50 subscribers each, 18 minutes",
        ),
    )
}


def spreads_of(scale: Scale) -> tuple[int, ...]:
    """1, 2, 4, ..., and all brokers."""
    brokers = int(scale.settings["brokers"])
    return (*(x for x in SPREADS if x < brokers), brokers)


def grid(scale: Scale, **axes: Sequence[Value]) -> Grid:
    """A grid with these axes; all that tells cells apart is said, so that it can be asked for."""
    usual: dict[str, Sequence[Value]] = {
        "distribution": ["clustered"],
        "latencies": [CONSTANT],
        "arrivals": ["regular"],
        "order": ["market"],
        "peak": [0.0],
        "threshold": [0],
        **{name: [value] for name, value in scale.settings.items()},
    }
    return usual | axes


def name_of(variant: str) -> str:
    """As people know it."""
    return NAMES.get(variant, f"GRAPE {variant}")


def over_spread(results: Results, figure: str, variants: Iterable[str]) -> tuple[Series, ...]:
    """A line a variant."""
    lines = []
    for variant in variants:
        own = results.where(variant=variant)
        means = ((float(x), own.where(spread=x).mean(figure)) for x in results.parameter("spread"))
        lines.append(Series(name_of(variant), tuple((x, y) for x, y in means if not isnan(y))))
    return tuple(lines)


def spread_chart(
    id: str,
    title: str,
    y: str,
    results: Results,
    figure: str,
    *,
    variants: Iterable[str] = VARIANTS,
    note: str = "",
) -> Chart:
    """A figure over X."""
    return Chart(
        id=id,
        title=title,
        x=SPREAD_AXIS,
        y=y,
        series=over_spread(results, figure, variants),
        doubling=True,
        note=note,
    )
