"""Profiles that are kept: what was computed from a segment is not computed again.

The sums of a profile are a table of the run that they are of: `profile-NAME/run=RUN/batch-000003.parquet`. A
batch is one file, shown by a rename, and its footer says which files of the trace it was made from: so the
sums and the note of what they hold are there together, or not at all. New segments make a new batch, whose
cost is theirs alone. The result is computed from all batches, which are small.

When segments have been joined (`roost lake compact`) a file holds what several batches may have, or a part of
it. If all of it was done, nothing is to do. If not, those batches are made anew, together with what is new,
and the one that has it says which ones it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.profiles.profile import Profile
from roost.traces.run import About, about_row, hidden, open_anew, part_path, write_row
from roost.traces.segments import Span, span_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTE = b"roost.profile"


class Made(Struct, frozen=True):
    """What the footer of a batch says."""

    config: dict[str, int | float]
    files: tuple[
        tuple[str, int], ...
    ]  # name and size; of the latter, only that of what is no segment counts
    replaces: tuple[str, ...] = ()


class Kept(Struct, frozen=True):
    """What came of bringing a profile up to date."""

    files: int  # that were read
    batches: int  # that there are


def table_of(profile: Profile) -> str:
    """Where its sums are."""
    return f"profile-{profile.name}"


def keep(spark: SparkSession, lake: Lake, profile: Profile, run: str) -> Kept:
    """Brings the sums of a run up to date."""
    files = lake.files(profile.table, run)
    folder = _folder(lake, profile, run)
    batches = _batches(folder, profile)
    todo, stale = pending(files, batches)
    if todo:
        frame = lake.read_files(spark, profile.table, todo, needs=profile.needs)
        sums: pa.Table = profile.sums(frame.drop("run")).toArrow()
        made = Made(profile.config, tuple((f.name, f.stat().st_size) for f in todo), tuple(stale))
        _write(folder, sums, made)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
        about = about_row(table_of(profile), About("profile", config=profile.config))
        assert lake.folder is not None
        write_row(part_path(lake.folder, "runs", run, table_of(profile)), about)
    return Kept(len(todo), len(batches) - len(stale) + bool(todo))


def kept(spark: SparkSession, lake: Lake, profile: Profile, run: str) -> DataFrame:
    """The result of what has been kept so far."""
    batches = _batches(_folder(lake, profile, run), profile)
    if not batches:
        raise UserError(
            f"the profile {profile.name!r} of the run {run!r} has not been computed; expected `keep` before"
        )
    paths = [_folder(lake, profile, run) / name for name in batches]
    return profile.merged(lake.read_files(spark, table_of(profile), paths).drop("run"))


def pending(files: Sequence[Path], batches: dict[str, Made]) -> tuple[list[Path], list[str]]:
    """The files that are to be read, and the batches that have a part of one of them and so are not valid.

    What such a batch has besides is to be read again, too.
    """
    done = dict(batches)
    while True:
        todo = [path for path in files if not _is_done(path, done.values())]
        stale = [name for name, made in done.items() if any(_shares(path, made) for path in todo)]
        if not stale:
            return todo, [name for name in batches if name not in done]
        for name in stale:
            del done[name]


def _is_done(path: Path, batches: Iterable[Made]) -> bool:
    span = span_of(path.name)
    if span is None:
        return any((path.name, path.stat().st_size) in made.files for made in batches)
    done = sorted(
        (other.first, other.last)
        for made in batches
        for other in _spans(made)
        if other.part == span.part and other.last >= span.first and other.first <= span.last
    )
    if span.first == span.last:
        return bool(done)
    # A number that is nowhere had no rows in this table. So the ends count, and whatever lies between is in
    # the joined file only if it was there.
    return bool(done) and done[0][0] <= span.first and done[-1][1] >= span.last and _closed(done)


def _closed(done: Sequence[tuple[int, int]]) -> bool:
    """Whether ranges follow each other without a hole."""
    reach = done[0][1]
    for first, last in done[1:]:
        if first > reach + 1:
            return False
        reach = max(reach, last)
    return True


def _spans(made: Made) -> Iterable[Span]:
    return (span for name, _ in made.files if (span := span_of(name)) is not None)


def _shares(path: Path, made: Made) -> bool:
    """Whether a batch has rows of this file, or had some of one of its name."""
    span = span_of(path.name)
    if span is None:
        return any(name == path.name for name, _ in made.files)
    return any(
        other.part == span.part and other.first <= span.last and span.first <= other.last
        for other in _spans(made)
    )


# --- files ------------------------------------------------------------------------------------------


def _folder(lake: Lake, profile: Profile, run: str) -> Path:
    if lake.folder is None:
        raise UserError(
            f"{lake.address}: profiles are kept in a folder; expected one of this machine"
        )
    return lake.folder / table_of(profile) / f"run={run}"


def _batches(folder: Path, profile: Profile) -> dict[str, Made]:
    """Those that count, by their names."""
    found: dict[str, Made] = {}
    for path in sorted(folder.glob("batch-*.parquet")):
        try:
            noted = pq.read_schema(path).metadata or {}
            made = msgspec.json.decode(noted[NOTE], type=Made)
        except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
            raise UserError(
                f"{path}: not a batch of a profile; expected one that Roost has written"
            ) from None
        if made.config == profile.config:
            found[path.name] = made
    replaced = {name for made in found.values() for name in made.replaces}
    return {name: made for name, made in found.items() if name not in replaced}


def _write(folder: Path, sums: pa.Table, made: Made) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.stem.removeprefix("batch-")) for path in folder.glob("batch-*.parquet")]
    path = folder / f"batch-{max(numbers, default=0) + 1:06}.parquet"
    metadata = {**(sums.schema.metadata or {}), NOTE: msgspec.json.encode(made)}
    try:
        with open_anew(hidden(path)) as file:
            pq.write_table(sums.replace_schema_metadata(metadata), file, compression="zstd")
        hidden(path).replace(path)
    except OSError as bad:
        raise UserError(f"{path}: can't be written: {bad.strerror or bad}") from None
