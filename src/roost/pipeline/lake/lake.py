"""The lake: a folder of tables, each with its runs, `LAKE/TABLE/run=NAME/*.parquet`.

Simulated and live brokers write their traces there (`roost.traces`), the pipeline everything else; any table
of any runs is one DataFrame, with a column `run`. The table `runs` says of each run what it was made of.

    lake = Lake("lake")
    lake.runs()                                         # what there is: no Spark needed
    loads = lake.read(spark, "loads", ["calm-1", "live-2"])
    lake.write(busiest, "busiest", "study-1", kind="profile", config={"above": 0.9})

**Whole or not there.** A table of a run is written under a hidden name and then renamed, so that readers see
none of it or all. What comes in is checked before any work: names, files, columns, types.

**Elsewhere.** A lake at an address such as `s3a://bucket/lake` is reached by Spark alone: reading and writing
work, without the checks that need the files at hand; listing, replacing and pruning do not.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.arguments import methods_checked
from roost.pipeline.lake.files import (
    RUN,
    TableInfo,
    first_rows,
    read_footers,
    run_bytes,
    run_files,
    run_names,
    spark_paths,
    table_info,
    table_names,
    unknown,
    written_at,
)
from roost.pipeline.lake.schema import RUN_COLUMN, check_frame, common_schema
from roost.traces import About, read_table
from roost.traces.joining import join_segments
from roost.traces.run import about_row, check_run_name, part_path, write_row
from roost.traces.schemas import TRACED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS = "runs"
# Between the name of a run and what makes a hidden name unique; no run has it in its name.
ASIDE = "~"
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_GLOB = re.compile(r"([{}\[\]*?\\])")


class RunPart(Struct, frozen=True):
    """What one of those who wrote into a run says of it: a broker, or a step of the pipeline."""

    part: str
    kind: str
    seed: int | None
    config: dict[str, Any]
    versions: dict[str, str]
    began: float | None  # in seconds since the epoch; None where time is virtual


class RunInfo(Struct, frozen=True):
    """A run of a lake."""

    name: str
    tables: tuple[str, ...]  # without `runs`
    parts: tuple[RunPart, ...]  # none if nobody has said what it was
    written: float  # when it was last written to, in seconds since the epoch
    problem: str = ""  # why it is not known what it was

    @property
    def kind(self) -> str:
        """The kinds of its parts, each once."""
        return ", ".join(dict.fromkeys(part.kind for part in self.parts)) or "unknown"

    @property
    def seed(self) -> int | None:
        """That of its parts, if they have the same."""
        seeds = {part.seed for part in self.parts}
        return seeds.pop() if len(seeds) == 1 else None


class Pruned(Struct, frozen=True):
    """A run that goes."""

    name: str
    bytes: int


class Compacted(Struct, frozen=True):
    """A run whose segments were joined."""

    name: str
    files_before: int
    files: int


@methods_checked
class Lake:
    """The tables of a folder, or at an address that Spark can reach."""

    def __init__(self, place: Path | str) -> None:
        text = str(place)
        local = text.removeprefix("file://").removeprefix("file:")
        # None: elsewhere.
        self.folder = Path(local).absolute() if "://" not in local else None
        self.address = text.rstrip("/") if self.folder is None else f"file://{self.folder}"

    # --- what there is ------------------------------------------------------------------------------

    def runs(self) -> list[RunInfo]:
        """All runs, those that were written last at the end."""
        folder = self._here()
        tables: dict[str, list[str]] = {}
        for table in table_names(folder):
            for name in run_names(folder, table):
                tables.setdefault(name, []).append(table)
        infos = [self._info(folder, name, having) for name, having in tables.items()]
        return sorted(infos, key=lambda run: (run.written, run.name))

    def run(self, name: str) -> RunInfo:
        """One run; a `UserError` says which there are."""
        folder = self._here()
        return self._info(folder, name, self._having(folder, name))

    def tables(self, run: str | None = None) -> list[TableInfo]:
        """The tables of a run, or of all, without `runs`; by their footers, however large they are."""
        folder = self._here()
        names = table_names(folder) if run is None else self._having(folder, run)
        infos = []
        for table in names:
            if table != RUNS:
                runs = run_names(folder, table) if run is None else [run]
                files = [path for name in runs for path in run_files(folder, table, name)]
                infos.append(table_info(table, read_footers(files)))
        return infos

    def sample(self, table: str, run: str, rows: int) -> pa.Table:
        """The first rows of a table of a run, without Spark."""
        folder = self._here()
        found: list[pa.Table] = []
        for path in self._files(folder, table, [run]):
            missing = rows - sum(map(len, found))
            if missing > 0:
                found.append(first_rows(path, table, missing))
        try:
            return pa.concat_tables(found, promote_options="permissive")
        except pa.ArrowException as bad:
            raise UserError(f"{folder / table}: files of the run {run!r} differ: {bad}") from None

    # --- Spark --------------------------------------------------------------------------------------

    def read(
        self,
        spark: SparkSession,
        table: str,
        run: str | Sequence[str] | None = None,
        *,
        needs: Collection[str] = (),
    ) -> DataFrame:
        """A table, of all runs or of those named; with the declared schema first and `run` last.

        A `UserError` names the table, the file and the column that are not as they should be. Columns that
        traces of an earlier version do not have are null there, or refused if somebody `needs` them.
        """
        names = [run] if isinstance(run, str) else run
        if names is not None and not names:
            raise UserError(
                f"{self.address}: no run of {table!r} was named; expected one, or None for all"
            )
        if self.folder is None:
            return self._read_elsewhere(spark, table, names)
        files = self._files(self._here(), table, names)
        return self._frame(spark, table, files, spark_paths(files), needs)

    def files(self, table: str, run: str) -> list[Path]:
        """The files of a table of a run that count, in the order of their names."""
        return self._files(self._here(), table, [run])

    def read_files(
        self, spark: SparkSession, table: str, files: Sequence[Path], *, needs: Collection[str] = ()
    ) -> DataFrame:
        """Some of the files of a table, as `read` has all of them."""
        return self._frame(spark, table, files, files, needs)

    def _frame(
        self,
        spark: SparkSession,
        table: str,
        files: Sequence[Path],
        paths: Sequence[Path],
        needs: Collection[str],
    ) -> DataFrame:
        schema = common_schema(spark, table, read_footers(files), needs)
        return (
            spark.read.schema(schema)
            .option("basePath", f"{self.address}/{table}")
            # Spark would take a bracket in the name of a folder for a pattern.
            .parquet(*(_GLOB.sub(r"\\\1", f"file://{path}") for path in paths))
        )

    def write(
        self,
        frame: DataFrame,
        table: str,
        run: str,
        *,
        kind: str,
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> TableInfo | None:
        """Writes a table of a run, and notes in `runs` what it was made of.

        It is there when it is whole. What it comes to is returned, unless the lake is elsewhere.
        """
        check_run_name(run)
        if not _TABLE.fullmatch(table) or table == RUNS:
            raise UserError(
                f"a table can't be called {table!r}; expected letters, digits, '_' and '-', and not"
                f" {RUNS!r}, which is written along"
            )
        check_frame(frame, table)
        row = about_row(table, About(kind, seed, config or {}, time.time()))
        if self.folder is None:
            self._write_elsewhere(frame, table, run, row, overwrite=overwrite)
            return None
        target = self.folder / table / f"{RUN}{run}"
        if not overwrite:
            _refuse_existing(target)
        aside = target.with_name(f".{target.name}{ASIDE}{secrets.token_hex(4)}")
        try:
            # What can't be written there is told now, and not by Spark, which has much to say.
            aside.mkdir(parents=True)
            aside.rmdir()
            frame.write.parquet(f"file://{aside}")
            # Even of no rows it makes a file.
            if not any(aside.glob("*.parquet")):
                raise UserError(
                    f"{aside}: Spark has written it on other machines; expected a lake on a file system that"
                    " they all share, at its address there (hdfs://..., s3a://...)"
                )
            _show(aside, target, overwrite=overwrite)
            write_row(part_path(self.folder, RUNS, run, table), row)
        except OSError as bad:
            raise UserError(f"{target}: can't be written: {bad.strerror or bad}") from None
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                target.parent.rmdir()  # unless it has runs
        return table_info(table, read_footers(run_files(self.folder, table, run)))

    # --- what is joined, and what goes --------------------------------------------------------------

    def compact(self, runs: Sequence[str] = ()) -> list[Compacted]:
        """Joins the segments of live runs, those of an hour at a time (`traces.joining`); all runs if none
        is named."""
        folder = self._here()
        for name in runs:
            self._having(folder, name)
        joined = []
        for name in sorted(set(runs) or self._names(folder)):
            before = after = 0
            for table in TRACED:
                where = folder / table / f"{RUN}{name}"
                try:
                    counts = join_segments(where)
                except OSError as bad:
                    raise UserError(f"{where}: can't be joined: {bad.strerror or bad}") from None
                before, after = before + counts[0], after + counts[1]
            if before != after or runs:
                joined.append(Compacted(name, before, after))
        return joined

    def prune(
        self,
        runs: Sequence[str] = (),
        *,
        keep_last: int | None = None,
        older_than_s: float | None = None,
        dry_run: bool = False,
    ) -> list[Pruned]:
        """Removes the runs of these names, or those that `chosen` chooses; or says which those are."""
        folder = self._here()
        if runs:
            if keep_last is not None or older_than_s is not None:
                raise UserError(
                    "runs are pruned by their names or by their age; expected one of them"
                )
            there = self._names(folder, hidden_too=True)
            for name in runs:
                if name not in there:
                    raise UserError(f"{folder}: {unknown('run', name, self._names(folder))}")
            names = list(dict.fromkeys(runs))
        else:
            names = chosen(
                [(run.name, run.written) for run in self.runs()],
                keep_last=keep_last,
                older_than_s=older_than_s,
                now=time.time(),
            )
        gone = [Pruned(name, run_bytes(folder, name)) for name in names]
        if not dry_run:
            for name in names:
                _remove(folder, name)
        return gone

    # --- inside -------------------------------------------------------------------------------------

    def _here(self) -> Path:
        """The folder, if that is what the lake is."""
        if self.folder is None:
            raise UserError(
                f"{self.address}: only Spark can reach it, to read and write tables; expected a folder of"
                " this machine"
            )
        if not self.folder.is_dir():
            raise UserError(
                f"{self.folder}: there is no such folder; expected a lake, with TABLE/{RUN}NAME/*.parquet"
                " (`roost sim run --trace` makes one)"
            )
        return self.folder

    def _names(self, folder: Path, *, hidden_too: bool = False) -> set[str]:
        """The runs of a lake; also those of which there are only hidden files."""
        if not hidden_too:
            return {name for table in table_names(folder) for name in run_names(folder, table)}
        return {
            path.name.partition(RUN)[2].partition(ASIDE)[0]
            for pattern in (f"*/{RUN}?*", f"*/.{RUN}?*{ASIDE}*")
            for path in folder.glob(pattern)
        }

    def _having(self, folder: Path, run: str) -> list[str]:
        """The tables of a run."""
        tables = table_names(folder, run)
        if not tables:
            raise UserError(f"{folder}: {unknown('run', run, self._names(folder))}")
        return tables

    def _info(self, folder: Path, name: str, having: Sequence[str]) -> RunInfo:
        parts: list[RunPart] = []
        problem = ""
        for path in run_files(folder, RUNS, name):
            try:
                parts += [_part(row) for row in read_table(path).to_pylist()]
            except UserError as bad:
                problem = str(bad)
            except (msgspec.DecodeError, msgspec.ValidationError) as bad:
                problem = f"{path}: {bad}"
        written = max(written_at(folder, table, name) for table in having)
        tables = tuple(table for table in having if table != RUNS)
        return RunInfo(name, tables, tuple(parts), written, problem)

    def _files(self, folder: Path, table: str, names: Sequence[str] | None) -> list[Path]:
        """The files of a table that these runs have; each has to have some."""
        there = run_names(folder, table)
        if not there:
            raise UserError(f"{folder}: {unknown('table', table, table_names(folder))}")
        known = set(there)
        for name in names or ():
            if name not in known:
                what = f"run of the table {table!r} called"
                raise UserError(f"{folder}: {unknown(what, name, there)}")
        wanted = there if names is None else list(dict.fromkeys(names))
        return [path for name in wanted for path in run_files(folder, table, name)]

    def _read_elsewhere(
        self, spark: SparkSession, table: str, names: Sequence[str] | None
    ) -> DataFrame:
        """What Spark finds there: it looks into the files itself."""
        base = f"{self.address}/{table}"
        paths = [base] if names is None else [f"{base}/{RUN}{name}" for name in names]
        for name in names or ():
            check_run_name(name)
        reader = spark.read.option("basePath", base).option("mergeSchema", "true")
        try:
            frame = reader.parquet(*paths)
            frame = frame.withColumn(RUN_COLUMN, frame[RUN_COLUMN].cast("string"))
            frame.schema  # noqa: B018 (some sessions look into the files only when they have to)
        except Exception as bad:  # what the JVM throws has no common type
            raise UserError(f"{', '.join(paths)}: Spark can't read it: {_first_line(bad)}") from bad
        check_frame(frame.drop(RUN_COLUMN), table, where=base)
        return frame

    def _write_elsewhere(
        self, frame: DataFrame, table: str, run: str, row: pa.Table, *, overwrite: bool
    ) -> None:
        """Spark itself keeps what it writes out of sight until it is whole."""
        if overwrite:
            raise UserError(
                f"{self.address}: nothing is replaced there; expected a new name of a run"
            )
        target = f"{self.address}/{table}/{RUN}{run}"
        noted = frame.sparkSession.createDataFrame(row).coalesce(1).write.mode("append")
        try:
            frame.write.parquet(target)
            noted.parquet(f"{self.address}/{RUNS}/{RUN}{run}")
        except Exception as bad:
            raise UserError(f"{target}: Spark can't write it: {_first_line(bad)}") from bad


def chosen(
    runs: Sequence[tuple[str, float]],
    *,
    keep_last: int | None,
    older_than_s: float | None,
    now: float,
) -> list[str]:
    """The runs to prune, of names and when each was last written to; the oldest first.

    Those that are older than that, if it is said, and not among the last so many, if that is.
    """
    if keep_last is None and older_than_s is None:
        raise UserError(
            "nothing says which runs to prune; expected names, how many to keep, or an age"
        )
    for what, value in (("runs to keep", keep_last), ("the age of runs", older_than_s)):
        if value is not None and not value >= 0:
            raise UserError(f"{what}: {value} is below 0")
    by_age = sorted(runs, key=lambda run: (run[1], run[0]))
    kept = len(by_age) - (keep_last or 0)
    oldest = now if older_than_s is None else now - older_than_s
    return [
        name
        for position, (name, written) in enumerate(by_age)
        if position < kept and (older_than_s is None or written < oldest)
    ]


def _part(row: Mapping[str, Any]) -> RunPart:
    return RunPart(
        part=row["part"] or "",
        kind=row["kind"] or "unknown",
        seed=row["seed"],
        config=msgspec.json.decode(row["config"] or "{}", type=dict[str, Any]),
        versions=msgspec.json.decode(row["versions"] or "{}", type=dict[str, str]),
        began=row["began"],
    )


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise UserError(
            f"{target}: that table of the run is there already; expected another name, or overwrite"
        )


def _show(aside: Path, target: Path, *, overwrite: bool) -> None:
    """The table of the run is there from now on, in place of what was there."""
    if overwrite and target.exists():
        old = target.with_name(f"{aside.name}.old")
        os.rename(target, old)
        os.rename(aside, target)
        shutil.rmtree(old, ignore_errors=True)
        return
    # Whoever else has written it meanwhile keeps it.
    _refuse_existing(target)
    os.rename(aside, target)


def _remove(folder: Path, run: str) -> None:
    """All of it goes out of sight before any of it goes."""
    aside = f".{RUN}{run}{ASIDE}"
    # Also what was never finished.
    gone = [path for path in folder.glob(f"*/.{RUN}*") if path.name.startswith(aside)]
    try:
        for path in [path for path in folder.glob(f"*/{RUN}*") if path.name == f"{RUN}{run}"]:
            gone.append(path.with_name(f"{aside}{secrets.token_hex(4)}"))
            os.rename(path, gone[-1])
        for path in gone:
            shutil.rmtree(path)
            with suppress(OSError):
                path.parent.rmdir()  # unless it has other runs
    except OSError as bad:
        where = bad.filename or folder
        raise UserError(
            f"{where}: the run {run!r} can't be removed: {bad.strerror or bad}"
        ) from None


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    lines = str(java.toString() if java is not None else error).splitlines()
    return lines[0] if lines else type(error).__name__
