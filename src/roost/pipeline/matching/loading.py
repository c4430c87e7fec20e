"""Parsed subscriptions into an `Index`, many at a time.

Most subscriptions of a table are *plain*: one filter, of equalities with strings and of bounds that floats
hold. Plain ones of the same *shape*, the same attributes and operators in the same order, differ only in
their constants; so they are loaded by `Index.add_columns`, a shape at a time, from flat columns. All others
are made into filters and added one by one.

Between tasks and the driver, parsed subscriptions travel *packed*: a batch is one value, the bytes of an
Arrow stream, with the first error of the batch beside it. Spark then moves bytes and takes no rows apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import Operator, Subscription
from roost.language.predicate import ORDER_OPERATORS
from roost.language.values import EXACT_INT
from roost.matching import Ids, Index
from roost.pipeline.parsed import from_arrow
from roost.pipeline.parsing import Batches, Parser, check_ids
from roost.pipeline.schemas import SCHEMAS, SUBSCRIPTION

# Fewer of a shape are quicker one by one.
SHAPE_MIN = 16
# What is loaded at a time: enough to be quick, little enough not to matter beside the index.
CHUNK_BYTES = 32 << 20

# Parsed subscriptions and how heavy each is: see `weights`.
WEIGHT = "weight"
WEIGHED = SCHEMAS["parsed"].append(pa.field(WEIGHT, pa.int64()))
PACKED = pa.schema([("error", pa.string()), ("packed", pa.binary())])

OPERATORS = [operator.value for operator in Operator]
_ORDER = [operator in ORDER_OPERATORS for operator in Operator]
_EQUAL = OPERATORS.index(Operator.EQ.value)


@dataclass(frozen=True)
class Flat:
    """Parsed subscriptions as flat columns.

    The predicates of a subscription are those from one of `offsets` to the next. A predicate has the number
    of its attribute and of its operator. If the subscription is `plain`, its constant is in `texts` where
    `is_text` says so, and else in `numbers`.
    """

    ids: Ids
    filters: pa.ListArray
    plain: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    names: list[str]
    attributes: NDArray[np.int64]
    operators: NDArray[np.int64]
    is_text: NDArray[np.bool_]
    is_number: NDArray[np.bool_]
    texts: pa.StringArray
    numbers: NDArray[np.float64]

    @classmethod
    def of(cls, batch: pa.RecordBatch | pa.Table) -> Flat:
        """A batch of `parsed` taken apart."""
        ids, filters = (_one_array(batch.column(n)) for n in (0, 1))
        if filters.null_count or filters.values.null_count or filters.values.values.null_count:
            raise UserError(
                "the table 'parsed' has a null where filters or predicates are expected"
            )
        predicates = filters.values.values
        names = predicates.field("attribute").dictionary_encode()
        operators = pc.index_in(predicates.field("operator"), pa.array(OPERATORS))
        constants = _Constants(predicates.field("values"))
        codes = operators.fill_null(len(OPERATORS)).to_numpy()
        plain_predicate = (constants.is_text & (codes == _EQUAL)) | (
            constants.is_number & np.array([*_ORDER, False])[codes]
        )
        plain_predicate &= names.indices.is_valid().to_numpy(zero_copy_only=False)
        of_rows = filters.offsets.to_numpy()
        offsets = filters.values.offsets.to_numpy()[of_rows].astype(np.int64)
        odd_before = np.concatenate([[0], np.cumsum(~plain_predicate)])
        return cls(
            ids.to_numpy(),
            filters,
            (np.diff(of_rows) == 1) & (np.diff(odd_before[offsets]) == 0),
            offsets,
            names.dictionary.to_pylist(),
            names.indices.fill_null(0).to_numpy().astype(np.int64),
            codes.astype(np.int64),
            constants.is_text,
            constants.is_number,
            constants.texts,
            constants.numbers,
        )

    def subscriptions(self, rows: NDArray[np.int64]) -> list[Subscription]:
        """What these rows are, as objects."""
        return from_arrow(self.ids[rows].tolist(), self.filters.take(pa.array(rows)))

    @cached_property
    def shapes(self) -> list[NDArray[np.int64]]:
        """The rows of the plain ones, a list a shape."""
        codes = (self.attributes * len(OPERATORS) + self.operators) * 2 + self.is_text
        lengths = np.where(self.plain, np.diff(self.offsets), -1)
        found = []
        for length in np.unique(lengths[self.plain]).tolist():
            rows = np.flatnonzero(lengths == length)
            shape = np.zeros(len(rows), np.int64)
            for position in range(length):
                here = _numbered(codes[self.offsets[rows] + position])
                shape = _numbered(shape * (int(here.max()) + 1) + here)
            order = np.argsort(shape, kind="stable")
            found += np.split(rows[order], np.flatnonzero(np.diff(shape[order])) + 1)
        return found


class _Constants:
    """The constants of predicates that have just one, which is a string or a number that floats hold."""

    def __init__(self, values: pa.ListArray) -> None:
        offsets = values.offsets.to_numpy()
        fields = values.values
        one = np.diff(offsets) == 1
        # Of a predicate without just one value, any will do: it is not looked at.
        at = pa.array(np.where(one, offsets[:-1], 0))
        if not len(fields):
            fields = pa.array([None], fields.type)
        integers, numbers = fields.field("integer").take(at), fields.field("number").take(at)
        self.texts: pa.StringArray = fields.field("text").take(at)
        self.is_text = one & _valid(self.texts)
        whole = integers.fill_null(0).to_numpy(zero_copy_only=False)
        is_whole = _valid(integers)
        self.numbers = np.where(
            is_whole,
            whole.astype(np.float64),
            numbers.fill_null(0.0).to_numpy(zero_copy_only=False),
        )
        small = (self.numbers > -EXACT_INT) & (self.numbers < EXACT_INT)
        self.is_number = one & (is_whole | _valid(numbers)) & small


def load(index: Index, batch: pa.RecordBatch | pa.Table) -> set[str]:
    """Holds the subscriptions of a batch of `parsed`; the attributes that they speak of."""
    if not batch.num_rows:
        return set()
    flat = Flat.of(batch)
    singly = [np.flatnonzero(~flat.plain)]
    for rows in flat.shapes:
        if len(rows) < SHAPE_MIN:
            singly.append(rows)
        else:
            index.add_columns(flat.ids[rows], _columns(flat, rows))
    rows = np.concatenate(singly)
    for id_, subscription in zip(flat.ids[rows].tolist(), flat.subscriptions(rows), strict=True):
        index.add(id_, subscription)
    return set(flat.names)


def _columns(flat: Flat, rows: NDArray[np.int64]) -> list[tuple[str, str, Any]]:
    """The predicates of rows of one shape, a column of constants each."""
    start, end = flat.offsets[rows[0] : rows[0] + 2].tolist()
    columns = []
    for position in range(end - start):
        at = flat.offsets[rows] + position
        constants = (
            flat.texts.take(pa.array(at)) if flat.is_text[start + position] else flat.numbers[at]
        )
        name = flat.names[flat.attributes[start + position]]
        columns.append((name, OPERATORS[flat.operators[start + position]], constants))
    return columns


def load_all(index: Index, batches: Batches) -> set[str]:
    """Holds the subscriptions of all batches; the attributes that they speak of."""
    names: set[str] = set()
    for chunk in _chunks(batches):
        names |= load(index, chunk)
    return names


def _chunks(batches: Batches) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size > CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _numbered(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Equal numbers for equal values, from 0 on."""
    numbers: NDArray[np.int64] = pa.array(values).dictionary_encode().indices.to_numpy()
    return numbers.astype(np.int64)


# --- packed ---------------------------------------------------------------------------------------


def weighed(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches of `subscriptions` or of `parsed`, as parsed ones with weights."""
    parser = Parser()
    for batch in batches:
        if batch.schema.names[1] == "filter":
            parsed = parser.parsed(batch)
            weights = pc.binary_length(batch.column(1)).cast(pa.int64())
        else:
            check_ids(batch.column(0))
            parsed, weights = batch, pa.array(weights_of(batch.column(1)))
        yield pa.record_batch([*parsed.columns, weights], WEIGHED)


def weights_of(filters: pa.ListArray) -> NDArray[np.int64]:
    """How heavy each is: what its memory is proportional to, roughly. Of a text it is the length.

    Of parsed filters it is about the length that the text would have.
    """
    of_predicates = filters.values.offsets.to_numpy()[filters.offsets.to_numpy()]
    values = filters.values.values.field("values")
    of_values = values.offsets.to_numpy()[of_predicates]
    lengths = pc.binary_length(values.values.field("text")).fill_null(0).to_numpy()
    letters = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[of_values]
    weights: NDArray[np.int64] = 8 * (np.diff(of_predicates) + np.diff(of_values)) + np.diff(
        letters
    )
    return weights


def weights_in(batch: pa.RecordBatch | pa.Table) -> NDArray[np.int64]:
    """The weights of a batch WEIGHED."""
    weights: NDArray[np.int64] = _one_array(batch.column(WEIGHT)).to_numpy()
    return weights


def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What a task does: each batch packed, or its error."""
    incoming = iter(batches)
    work = weighed(incoming)
    while True:
        try:
            batch = next(work)
        except StopIteration:
            return
        except UserError as error:
            # Spark wants its batches read to the end.
            for _ in incoming:
                pass
            yield pa.record_batch([[str(error)], [b""]], PACKED)
            return
        yield pa.record_batch([[None], [packed(batch)]], PACKED)


def packed(batch: pa.RecordBatch) -> bytes:
    """The batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: Any) -> pa.RecordBatch:
    """The batch again; its memory is that of `data`, a buffer or bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def unpack(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The batches of a collected table PACKED; a `UserError` if there is an error among them."""
    errors = table.column("error").drop_null()
    if len(errors):
        raise UserError(errors[0].as_py())
    for chunk in table.column("packed").chunks:
        for value in chunk:
            yield unpacked(value.as_buffer())


def check_distinct(batches: Iterable[pa.RecordBatch]) -> None:
    """Refuses ids that come twice."""
    ids = np.concatenate(
        [np.empty(0, np.int64), *(batch.column(0).to_numpy() for batch in batches)]
    )
    ids.sort()
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise twofold(int(twice[0]))


def twofold(id_: int | str) -> UserError:
    """An id comes twice."""
    return UserError(f"the {SUBSCRIPTION} {id_} comes twice; expected each id once")
