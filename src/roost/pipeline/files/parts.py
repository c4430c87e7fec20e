"""A file of lines as a table, by the tasks of Spark.

Spark cuts a file into parts, known by the byte at which they begin, and reads each from its beginning to
its end. The first time, tasks say how many lines and rows a part has, which columns with which kinds of
values, and the first line that is wrong. Put together in the order of the parts that gives the types, the
number of every part's first row and the number of a wrong line. The second time they read the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import LanguageError
from roost.language.lines import LineError
from roost.language.values import check_name
from roost.pipeline.files.lines import (
    BEYOND,
    EXACT,
    FLOAT,
    INTEGER,
    TEXT,
    TYPES,
    Form,
    Seen,
    csv_header,
    filled,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART, LINE = "part", "line"
SURVEY = pa.schema(
    [
        (PART, pa.int64()),
        ("lines", pa.int64()),
        ("rows", pa.int64()),
        ("columns", pa.string()),  # the columns that were seen, as JSON
        ("wrong", pa.string()),  # what is wrong with a line, if one is
        ("place", pa.int64()),  # which line that is, from 0
    ]
)
BOM = "\ufeff"

Batches = Iterator[pa.RecordBatch]


def text_lines(spark: SparkSession, address: str) -> DataFrame:
    """The lines of a file, and the parts that they are in."""
    frame = spark.read.text(address)
    return frame.selectExpr(f"_metadata.file_block_start AS {PART}", f"value AS {LINE}")


def header_of(lines: DataFrame, path: str) -> list[str]:
    """The names in the header of a CSV file."""
    first = lines.where(f"{PART} = 0").first()
    text = "" if first is None else first[LINE].removeprefix(BOM)
    if not text.strip():
        raise UserError(f"{path}, line 1: expected a header, the names of the columns")
    try:
        return csv_header(text)
    except LineError as bad:
        raise UserError(f"{path}, line 1: {bad}") from None


def numbered_lines(
    lines: DataFrame,
    form: Form,
    path: str,
    key: str,
    given_in: Callable[[Sequence[str], str], str | None],
) -> DataFrame:
    """The rows of a file, their number first; `given_in` says which of the columns has it, if one has."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (Spark is slow to load)

    begins: dict[int, int] = {}
    columns: dict[str, Seen] = {}
    line_count = row_count = 0
    found = lines.mapInArrow(Surveying(form), from_arrow_schema(SURVEY)).collect()
    for part in sorted(found, key=lambda row: int(row[PART])):
        if part.wrong is not None:
            raise UserError(f"{path}, line {line_count + part.place + 1}: {part.wrong}")
        begins[part[PART]] = row_count
        for name, seen in _decode_columns(part.columns).items():
            columns.setdefault(name, Seen()).add(seen, line_count)
        line_count += part.lines
        row_count += part.rows
    if not row_count:
        raise UserError(f"{path}: there is nothing in it")
    types = {name: type_of(path, name, seen, form) for name, seen in columns.items()}
    given = given_in(list(columns), key)
    if given is not None:
        _check_numbers(path, given, columns[given], row_count)
    schema = pa.schema([(key, pa.int64()), *((n, t) for n, t in types.items() if n != given)])
    return lines.mapInArrow(Reading(form, begins, types, key, given), from_arrow_schema(schema))


_decode_columns = msgspec.json.Decoder(dict[str, Seen]).decode


def _check_numbers(path: str, name: str, seen: Seen, rows: int) -> None:
    for kind, place in seen.kinds.items():
        if kind not in (INTEGER, EXACT):
            raise UserError(
                f"{path}, line {place + 1}: the {name} is of the kind {kind}; expected a whole number"
            )
    if seen.values < rows:
        missing = rows - seen.values
        raise UserError(
            f"{path}: {missing:,} of {rows:,} rows have no {name}; expected all to have one, or none"
        )


def type_of(path: str, name: str, seen: Seen, form: Form) -> pa.DataType:
    """The type of a column. Without values it is one of texts."""
    try:
        check_name(name, "the header" if form.header else "an object")
    except LanguageError as bad:
        raise UserError(f"{path}: {bad}") from None
    kinds = dict(seen.kinds)
    exact = kinds.pop(EXACT, None)
    if not kinds:
        return TYPES[TEXT]
    if set(kinds) <= {INTEGER, FLOAT, BEYOND}:
        if BEYOND in kinds:
            raise UserError(
                f"{path}, line {kinds[BEYOND] + 1}: the {name} is too large; expected an integer of 64 bits,"
                " or a number up to 1.7976931348623157e308"
            )
        if FLOAT not in kinds:
            return TYPES[INTEGER]
        if exact is not None:
            raise UserError(
                f"{path}, line {exact + 1}: the {name} is an integer that no float equals, and line"
                f" {kinds[FLOAT] + 1} makes this a column of floats; expected only integers, or smaller ones"
            )
        return TYPES[FLOAT]
    if len(kinds) > 1 and form.typed:
        (one, here), (other, there), *_ = sorted(kinds.items(), key=lambda kind: kind[1])
        raise UserError(
            f"{path}: the attribute {name!r} is of the kind {one} in line {here + 1} and of the kind {other}"
            f" in line {there + 1}; expected one kind in the whole file"
        )
    return TYPES[next(iter(kinds)) if len(kinds) == 1 else TEXT]


# --- in tasks -------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Lines of a part that came together."""

    part: int
    before: int  # lines of the part that came before them
    total: int
    places: NDArray[np.int64]  # of those that have rows, from 0
    texts: pa.Array  # of those that have rows


def together(batches: Batches, form: Form) -> Iterator[Lines]:
    """The lines of each batch, cut where a part ends."""
    before: dict[int, int] = {}
    for batch in batches:
        parts = batch.column(PART).to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        for low, high in pairwise(cuts):
            if low == high:
                continue
            part = int(parts[low])
            texts = batch.column(LINE).slice(low, high - low)
            start = before.get(part, 0)
            places = filled(texts)
            if part == start == 0:
                if form.header:
                    places = places[places > 0]
                elif texts[0].as_py().startswith(BOM):
                    texts = pc.replace_substring(texts, BOM, "", max_replacements=1)
            yield Lines(part, start, high - low, places, texts.take(pa.array(places)))
            before[part] = start + high - low


@dataclass
class Part:
    """What has been seen of a part."""

    lines: int = 0
    rows: int = 0
    columns: dict[str, Seen] = field(default_factory=dict)
    wrong: str | None = None
    place: int | None = None


@dataclass(frozen=True)
class Surveying:
    """The first time: a row a part, see `SURVEY`."""

    form: Form

    def __call__(self, batches: Batches) -> Batches:
        parts: dict[int, Part] = {}
        for lines in together(batches, self.form):
            part = parts.setdefault(lines.part, Part())
            # Behind a wrong line nothing matters.
            if part.wrong is None and len(lines.texts):
                self.look(part, lines)
            part.lines += lines.total
            part.rows += len(lines.texts)
        rows = [
            {PART: begin, **vars(part), "columns": msgspec.json.encode(part.columns).decode()}
            for begin, part in parts.items()
        ]
        yield pa.RecordBatch.from_pylist(rows, SURVEY)

    def look(self, part: Part, lines: Lines) -> None:
        """Notes what the lines have."""
        try:
            columns = self.form.survey(lines.texts)
        except LineError as bad:
            part.wrong, part.place = str(bad), lines.before + int(lines.places[bad.place])
            return
        for name, seen in columns.items():
            placed = {kind: int(lines.places[place]) for kind, place in seen.kinds.items()}
            part.columns.setdefault(name, Seen()).add(Seen(placed, seen.values), lines.before)


@dataclass(frozen=True)
class Reading:
    """The second time: the rows."""

    form: Form
    begins: dict[int, int]  # the number of the first row of each part
    types: dict[str, pa.DataType]
    key: str  # what the numbers are called
    given: str | None  # the column that has them

    def __call__(self, batches: Batches) -> Batches:
        following = dict(self.begins)
        for lines in together(batches, self.form):
            n = len(lines.texts)
            if not n:
                continue
            columns = dict(zip(self.types, self.form.columns(lines.texts, self.types), strict=True))
            first = following[lines.part]
            following[lines.part] = first + n
            numbers = pa.array(np.arange(first, first + n))
            if self.given is not None:
                numbers = columns.pop(self.given)
            yield pa.RecordBatch.from_arrays(
                [numbers, *columns.values()], names=[self.key, *columns]
            )
