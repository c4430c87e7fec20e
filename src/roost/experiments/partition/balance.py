"""`partition-balance`: how evenly matchers are loaded, near saturation, against P2P (004 figure 8).

Both run on the machines, each at 90 % of what its own best division bears: P2P is one dimension, along which
every message has one candidate.
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.experiments.partition.scale import TASK
from roost.pictures.charts import Chart

P2P, ALL = 1, 4
SCALES = {
    "small": Scale(
        "small",
        1,
        {"matchers": 20, "subscriptions": 400, "best_per_s": 300, "lasts_s": 20},
        "20 matchers, 400 subscriptions, 20 s a run",
    ),
    "paper": Scale(
        "paper",
        3,
        {"matchers": 20, "subscriptions": 4_000, "best_per_s": 300, "lasts_s": 60},
        "the paper's 20 matchers, 4,000 subscriptions, 60 s a run",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """Two cells a seed."""
    settings = {name: [value] for name, value in scale.settings.items()}
    return [
        {
            "what": ["simulated"],
            "policy": ["drift"],
            "share": [0.9],
            "dimensions": [P2P, ALL],
            **settings,
        }
    ]


def claims(results: Results) -> list[Claim]:
    """The paper's two figures, and how far they are apart."""
    ours = results.where(dimensions=ALL).mean("load_deviation")
    theirs = results.where(dimensions=P2P).mean("load_deviation")
    return [
        at_most("004 fig 8", "normalised deviation of load", ours, 0.14, "", 0.14),
        at_least("004 fig 8", "P2P's over ours", theirs / ours, 0.82 / 0.14, "times", 0.82 / 0.14),
    ]


def findings(results: Results) -> list[str]:
    """Both."""
    ours, theirs = (results.where(dimensions=d).mean("load_deviation") for d in (ALL, P2P))
    return [
        f"The normalised deviation of load is {ours:.2f}, P2P's {theirs:.2f} (the paper: 0.14 and 0.82)."
    ]


def charts(results: Results) -> list[Chart]:
    """How busy each matcher is, the least first."""
    lines = [
        results.where(dimensions=dimensions).line(name, "busy_")
        for name, dimensions in (("drift", ALL), ("P2P", P2P))
    ]
    return [
        Chart(
            id="004 fig 8",
            title="the time that matchers are busy, over the average",
            x="matchers, the least busy first",
            y="times the average",
            series=tuple(lines),
        )
    ]


BALANCE = Experiment(
    name="partition-balance",
    what="how evenly matchers are loaded near saturation, against P2P (004 figure 8)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
