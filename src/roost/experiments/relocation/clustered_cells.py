"""The cells of `relocation-clustered`, and what is asked of them.

Besides the paper's two testbeds (constant latencies for the cluster, wide-area ones for PlanetLab) there are

- X = 1 with the 40 publishers of the paper at any scale: the average input utilisation depends on how many
  publishers share a broker, since a broker's matching time is that of all subscriptions there;
- three times as many publications, for POP: it traces 50 a minute of a publisher, and a message for every
  traced publication and link comes back, so that what all messages fall by depends on the rate;
- stationary traffic, on which the placement is held to the optimum;
- brokers near saturation, with random arrivals.
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import Grid, Results, Scale, reduction
from roost.experiments.relocation.common import SMALL, VARIANTS, grid, spreads_of
from roost.experiments.relocation.setup import BASELINE, CONSTANT, POP, WIDE_AREA

LOAD, DELAY = "load100", "delay100"
DENSE = 40
PEAK = 0.9
BRISK = 300.0


def grids(scale: Scale, given: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    spreads = spreads_of(scale)
    # At the small scale every second one will do where nothing is demanded of each.
    some = spreads[::2] if scale.name == SMALL else spreads
    wide_area = given.get("latencies", WIDE_AREA)
    dense = Scale("dense", scale.seeds, {**scale.settings, "publishers": DENSE}, "")
    brisk = Scale("brisk", scale.seeds, {**scale.settings, "rate_per_min": BRISK}, "")
    return [
        grid(scale, spread=spreads, variant=VARIANTS),
        grid(scale, spread=some, variant=VARIANTS, latencies=[wide_area]),
        grid(dense, spread=[1], variant=[BASELINE, LOAD]),
        grid(brisk, spread=spreads[1:], variant=[BASELINE, POP]),
        grid(scale, spread=spreads[1:], variant=[BASELINE, DELAY], order=["shuffled"]),
        grid(scale, spread=some, variant=VARIANTS, peak=[PEAK], arrivals=["random"]),
    ]


class Parts:
    """The cells of each grid."""

    def __init__(self, results: Results) -> None:
        free = results.where(peak=0.0, order="market")
        # With the fewest publishers and publications, which are those of the scale.
        publishers = min(free.parameter("publishers"), default=0)
        rate = min(free.parameter("rate_per_min"), default=0)
        constant = free.where(latencies=CONSTANT)
        self.constant = constant.where(publishers=publishers, rate_per_min=rate)
        self.brisk = constant.where(rate_per_min=BRISK)
        self.wide = Results(r for r in free.done if r.parameters["latencies"] != CONSTANT)
        self.dense = constant.where(publishers=DENSE, spread=1)
        self.stationary = results.where(order="shuffled")
        self.saturated = results.where(peak=PEAK)


def less(part: Results, variant: str, spread: float, figure: str) -> float:
    """By how much a figure is below the baseline's, in %."""
    there = part.where(spread=spread)
    return reduction(there.where(variant=BASELINE), there.where(variant=variant), figure)
