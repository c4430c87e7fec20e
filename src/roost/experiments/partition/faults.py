"""`partition-faults`: matchers crash, and nothing is lost (004 figure 10).

One every few minutes, from 20 down to 5; and the same, three at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_most
from roost.experiments.partition.scale import TASK
from roost.pictures.charts import Chart

MATCHERS, LEFT = 20, 5
AT_ONCE = (1, 3)
SCALES = {
    "small": Scale(
        "small",
        1,
        {"subscriptions": 400, "best_per_s": 120, "gap_s": 20},
        "400 subscriptions, a crash every 20 s",
    ),
    "paper": Scale(
        "paper",
        3,
        {"subscriptions": 2_000, "best_per_s": 120, "gap_s": 60},
        "2,000 subscriptions, a crash every minute",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """One at a time, and three."""
    usual = {name: [value] for name, value in scale.settings.items()}
    return [
        {
            "what": ["crashes"],
            "matchers": [MATCHERS],
            "left": [LEFT],
            "at_once": list(AT_ONCE),
            **usual,
        }
    ]


def claims(results: Results) -> list[Claim]:
    """The paper loses 5 % for 17.5 s after each crash."""
    found = []
    for at_once in AT_ONCE:
        cells = results.where(at_once=at_once)
        words = "one at a time" if at_once == 1 else f"{at_once} at once"
        broken = [cells.mean(name) for name in ("lost", "doubled", "reordered")]
        found += [
            at_most(
                "004 fig 10",
                f"lost, doubled or reordered, {words}",
                sum(broken),
                0,
                "",
            ),
            at_most(
                "004 fig 10",
                f"until a crash is noticed, at most, {words}",
                cells.mean("noticed_s_max"),
                5,
                "s",
                17.5,
            ),
            at_most(
                "004 fig 10",
                f"response time with {LEFT} matchers left, {words}",
                cells.mean("response_s_last"),
                2,
                "s",
            ),
        ]
    return found


def findings(results: Results) -> list[str]:
    """How soon it is over."""
    one = results.where(at_once=1)
    return [
        f"A crash is noticed after {one.mean('noticed_s'):.1f} s on average, and mended"
        f" {one.mean('mended_s_max'):.1f} s after it at the latest. The response time is"
        f" {1e3 * one.mean('response_s_before'):.0f} ms with {MATCHERS} matchers, and"
        f" {1e3 * one.mean('response_s_last'):.0f} ms with {LEFT}."
    ]


def charts(results: Results) -> list[Chart]:
    """Figure 10, top; the bottom would be empty."""
    return [
        Chart(
            id="004 fig 10",
            title="response time",
            x="s",
            y="s",
            series=tuple(
                results.where(at_once=n).line(f"{n} at once", "response_s_at_") for n in AT_ONCE
            ),
        )
    ]


FAULTS = Experiment(
    name="partition-faults",
    what="matchers crash, one after the other and three at once, and nothing is lost (004 figure 10)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
