"""The subscriptions that a stream matches against, while they change: a folder that only grows.

    LOG/version-0000000003/*.parquet    what version 3 added and removed
    LOG/snapshot-0000000002/*.parquet   all that was there at version 2
    LOG/pins/QUERY/0000000041           the version that batch 41 of a stream uses (see `Pins`)

Each change makes the next version, as one folder that is there whole or not at all; of several writers that
want the same number one gets it, and the others take the next (see `first_wins`). The folder has to be on a
file system that the driver and all workers see.

A version has the columns of `parsed`, and `removed` and `subscriber`: whom matches of it are for, if that is
not the subscription itself. To add an id that is there is to replace it; to remove one that is not is
nothing. A later row counts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.pipeline import first_wins
from roost.pipeline.arguments import methods_checked
from roost.pipeline.parsing import Parser, check_ids, marking, plain_refusals
from roost.pipeline.schemas import SCHEMAS, SUBSCRIPTION, checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBSCRIBER, REMOVED = "subscriber", "removed"
SCHEMA = pa.schema([*SCHEMAS["parsed"], (REMOVED, pa.bool_()), (SUBSCRIBER, pa.string())])
# What `add` takes: texts with ids, and with subscribers.
TEXTS = pa.schema([*SCHEMAS["subscriptions"], (SUBSCRIBER, pa.string())])
VERSION, SNAPSHOT, PINS = "version-", "snapshot-", "pins"
# A worker that starts has to read so many folders at most.
SNAPSHOT_EVERY = 256
ROWS_A_FILE = 1 << 20
# Spark runs the last batch of a query again, and none before it.
PINS_KEPT = 4
LOOKS = 3


@methods_checked
class SubscriptionLog:
    """A log of subscriptions in a folder. It is made by the first change.

    >>> import tempfile
    >>> log = SubscriptionLog(tempfile.mkdtemp())
    >>> log.add([(1, "symbol = 'YHOO'"), (2, "volume > 300000")], subscriber="Alice")
    1
    >>> log.remove([1])
    2
    >>> log.at(2).column("subscription").to_pylist(), log.at(1).num_rows
    ([2], 2)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()

    # --- writing ------------------------------------------------------------------------------------

    def add(
        self,
        subscriptions: DataFrame | pa.Table | Iterable[tuple[int, str]],
        *,
        subscriber: str | None = None,
    ) -> int:
        """Add subscriptions, all of them or, if a filter is none, nothing; the version with them.

        A frame has the columns `subscription` and `filter`, and may have `subscriber`; its filters are parsed
        by the tasks of Spark, and go to the log from there. A table of Arrow's has the same columns, and is
        parsed here. `subscriber` is for those that say none.
        """
        given: Any = subscriptions
        if hasattr(given, "mapInArrow"):
            return self._append_frame(given, subscriber)
        if isinstance(given, pa.Table):
            parser = Parser()
            return self._append([_added(parser, texts) for texts in _texts(given, subscriber)])
        rows = list(given)
        for row in rows:
            if len(row) != 2 or type(row[0]) is not int or not isinstance(row[1], str):
                raise UserError(f"{row!r:.200} is no subscription; expected (id, filter)")
        ids, filters = zip(*rows, strict=True) if rows else ((), ())
        _check_range(ids)
        columns = [pa.array(ids, pa.int64()), pa.array(filters, pa.string())]
        texts = pa.record_batch([*columns, pa.array([subscriber] * len(rows), pa.string())], TEXTS)
        return self._append([_added(Parser(), texts)])

    def remove(self, ids: Iterable[int]) -> int:
        """Remove subscriptions, of which some may not be there; the version without them."""
        given = list(ids)
        _check_range(given)
        column = pa.array(given, pa.int64())
        check_ids(column)
        return self._append([_removals(column)])

    def _append(self, batches: Sequence[pa.RecordBatch]) -> int:
        unfinished = first_wins.unfinished_beside(self.folder / VERSION)
        unfinished.mkdir()
        try:
            _write(unfinished, pa.Table.from_batches(batches, SCHEMA))
            return self._name(unfinished)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _append_frame(self, frame: DataFrame, subscriber: str | None) -> int:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        checked(frame, "subscriptions")
        whose = F.col(SUBSCRIBER) if SUBSCRIBER in frame.columns else F.lit(None)
        texts = frame.select(
            SUBSCRIPTION,
            "filter",
            F.coalesce(whose.cast("string"), F.lit(subscriber)).alias(SUBSCRIBER),
        )

        def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parser = Parser()
            for batch in batches:
                yield _added(parser, batch)

        unfinished = first_wins.unfinished_beside(self.folder / VERSION)
        try:
            with plain_refusals():
                rows = texts.mapInArrow(marking(add), from_arrow_schema(SCHEMA))
                rows.write.parquet(unfinished.as_uri())
            return self._name(unfinished)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _name(self, unfinished: Path) -> int:
        """Make an unfinished folder the next version."""
        while True:
            version = self.version() + 1
            path = self._path(VERSION, version)
            if first_wins.name_folder(unfinished, path):
                if version > max(self._numbers(SNAPSHOT), default=0):
                    break
                # While we slept the number was used, written down and removed. Once more is not too often.
                path.rename(unfinished)
        if version % SNAPSHOT_EVERY == 0:
            self.compact()
        return version

    def compact(self) -> None:
        """Write down all that is there, and remove what only led to it, unless a stream still needs that."""
        version = self.version()
        path = self._path(SNAPSHOT, version)
        if version and not path.exists():
            unfinished = first_wins.unfinished_beside(path)
            unfinished.mkdir()
            try:
                _write(unfinished, self.at(version))
                first_wins.name_folder(unfinished, path)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        # Whoever reads now began at the snapshot before this one, or later.
        snapshots = self._numbers(SNAPSHOT)
        needed = min([*[0, *snapshots][-2:], *self._pinned()])
        oldest = max((s for s in snapshots if s <= needed), default=0)
        for kind, last in ((VERSION, oldest), (SNAPSHOT, oldest - 1)):
            for number in self._numbers(kind):
                if number <= last:
                    shutil.rmtree(self._path(kind, number), ignore_errors=True)

    # --- reading ------------------------------------------------------------------------------------

    def version(self) -> int:
        """The last version; 0 if nothing was ever added."""
        return max((*self._numbers(VERSION), *self._numbers(SNAPSHOT)), default=0)

    def oldest(self) -> int:
        """The oldest version that can be read; the one before the first if none was ever removed."""
        snapshots = self._numbers(SNAPSHOT)
        return snapshots[0] if snapshots and 1 not in self._numbers(VERSION) else 0

    def read(self, since: int = 0, until: int | None = None) -> pa.Table:
        """What changed after a version, up to another one or the last: of each id the last that was said.

        FileNotFoundError if it is not known any more; then there is a snapshot, and `at` reads it.
        """
        until = self.version() if until is None else until
        paths = [self._path(VERSION, version) for version in range(since + 1, until + 1)]
        return _latest([_read(path) for path in paths])

    def at(self, version: int) -> pa.Table:
        """All subscriptions of a version."""
        changes, _ = self.since(None, version)
        return changes

    def since(self, known: int | None, version: int) -> tuple[pa.Table, bool]:
        """What leads to a version from a known one; True if it leads there from nothing, as it must."""
        if known is not None and known <= version:
            with suppress(FileNotFoundError):
                return self.read(known, version), False
        for _ in range(LOOKS):
            snapshot = max((s for s in self._numbers(SNAPSHOT) if s <= version), default=0)
            with suppress(FileNotFoundError):  # it may just have been removed: there is a later one
                base = [_read(self._path(SNAPSHOT, snapshot))] if snapshot else []
                table = _latest([*base, self.read(snapshot, version)])
                return table.filter(pc.invert(table.column(REMOVED))), True
        raise UserError(
            f"{self.folder}: version {version} of the subscriptions is not known; there are those from"
            f" {self.oldest()} to {self.version()}"
        )

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}{number:010}"

    def _numbers(self, kind: str) -> list[int]:
        """The numbers of the folders of a kind, rising."""
        try:
            names = [path.name for path in self.folder.iterdir() if path.name.startswith(kind)]
        except FileNotFoundError:
            return []
        except OSError as bad:
            raise UserError(
                f"{self.folder}: {bad.strerror or bad}; expected a folder of subscriptions"
            ) from None
        return sorted(int(name.removeprefix(kind)) for name in names)

    def _pinned(self) -> list[int]:
        """The versions that batches of streams may ask for again."""
        found = []
        for path in self.folder.glob(f"{PINS}/*/[0-9]*"):
            with suppress(FileNotFoundError, ValueError):
                found.append(int(path.read_text()))
        return found

    def pins(self, query: str) -> Pins:
        """The versions that the batches of a query use."""
        return Pins(self, self.folder / PINS / query)


class Pins:
    """Which version each batch of a query uses: what the first task that asks finds, for good.

    So a batch that is run again, by the next process, matches against the same subscriptions.
    """

    def __init__(self, log: SubscriptionLog, folder: Path) -> None:
        self._log = log
        self._folder = folder

    def known(self, batch: int) -> int | None:
        """The version of a batch, if it has one."""
        with suppress(FileNotFoundError):
            return int(self._path(batch).read_text())
        return None

    def version(self, batch: int) -> int:
        """The version of a batch, from now on if it has none."""
        version = self.known(batch)
        if version is None:
            data = str(self._log.version()).encode()
            version = int(first_wins.decide(self._path(batch), data))
            for old in sorted(self._folder.glob("[0-9]*"))[:-PINS_KEPT]:
                old.unlink(missing_ok=True)
        return version

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:010}"


def _check_range(ids: Iterable[Any]) -> None:
    for id_ in ids:
        if type(id_) is not int or not 0 <= id_ < 1 << 63:
            raise UserError(
                f"{id_!r:.100} is no id of a subscription; expected a whole number from 0 on"
            )


def _texts(table: pa.Table, subscriber: str | None) -> list[pa.RecordBatch]:
    """A table of subscriptions as batches of `TEXTS`."""
    whose = pa.nulls(len(table), pa.string())
    if SUBSCRIBER in table.column_names:
        whose = table.column(SUBSCRIBER).cast(pa.string())
    if subscriber is not None:
        whose = pc.fill_null(whose, subscriber)
    columns = [table.column(SUBSCRIPTION), table.column("filter"), whose]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=TEXTS).to_batches()
    return batches


def _added(parser: Parser, texts: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `TEXTS` as rows of a version."""
    parsed = parser.parsed(texts)
    is_removed = pa.array(np.zeros(parsed.num_rows, np.bool_))
    return pa.record_batch([*parsed.columns, is_removed, texts.column(2)], SCHEMA)


def _removals(ids: pa.Array) -> pa.RecordBatch:
    columns = [
        ids,
        pa.nulls(len(ids), SCHEMA.field("filters").type),
        pa.array(np.ones(len(ids), np.bool_)),
        pa.nulls(len(ids), pa.string()),
    ]
    return pa.record_batch(columns, SCHEMA)


def _latest(tables: Sequence[pa.Table]) -> pa.Table:
    """Of each id the last row, in the order of ids."""
    table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    ids = table.column(SUBSCRIPTION).to_numpy()
    _, places = np.unique(ids[::-1], return_index=True)
    if len(places) == len(ids) and (np.diff(ids) > 0).all():
        return table
    return table.take(len(ids) - 1 - places)


def _write(folder: Path, table: pa.Table) -> None:
    for first in range(0, max(1, table.num_rows), ROWS_A_FILE):
        part = table.slice(first, ROWS_A_FILE)
        pq.write_table(part, folder / f"part-{first:010}.parquet", compression="zstd")


def _read(folder: Path) -> pa.Table:
    """The rows of a version; FileNotFoundError if it is not there."""
    files = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
    if not files:
        raise FileNotFoundError(folder)
    tables = [pq.read_table(path, columns=SCHEMA.names).cast(SCHEMA) for path in files]
    return pa.concat_tables(tables)
