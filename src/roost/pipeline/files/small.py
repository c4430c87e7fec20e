"""Files of subscriptions that are small: read here and now, without a Spark that takes seconds to start.

They are read by what tasks of Spark do (`parts`), with all of a file as one part. So what comes out is the
same, and so is what a message says of a file that is not as it should be.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.pipeline.files.lines import Csv, Form, Ndjson
from roost.pipeline.files.parts import FILE, LINE, PART, Surveying, common_header, surveyed
from roost.pipeline.files.tables import (
    CSV,
    PARQUET,
    check_parquet,
    format_of,
    given_number,
    line_files,
    local_path,
)
from roost.pipeline.schemas import SUBSCRIPTION, check_types

ROWS_MAX = 1_000_000
# Of a file; so much is read to see whether it has more rows than that.
BYTES_MAX = 512 << 20
_END = re.compile(rb"\r\n|\r|\n")


def read_small_subscriptions(path: str, rows_max: int = ROWS_MAX) -> pa.Table | None:
    """The table `subscriptions` of a file, as `read_subscriptions` has it; None if it is for Spark.

    That is what is not on this machine, and what has more rows.
    """
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 (Spark is slow to load)

    form = format_of(path)
    if local_path(path) is None:
        return None
    table = _parquet(path, rows_max) if form == PARQUET else _lines(path, form, rows_max)
    if table is not None:
        types = {field.name: from_arrow_type(field.type).simpleString() for field in table.schema}
        check_types(types, "subscriptions", where=path)
    return table


def _parquet(path: str, rows_max: int) -> pa.Table | None:
    footers = check_parquet(path)
    if sum(footer.rows for footer in footers) > rows_max:
        return None
    tables = [pq.read_table(footer.path, partitioning=None) for footer in footers]
    table = pa.concat_tables(tables, promote_options="permissive")
    given = given_number(table.column_names, SUBSCRIPTION)
    if given is None:
        return table.add_column(0, SUBSCRIPTION, pa.array(np.arange(len(table))))
    numbers = table.column(given)
    if pa.types.is_signed_integer(numbers.type):
        numbers = numbers.cast(pa.int64())
    return table.drop_columns(given).add_column(0, SUBSCRIPTION, numbers)


def _lines(path: str, form: str, rows_max: int) -> pa.Table | None:
    paths = line_files(path)
    files: list[pa.Array] = []
    for each in paths:
        lines = _lines_of(Path(each))
        if lines is None or sum(map(len, files)) + len(lines) > rows_max:
            return None
        files.append(lines)
    batches = [
        pa.record_batch([np.full(len(lines), number * FILE), lines], [PART, LINE])
        for number, lines in enumerate(files)
    ]
    how = _form(form, files, paths)
    (parts,) = Surveying(how)(iter(batches))
    reading = surveyed(parts.to_pylist(), how, path, paths, SUBSCRIPTION, given_number)
    return pa.Table.from_batches(reading(iter(batches)), reading.schema)


def _form(form: str, files: Sequence[pa.Array], paths: Sequence[str]) -> Form:
    if form != CSV:
        return Ndjson()
    firsts = {number: lines[0].as_py() for number, lines in enumerate(files) if len(lines)}
    return Csv(common_header(firsts, paths))


def _lines_of(file: Path) -> pa.Array | None:
    """The lines of a file as Spark has them: whether they are texts is seen later. None if it is large."""
    with _opened(file) as opened:
        data = opened.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        return None
    lines = _END.split(data)
    if not lines[-1]:
        lines.pop()
    return pa.array(lines, pa.binary()).view(pa.string())


def _opened(file: Path) -> BinaryIO | gzip.GzipFile | bz2.BZ2File:
    if file.suffix.lower() == ".gz":
        return gzip.open(file)
    return bz2.open(file) if file.suffix.lower() == ".bz2" else file.open("rb")
