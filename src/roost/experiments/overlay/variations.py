"""`overlay-variations`: one parameter of 002's table 1 at a time (figures 5, 6 and 7).

The paper's algorithm, by topic with T = 0 and by content with T = -10, and Roost's own with at most half of
the brokers as neighbours. Runs with churn go on for as many rounds as those without that they are compared
with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_most
from roost.experiments.overlay.common import (
    CONTENT,
    MESSAGES,
    NAMES,
    PRICE,
    REWIRINGS,
    ROUNDS,
    SCALE_FREE,
    SCALES,
    SPIRAL,
    TASK,
    THRESHOLDS,
    TOPIC,
    curve,
    grid,
    limits_of,
    ratio,
)
from roost.pictures.charts import Chart
from roost.pipeline.sweeps.tasks import Value

CHURNS = ("nodes", "interests", "both")
# Of 500 brokers one in each round; and, besides, five.
SLOW, FAST = 0.002, 0.01
JOINS = ("drawn", "referred")
NOISES = (0.0, -10.0, -50.0)
WEIGHTS = (100.0, 50.0, 0.0)
# What is varied, and the values beside that of the reference.
AXES: Mapping[str, Sequence[Value]] = {
    "subscribers": (0.2, 0.5, 1.0),
    "publishers": (0.2, 0.5),
    "publications": (50, 150),
    "start": (SCALE_FREE, SPIRAL),
    "churn": ("none", *CHURNS),
}
LETTERS = {"subscribers": "a", "publishers": "b", "publications": "b", "start": "c", "churn": "d"}
REFERENCE_OF: Mapping[str, Value] = {
    "rounds": ROUNDS,
    "subscribers": 1.0,
    "publishers": 0.2,
    "publications": 150,
    "start": SCALE_FREE,
    "churn": "none",
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    cells: list[Grid] = []
    limit = limits_of(scale)[0]
    tight = max(3, int(scale.settings["brokers"]) // 10)
    for matching, threshold in THRESHOLDS.items():
        for axis, values in AXES.items():
            usual: dict[str, Sequence[Value]] = {
                "matching": [matching],
                "rounds": [ROUNDS],
                axis: values,
            }
            if axis == "churn":
                usual |= {"churn": CHURNS, "churn_share": [SLOW]}
            cells += [
                grid(scale, variant=["paper"], threshold=[threshold], **usual),
                grid(scale, variant=["roost"], degree_max=[limit], price=[PRICE], **usual),
            ]
        fast: dict[str, Sequence[Value]] = {
            "matching": [matching],
            "rounds": [ROUNDS],
            "churn": ["nodes"],
            "churn_share": [FAST],
            "join": JOINS,
        }
        roost: dict[str, Sequence[Value]] = {
            "variant": ["roost"],
            "matching": [matching],
            "degree_max": [limit],
        }
        cells += [
            grid(scale, variant=["paper"], threshold=[threshold], **fast),
            grid(scale, price=[PRICE], **roost | fast),
            grid(scale, price=[0.0], rounds=[ROUNDS], **roost),
            grid(scale, load_weight=WEIGHTS, price=[PRICE], **roost | {"degree_max": [tight]}),
        ]
    cells.append(
        grid(scale, variant=["paper"], matching=[CONTENT], threshold=NOISES, rounds=[ROUNDS])
    )
    return cells


def _reference(results: Results, matching: str, variant: str) -> Results:
    """The cells with nothing varied."""
    return _varied(results, matching, variant, "start", SCALE_FREE)


def _varied(results: Results, matching: str, variant: str, axis: str, value: Value) -> Results:
    own = results.where(matching=matching, variant=variant, **{**REFERENCE_OF, axis: value})
    if axis == "churn" and value != "none":
        own = own.where(churn_share=SLOW)
    if variant == "paper":
        return own.where(threshold=THRESHOLDS[matching])
    return own.where(price=PRICE, load_weight=100.0)


def _of_goal(results: Results, matching: str, weight: float) -> Results:
    """Roost's own at rest, with few neighbours, so that traffic and delay are at odds."""
    own = results.where(matching=matching, variant="roost", rounds=0)
    return own.where(load_weight=weight)


def claims(results: Results) -> list[Claim]:
    """What 002 says of the variations."""
    return [
        *_of_starts(results),
        *_of_churn(results),
        *_of_thresholds(results),
        *_of_roost(results),
    ]


def _of_starts(results: Results) -> Iterator[Claim]:
    for figure, matching in (("5c", TOPIC), ("6c", CONTENT)):
        ends = [
            _varied(results, matching, "roost", "start", start).mean("above_bound")
            for start in (SCALE_FREE, SPIRAL)
        ]
        yield at_most(
            f"002 fig {figure}",
            f"the ends of Roost's own from both starts apart, {matching}",
            100 * abs((100 + ends[1]) / (100 + ends[0]) - 1),
            10,
        )


def _of_churn(results: Results) -> Iterator[Claim]:
    for figure, matching in (("5d", TOPIC), ("6d", CONTENT)):
        for variant in ("paper", "roost"):
            still = _reference(results, matching, variant).mean("above_bound")
            for churn in CHURNS:
                moved = _varied(results, matching, variant, "churn", churn).mean("above_bound")
                yield at_most(
                    f"002 fig {figure}",
                    f"traffic above the bound with churn ({churn}) by that without, {NAMES[variant]},"
                    f" {matching}",
                    (100 + moved) / (100 + still),
                    1.05,
                    "",
                )
            moved = _fast(results, matching, variant, "referred").mean("above_bound")
            yield at_most(
                f"002 fig {figure}",
                f"the same where {FAST:.0%} of the brokers leave in a round and are referred,"
                f" {NAMES[variant]}, {matching}",
                (100 + moved) / (100 + still),
                1.05,
                "",
            )


def _fast(results: Results, matching: str, variant: str, join: str) -> Results:
    return results.where(matching=matching, variant=variant, churn_share=FAST, join=join)


def _of_thresholds(results: Results) -> Iterator[Claim]:
    own = results.where(matching=CONTENT, variant="paper", **REFERENCE_OF)
    none, ten, fifty = (own.where(threshold=value) for value in NOISES)
    yield at_most(
        "002 fig 7",
        "traffic with T = -10 by that with T = 0",
        ratio(ten.mean("traffic"), none.mean("traffic")),
        1,
        "",
    )
    yield at_most(
        "Roost",
        "traffic of T = -10 and T = -50 apart",
        100 * abs(ratio(fifty.mean("traffic"), ten.mean("traffic")) - 1),
        1,
    )


def _of_roost(results: Results) -> Iterator[Claim]:
    for matching in (TOPIC, CONTENT):
        roost, paper = (_reference(results, matching, variant) for variant in ("roost", "paper"))
        yield at_most(
            "Roost",
            f"traffic by that of 002 after {ROUNDS} rounds, {matching}",
            ratio(roost.mean("traffic"), paper.mean("traffic")),
            1.01,
            "",
        )
        own = results.where(matching=matching, variant="roost", **REFERENCE_OF)
        free = own.where(price=0.0)
        yield at_most(
            "Roost",
            f"rewirings at a price of {PRICE:g} messages a round by those for nothing, {matching}",
            ratio(roost.mean("rewirings"), free.mean("rewirings")),
            1,
            "",
        )
        load, delay = (_of_goal(results, matching, weight) for weight in (100.0, 0.0))
        yield at_most(
            "Roost",
            f"links a delivery with delay as the goal by those with traffic, {matching}",
            ratio(delay.mean("hops"), load.mean("hops")),
            1,
            "",
        )
        yield at_most(
            "Roost",
            f"messages with traffic as the goal by those with delay, {matching}",
            ratio(load.mean("traffic"), delay.mean("traffic")),
            1,
            "",
        )


def findings(results: Results) -> list[str]:
    """Where each variation ends."""
    found = []
    for matching in (TOPIC, CONTENT):
        for variant in ("paper", "roost"):
            for axis, values in AXES.items():
                ends = (
                    (value, _varied(results, matching, variant, axis, value)) for value in values
                )
                told = "; ".join(f"{value}: {_told(own)}" for value, own in ends)
                found.append(f"{matching}, {NAMES[variant]}, {axis}: {told}.")
        roost = results.where(matching=matching, variant="roost", **REFERENCE_OF)
        told = "; ".join(
            f"load{weight:g}: {_told(_of_goal(results, matching, weight))}" for weight in WEIGHTS
        )
        found.append(f"{matching}, Roost, goals at rest, at most a tenth as neighbours: {told}.")
        for variant in ("paper", "roost"):
            told = "; ".join(
                f"{join}: {_told(_fast(results, matching, variant, join))}" for join in JOINS
            )
            found.append(
                f"{matching}, {NAMES[variant]}, {FAST:.0%} of the brokers leaving in a round, their hosts"
                f" {told}."
            )
        found.append(f"{matching}, Roost, rewirings for nothing: {_told(roost.where(price=0.0))}.")
    own = results.where(matching=CONTENT, variant="paper", **REFERENCE_OF)
    told = "; ".join(f"{value:g}: {_told(own.where(threshold=value))}" for value in NOISES)
    found.append(f"content, 002, T: {told}.")
    return found


def _told(own: Results) -> str:
    return (
        f"{own.mean('above_bound'):.2f} % above the bound after {own.mean('rewirings'):,.0f} rewirings,"
        f" {own.mean('hops'):.2f} links a delivery"
    )


def charts(results: Results) -> list[Chart]:
    """Figures 5 and 6, a to d, with Roost's own beside them; and 7."""
    found = []
    for figure, matching in (("5", TOPIC), ("6", CONTENT)):
        for axis, values in AXES.items():
            found.append(
                Chart(
                    id=f"002 fig {figure}{LETTERS[axis]}",
                    title=f"{axis}, by {matching}",
                    x=REWIRINGS,
                    y=MESSAGES,
                    series=tuple(
                        curve(
                            f"{NAMES[variant]}, {value}",
                            _varied(results, matching, variant, axis, value),
                        )
                        for value in values
                        for variant in ("paper", "roost")
                    ),
                )
            )
    own = results.where(matching=CONTENT, variant="paper", **REFERENCE_OF)
    roost = _reference(results, CONTENT, "roost")
    found.append(
        Chart(
            id="002 fig 7",
            title="thresholds, by content",
            x=REWIRINGS,
            y=MESSAGES,
            series=(
                *(curve(f"T = {value:g}", own.where(threshold=value)) for value in NOISES),
                curve("Roost, adaptive", roost),
            ),
        )
    )
    return found


VARIATIONS = Experiment(
    name="overlay-variations",
    what="one parameter at a time: subscribers, publishers, start, churn, thresholds (002 fig 5-7)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
