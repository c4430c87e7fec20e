"""`balancing-together`: balancing and GRAPE act at the same time, on the clusters of 001 section 5.2.2.

GRAPE moves publishers and subscribers next to each other, balancing moves subscribers off hot brokers: each
could undo what the other does. The arbiter of each broker grants a client to one of them at a time, and lets
it rest after that (docs/BROKER.md). Alone and together stand next to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

from roost.experiments.balancing.clusters import CONVERGED_S, RECONVERGED_S, SCALES
from roost.experiments.balancing.common import SHARES, TASK, below, share
from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_least, at_most
from roost.pictures.charts import Chart

PROFILE = "roost"
REST_S = 60.0
EVERY_S = 250.0
BESIDE = ("nothing", "grape")
CHARTED = {
    "delivery_delay_s": ("001 fig 5.20", "Delivery delay", "s"),
    "overhead": ("001 fig 5.22", "Overhead", "%"),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    usual: Grid = {name: [value] for name, value in scale.settings.items()}
    return [
        {
            **usual,
            "workload": ["global"],
            "profile": [PROFILE],
            "beside": BESIDE,
            "rest_s": [REST_S],
            "every_s": [EVERY_S],
        }
    ]


def claims(results: Results) -> list[Claim]:
    """What optimisers that act together promise."""
    both = results.where(beside="grape")
    id_, bound = "001 sec 5.2.2", SHARES[PROFILE]

    def never(what: str, figure: str) -> Claim:
        return at_most(id_, what, float(sum(both.values(figure))) if both.done else nan, 0, "")

    return [
        never("moves of a client that is moving", "two_leases"),
        never("moves of a client that rests", "within_rest"),
        never("refusals that do not say whose they are, and why", "refused_silently"),
        at_least(id_, "refusals that are recorded", both.mean("refused"), 1, ""),
        at_least(
            id_,
            "together: clusters within the global thresholds by 4,700 s, in a share of the seeds",
            share(both, below("clusters_converged_s", CONVERGED_S)),
            bound,
        ),
        at_least(
            id_,
            "together: again 2,500 s after the change, in a share of the seeds",
            share(both, below("clusters_reconverged_s", RECONVERGED_S)),
            bound,
        ),
    ]


def charts(results: Results) -> list[Chart]:
    """Alone and together, over time."""
    names = {"nothing": "balancing alone", "grape": "with GRAPE"}
    return [
        Chart(
            id=id_,
            title=title,
            x="time (s)",
            y=unit,
            series=tuple(
                results.where(beside=beside).line(name, f"{figure}_at_")
                for beside, name in names.items()
            ),
        )
        for figure, (id_, title, unit) in CHARTED.items()
    ]


def findings(results: Results) -> list[str]:
    """Who moved how many."""
    found = []
    for beside, name in (("nothing", "alone"), ("grape", "together")):
        own = results.where(beside=beside)
        if own.done:
            grape = own.mean("moves_grape") if own.values("moves_grape") else 0.0
            found.append(
                f"{name}: {own.mean('moves_balancing'):.0f} moves of balancing, {grape:.0f} of GRAPE,"
                f" {own.mean('refused'):.0f} refusals; clusters converged at"
                f" {own.mean('clusters_converged_s'):.0f} s; delivery takes"
                f" {own.mean('delivery_delay_before_s'):.3f} s. Means over the seeds."
            )
    return found


TOGETHER = Experiment(
    name="balancing-together",
    what="Load balancing of 001 and GRAPE of 000 at the same time: four clusters in a chain",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
