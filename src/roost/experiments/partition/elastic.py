"""`partition-elastic`: matchers are added as the rate rises, and go when it falls (004 figure 9)."""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.experiments.partition.scale import TASK
from roost.pictures.charts import Chart

FEWEST, MOST = 5, 20
SCALES = {
    "small": Scale(
        "small",
        1,
        {
            "subscriptions": 400,
            "best_per_s": 40,
            "steps": 9,
            "step_s": 30,
            "idle_s": 15,
            "rest_s": 150,
        },
        "400 subscriptions, steps of 30 s",
    ),
    "paper": Scale(
        "paper",
        3,
        {
            "subscriptions": 1_000,
            "best_per_s": 60,
            "steps": 9,
            "step_s": 60,
            "idle_s": 30,
            "rest_s": 300,
        },
        "1,000 subscriptions, steps of a minute",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """One run a seed."""
    usual = {name: [value] for name, value in scale.settings.items()}
    return [{"what": ["ramp"], "matchers": [FEWEST], "matchers_max": [MOST], **usual}]


def claims(results: Results) -> list[Claim]:
    """What is promised of a ramp."""
    return [
        at_most(
            "004 fig 9",
            "from adding a matcher to a lower response time, on average",
            results.mean("fall_s"),
            5,
            "s",
            5,
        ),
        at_most(
            "004 fig 9",
            "the longest time of saturation",
            results.mean("saturated_s_longest"),
            30,
            "s",
        ),
        at_least("004 fig 9", "matchers at the top", results.mean("matchers_most"), 15, ""),
        at_most("004 fig 9", "matchers at the end", results.mean("matchers_last"), 6, ""),
        at_most("004 section IV.E", "events lost on the way", results.mean("lost"), 0, ""),
    ]


def findings(results: Results) -> list[str]:
    """What was done."""
    return [
        f"{results.mean('added'):.0f} matchers were added and {results.mean('ended'):.0f} ended; the"
        f" longest that a fall took is {results.mean('fall_s_max'):.0f} s, the longest response time"
        f" {results.mean('response_s_max'):.1f} s."
    ]


def charts(results: Results) -> list[Chart]:
    """Figure 9, and how many matchers there were."""
    return [
        Chart(
            id="004 fig 9",
            title=title,
            x="s",
            y=unit,
            series=(results.line(title, prefix),),
        )
        for title, unit, prefix in (
            ("response time", "s", "response_s_at_"),
            ("matchers", "", "matchers_at_"),
        )
    ]


ELASTIC = Experiment(
    name="partition-elastic",
    what="matchers that are added as the rate rises, and go when it falls (004 figure 9)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
