"""Users' own files as tables of the pipeline: events, subscriptions and bars.

The end of the name says the format: `.csv` (with a header), `.ndjson` or `.jsonl` (an object a line), both
also with `.gz` or `.bz2` behind it, else Parquet; a file, or a folder of them (in which `.json`, which is
what Spark calls them, are JSON lines, too). Paths are those of this
machine, or addresses that Spark reads (`hdfs://...`, `s3a://...`). What is wrong is a `UserError` that
names the file, and the line or column where there is one; it comes from the call, not from a job an hour
later.

Rows without a number get one, 0, 1, 2, ... in the order of the file (of a folder: of the names of its
files), whatever the partitions are. For CSV and JSON lines that takes no more than what their types take
anyway: they are read twice, the first time to see which kinds of values each column has (see
`lines`), and how many rows each part of the file has. For Parquet the rows of each file are counted,
which reads no more than footers. That a file stays the same in between is taken for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from roost.errors import UserError
from roost.pipeline.arguments import arguments_checked
from roost.pipeline.files.lines import Csv, Ndjson
from roost.pipeline.files.parts import header_of, numbered_lines, text_lines
from roost.pipeline.lake.files import Footer, read_footers, visible
from roost.pipeline.parsing import plain_refusals
from roost.pipeline.schemas import NARROW_TYPES, PUBLICATION, SUBSCRIPTION, checked
from roost.pipeline.workload.quotes import BAR
from roost.simulation import bars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPRESSED = (".gz", ".bz2")
# What other commands call the number of a subscription.
ID = "id"

CSV, NDJSON, PARQUET = "csv", "ndjson", "parquet"
_FORMATS = {".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON, ".parquet": PARQUET}
_IN_FOLDERS = {**_FORMATS, ".json": NDJSON}


@arguments_checked
def read_events(spark: SparkSession, path: str | Path) -> DataFrame:
    """The table `publications` of a file of events: its columns are their attributes.

    A column `publication` has the numbers; without one they are given. Columns of types that no attribute has
    are left as they are.
    """
    return checked(_read(spark, str(path), PUBLICATION), "publications", where=str(path))


@arguments_checked
def read_subscriptions(spark: SparkSession, path: str | Path) -> DataFrame:
    """The table `subscriptions` of a file with a column `filter`; other columns stay.

    The numbers are in a column `subscription`, or `id`; without one they are given. Whether the filters can
    be read is seen when they are parsed.
    """
    return checked(_read(spark, str(path), SUBSCRIPTION), "subscriptions", where=str(path))


@arguments_checked
def read_bars(spark: SparkSession, path: str | Path) -> DataFrame:
    """Daily bars of a file of this machine, symbol by symbol; `day` counts those of a symbol.

    All of them are read and checked here, not by tasks: see `simulation.bars`.
    """
    tables = []
    for symbol, found in bars.read_bars(str(path)).items():
        n = len(found.volume)
        columns = [pa.repeat(symbol, n), pa.array(np.arange(n)), *map(pa.array, found)]
        tables.append(pa.Table.from_arrays(columns, schema=BAR))
    return spark.createDataFrame(pa.concat_tables(tables))


def _read(spark: SparkSession, path: str, key: str) -> DataFrame:
    from pyspark.errors import PythonException  # noqa: PLC0415 (Spark is slow to load)

    read = _READERS[format_of(path)]
    try:
        with plain_refusals():
            frame = read(spark, path, key)
        _refuse_same_but_case(spark, path, frame.columns)
    except (UserError, PythonException):
        raise
    except Exception as bad:  # what the JVM throws has no common type
        raise UserError(f"{path}: Spark can't read it: {_words(bad)}") from bad
    return frame


def format_of(path: str) -> str:
    """How it is read, as one of the ends of names: by that of its own, or of the names in it."""
    local = local_path(path)
    if local is not None and not local.exists():
        raise UserError(f"{path}: there is no such file")
    if local is not None and local.is_dir():
        ends = {end for file in _files_of(local) if (end := _end(file.name)) in _IN_FOLDERS}
        formats = {_IN_FOLDERS[end] for end in ends}
        if len(formats) > 1:
            raise UserError(
                f"{path}: has files that end in {', '.join(sorted(ends))}; expected one kind"
            )
        return formats.pop() if formats else PARQUET
    if _end(path) in _FORMATS:
        return _FORMATS[_end(path)]
    if local is None:
        return PARQUET
    raise UserError(
        f"{path}: expected a file that ends in {', '.join(_FORMATS)}, or a folder of such files"
    )


def _end(name: str) -> str:
    name = name.lower()
    for end in COMPRESSED:
        name = name.removesuffix(end)
    return Path(name).suffix


def _files_of(folder: Path) -> list[Path]:
    """What Spark would read there."""
    return sorted(file for file in folder.iterdir() if visible(file.name) and file.is_file())


# --- places ---------------------------------------------------------------------------------------

_pattern = re.compile(r"([{}\[\]*?\\])")


def local_path(path: str) -> Path | None:
    """The path on this machine; None if it is elsewhere."""
    plain = path.removeprefix("file://")
    return None if "://" in plain else Path(plain).absolute()


def _address(path: str) -> str:
    """The path as Spark takes it, which would take some characters for patterns."""
    local = local_path(path)
    return path if local is None else _pattern.sub(r"\\\1", f"file://{local}")


def _words(error: Exception) -> str:
    """The line of a message from the JVM that says something."""
    first, *rest = str(error).strip().splitlines() or [type(error).__name__]
    return rest[0].removeprefix(": ") if rest and first.startswith("An error occurred") else first


def _refuse_same_but_case(spark: SparkSession, path: str, names: Sequence[str]) -> None:
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UserError(
                f"{path}: {name!r} and {other!r} differ only by case; expected"
                " --conf spark.sql.caseSensitive=true"
            )


# --- Parquet --------------------------------------------------------------------------------------


def _read_parquet(spark: SparkSession, path: str, key: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    check_parquet(path)
    frame = spark.read.parquet(_address(path))
    names = frame.columns
    given = given_number(names, key)
    if given is None:
        return _numbered(frame, key)
    number = F.col(_quoted(given))
    if dict(frame.dtypes)[given] in NARROW_TYPES:
        number = number.cast("bigint")
    rest = [F.col(_quoted(name)) for name in names if name != given]
    return frame.select(number.alias(key), *rest)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def given_number(names: Sequence[str], key: str) -> str | None:
    """The column that has the numbers."""
    if key in names:
        return key
    return ID if key == SUBSCRIPTION and ID in names else None


def check_parquet(path: str) -> list[Footer]:
    """Refuses files of this machine that are damaged or empty: their footers are soon read."""
    local = local_path(path)
    if local is None:
        return []
    paths = [local]
    if local.is_dir():
        paths = [file for file in sorted(local.rglob("*.parquet")) if visible(file.name)]
    footers = read_footers(paths)
    for footer in footers:
        if footer.problem:
            raise UserError(f"{footer.path}: {footer.problem}; expected a Parquet file")
    if not sum(footer.rows for footer in footers):
        raise UserError(f"{path}: there is nothing in it")
    return footers


def _numbered(frame: DataFrame, key: str) -> DataFrame:
    """The rows with numbers in the order of the files' names."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    spark = frame.sparkSession
    file, row, before = "_metadata.file_path", "_metadata.row_index", "rows before"
    counts = {found[0]: found[1] for found in frame.groupBy(file).count().collect()}
    offsets = []
    total = 0
    for name in sorted(counts):
        offsets.append((name, total))
        total += counts[name]
    if len(offsets) == 1:
        return frame.select(F.col(row).alias(key), "*")
    known = spark.createDataFrame(offsets, f"`{file}` string, `{before}` bigint")
    names = [F.col(_quoted(name)) for name in frame.columns]
    placed = frame.select("*", F.col(file).alias(file), F.col(row).alias(row))
    joined = placed.join(F.broadcast(known), file)
    return joined.select((F.col(_quoted(before)) + F.col(_quoted(row))).alias(key), *names)


# --- lines ----------------------------------------------------------------------------------------


def _read_csv(spark: SparkSession, path: str, key: str) -> DataFrame:
    paths = line_files(path)
    lines = _lines(spark, paths)
    return numbered_lines(lines, Csv(header_of(lines, paths)), path, paths, key, given_number)


def _read_ndjson(spark: SparkSession, path: str, key: str) -> DataFrame:
    paths = line_files(path)
    return numbered_lines(_lines(spark, paths), Ndjson(), path, paths, key, given_number)


def line_files(path: str) -> list[str]:
    """The files of lines: itself, or those in it that are not empty (as Spark leaves them)."""
    local = local_path(path)
    if local is None or not local.is_dir():
        return [path]
    found = [file for file in _files_of(local) if _end(file.name) in _IN_FOLDERS]
    return [str(file) for file in found if file.stat().st_size] or [str(found[0])]


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return text_lines(spark, [_address(each) for each in paths], [Path(p).name for p in paths])


_READERS: Mapping[str, Callable[[SparkSession, str, str], DataFrame]] = {
    CSV: _read_csv,
    NDJSON: _read_ndjson,
    PARQUET: _read_parquet,
}
