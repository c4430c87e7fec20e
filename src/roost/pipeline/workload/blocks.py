"""Tables from row numbers: every block of rows is drawn by itself.

A table is cut into blocks of fixed size. The values of a block depend on the seed, on what is drawn and on
the number of the block, and on nothing else: not on the partitions, not on which machine draws it, not on
how many rows there are before or after. A task makes the blocks it is given, whole, and cuts off what was
not asked for. So any range of rows can be made alone, and billions of rows need no more memory than one
block.

`BLOCK` and the way of seeding are part of what a seed means: with another size every table is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Column: TypeAlias = NDArray[Any] | pa.Array

BLOCK = 8_192
# Blocks a task makes, unless it is said: about half a million rows, which are a file of a few megabytes.
BLOCKS_A_PARTITION = 64


@dataclass(frozen=True)
class Block:
    """Some rows of a table that are drawn together."""

    seed: int
    number: int
    size: int = BLOCK

    @property
    def rows(self) -> Integers:
        """The numbers of its rows."""
        return np.arange(self.number * self.size, (self.number + 1) * self.size, dtype=np.int64)

    def draws(self, purpose: str) -> np.random.Generator:
        """Draws of its own for each purpose."""
        letters = int.from_bytes(purpose.encode(), "big")
        return np.random.Generator(np.random.PCG64([self.seed, letters, self.number]))


Make = Callable[[Block], Mapping[str, Column]]


def blocks_of(seed: int, rows: int) -> Iterator[tuple[Block, int]]:
    """The blocks of a table of so many rows, and how many rows of each count: for whoever needs no Spark."""
    for number in range(-(-rows // BLOCK)):
        yield Block(seed, number), min(BLOCK, rows - number * BLOCK)


def generated(
    spark: SparkSession,
    make: Make,
    schema: pa.Schema,
    *,
    seed: int,
    rows: int,
    first: int = 0,
    partitions: int | None = None,
    block_size: int = BLOCK,
) -> DataFrame:
    """The rows `first`, `first + 1`, ... of the table whose blocks `make` makes.

    `make` goes to the tasks: it has to pickle. It returns a column for each field of the schema.
    """
    _check(seed, rows, first, partitions)
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (Spark is slow to load)

    end = first + rows
    start_block, end_block = first // block_size, -(-end // block_size)
    if partitions is None:
        partitions = max(1, -(-(end_block - start_block) // BLOCKS_A_PARTITION))

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield cut(record_batch(make(Block(seed, number, block_size)), schema), number)

    def cut(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        before = number * block_size
        low = max(first - before, 0)
        return batch.slice(low, min(end - before, block_size) - low)

    numbers = spark.range(start_block, end_block if rows else start_block, 1, partitions)
    return numbers.mapInArrow(made, from_arrow_schema(schema))


def record_batch(columns: Mapping[str, Column], schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the order and the types of the schema."""
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in schema], schema=schema
    )


def _check(seed: int, rows: int, first: int, partitions: int | None) -> None:
    if seed < 0:
        raise UserError(f"the seed is {seed}; expected 0 or more")
    if rows < 0 or first < 0:
        raise UserError(f"{rows} rows from row {first} on; expected 0 or more of both")
    if partitions is not None and partitions < 1:
        raise UserError(f"{partitions} partitions; expected 1 or more")
