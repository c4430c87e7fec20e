"""A file of lines as a table, or a folder of them, by the tasks of Spark.

Spark cuts a file into parts, known by the byte at which they begin, and reads each from its beginning to
its end. In a folder the number of the file, in the order of their names, stands before that byte. The first
time, tasks say how many lines and rows a part has, which columns with which kinds of values, and the first
line that is wrong. Put together in the order of the parts that gives the types, the number of every part's
first row, and the file and number of a wrong line. The second time they read the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

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
# What the number of a file is multiplied with, in the number of a part: more bytes than any file has.
FILE = 1 << 44

Batches = Iterator[pa.RecordBatch]


def text_lines(spark: SparkSession, addresses: Sequence[str], names: Sequence[str]) -> DataFrame:
    """The lines of files, and the parts that they are in; what a file is called tells it from the others."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    frame = spark.read.text(list(addresses))
    begin, line = F.col("_metadata.file_block_start"), F.col("value").alias(LINE)
    if len(names) > 1:
        numbers = F.create_map(*(F.lit(x) for pair in enumerate(names) for x in reversed(pair)))
        # Spark has it as in an address, where + is no space, whatever `url_decode` takes it for.
        name = F.replace(F.col("_metadata.file_name"), F.lit("+"), F.lit("%2B"))
        begin += numbers[F.url_decode(name)] * FILE
    return frame.select(begin.alias(PART), line)


def header_of(lines: DataFrame, paths: Sequence[str]) -> list[str]:
    """The names in the header of CSV files, which is the same in all."""
    firsts: dict[int, str] = {}
    for row in lines.where(f"{PART} % {FILE} = 0").mapInArrow(FirstLines(), lines.schema).collect():
        firsts.setdefault(row[PART] // FILE, row[LINE])
    return common_header(firsts, paths)


def common_header(firsts: Mapping[int, str], paths: Sequence[str]) -> list[str]:
    """The names in the header of all files; `firsts` are their first lines, by the number of the file."""
    header: list[str] = []
    for number, path in enumerate(paths):
        text = firsts.get(number, "").removeprefix(BOM)
        if not text.strip():
            raise UserError(f"{path}, line 1: expected a header, the names of the columns")
        try:
            found = csv_header(text)
        except LineError as bad:
            raise UserError(f"{path}, line 1: {bad}") from None
        header = header or found
        if found != header:
            raise UserError(
                f"{path}, line 1: the header is {', '.join(found)}; expected that of {paths[0]}:"
                f" {', '.join(header)}"
            )
    return header


def numbered_lines(
    lines: DataFrame,
    form: Form,
    path: str,
    paths: Sequence[str],
    key: str,
    given_in: Callable[[Sequence[str], str], str | None],
) -> DataFrame:
    """The rows of files, their number first; `given_in` says which of the columns has it, if one has."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (Spark is slow to load)

    found = lines.mapInArrow(Surveying(form), from_arrow_schema(SURVEY)).collect()
    parts = [row.asDict() for row in found]
    reading = surveyed(parts, form, path, paths, key, given_in)
    return lines.mapInArrow(reading, from_arrow_schema(reading.schema))


def surveyed(
    parts: Iterable[Mapping[str, Any]],
    form: Form,
    path: str,
    paths: Sequence[str],
    key: str,
    given_in: Callable[[Sequence[str], str], str | None],
) -> Reading:
    """How the rows are to be read, by what was found of all parts (rows of `SURVEY`)."""
    begins: dict[int, int] = {}
    columns: dict[str, Seen] = {}
    whole = Places(list(paths))
    row_count = 0
    for part in sorted(parts, key=lambda row: int(row[PART])):
        whole.begin(part[PART] // FILE)
        if part["wrong"] is not None:
            raise UserError(f"{whole.where(whole.lines + part['place'])}: {part['wrong']}")
        begins[part[PART]] = row_count
        for name, seen in _decode_columns(part["columns"]).items():
            columns.setdefault(name, Seen()).add(seen, whole.lines)
        whole.lines += part["lines"]
        row_count += part["rows"]
    if not row_count:
        raise UserError(f"{path}: there is nothing in it")
    types = {name: type_of(whole, name, seen, form) for name, seen in columns.items()}
    given = given_in(list(columns), key)
    if given is not None:
        _check_numbers(path, whole, given, columns[given], row_count)
    return Reading(form, begins, types, key, given)


_decode_columns = msgspec.json.Decoder(dict[str, Seen]).decode


class Places:
    """Lines by their number in all files together, and what people call them."""

    def __init__(self, paths: list[str]) -> None:
        self.lines = 0  # so far
        self._paths = paths
        self._begins: dict[int, int] = {}  # of each file its first

    @property
    def first(self) -> str:
        """The first of the files."""
        return self._paths[0]

    def begin(self, file: int) -> None:
        """The next line is one of this file."""
        self._begins.setdefault(file, self.lines)

    def _found(self, line: int) -> tuple[str, int]:
        file = max(number for number, first in self._begins.items() if first <= line)
        return self._paths[file], line - self._begins[file] + 1

    def where(self, line: int) -> str:
        """For the beginning of a message."""
        path, number = self._found(line)
        return f"{path}, line {number}"

    def line(self, line: int) -> str:
        """Within a message."""
        path, number = self._found(line)
        return f"line {number}" if len(self._paths) == 1 else f"line {number} of {path}"


def _check_numbers(path: str, places: Places, name: str, seen: Seen, rows: int) -> None:
    for kind, place in seen.kinds.items():
        if kind not in (INTEGER, EXACT):
            raise UserError(
                f"{places.where(place)}: the {name} is of the kind {kind}; expected a whole number"
            )
    if seen.values < rows:
        missing = rows - seen.values
        raise UserError(
            f"{path}: {missing:,} of {rows:,} rows have no {name}; expected all to have one, or none"
        )


def type_of(places: Places, name: str, seen: Seen, form: Form) -> pa.DataType:
    """The type of a column. Without values it is one of texts."""
    try:
        check_name(name, "the header" if form.header else "an object")
    except LanguageError as bad:
        raise UserError(f"{places.first}: {bad}") from None
    kinds = dict(seen.kinds)
    exact = kinds.pop(EXACT, None)
    if not kinds:
        return TYPES[TEXT]
    if set(kinds) <= {INTEGER, FLOAT, BEYOND}:
        if BEYOND in kinds:
            raise UserError(
                f"{places.where(kinds[BEYOND])}: the {name} is too large; expected an integer of 64 bits,"
                " or a number up to 1.7976931348623157e308"
            )
        if FLOAT not in kinds:
            return TYPES[INTEGER]
        if exact is not None:
            raise UserError(
                f"{places.where(exact)}: the {name} is an integer that no float equals, and"
                f" {places.line(kinds[FLOAT])} makes this a column of floats; expected only integers, or"
                " smaller ones"
            )
        return TYPES[FLOAT]
    if len(kinds) > 1 and form.typed:
        (one, here), (other, there), *_ = sorted(kinds.items(), key=lambda kind: kind[1])
        raise UserError(
            f"{places.first}: the attribute {name!r} is of the kind {one} in {places.line(here)} and of the"
            f" kind {other} in {places.line(there)}; expected one kind everywhere"
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
            if part % FILE == start == 0:
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


class FirstLines:
    """Of the lines that a task has of each part the first."""

    def __call__(self, batches: Batches) -> Batches:
        seen: set[int] = set()
        for batch in batches:
            firsts: dict[int, int] = {}
            for place, part in enumerate(batch.column(PART).to_pylist()):
                if part not in seen:
                    firsts.setdefault(part, place)
            seen.update(firsts)
            yield batch.take(pa.array(firsts.values(), pa.int64()))


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

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, their number first."""
        rest = ((name, type_) for name, type_ in self.types.items() if name != self.given)
        return pa.schema([(self.key, pa.int64()), *rest])

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
