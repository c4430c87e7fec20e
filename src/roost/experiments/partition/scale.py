"""`partition-scale`: how much a service bears, against P2P and full replication (004 figures 6 and 11).

As a fluid: the best division of messages, with a cost in proportion to the set that is searched. What the
machines reach of it is `partition-policies`' to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.pictures.charts import Chart, Series

TASK = "roost.experiments.partition.cell:cell"
MATCHERS = (5, 10, 15, 20)
SUBSCRIPTIONS = 4_000
MOST = MATCHERS[-1]
DIMENSIONS = (1, 2, 3, 4)
DEVIATIONS = (250, 500, 750, 1000)
ADVERSE = (1, 2, 3, 4)
EXPONENTS = (1.25, 1.5, 1.75, 2.0)
SCALES = {
    "small": Scale("small", 1, {"subscriptions": SUBSCRIPTIONS}, "4,000 subscriptions"),
    "paper": Scale("paper", 3, {"subscriptions": 40_000}, "the paper's 40,000 subscriptions"),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    usual: Grid = {
        "what": ["fluid"],
        "subscriptions": [scale.settings.get("subscriptions", SUBSCRIPTIONS)],
    }
    full = {**usual, "matchers": [MOST]}
    return [
        {**usual, "matchers": MATCHERS},
        {**full, "dimensions": DIMENSIONS[:-1]},
        {**full, "deviation": DEVIATIONS[1:]},
        {**full, "adverse": ADVERSE},
        {**usual, "matchers": [MATCHERS[0], MOST], "exponent": EXPONENTS},
        {**usual, "matchers": [MATCHERS[0], MOST], "what": ["indexed"]},
    ]


def plain(results: Results) -> Results:
    """The cells of the paper's usual workload."""
    axes = ("dimensions", "deviation", "adverse", "exponent")
    fluids = results.where(what="fluid").done
    return Results(r for r in fluids if not any(axis in r.parameters for axis in axes))


def held(results: Results, over: str, exponent: float = 1.0) -> float:
    """How many times as many subscriptions are held at the same rate (figure 6b).

    With a cost that is a power of the set, twice the subscriptions are borne at 2 ** -exponent of the rate,
    whoever forwards: the ratio of what is held is that of the rates, to the power of 1 / exponent.
    """
    return float(results.mean(over) ** (1 / exponent))


def claims(results: Results) -> list[Claim]:
    """What the paper says, with the bounds that a cost in proportion allows."""
    usual = plain(results)
    few, many = usual.where(matchers=MATCHERS[0]), usual.where(matchers=MOST)
    best = many.mean("best")
    one = results.where(dimensions=1)
    flat, all_adverse = results.where(deviation=DEVIATIONS[-1]), results.where(adverse=ADVERSE[-1])
    return [
        at_least("004 fig 6a", "over P2P, 5 matchers", few.mean("over_p2p"), 3.5, "times", 3.5),
        at_least("004 fig 6a", "over P2P, 20 matchers", many.mean("over_p2p"), 4.2, "times", 4.2),
        at_least(
            "004 fig 6a",
            "over full replication, 5 matchers",
            few.mean("over_replication"),
            6,
            "times",
            14,
        ),
        at_least(
            "004 fig 6a",
            "over full replication, 20 matchers",
            many.mean("over_replication"),
            10,
            "times",
            67,
        ),
        at_least(
            "004 fig 6b",
            "subscriptions held at a rate over P2P, 20 matchers",
            held(many, "over_p2p"),
            4,
            "times",
            4,
        ),
        at_least(
            "004 fig 6b",
            "subscriptions held at a rate over full replication, 20 matchers",
            held(many, "over_replication"),
            10,
            "times",
            30,
        ),
        at_least("004 fig 11a", "4 dimensions over 1", best / one.mean("best"), 5.5, "times", 5.5),
        at_least("004 fig 11b", "over P2P, deviation 1,000", flat.mean("over_p2p"), 1, "times"),
        at_most(
            "004 section IV.F",
            "the fullest set over the average, deviation 1,000",
            flat.mean("largest_set"),
            1.25,
            "times",
            1.17,
        ),
        at_least(
            "004 fig 11c",
            "over P2P, 4 adverse dimensions",
            all_adverse.mean("over_p2p"),
            1,
            "times",
        ),
    ]


def findings(results: Results) -> list[str]:
    """Which exponent would give the paper's ratios; and what our index gives."""
    found = []
    for matchers, paper in ((MATCHERS[0], 14), (MOST, 67)):
        at = results.where(matchers=matchers)
        ours = at.where(what="indexed")
        found.append(
            f"With what our index takes, about the set to the power of {ours.mean('exponent_found'):.2f},"
            f" {matchers} matchers bear {ours.mean('over_p2p'):.1f} times what P2P does and"
            f" {ours.mean('over_replication'):.1f} times full replication."
        )
        ratios = {1.0: plain(at).mean("over_replication")}
        ratios |= {e: at.where(exponent=e).mean("over_replication") for e in EXPONENTS}
        words = ", ".join(f"{ratio:.1f} at {e:g}" for e, ratio in ratios.items())
        found.append(
            f"Over full replication with {matchers} matchers, by the exponent of the cost: {words}."
            f" The paper has {paper}."
        )
    return found


def charts(results: Results) -> list[Chart]:
    """Figure 6a, as ratios."""
    usual = plain(results)
    lines = []
    for name, figure in (("over P2P", "over_p2p"), ("over full replication", "over_replication")):
        cells = [(float(n), usual.where(matchers=n).mean(figure)) for n in MATCHERS]
        lines.append(Series(name, tuple((x, y) for x, y in cells if not isnan(y))))
    return [
        Chart(
            id="004 fig 6a",
            title="what the best division bears, against both baselines",
            x="matchers",
            y="times",
            series=tuple(lines),
            note="P2P along the dimension that bears most.",
        )
    ]


SCALE = Experiment(
    name="partition-scale",
    what="how much dispatchers and matchers bear, against P2P and full replication (004 figures 6, 11)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
