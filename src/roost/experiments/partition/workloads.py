"""`partition-workloads`: what the machines bear of other workloads (004 figure 11).

Fewer dimensions, subscriptions that are skewed less, messages that are where the subscriptions are. For each
the machines run at shares of what the best division bears of it, and what they bear is the share times that.
P2P is one dimension, on the same machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least
from roost.experiments.partition.borne import borne
from roost.experiments.partition.scale import ADVERSE, DEVIATIONS, DIMENSIONS, TASK
from roost.pictures.charts import Chart, Series
from roost.pipeline.sweeps.tasks import Value

SHARES = (0.8, 0.9)
FLATTER = DEVIATIONS[1::2]
ADVERSE_MOST = ADVERSE[1::2]
MOST = DIMENSIONS[-1]
SCALES = {
    "small": Scale(
        "small",
        1,
        {"matchers": 10, "subscriptions": 400, "best_per_s": 120, "lasts_s": 12},
        "10 matchers, 400 subscriptions, 12 s a run",
    ),
    "paper": Scale(
        "paper",
        3,
        {"matchers": 20, "subscriptions": 2_000, "best_per_s": 300, "lasts_s": 30},
        "the paper's 20 matchers, 2,000 subscriptions, 30 s a run",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells; P2P too, where it is compared with."""
    usual: dict[str, list[Value]] = {
        "what": ["simulated"],
        "policy": ["drift"],
        "share": list(SHARES),
        **{name: [value] for name, value in scale.settings.items()},
    }
    return [
        {**usual, "dimensions": DIMENSIONS},
        {**usual, "dimensions": [1, MOST], "deviation": FLATTER},
        {**usual, "dimensions": [1, MOST], "adverse": ADVERSE_MOST},
    ]


def rate(results: Results, **workload: Value) -> float:
    """What the machines bear of a workload, in units in which a subscription takes a second."""
    cells = results.where(**workload)
    return borne(cells, SHARES) * cells.mean("best")


def usual(results: Results) -> Results:
    """The cells with the paper's usual subscriptions and messages."""
    return Results(r for r in results.done if not {"deviation", "adverse"} & set(r.parameters))


def claims(results: Results) -> list[Claim]:
    """What the paper says of its figure 11."""
    plain = usual(results)
    best, one = rate(plain, dimensions=MOST), rate(plain, dimensions=1)
    found = [at_least("004 fig 11a", "4 dimensions over 1", best / one, 5.5, "times", 5.5)]
    for id_, axis, values, words in (
        ("004 fig 11b", "deviation", FLATTER, "deviation"),
        ("004 fig 11c", "adverse", ADVERSE_MOST, "adverse dimensions"),
    ):
        over = [
            rate(results, dimensions=MOST, **{axis: value})
            / rate(results, dimensions=1, **{axis: value})
            for value in values
        ]
        least = min(over) if not any(map(isnan, over)) else float("nan")
        most = values[-1]
        found.append(
            at_least(id_, f"over P2P, {words} up to {most:,}, at least", least, 1, "times")
        )
    return found


def findings(results: Results) -> list[str]:
    """What is lost on the way."""
    best = rate(usual(results), dimensions=MOST)
    flat = rate(results, dimensions=MOST, deviation=FLATTER[-1])
    adverse = rate(results, dimensions=MOST, adverse=ADVERSE_MOST[-1])
    return [
        f"From a deviation of 250 to 1,000 {100 * (1 - flat / best):.0f} % of the rate are lost (the"
        f" paper: almost 40 %), with 4 adverse dimensions {100 * (1 - adverse / best):.0f} % (more than"
        " half)."
    ]


def charts(results: Results) -> list[Chart]:
    """Figure 11, each against the usual workload."""
    plain = usual(results)
    best = rate(plain, dimensions=MOST)
    lines = {
        "dimensions": [(float(n), rate(plain, dimensions=n)) for n in DIMENSIONS],
        "deviation": [(250.0, best)]
        + [(float(d), rate(results, dimensions=MOST, deviation=d)) for d in FLATTER],
        "adverse dimensions": [(0.0, best)]
        + [(float(n), rate(results, dimensions=MOST, adverse=n)) for n in ADVERSE_MOST],
    }
    return [
        Chart(
            id=f"004 fig 11{letter}",
            title=f"what is borne, by {axis}",
            x=axis,
            y="of the usual workload's",
            series=(
                Series("drift", tuple((x, y / best) for x, y in points if not isnan(y / best))),
            ),
        )
        for letter, (axis, points) in zip("abc", lines.items(), strict=True)
    ]


WORKLOADS = Experiment(
    name="partition-workloads",
    what="what the machines bear with fewer dimensions, less skew, adverse messages (004 figure 11)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
