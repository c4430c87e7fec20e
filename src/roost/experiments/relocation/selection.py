"""`relocation-selection`: how long it takes to choose a broker, and to move there (000 figures 6a-6c).

Simulated time from the moment when enough has been traced until the choice is made, over wide-area links:
POP's request goes from broker to broker, GRAPE collects the statistics of all of them and, with the goal
`delay1`, asks the publisher for its round trips to all. With `load100` it does not ask, so that the
difference is the price of the round trips. And real time for GRAPE's choice itself, among 63 and 10,000
brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from statistics import StatisticsError, correlation

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.experiments.relocation.common import (
    SCALES,
    TASK,
    grid,
    name_of,
    spread_chart,
    spreads_of,
)
from roost.experiments.relocation.decision_time import DECISION
from roost.experiments.relocation.setup import POP, WIDE_AREA
from roost.pictures.charts import Chart, Series

ASKING, PLAIN = "delay1", "load100"
CHOOSERS = (POP, ASKING, PLAIN)
MANY = 10_000
PATH_AXIS = "migration path, hops"
LONG_PATH = 10


def grids(scale: Scale, given: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    latencies = [given.get("latencies", WIDE_AREA)]
    sizes = (int(scale.settings["brokers"]), MANY)
    return [
        grid(scale, spread=spreads_of(scale), variant=CHOOSERS, latencies=latencies),
        {"variant": [DECISION], "brokers": sizes},
    ]


def _longest(own: Results, prefix: str) -> float:
    """The mean over the longest paths up to ten hops."""
    names = {hops: name for hops, name in own.figures(prefix).items() if hops <= LONG_PATH}
    return own.mean(names[max(names)]) if names else nan


def _proportional(own: Results, prefix: str) -> float:
    """The correlation of a time with the length of the path."""
    points = own.line("", prefix).points
    try:
        return correlation(*zip(*points, strict=True)) if len(points) > 1 else nan
    except StatisticsError:  # all alike
        return nan


def claims(results: Results) -> list[Claim]:
    """What the paper says of these times."""
    timed = results.where(variant=DECISION)
    moved = Results(r for r in results.done if r.parameters["variant"] in CHOOSERS)
    pop, asking, plain = (results.where(variant=variant) for variant in CHOOSERS)
    sizes = timed.parameter("brokers")
    return [
        *(
            at_most(
                "000 section 4.2",
                f"GRAPE's choice among {int(n):,} brokers",
                timed.where(brokers=int(n)).mean("decision_ms"),
                100 if n == MANY else 1,
                "ms",
                paper=None if n == MANY else 70,
            )
            for n in sizes
        ),
        at_most(
            "000 section 3.3",
            f"publisher wait time of a migration over {LONG_PATH} hops, or the longest",
            _longest(moved, "wait_ms_path_") / 1e3,
            5,
            "s",
            paper=5,
        ),
        at_least(
            "000 fig 6c",
            "correlation of the publisher wait time with the length of the path",
            _proportional(moved, "wait_ms_path_"),
            0.9,
            "",
        ),
        at_least(
            "000 fig 6a",
            "correlation of POP's selection time with the length of the path",
            _proportional(pop, "selection_ms_path_"),
            0.9,
            "",
        ),
        at_most(
            "000 fig 6b",
            "GRAPE's selection time without round trips, the longest",
            max(plain.values("selection_ms_max"), default=nan) / 1e3,
            5,
            "s",
            paper=5,
        ),
        at_most(
            "000 section 6",
            "GRAPE's selection time (delay1) over POP's",
            asking.mean("selection_ms") / pop.mean("selection_ms"),
            17,
            "times",
            paper=17,
        ),
    ]


def charts(results: Results) -> list[Chart]:
    """Figures 6a to 6c."""
    spreads = [
        int(x)
        for x in Results(r for r in results.done if "spread" in r.parameters).parameter("spread")
    ]
    found = [
        Chart(
            id=f"000 fig {figure}",
            title=f"{name_of(variant)}: selection time",
            x=PATH_AXIS,
            y="ms",
            series=tuple(
                results.where(variant=variant, spread=x).line(f"X = {x}", "selection_ms_path_")
                for x in spreads
            ),
            note="0 hops: the publisher stays.",
        )
        for figure, variant in (("6a", POP), ("6b", ASKING), ("6b", PLAIN))
    ]
    waits = (
        results.where(variant=variant).line(name_of(variant), "wait_ms_path_")
        for variant in CHOOSERS
    )
    timed = results.where(variant=DECISION)
    sizes = timed.parameter("brokers")
    return [
        *found,
        spread_chart(
            "000 fig 6a, 6b",
            "Selection time",
            "ms",
            Results(r for r in results.done if "spread" in r.parameters),
            "selection_ms",
            variants=CHOOSERS,
            note="Over all decisions.",
        ),
        Chart(
            id="000 fig 6c",
            title="Publisher wait time",
            x=PATH_AXIS,
            y="ms",
            series=tuple(waits),
            note="How long events are kept back while the publisher moves.",
        ),
        Chart(
            id="000 section 4.2",
            title="GRAPE's choice, real time",
            x="brokers",
            y="ms",
            series=(
                Series(
                    "choice",
                    tuple((n, timed.where(brokers=int(n)).mean("decision_ms")) for n in sizes),
                ),
            ),
            doubling=True,
        ),
    ]


SELECTED = Experiment(
    name="relocation-selection",
    what="How long POP and GRAPE take to choose a broker, and publishers to move (000 fig 6a-6c)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    takes=("latencies",),
)
