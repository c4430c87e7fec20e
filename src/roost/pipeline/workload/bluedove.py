"""The workload of 004 section IV-B: four ranges of numbers, skewed, and points.

A dimension goes from 0 to 1,000, a range is 250 wide. The centres of the ranges are normal around a hot
spot, whose place differs from dimension to dimension, and cropped: what falls outside is drawn again. So an
event matches 129 of 40,000 subscriptions. Section IV-F varies two things: `deviation`, the skew of the
subscriptions (figure 11b: from 250 to 1,000), and `adverse`, the number of dimensions in which messages
have the hot spots of the subscriptions (figure 11c).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pyarrow as pa
from msgspec import Meta

from roost.pipeline.schemas import PUBLICATION, SCHEMAS, SUBSCRIPTION
from roost.pipeline.workload.blocks import Block, Column, Floats, generated
from roost.pipeline.workload.texts import Part, joined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIMENSION_LENGTH = 1_000.0
RANGE_WIDTH = 250.0
CENTRE_DEVIATION = 250.0
CENTRE_MEANS = (125.0, 375.0, 625.0, 875.0)
DIMENSIONS = len(CENTRE_MEANS)
SUBSCRIPTIONS, PUBLICATIONS = 40_000, 100_000

Deviation = Annotated[float, Meta(gt=0)]
Adverse = Annotated[int, Meta(ge=0, le=DIMENSIONS)]


def cropped_normal(
    rng: np.random.Generator, mean: float, n: int, deviation: float = CENTRE_DEVIATION
) -> Floats:
    """Draws from a normal distribution; what falls outside of the dimension is drawn again."""
    values = rng.normal(mean, deviation, n)
    while len(outside := np.flatnonzero((values < 0) | (values > DIMENSION_LENGTH))):
        values[outside] = rng.normal(mean, deviation, len(outside))
    return values


def ranges_around(centres: Floats) -> tuple[Floats, Floats]:
    """Where the ranges of these centres begin and end."""
    low = np.maximum(centres - RANGE_WIDTH / 2, 0.0)
    return low, np.minimum(centres + RANGE_WIDTH / 2, DIMENSION_LENGTH)


def bluedove_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = SUBSCRIPTIONS,
    first: int = 0,
    partitions: int | None = None,
    deviation: Deviation = CENTRE_DEVIATION,
) -> DataFrame:
    """A range in each of four dimensions around skewed centres."""
    return generated(
        spark,
        Subscriptions(deviation),
        SCHEMAS["subscriptions"],
        seed=seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


def bluedove_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int = PUBLICATIONS,
    first: int = 0,
    partitions: int | None = None,
    adverse: Adverse = 0,
    deviation: Deviation = CENTRE_DEVIATION,
) -> DataFrame:
    """Points anywhere; in the first `adverse` dimensions where the subscriptions are."""
    names = [f"d{dimension}" for dimension in range(DIMENSIONS)]
    schema = pa.schema([(PUBLICATION, pa.int64()), *((name, pa.float64()) for name in names)])
    return generated(
        spark,
        Publications(adverse, deviation),
        schema,
        seed=seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


@dataclass(frozen=True)
class Subscriptions:
    """Blocks of subscriptions."""

    deviation: float

    def __call__(self, block: Block) -> dict[str, Column]:
        rng = block.draws("bluedove subscriptions")
        parts: list[Part] = []
        for dimension, mean in enumerate(CENTRE_MEANS):
            low, high = ranges_around(cropped_normal(rng, mean, block.size, self.deviation))
            link = " and " if dimension else ""
            parts += [f"{link}d{dimension} >= ", low, f" and d{dimension} < ", high]
        return {SUBSCRIPTION: block.rows, "filter": joined(*parts)}


@dataclass(frozen=True)
class Publications:
    """Blocks of points."""

    adverse: int
    deviation: float

    def __call__(self, block: Block) -> dict[str, Column]:
        rng = block.draws("bluedove publications")
        columns: dict[str, Column] = {PUBLICATION: block.rows}
        for dimension, mean in enumerate(CENTRE_MEANS):
            columns[f"d{dimension}"] = (
                cropped_normal(rng, mean, block.size, self.deviation)
                if dimension < self.adverse
                else rng.uniform(0, DIMENSION_LENGTH, block.size)
            )
        return columns
