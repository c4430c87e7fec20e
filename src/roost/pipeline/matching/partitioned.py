"""The plan `partitioned`: for subscriptions that do not fit into one worker.

No worker ever holds all of them: a task builds the index of its cell only (see `layout`), and the
publications of the cell stream through it. What a subscription takes is measured on the index of a sample,
as bytes a unit of weight; what each bucket weighs is counted exactly, in one pass over the subscriptions
that also finds whatever is wrong with them; from that follows how many pieces it is cut into.

Subscriptions and publications travel as *parcels*: the rows of a batch that go to the same cell, packed into
one value. So the shuffle moves few rows, and Spark takes none of them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.filesize import decimal as in_bytes

from roost.errors import UserError
from roost.language import Event
from roost.matching import Index
from roost.pipeline.matching.choosing import Estimate, Statistics
from roost.pipeline.matching.inputs import Inputs
from roost.pipeline.matching.layout import (
    Layout,
    Sample,
    best_routing,
    layout_of,
    weights_by_bucket,
)
from roost.pipeline.matching.loading import (
    WEIGHT,
    Flat,
    load_all,
    packed,
    twofold,
    unpacked,
    weighed,
    weights_in,
)
from roost.pipeline.matching.routing import Routing, keys_of
from roost.pipeline.matching.tasks import LISTS, Matching, Reading
from roost.pipeline.parsing import Batches, marking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SEED = 20_261
PUBLICATIONS_SAMPLED = 10_000
# Of the limit, for what an index takes however few subscriptions it has.
FIXED_SHARE = 0.75

ROW = "row of publications"
SUBSCRIPTIONS, PUBLICATIONS = 0, 1
PARCEL = pa.schema([("cell", pa.int32()), ("side", pa.int8()), ("parcel", pa.binary())])
# What a task counts: what the subscriptions weigh in each bucket, and the attributes they speak of.
COUNTED = pa.schema(
    [
        ("error", pa.string()),
        ("names", pa.list_(pa.string())),
        ("weights", pa.list_(pa.float64())),
    ]
)


class Division(NamedTuple):
    """How the work is divided, and the attributes that subscriptions speak of."""

    layout: Layout
    names: frozenset[str]
    heaviest: float  # what the heaviest cell takes, in bytes

    @property
    def reason(self) -> str:
        """In words."""
        routing = self.layout.routing
        if routing.attribute is None:
            how = "by the subscriptions alone"
        elif routing.cuts:
            how = f"by ranges of {routing.attribute!r}"
        else:
            how = f"by a hash of {routing.attribute!r}"
        largest = in_bytes(int(self.heaviest))
        if self.layout.cells == 1:
            return f"one part, which takes about {largest}"
        return f"{self.layout.cells:,} parts {how}, of which the largest takes about {largest}"


def divide(
    inputs: Inputs, statistics: Statistics, sampled: pa.Table, memory_limit: int
) -> Division:
    """Divides the work. Whatever is wrong with a subscription is a `UserError` now."""
    from roost.pipeline.matching.statistics import twice  # noqa: PLC0415 (not in a task)

    assert statistics.estimate is not None
    weight_limit = _weight_limit(statistics.estimate, memory_limit)
    doubled = twice(inputs)
    if doubled is not None:
        raise twofold(doubled)
    flat, weights = Flat.of(sampled), weights_in(sampled)
    sample = _sample(inputs, statistics, flat, weights)
    routing = best_routing(sample, weight_limit, statistics.tasks)
    names, exact = _counted(inputs, routing)
    layout = layout_of(
        routing, exact, weight_limit, sample.buckets_of_publications(routing), statistics.tasks
    )
    heaviest = float((exact / np.array(layout.pieces)).max())
    return Division(layout, names, statistics.estimate.fixed + heaviest * statistics.estimate.index)


def _weight_limit(estimate: Estimate, memory_limit: int) -> float:
    """How much weight a cell can have, if its index shall stay within the limit."""
    if estimate.fixed > FIXED_SHARE * memory_limit:
        least = int(estimate.fixed / FIXED_SHARE) + 1
        raise UserError(
            f"a memory limit of {in_bytes(memory_limit)} is too small for any part of these"
            f" subscriptions; expected at least {in_bytes(least)}"
        )
    return (memory_limit - estimate.fixed) / max(1.0, estimate.index)


def _sample(
    inputs: Inputs, statistics: Statistics, flat: Flat, weights: NDArray[np.int64]
) -> Sample:
    """The sample of the subscriptions, and one of the publications."""
    frame, reading = inputs.columns(flat.names)
    count = frame.count()
    if count > PUBLICATIONS_SAMPLED:
        frame = frame.sample(fraction=PUBLICATIONS_SAMPLED / count, seed=SEED)
    table = frame.toArrow().combine_chunks()
    columns: dict[str, Any] = {}
    if reading.event is not None:
        events = [e for batch in table.to_batches() for e in _events(reading, batch)]
        columns = {n: [e.attributes.get(n) for e in events] for n in flat.names}
    else:
        for at, name in reading.attributes:
            columns[name] = table.column(at).combine_chunks()
    return Sample(
        flat,
        weights,
        statistics.weight,
        statistics.subscriptions,
        count,
        columns,
        keys_of(table.column(0).combine_chunks()),
    )


def _events(reading: Reading, batch: pa.RecordBatch) -> list[Event]:
    """The events of a batch that has them as texts."""
    return cast(list[Event], reading.events(batch))


def _counted(inputs: Inputs, routing: Routing) -> tuple[frozenset[str], NDArray[np.float64]]:
    """The attributes that subscriptions speak of, and what they weigh in each bucket."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (not in a task)

    table = inputs.subscriptions.mapInArrow(
        _counting(routing), from_arrow_schema(COUNTED)
    ).toArrow()
    errors = table.column("error").drop_null()
    if len(errors):
        raise UserError(errors[0].as_py())
    names = frozenset(n for row in table.column("names").to_pylist() for n in row)
    weights = np.zeros(routing.buckets)
    for row in table.column("weights"):
        weights += row.values.to_numpy()
    return names, weights


def _counting(routing: Routing) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        names: dict[str, None] = {}
        weights = np.zeros(routing.buckets)
        incoming = iter(batches)
        error = None
        try:
            for batch in weighed(incoming):
                flat = Flat.of(batch)
                names.update(dict.fromkeys(flat.names))
                places = routing.places(flat)
                weights += weights_by_bucket(places, routing.buckets, weights_in(batch))
        except UserError as found:
            error = str(found)
            # Spark wants its batches read to the end.
            for _ in incoming:
                pass
        yield pa.record_batch([[error], [list(names)], [weights.tolist()]], COUNTED)

    return work


# --- the match ------------------------------------------------------------------------------------


def match_divided(inputs: Inputs, division: Division) -> DataFrame:
    """The matches, cell by cell."""
    layout = division.layout
    frame, reading = inputs.columns(division.names)
    if inputs.form == LISTS and max(layout.pieces) > 1:
        return _lists(inputs, layout, frame, reading)
    return _cell_by_cell(inputs, layout, frame, reading, inputs.schema)


def _cell_by_cell(
    inputs: Inputs, layout: Layout, frame: DataFrame, reading: Reading, schema: StructType
) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (not in a task)

    parcel = from_arrow_schema(PARCEL)
    sent = inputs.subscriptions.mapInArrow(marking(_sending_subscriptions(layout)), parcel)
    published = frame.mapInArrow(marking(_sending_publications(layout, reading)), parcel)
    return (
        sent.unionByName(published)
        .repartitionById(layout.cells, "cell")
        .sortWithinPartitions("side")
        .select("side", "parcel")
        .mapInArrow(marking(_matching_a_cell(reading, inputs.form)), schema)
    )


def _lists(inputs: Inputs, layout: Layout, frame: DataFrame, reading: Reading) -> DataFrame:
    """Lists, if a publication meets its subscriptions in several cells: its lists are put together."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (not in a task)
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415

    # A publication is known by its row: its number may not be its own.
    numbered = frame.withColumn(ROW, F.monotonically_increasing_id())
    place = len(frame.columns)
    parts = _cell_by_cell(
        inputs,
        layout,
        numbered,
        replace(reading, keep=(*reading.keep, (place, ROW))),
        StructType([*inputs.schema, StructField(ROW, LongType())]),
    )
    names = [f"c{n}" for n in range(len(inputs.schema))]
    whole = parts.toDF(*names, ROW).groupBy(ROW)
    return (
        whole.agg(
            F.first("c0").alias("c0"),
            F.flatten(F.collect_list("c1")).alias("c1"),
            *(F.first(name).alias(name) for name in names[2:]),
        )
        .select(*names)
        .toDF(*inputs.schema.names)
    )


def _sending_subscriptions(layout: Layout) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in weighed(batches):
            if batch.num_rows:
                rows, cells = layout.cells_of_subscriptions(Flat.of(batch))
                yield from _parcels(batch.drop_columns([WEIGHT]), rows, cells, SUBSCRIPTIONS)

    return work


def _sending_publications(
    layout: Layout, reading: Reading
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    attribute = layout.routing.attribute

    def buckets_of(batch: pa.RecordBatch, keys: Any) -> NDArray[np.int64]:
        if reading.event is not None:
            events = _events(reading, batch)
            values = [event.attributes.get(str(attribute)) for event in events]
            return layout.routing.of_values(values, keys)
        places = {name: at for at, name in reading.attributes}
        at = places.get(str(attribute))
        return layout.routing.of_column(None if at is None else batch.column(at), keys)

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = keys_of(batch.column(0))
            rows, cells = layout.cells_of_publications(buckets_of(batch, keys), keys)
            yield from _parcels(batch, rows, cells, PUBLICATIONS)

    return work


def _parcels(
    batch: pa.RecordBatch, rows: NDArray[np.int64], cells: NDArray[np.int64], side: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a batch as one parcel a cell."""
    order = np.argsort(cells, kind="stable")
    rows, cells = rows[order], cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    for start, group in zip(starts, np.split(rows, starts[1:]), strict=True):
        if len(group):
            parcel = packed(batch.take(pa.array(group)))
            yield pa.record_batch([[int(cells[start])], [side], [parcel]], PARCEL)


def _matching_a_cell(reading: Reading, form: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        parcels = _opened(batches)
        index = Index()
        # Subscriptions come first. The first parcel of publications has been taken when they end.
        first: list[pa.RecordBatch] = []
        load_all(index, _leading_subscriptions(parcels, first))
        matching = Matching(index, reading, form)
        yield from matching.answers(first)
        yield from matching.answers(batch for _, batch in parcels)

    return work


def _opened(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        for side, parcel in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield side, unpacked(parcel.as_buffer())


def _leading_subscriptions(
    parcels: Iterator[tuple[int, pa.RecordBatch]], first: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for side, batch in parcels:
        if side == PUBLICATIONS:
            first.append(batch)
            return
        yield batch
