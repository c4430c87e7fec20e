"""Tables to where they are wanted: a folder of Parquet files, or a run of a lake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.lake.files import TableInfo, read_footers, run_files, table_info

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Writes a table, and says what it came to; None where Spark alone can see it.
Write = Callable[[str, "DataFrame"], TableInfo | None]


class Written(Struct, frozen=True):
    """A table that has been written."""

    table: str
    rows: int | None
    bytes: int | None
    seconds: float


def written(frames: Mapping[str, DataFrame], write: Write) -> Iterator[Written]:
    """Writes one table after the other."""
    for table, frame in frames.items():
        began = perf_counter()
        info = write(table, frame)
        rows, size = (info.rows, info.bytes) if info is not None else (None, None)
        yield Written(table, rows, size, perf_counter() - began)


def into_folder(out: Path, tables: Iterable[str]) -> Write:
    """Each table into a folder of its own, `OUT/TABLE/*.parquet`. Refuses before the work what is there."""
    for table in tables:
        if (out / table).exists():
            raise UserError(f"{out / table}: there is something already; expected another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise UserError(f"{out}: {bad.strerror or bad}") from None

    def write(table: str, frame: DataFrame) -> TableInfo:
        folder = out.absolute() / table
        # Not as_uri(): Spark takes the text as it is, percent signs and all.
        frame.write.parquet(f"file://{folder}")
        return table_info(table, read_footers(sorted(folder.glob("*.parquet"))))

    return write


def into_lake(
    lake: Lake, run: str, tables: Iterable[str], *, seed: int, config: Mapping[str, Any]
) -> Write:
    """Each table as one of this run. Refuses before the work what is there."""
    for table in tables:
        if lake.folder is not None and run_files(lake.folder, table, run):
            raise UserError(
                f"{lake.folder}: the run {run!r} has a table {table!r}; expected another name of the run"
            )

    def write(table: str, frame: DataFrame) -> TableInfo | None:
        return lake.write(frame, table, run, kind="workload", seed=seed, config=config)

    return write
