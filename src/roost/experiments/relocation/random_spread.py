"""`relocation-random`: subscribers of all ratings anywhere on X brokers (000 section 5.2, figure 5g)."""

from __future__ import annotations

from collections.abc import Mapping

from roost.experiments.frame import (
    Claim,
    Experiment,
    Grid,
    Results,
    Scale,
    at_least,
    at_most,
    most,
)
from roost.experiments.relocation.common import (
    END,
    SCALES,
    TASK,
    VARIANTS,
    grid,
    spread_chart,
    spreads_of,
)
from roost.experiments.relocation.setup import BASELINE, POP
from roost.pictures.charts import Chart

LOAD, DELAY = "load100", "delay100"


def grids(scale: Scale, _: Mapping[str, str]) -> list[Grid]:
    """All cells."""
    return [grid(scale, spread=spreads_of(scale), variant=VARIANTS, distribution=["random"])]


def _apart(results: Results, spread: float) -> float:
    """How far load100 and delay100 are apart in publications that brokers receive, in %."""
    load, delay = (
        results.where(spread=spread, variant=variant).mean("data_rate") for variant in (LOAD, DELAY)
    )
    return 100 * (max(load, delay) / min(load, delay) - 1)


def _below_pop(results: Results, spread: float) -> float:
    """How far GRAPE's messages of overhead are below POP's, in %."""

    def other(variant: str) -> float:
        return results.where(spread=spread, variant=variant).mean("overhead_rate")

    return 100 * (1 - max(other(LOAD), other(DELAY)) / other(POP))


def claims(results: Results) -> list[Claim]:
    """What the paper says of this workload."""
    spreads = results.parameter("spread")

    def overhead(variant: str) -> float:
        own = results.where(variant=variant)
        return most(own.where(spread=x).mean("overhead") for x in spreads)

    return [
        at_most(
            "000 section 5.2",
            "load100 and delay100 apart in message rate, at most over X",
            most(_apart(results, x) for x in spreads),
            3,
        ),
        at_most(
            "000 section 5.2",
            "message overhead of GRAPE, the most over X",
            most((overhead(LOAD), overhead(DELAY))),
            16,
            paper=5,
        ),
        at_most("000 section 5.2", "message overhead of POP, the most over X", overhead(POP), 32),
        at_least(
            "000 section 4.1",
            "messages of overhead, GRAPE below POP, the best over X",
            most(_below_pop(results, x) for x in spreads),
            91,
            paper=91,
        ),
    ]


def findings(results: Results) -> list[str]:
    """What the paper says in words, and what we find."""
    spreads = [int(x) for x in results.parameter("spread")]

    def delay(variant: str, x: int) -> float:
        return results.where(spread=x, variant=variant).mean("delay_ms")

    better = [x for x in spreads if delay(POP, x) < delay(DELAY, x)]
    least = [
        x
        for x in spreads
        if results.where(spread=x, variant=LOAD).mean("data_rate")
        < results.where(spread=x, variant=BASELINE).mean("data_rate")
    ]
    return [
        "The paper finds POP to have the lowest delay under the random workload. Here POP is below"
        f" delay100 at X = {', '.join(map(str, better)) or 'none'}, of {', '.join(map(str, spreads))}.",
        "The paper finds GRAPE's message rate to match the baseline's. Here load100 needs fewer"
        f" publications than the baseline at X = {', '.join(map(str, least)) or 'none'}.",
    ]


def charts(results: Results) -> list[Chart]:
    """Figure 5g, and those of the appendix."""
    return [
        spread_chart("000 fig 5g", "Delivery delay", "ms", results, "delay_ms", note=END),
        spread_chart(
            "000 section 5.2",
            "Broker message rate",
            "messages/s and broker",
            results,
            "message_rate",
            note=END,
        ),
        spread_chart(
            "000 section 5.2", "Input utilisation", "%", results, "input_utilisation", note=END
        ),
        spread_chart(
            "000 section 5.2", "Output utilisation", "%", results, "output_utilisation", note=END
        ),
        spread_chart("000 section 5.2", "Hop count", "hops", results, "hops", note=END),
        spread_chart(
            "000 section 5.2",
            "Message overhead",
            "% of messages",
            results,
            "overhead",
            note="Since the clients joined.",
        ),
    ]


RANDOM = Experiment(
    name="relocation-random",
    what="POP and GRAPE with subscribers of all ratings anywhere on X brokers (000 fig 5g)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
)
