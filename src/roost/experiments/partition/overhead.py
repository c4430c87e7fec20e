"""`partition-overhead`: what a service says to itself, and how that grows (004 section IV.C)."""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_most
from roost.experiments.partition.scale import TASK
from roost.pictures.charts import Chart, Series

MANY = (20, 50, 100, 200, 500, 1_000)
USUAL = MANY[0]
PARTS = ("gossip", "tables", "reports")
SCALES = {
    "small": Scale(
        "small",
        1,
        {"subscriptions": 400, "best_per_s": 200, "lasts_s": 20},
        "400 subscriptions, 20 s",
    ),
    "paper": Scale(
        "paper",
        3,
        {"subscriptions": 2_000, "best_per_s": 300, "lasts_s": 60},
        "2,000 subscriptions, 60 s",
    ),
}


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """20 matchers with their load, and the gossip of up to 1,000."""
    usual = {name: [value] for name, value in scale.settings.items()}
    return [
        {"what": ["simulated_traffic"], "matchers": [USUAL], **usual},
        {"what": ["traffic"], "matchers": list(MANY)},
    ]


def claims(results: Results) -> list[Claim]:
    """The paper: 2.9 kB of gossip, and 20 bytes a dispatcher, a second and matcher."""
    loaded = results.where(what="simulated_traffic")
    most = results.where(what="traffic", matchers=MANY[-1])
    return [
        at_most(
            "004 section IV.C",
            "bytes a second and matcher, 20 matchers and 2 dispatchers",
            loaded.mean("total"),
            3_000,
            "bytes",
            2_940,
        ),
        at_most(
            "004 section IV.C",
            "gossip, bytes a second and matcher, 1,000 matchers",
            most.mean("gossip_bytes_per_s"),
            10_000,
            "bytes",
        ),
        at_most(
            "004 section IV.C",
            "a step of a table of 1,000 matchers, of the whole",
            100 * most.mean("step_bytes") / most.mean("table_bytes"),
            1,
            "%",
        ),
        at_most(
            "004 section III.C",
            "of those who are watched, suspected by mistake",
            100 * results.where(what="traffic").mean("suspected"),
            0.01,
            "%",
        ),
    ]


def findings(results: Results) -> list[str]:
    """The parts, and how they grow."""
    loaded = results.where(what="simulated_traffic")
    parts = ", ".join(f"{part} {loaded.mean(f'{part}_bytes_per_s'):,.0f}" for part in PARTS)
    alone = results.where(what="traffic")
    grows = ", ".join(
        f"{alone.where(matchers=n).mean('gossip_bytes_per_s'):,.0f} with {n:,}" for n in MANY
    )
    table = alone.where(matchers=MANY[-1])
    return [
        f"Bytes a second and matcher under load, {USUAL} matchers and 2 dispatchers: {parts}.",
        f"Gossip alone: {grows}. A table of {MANY[-1]:,} takes {table.mean('table_bytes'):,.0f}"
        f" bytes, and what is new in it after a step {table.mean('step_bytes'):,.0f}.",
    ]


def charts(results: Results) -> list[Chart]:
    """Gossip, by the number of matchers."""
    alone = results.where(what="traffic")
    points = tuple((n, alone.where(matchers=n).mean("gossip_bytes_per_s")) for n in MANY)
    return [
        Chart(
            id="004 section IV.C",
            title="gossip, bytes a second and matcher",
            x="matchers",
            y="bytes",
            series=(Series("gossip", points),),
        )
    ]


OVERHEAD = Experiment(
    name="partition-overhead",
    what="what a service says to itself: gossip, tables, reports, and how they grow (004 section IV.C)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
