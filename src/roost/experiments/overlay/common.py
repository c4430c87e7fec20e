"""What the experiments of 002 have in common: scales, grids, and charts over the number of rewirings."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from statistics import fmean

from roost.experiments.frame import Grid, Results, Scale
from roost.overlay.rewiring.repaying import RewiringTerms, price
from roost.pictures.charts import Series
from roost.pipeline.sweeps.tasks import Value
from roost.pipeline.workload.topics import TOPICS

TASK = "roost.experiments.overlay.cell:CELL"
SMALL, PAPER = "small", "paper"
TOPIC, CONTENT = "topic", "content"
SCALE_FREE, SPIRAL = "scale-free", "spiral"
# Without an end of their own, runs end after so many rounds.
ROUNDS = 200
# The paper's threshold by content (table 1, as the text has it); by topic it is 0.
THRESHOLDS = {TOPIC: 0.0, CONTENT: -10.0}
# What a rewiring of Roost's own has to save in a round, so that it repays within ten of them: a table of ten
# topics moves in both directions.
PRICE = price(2 * TOPICS, 1.0, RewiringTerms(horizon_s=10.0))
NAMES = {
    "paper": "002",
    "ocbr": "OCBR",
    "gated": "OCBR, gated",
    "roost": "Roost",
}
REWIRINGS = "rewirings"
MESSAGES = "messages exchanged"

SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            SMALL, 5, {"brokers": 120}, "120 brokers with one component each, as in 002's table 1"
        ),
        Scale(
            PAPER, 20, {"brokers": 500}, "500 brokers with one component each, as in 002's table 1"
        ),
    )
}


def grid(scale: Scale, **axes: Sequence[Value]) -> Grid:
    """A grid with these axes; all that tells cells apart is said, so that it can be asked for."""
    usual: dict[str, Sequence[Value]] = {
        "matching": [TOPIC],
        "start": [SCALE_FREE],
        "threshold": [0.0],
        "degree_max": [0],
        "price": [0.0],
        "noise": [0.0],
        "load_weight": [100.0],
        "rounds": [0],
        "churn": ["none"],
        "join": ["drawn"],
        "subscribers": [1.0],
        "publishers": [0.2],
        "publications": [150],
        **{name: [value] for name, value in scale.settings.items()},
    }
    return usual | axes


def limits_of(scale: Scale) -> tuple[int, int]:
    """The most neighbours of a broker, where there is a limit: half of all brokers, or a quarter."""
    brokers = int(scale.settings["brokers"])
    return brokers // 2, brokers // 4


def curve(name: str, results: Results) -> Series:
    """Traffic over rewirings, as far as all runs have come."""
    points = []
    for count, figure in results.figures("traffic_after_").items():
        values = results.values(figure)
        if len(values) == len(results.done):
            points.append((count, fmean(values)))
    return Series(name, tuple(points))


def spread(results: Results, figure: str) -> float:
    """How far the least and the greatest are from their middle, in % of it."""
    values = results.values(figure)
    if not values:
        return nan
    low, high = min(values), max(values)
    return 100 * (high - low) / (high + low)


def ratio(one: float, other: float) -> float:
    """NaN where there is nothing to divide by."""
    return one / other if other and not isnan(other) else nan
