"""Subscriptions that go by texts: numbers for the index, and the texts again in the answer.

An index knows its subscriptions by whole numbers. Texts are numbered in their order, on the driver, which
is where they are also seen to come once each; the texts of the answer are looked up in tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roost.errors import UserError
from roost.pipeline.matching.loading import twofold
from roost.pipeline.matching.tasks import LISTS
from roost.pipeline.parsing import Batches
from roost.pipeline.schemas import SUBSCRIPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NUMBER = "number of subscription"


def numbered(subscriptions: DataFrame) -> tuple[DataFrame, pa.Array]:
    """The subscriptions by numbers, and the texts that they went by: number n by the nth."""
    found = subscriptions.select(SUBSCRIPTION).toArrow().column(0).combine_chunks()
    if found.null_count:
        raise UserError("a subscription has no id (null); expected a text")
    names = found.take(pc.sort_indices(found))
    again = pc.index(pc.equal(names[1:], names[:-1]), True).as_py()
    if again >= 0:
        raise twofold(repr(names[again].as_py()))
    numbers = pa.table({SUBSCRIPTION: names, NUMBER: pa.array(range(len(names)), pa.int64())})
    known = subscriptions.sparkSession.createDataFrame(numbers)
    rest = [name for name in subscriptions.columns if name != SUBSCRIPTION]
    joined = subscriptions.join(known, SUBSCRIPTION).select(NUMBER, *rest)
    return joined.toDF(SUBSCRIPTION, *rest), names


def named(matches: DataFrame, names: pa.Array, form: str) -> DataFrame:
    """The matches with texts in place of numbers."""
    return matches.mapInArrow(_naming(names, form), _schema(matches.schema, form))


def _naming(names: pa.Array, form: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answer = batch.column(1)
            if form == LISTS:
                texts = names.take(answer.flatten())
                # From zero: a batch may be a slice of a longer column.
                offsets = np.cumsum([0, *answer.value_lengths().to_pylist()])
                answer = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
            else:
                answer = names.take(answer)
            first, _, *kept = batch.columns
            yield pa.record_batch([first, answer, *kept], batch.schema.names)

    return work


def _schema(schema: StructType, form: str) -> StructType:
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType  # noqa: PLC0415

    first, second, *kept = schema
    kind = ArrayType(StringType()) if form == LISTS else StringType()
    return StructType([first, StructField(second.name, kind), *kept])
