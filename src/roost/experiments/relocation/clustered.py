"""`relocation-clustered`: the enterprise scenario of 000 section 5.2 (figures 5a to 5f).

All high-rated subscribers of a publisher are at one broker, the low-rated ones at X - 1 others. So the place
with the least load is that of the high-rated ones, and the place with the least delay between the others.
"""

from __future__ import annotations

from roost.experiments.frame import Claim, Experiment, Results, at_least, at_most, most
from roost.experiments.relocation.clustered_cells import DELAY, DENSE, LOAD, Parts, grids, less
from roost.experiments.relocation.clustered_charts import charts, findings
from roost.experiments.relocation.common import SCALES, TASK, VARIANTS
from roost.experiments.relocation.setup import POP

# By how much each goal has to lower its figure, in %, by X.
RATE_LESS = {2: 72.0, 4: 64.0, 8: 57.0, 16: 50.0, 32: 45.0, 63: 42.0}
DELAY_LESS = {2: 52.0, 4: 36.0, 8: 34.0, 16: 33.0, 32: 33.0, 63: 32.0}
RATE, INPUT, TIME, HOPS, OVERHEAD = (f"000 fig 5{letter}" for letter in "abcdf")


def claims(results: Results) -> list[Claim]:
    """What the paper says, and what is demanded of this implementation."""
    parts = Parts(results)
    several = [int(x) for x in parts.constant.parameter("spread") if x != 1]
    return [
        *_at_one_broker(parts),
        *(claim for x in several for claim in _at_several(parts, x)),
        at_most(
            RATE,
            "message rate of load100 above the lowest of all variants, the most over X > 1",
            most(_above_lowest(parts.constant, x) for x in several),
            0.0,
        ),
        at_most(
            OVERHEAD,
            "message overhead of GRAPE, the most over X",
            most(_overhead(parts.constant, variant) for variant in (LOAD, DELAY)),
            16,
            paper=16,
        ),
        at_most(
            OVERHEAD,
            "message overhead of POP, the most over X",
            _overhead(parts.constant, POP),
            32,
            paper=32,
        ),
        at_least(
            TIME,
            "delivery delay down near saturation, delay100, X = 1",
            less(parts.saturated, DELAY, 1, "delay_ms"),
            64,
            paper=68,
        ),
    ]


def _at_one_broker(parts: Parts) -> list[Claim]:
    constant, wide, dense = parts.constant, parts.wide, parts.dense
    only = constant.where(variant=LOAD, spread=1)
    return [
        at_least(
            RATE,
            "message rate down, load100, X = 1",
            less(constant, LOAD, 1, "message_rate"),
            84,
            paper=84,
        ),
        at_least(
            TIME,
            "delivery delay down, delay100, X = 1, constant latencies",
            less(constant, DELAY, 1, "delay_ms"),
            80,
            paper=68,
        ),
        at_least(
            TIME,
            "delivery delay down, delay100, X = 1, wide-area latencies",
            less(wide, DELAY, 1, "delay_ms"),
            70,
            paper=68,
        ),
        at_least(
            INPUT,
            f"input utilisation down, load100, X = 1, {DENSE} publishers",
            less(dense, LOAD, 1, "input_utilisation"),
            68,
            paper=68,
        ),
        at_most(HOPS, "overlay hops left, load100, X = 1", only.mean("hops"), 0, "hops"),
    ]


def _at_several(parts: Parts, x: int) -> list[Claim]:
    constant = parts.constant
    load = constant.where(variant=LOAD, spread=x)
    delay = parts.stationary.where(variant=DELAY, spread=x)
    return [
        at_least(
            RATE,
            f"message rate down, load100, X = {x}",
            less(constant, LOAD, x, "message_rate"),
            RATE_LESS.get(x, 0.0),
        ),
        at_most(
            RATE,
            f"message rate above the optimum, load100, X = {x}",
            load.mean("rate_above_optimum"),
            0.5,
        ),
        at_least(
            TIME,
            f"delivery delay down, delay100, X = {x}",
            less(constant, DELAY, x, "delay_ms"),
            DELAY_LESS.get(x, 0.0),
        ),
        at_least(
            TIME,
            f"delivery delay down, delay100, X = {x}, stationary traffic",
            less(parts.stationary, DELAY, x, "delay_ms"),
            DELAY_LESS.get(x, 0.0),
        ),
        at_most(
            TIME,
            f"delivery delay above the optimum, delay100, X = {x}, stationary traffic",
            delay.mean("delay_above_optimum"),
            5,
        ),
        at_least(
            RATE,
            f"publications that brokers receive down, POP, X = {x}",
            less(constant, POP, x, "data_rate"),
            30,
        ),
        at_least(
            TIME, f"delivery delay down, POP, X = {x}", less(constant, POP, x, "delay_ms"), 28
        ),
    ]


def _above_lowest(part: Results, x: int) -> float:
    """How far the message rate of load100 is above the lowest of all variants, in %."""
    rates = {v: part.where(spread=x, variant=v).mean("message_rate") for v in VARIANTS}
    return 100 * (rates[LOAD] / -most(-rate for rate in rates.values()) - 1)


def _overhead(part: Results, variant: str) -> float:
    """The most over X."""
    own = part.where(variant=variant)
    return most(own.where(spread=x).mean("overhead") for x in part.parameter("spread"))


CLUSTERED = Experiment(
    name="relocation-clustered",
    what="POP and GRAPE where one broker sinks all of a publisher's traffic, others a tenth (000 fig 5a-5f)",
    task=TASK,
    scales=SCALES,
    grids=grids,
    claims=claims,
    charts=charts,
    findings=findings,
    takes=("latencies",),
)
