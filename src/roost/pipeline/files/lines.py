"""Lines of CSV and JSON as columns: what kinds of values they have, and the values.

A column of a table has one type, so a file is gone through twice. The first time (`survey`) every column's
kinds are found, and whatever is wrong, with its line; the second time (`columns`) the types are known.

In CSV a cell says `true` or `false`, an integer, another number, or a text; an empty cell is an attribute
that the event does not have. A column is of the narrowest type that all of its cells have: bool, integer,
number, else text. So `12` is a text in a column that also has a `12a`. A row is a line: a quoted cell may
have commas and doubled quotes in it, but no line ends.

In JSON lines a value says itself what it is; null is an attribute that the event does not have. Integers
and other numbers make a column of floats; other mixtures are refused, as are nested values. Empty lines are
skipped in both. Integers have to fit 64 bits; one that no float equals (2^53 + 1) is refused in a column of
floats, as events compare exactly and would match something else.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
from msgspec import Struct

from roost.language import LanguageError
from roost.language.lines import (
    INTEGER_PATTERN,
    NUMBER_PATTERN,
    LineError,
    check_cells,
    check_header,
    csv_rows,
    decoded,
    json_object,
)
from roost.language.literals import read_float, read_integer

BOOL, INTEGER, FLOAT, TEXT, BEYOND = "bool", "integer", "number", "text", "beyond"
EXACT = "integer that no float equals"  # comes with INTEGER
_FLOATS_SKIP = 2**53  # beyond it, not every integer is a float
TYPES = {BOOL: pa.bool_(), INTEGER: pa.int64(), FLOAT: pa.float64(), TEXT: pa.string()}


class Seen(Struct):
    """What a column has: its kinds, each with the place of the first line of it, and how many values."""

    kinds: dict[str, int] = {}
    values: int = 0

    def add(self, other: Seen, lines_before: int) -> None:
        """Also what was seen after so many lines."""
        for kind, place in other.kinds.items():
            self.kinds.setdefault(kind, place + lines_before)
        self.values += other.values


class Form(Protocol):
    """How the lines of a format are read. Lines are texts without their ends; none of them is blank."""

    header: bool  # whether the first line of the file is one
    typed: bool  # whether values say themselves of which kind they are

    def survey(self, lines: pa.Array) -> dict[str, Seen]:
        """The columns and what they have; a `LineError` if a line is not as it should be."""

    def columns(self, lines: pa.Array, types: Mapping[str, pa.DataType]) -> list[pa.Array]:
        """The columns, in types that suit their kinds."""


def filled(lines: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The places of the lines that are not blank."""
    return np.flatnonzero(
        pc.greater(pc.binary_length(pc.ascii_trim_whitespace(lines)), 0).to_numpy(
            zero_copy_only=False
        )
    )


def whole_text(lines: pa.Array) -> bytes:
    """The lines in one piece, each with its end."""
    ends = pa.array([0, len(lines)], pa.int32())
    one = pa.ListArray.from_arrays(ends, lines.cast(pa.binary()))
    whole: bytes = pc.binary_join(one, b"\n")[0].as_py()
    return whole + b"\n"


def check_utf8(lines: pa.Array) -> None:
    """Refuses the first line that is no text."""
    for place, raw in enumerate(lines.cast(pa.binary()).to_pylist()):
        decoded(raw, place)


def _first(mask: pa.Array) -> int | None:
    """The first place that is true."""
    found = pc.index(mask, True).as_py()
    return None if found < 0 else int(found)


# --- CSV ------------------------------------------------------------------------------------------

_PATTERNS = {
    BOOL: r"^(?i:true|false)$",
    INTEGER: f"^{INTEGER_PATTERN}$",
    FLOAT: f"^{NUMBER_PATTERN}$",
}
# Numbers up to this length fit whatever they are, unless they have an exponent.
_SHORT = 18


class Csv:
    """Rows of a table whose header has these names."""

    header, typed = True, False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def survey(self, lines: pa.Array) -> dict[str, Seen]:
        """See `Form`."""
        return {name: _seen_in(cells) for name, cells in self._cells(lines).items()}

    def columns(self, lines: pa.Array, types: Mapping[str, pa.DataType]) -> list[pa.Array]:
        """See `Form`."""
        cells = self._cells(lines)
        return [_converted(cells[name], type_) for name, type_ in types.items()]

    def _cells(self, lines: pa.Array) -> dict[str, pa.Array]:
        data = whole_text(lines)
        ragged: list[pa_csv.InvalidRow] = []

        def note(row: pa_csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        try:
            table = pa_csv.read_csv(
                io.BytesIO(data),
                # In one thread and one piece, so that rows have numbers.
                read_options=pa_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=self.names
                ),
                parse_options=pa_csv.ParseOptions(invalid_row_handler=note),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid as bad:
            check_utf8(lines)
            raise LineError(0, f"not CSV: {bad}") from None
        if ragged or len(table) != len(lines):
            self._refuse(lines)
        return {name: table.column(name).combine_chunks() for name in self.names}

    def _refuse(self, lines: pa.Array) -> NoReturn:
        """Says which line it is: a quote that is not closed takes in the lines that follow."""
        for place, line in enumerate(lines.to_pylist()):
            try:
                ((_, cells),) = csv_rows([line])
            except LineError as bad:
                hint = " (a row is one line here)" if "end of data" in str(bad) else ""
                raise LineError(place, f"{bad}{hint}") from None
            check_cells(place, cells, self.names)
        raise LineError(0, "not CSV from here on")


def csv_header(line: str) -> list[str]:
    """The names in the first line of a CSV file."""
    ((_, names),) = csv_rows([line])
    check_header(0, names)
    return names


def _seen_in(cells: pa.Array) -> Seen:
    # Most columns have few different values.
    encoded = cells.dictionary_encode()
    words: pa.Array = encoded.dictionary
    codes = encoded.indices
    left = pa.repeat(True, len(words))
    kinds: dict[str, int] = {}

    def note(kind: str, mask: pa.Array) -> None:
        place = _first(pc.fill_null(mask.take(codes), False)) if len(words) else None
        if place is not None:
            kinds[kind] = place

    for kind, pattern in _PATTERNS.items():
        fits = pc.and_(pc.match_substring_regex(words, pattern), left)
        left = pc.and_not(left, fits)
        beyond = pc.and_(fits, _beyond(words, kind, fits))
        note(BEYOND, beyond)
        note(kind, pc.and_not(fits, beyond))
        if kind == INTEGER:
            note(EXACT, _exact(words, pc.and_not(fits, beyond)))
    note(TEXT, left)
    return Seen(kinds, len(cells) - cells.null_count)


def _beyond(words: pa.Array, kind: str, fits: pa.Array) -> pa.Array:
    """Which of the words are numbers that the language does not have."""
    if kind == BOOL:
        return pa.repeat(False, len(words))
    suspicious = pc.greater(pc.binary_length(words), _SHORT)
    if kind == FLOAT:
        suspicious = pc.or_(suspicious, pc.match_substring(words, "e", ignore_case=True))
    suspicious = pc.and_(fits, suspicious)
    read = read_integer if kind == INTEGER else read_float
    found = np.zeros(len(words), np.bool_)
    for place in np.flatnonzero(suspicious.to_numpy(zero_copy_only=False)).tolist():
        try:
            read(words[place].as_py())
        except LanguageError:
            found[place] = True
    return pa.array(found)


def _exact(words: pa.Array, integers: pa.Array) -> pa.Array:
    """Which of the words are integers that no float equals."""
    long = pc.greater(pc.binary_length(words), len(str(_FLOATS_SKIP)) - 1)
    found = np.zeros(len(words), np.bool_)
    for place in np.flatnonzero(pc.and_(integers, long).to_numpy(zero_copy_only=False)).tolist():
        found[place] = no_float_equals(int(words[place].as_py()))
    return pa.array(found)


def no_float_equals(value: int) -> bool:
    """Whether an integer becomes another number as a float."""
    return int(float(value)) != value


def _converted(cells: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_):
        return pc.equal(pc.ascii_lower(cells), "true")
    if pa.types.is_integer(type_):
        # Arrow does not read a plus, which is harmless.
        cells = pc.replace_substring_regex(cells, r"^\+", "")
    return cells.cast(type_)


# --- JSON -----------------------------------------------------------------------------------------


class Ndjson:
    """Objects, one a line."""

    header, typed = False, True

    def survey(self, lines: pa.Array) -> dict[str, Seen]:
        """See `Form`; quickly if all is well, else line by line."""
        try:
            # Arrow's reader of JSON does not look whether it is UTF-8.
            lines.validate(full=True)
            table = _read_json(lines, pa_json.ParseOptions())
        except pa.ArrowInvalid:
            return _surveyed_slowly(lines)
        columns = {}
        if len(table) != len(lines):
            return _surveyed_slowly(lines)
        for name, column in zip(table.column_names, table.columns, strict=True):
            values = column.combine_chunks()
            kind = _arrow_kind(values)
            if kind is None:
                return _surveyed_slowly(lines)
            place = _first(values.is_valid())
            kinds = {} if place is None else {kind: place}
            if kind == INTEGER and (exact := _first_exact(values)) is not None:
                kinds[EXACT] = exact
            columns[name] = Seen(kinds, len(values) - values.null_count)
        return columns

    def columns(self, lines: pa.Array, types: Mapping[str, pa.DataType]) -> list[pa.Array]:
        """See `Form`."""
        options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        )
        table = _read_json(lines, options)
        return [table.column(name).combine_chunks() for name in types]


def _read_json(lines: pa.Array, options: pa_json.ParseOptions) -> pa.Table:
    data = whole_text(lines)
    return pa_json.read_json(
        io.BytesIO(data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=options,
    )


def _arrow_kind(values: pa.Array) -> str | None:
    """The kind of a column that Arrow has read; None if it has to be looked at again."""
    type_ = values.type
    if pa.types.is_boolean(type_):
        return BOOL
    if pa.types.is_integer(type_):
        return INTEGER
    if pa.types.is_floating(type_):
        # Large integers have become floats, and NaN is no JSON.
        tame = pc.all(pc.less(pc.abs(values), float(_FLOATS_SKIP))).as_py()
        return FLOAT if tame is not False else None
    # What looks like a time is a text as well.
    plain = (pa.types.is_string, pa.types.is_timestamp, pa.types.is_null)
    return TEXT if any(is_plain(type_) for is_plain in plain) else None


def _first_exact(integers: pa.Array) -> int | None:
    """The first place of an integer that no float equals."""
    beyond = pc.or_(pc.greater(integers, _FLOATS_SKIP), pc.less(integers, -_FLOATS_SKIP))
    places = np.flatnonzero(pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)).tolist()
    return next((place for place in places if no_float_equals(integers[place].as_py())), None)


_KINDS = {bool: BOOL, int: INTEGER, float: FLOAT, str: TEXT}


def _surveyed_slowly(lines: pa.Array) -> dict[str, Seen]:
    check_utf8(lines)
    columns: dict[str, Seen] = {}
    for place, line in enumerate(lines.to_pylist()):
        for name, value in json_object(line, place).items():
            seen = columns.setdefault(name, Seen())
            if value is None:
                continue
            kind = _KINDS.get(type(value))
            if kind is None:
                raise LineError(place, f"the attribute {name!r} is nested; events are flat")
            if kind == INTEGER:
                _check_integer(place, value)
                if no_float_equals(value):
                    seen.add(Seen({EXACT: place}), 0)
            if isinstance(value, str) and not _encodable(value):
                raise LineError(place, f"the attribute {name!r} has half of a surrogate pair")
            seen.add(Seen({kind: place}, 1), 0)
    return columns


def _check_integer(place: int, value: int) -> None:
    try:
        read_integer(str(value))
    except LanguageError as bad:
        raise LineError(place, str(bad)) from None


_surrogate = re.compile("[\ud800-\udfff]").search


def _encodable(text: str) -> bool:
    return _surrogate(text) is None
