"""The files of a lake, by their names and footers: hardly a row is read here, and no Spark needed.

A lake is a folder `TABLE/run=NAME/*.parquet`. Whatever begins with a dot or an underscore is not there: that
is how Spark and Arrow see it too, and how files are hidden until they are whole. A run is there when it
has files that are. Segments of a trace that were joined, and that nobody has removed yet, are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.traces.segments import superseded

RUN = "run="
# Where Spark notes the types that it wrote, which say more than those of Parquet.
SPARK_TYPES = b"org.apache.spark.sql.parquet.row.metadata"
# To read a footer is to wait for the disk; a few are not worth a thread.
THREADS, FILES_A_THREAD = 16, 8
NAMES_SHOWN = 10


class Footer(Struct, frozen=True):
    """What a Parquet file says of itself."""

    path: Path
    size: int
    rows: int = 0
    schema: pa.Schema = pa.schema([])
    spark: str | None = None  # its types as Spark wrote them, as JSON
    problem: str = ""  # why it is none


class TableInfo(Struct, frozen=True):
    """A table of a lake, of one run or of all."""

    table: str
    rows: int
    bytes: int
    files: int
    columns: dict[str, str]  # Arrow's types, by name
    problem: str = ""  # the first file that is no Parquet, and why; it has no part in the figures


def visible(name: str) -> bool:
    return not name.startswith((".", "_"))


def table_names(lake: Path, run: str | None = None) -> list[str]:
    """The tables that have runs, or this one."""
    names = sorted(entry.name for entry in _entries(lake) if visible(entry.name))
    if run is None:
        # One run is enough to know.
        return [name for name in names if any(_runs(lake, name))]
    return [name for name in names if run_files(lake, name, run)]


def run_names(lake: Path, table: str) -> list[str]:
    """The runs that have rows in a table, or could have."""
    return sorted(_runs(lake, table))


def _runs(lake: Path, table: str) -> Iterator[str]:
    for entry in _entries(lake / table):
        name = entry.name.removeprefix(RUN)
        if entry.name.startswith(RUN) and name and run_files(lake, table, name):
            yield name


def run_files(lake: Path, table: str, run: str) -> list[Path]:
    """What readers of the table see of a run, whether it is Parquet or not."""
    folder = lake / table / f"{RUN}{run}"
    names = [entry.name for entry in _entries(folder) if visible(entry.name)]
    return [folder / name for name in sorted(set(names) - superseded(names))]


def spark_paths(files: Iterable[Path]) -> list[Path]:
    """The same files as Spark is told: folders, unless something in them is passed over."""
    paths: list[Path] = []
    for folder, group in groupby(files, key=lambda path: path.parent):
        ours = list(group)
        names = [entry.name for entry in _entries(folder) if visible(entry.name)]
        paths += [folder] if len(names) == len(ours) else ours
    return paths


def written_at(lake: Path, table: str, run: str) -> float:
    """When the run was last written to, hidden files included; 0 if it has none there."""
    entries = _entries(lake / table / f"{RUN}{run}")
    return max((entry.stat().st_mtime for entry in entries), default=0.0)


def run_bytes(lake: Path, run: str) -> int:
    """What a run takes of the disk in all tables, hidden files included."""
    folders = [Path(table.path) / f"{RUN}{run}" for table in _entries(lake)]
    return sum(file.stat().st_size for folder in folders for file in _entries(folder))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """None where there is no such folder; others may remove one while we look."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as bad:
        raise UserError(f"{folder}: {bad.strerror or bad}; expected a folder of a lake") from None


# --- footers ----------------------------------------------------------------------------------------


def read_footers(paths: Sequence[Path]) -> list[Footer]:
    """The footers of files, in their order."""
    threads = min(THREADS, len(paths) // FILES_A_THREAD)
    if threads < 2:
        return [read_footer(path) for path in paths]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(read_footer, paths))


def read_footer(path: Path) -> Footer:
    """The footer of a file; its `problem` says if it has none."""
    size = 0
    try:
        size = path.stat().st_size
        if path.is_dir():
            return Footer(path, 0, problem="a folder")
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
    except OSError as bad:
        # Arrow raises it for damage too, then without an error of the system's.
        return Footer(path, size, problem=os.strerror(bad.errno) if bad.errno else "it is damaged")
    except pa.ArrowException:
        return Footer(path, size, problem="not a whole Parquet file")
    spark = (found.metadata or {}).get(SPARK_TYPES)
    return Footer(path, size, found.num_rows, schema, None if spark is None else spark.decode())


def first_rows(path: Path, table: str, count: int) -> pa.Table:
    """So many rows of a file, or as many as it has."""
    footer = read_footer(path)
    if footer.problem:
        raise UserError(f"{path}: {footer.problem}; expected a Parquet file of the table {table!r}")
    batches: list[pa.RecordBatch] = []
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(count):
                batches.append(batch)
                if sum(map(len, batches)) >= count:
                    break
            return pa.Table.from_batches(batches, file.schema_arrow)[:count]
    except (OSError, pa.ArrowException) as bad:
        raise UserError(f"{path}: it can't be read: {bad}") from None


def table_info(table: str, footers: Iterable[Footer]) -> TableInfo:
    """What the footers of a table's files come to."""
    rows = size = files = 0
    columns: dict[str, str] = {}
    problem = ""
    for footer in footers:
        size += footer.size
        files += 1
        if footer.problem:
            problem = problem or f"{footer.path}: {footer.problem}"
        rows += footer.rows
        for field in footer.schema:
            columns.setdefault(field.name, str(field.type))
    return TableInfo(table, rows, size, files, columns, problem)


# --- names that are none ----------------------------------------------------------------------------


def unknown(what: str, name: str, there: Iterable[str]) -> str:
    """That there is no such thing, and what there is: what was probably meant first."""
    names = sorted(there)
    near = get_close_matches(name[:200], names, 3, 0.5)
    names = [*near, *(other for other in names if other not in near)]
    shown = ", ".join(map(repr, names[:NAMES_SHOWN]))
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    listed = f"there is {shown}" if len(names) == 1 else f"there are {shown}{more}"
    return f"there is no {what} {abbreviate(name)!r}; {listed if names else 'there are none'}"
