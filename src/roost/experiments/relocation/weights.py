"""`relocation-weights`: GRAPE between its two goals, by the weight (000 section 5.2, figure 5h).

From delay100 over delay1, which is virtually load100 in the paper, loads fall and delays rise; and so they do
from load1, which is virtually delay100, to load100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from roost.experiments.frame import Claim, Experiment, Grid, Results, Scale, at_most, most
from roost.experiments.relocation.common import (
    END,
    SCALES,
    TASK,
    grid,
    name_of,
    spread_chart,
    spreads_of,
)
from roost.experiments.relocation.setup import BASELINE
from roost.pictures.charts import Chart

WEIGHTS = (1, 25, 50, 75, 100)
# From the least delay to the least load.
BY_DELAY = tuple(f"delay{weight}" for weight in reversed(WEIGHTS))
BY_LOAD = tuple(f"load{weight}" for weight in WEIGHTS)
SLACK = 0.5
SPREADS_MAX = 4


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """Some of the spreads, of which X = 1 is none: there all weights choose the same broker."""
    spreads = spreads_of(scale)[1:]
    chosen = spreads[:: max(1, -(-len(spreads) // SPREADS_MAX))]
    variants = (BASELINE, *BY_DELAY, *BY_LOAD)
    return [grid(scale, spread=chosen, variant=variants, order=["shuffled"])]


def _means(results: Results, variants: Sequence[str], figure: str) -> list[float]:
    return [results.where(variant=variant).mean(figure) for variant in variants]


def against(values: Sequence[float]) -> float:
    """How far values that should not rise do rise, at most, from one to the next, in %; 0 if they fall."""
    return most([0.0, *(100 * (b / a - 1) for a, b in pairwise(values))])


def claims(results: Results) -> list[Claim]:
    """Monotonous in the weight, and the ends meet."""
    found = []
    for variants in (BY_DELAY, BY_LOAD):
        rates = _means(results, variants, "data_rate")
        delays = _means(results, variants, "delay_ms")
        way = f"from {variants[0]} to {variants[-1]}"
        found += [
            at_most(
                "000 fig 5h",
                f"steps of the message rate against its fall {way}",
                against(rates),
                SLACK,
            ),
            at_most(
                "000 fig 5h",
                f"steps of the delivery delay against its rise {way}",
                against(delays[::-1]),
                SLACK,
            ),
        ]
    for one, other in (("load1", "delay100"), ("delay1", "load100")):
        for figure, what in (("delay_ms", "delivery delay"), ("data_rate", "message rate")):
            a, b = _means(results, (one, other), figure)
            found.append(
                at_most(
                    "000 section 5.2",
                    f"{one} and {other} apart in {what}",
                    100 * (max(a, b) / min(a, b) - 1),
                    10,
                )
            )
    return found


def charts(results: Results) -> list[Chart]:
    """Figure 5h, and the same for the message rate."""
    variants = (BASELINE, *BY_DELAY)
    more = (BASELINE, *BY_LOAD)
    return [
        spread_chart(
            id,
            f"{what}, {goal} first",
            unit,
            results,
            figure,
            variants=chosen,
            note=f"{END}; stationary traffic.",
        )
        for id, what, unit, figure in (
            ("000 fig 5h", "Delivery delay", "ms", "delay_ms"),
            (
                "000 section 5.2",
                "Publications that brokers receive",
                "a second and broker",
                "data_rate",
            ),
            ("000 section 5.2", "Hop count", "hops", "hops"),
        )
        for goal, chosen in (("delay", variants), ("load", more))
    ]


def findings(results: Results) -> list[str]:
    """What the weights buy."""
    ends = [name_of(v) for v in (BY_DELAY[0], BY_LOAD[-1])]
    rates = _means(results, (BY_DELAY[0], BY_LOAD[-1]), "data_rate")
    delays = _means(results, (BY_DELAY[0], BY_LOAD[-1]), "delay_ms")
    return [
        f"Between {ends[0]} and {ends[1]} the publications that brokers receive go from {rates[0]:.3g} to"
        f" {rates[1]:.3g} a second and broker, and the delay from {delays[0]:.3g} to {delays[1]:.3g} ms"
        " (means over X)."
    ]


WEIGHTED = Experiment(
    name="relocation-weights",
    what="GRAPE with weights of 1, 25, 50, 75 and 100 % on delay or load, clustered (000 fig 5h)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
