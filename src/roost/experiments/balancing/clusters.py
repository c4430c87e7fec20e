"""`balancing-global`: four clusters in a chain, and all clients at the first (001 section 5.2.2).

Subscribers are diffused cluster by cluster, so that load falls with the distance. The thesis has converged
at 4,700 s, and again at 10,500 s after half of the publishers have doubled their rates at 8,000 s. A
cluster is as loaded as its edge-brokers on average; clusters are converged when neighbouring ones differ by
no more than the global thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from statistics import correlation

from roost.experiments.balancing.common import (
    PROFILES,
    SHARES,
    TASK,
    below,
    cluster_line,
    compared_charts,
    share,
)
from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.pictures.charts import Chart

EVERY_S = 250.0
CONVERGED_S, RECONVERGED_S = 4_700.0, 2_500.0
OVERHEAD_MAX, CORRELATED = 0.7, 0.8
CLUSTERS = ("B10", "B20", "B30", "B40")
# Processors of the edge-brokers of each, in MHz: table 5.4.
CAPACITIES = {"B10": 500.0, "B20": 750.0, "B30": 966.0, "B40": 399.0}
CHARTED = {
    "input_utilisation": (
        "001 fig 5.17",
        "Average input utilisation ratio of each cluster",
        "ratio",
    ),
    "output_utilisation": (
        "001 fig 5.18",
        "Average output utilisation ratio of each cluster",
        "ratio",
    ),
    "matching_delay_s": ("001 fig 5.19", "Average matching delay of each cluster", "s"),
    "subscriptions": ("001 fig 5.21", "Subscriptions of an edge-broker of each cluster", ""),
}
COMPARED = {
    "delivery_delay_s": ("001 fig 5.20", "Delivery delay", "s"),
    "overhead": ("001 fig 5.22", "Overhead", "%"),
}
# By how much B10 is more loaded than B40 when all is at rest, and where the thesis says so.
FALLS = {
    "input_utilisation": ("001 fig 5.17", "input ratio", "", 0.2),
    "output_utilisation": ("001 fig 5.18", "output ratio", "", 0.15),
    "matching_delay_s": ("001 fig 5.19", "matching delay", "s", 0.1),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    usual: Grid = {name: [value] for name, value in scale.settings.items()}
    return [{**usual, "workload": ["global"], "profile": PROFILES, "every_s": [EVERY_S]}]


def claims(results: Results) -> list[Claim]:
    """What the thesis shows, in so many of the seeds."""
    found = []
    for profile in PROFILES:
        own, bound = results.where(profile=profile), SHARES[profile]
        in_seeds = "in a share of the seeds"
        found += [
            at_least(
                "001 fig 5.17",
                f"{profile}: neighbouring clusters within the global thresholds by 4,700 s, {in_seeds}",
                share(own, below("clusters_converged_s", CONVERGED_S)),
                bound,
            ),
            at_least(
                "001 fig 5.17",
                f"{profile}: again 2,500 s after the change, {in_seeds}",
                share(own, below("clusters_reconverged_s", RECONVERGED_S)),
                bound,
            ),
            at_most(
                "001 fig 5.22",
                f"{profile}: overhead in the steady periods, mean over the seeds",
                own.mean("overhead"),
                OVERHEAD_MAX,
                paper=OVERHEAD_MAX,
            ),
            *(_falls(own, profile, figure) for figure in FALLS),
            at_least(
                "001 fig 5.21",
                f"{profile}: subscribers follow the capacities of clusters (correlation, end)",
                _correlation(own),
                CORRELATED,
                "",
            ),
        ]
    return found


def _falls(own: Results, profile: str, figure: str) -> Claim:
    """Load falls with the distance from where it comes."""
    id_, what, unit, paper = FALLS[figure]
    near, far = (own.mean(f"{figure}_{cluster}_change") for cluster in (CLUSTERS[0], CLUSTERS[-1]))
    return at_least(
        id_,
        f"{profile}: load falls from B10 to B40 ({what}, 8,000 s)",
        near - far,
        0.0,
        unit,
        paper,
    )


def _placed(own: Results) -> dict[str, float]:
    """Subscribers of each cluster at the end, means over the seeds."""
    return {head: sum(own.mean(f"subscribers_{head[:-1]}{n}") for n in (1, 2)) for head in CLUSTERS}


def _correlation(own: Results) -> float:
    placed = list(_placed(own).values())
    if any(map(isnan, placed)) or min(placed) == max(placed):
        return nan
    return correlation(placed, list(CAPACITIES.values()))


def charts(results: Results) -> list[Chart]:
    """The indices of clusters over time, for each profile."""
    return [
        Chart(
            id=id_,
            title=f"{title}, {profile}",
            x="time (s)",
            y=unit,
            series=tuple(
                cluster_line(results.where(profile=profile), name, head) for head in CLUSTERS
            ),
        )
        for profile in PROFILES
        for name, (id_, title, unit) in CHARTED.items()
    ] + compared_charts(results, COMPARED)


def findings(results: Results) -> list[str]:
    """How it came to that, next to the thesis' course, and where subscribers are at the end."""
    found = []
    for profile in PROFILES:
        own = results.where(profile=profile)
        if own.done:
            spread = ", ".join(f"{head} {count:.0f}" for head, count in _placed(own).items())
            found.append(
                f"{profile}: clusters converged at {own.mean('clusters_converged_s'):.0f} s and again"
                f" {own.mean('clusters_reconverged_s'):.0f} s after the change (the thesis at 4,700 and"
                f" 2,500 s); delivery takes {own.mean('delivery_delay_before_s'):.3f} s and after the"
                f" change {own.mean('delivery_delay_after_s'):.3f} s (0.06 and 0.09);"
                f" subscribers at the end {spread}. Means over the seeds."
            )
    return found


# Of all that balances the load of four clusters.
SCALES = {
    "small": Scale(
        "small",
        1,
        {
            "publishers": 20,
            "subscribers": 600,
            "joining_per_s": 0.6,
            "zero_traffic": 0.2,
            "change_at_s": 2_500.0,
            "until_s": 4_000.0,
        },
        "20 publishers, 600 subscribers, 4,000 s: to see that it runs",
    ),
    "paper": Scale(
        "paper",
        10,
        {"zero_traffic": 0.2, "change_at_s": 8_000.0, "until_s": 12_000.0},
        "40 publishers, 2,000 subscribers, 12,000 s",
    ),
}

GLOBAL = Experiment(
    name="balancing-global",
    what="Global load balancing of 001: four clusters in a chain, all clients at the first",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
