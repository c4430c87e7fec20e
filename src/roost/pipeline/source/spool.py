"""The spool of a sink: rows on disk with the numbers that they are published under, each once.

Tasks write their rows into files. To commit a batch is to decide on its manifest: which files, in which
order, and from which number on. It is decided once (see `first_wins`); whoever commits the same batch again,
because the driver was killed in between, finds it and publishes the same events under the same numbers, of
which the broker takes none twice. Whatever the batch would contain the second time has no part in it.

    SPOOL/QUERY/0000000007.json             the manifest of batch 7
    SPOOL/QUERY/0000000007-1f0c....arrow    what a task has written
    SPOOL/QUERY.owner                       the number by which it claims its outbox (see `claims`)

A named batch that is run again has to be the same: its manifest has a sum over its events, in whatever order
they come, and another one is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa
from msgspec import Struct

from roost.errors import UserError
from roost.pipeline import first_wins
from roost.pipeline.source.claims import new_claim
from roost.pipeline.source.rows import SPOOLED, Outgoing, spooled, unspooled

EVENTS_AT_A_TIME = 4_096
# (file, how many events are in it)
Part: TypeAlias = tuple[str, int]


class Manifest(Struct, frozen=True):
    """What a batch publishes."""

    first: int  # the number of its first event
    parts: tuple[Part, ...]
    content: str = ""  # of a named batch: the sum over its events

    @property
    def last(self) -> int:
        """The number of its last event; that before the first if it has none."""
        return self.first + sum(count for _, count in self.parts) - 1


class Spool:
    """The spool of one query."""

    def __init__(self, folder: Path, query: str) -> None:
        self._folder = folder / query

    def owner(self) -> int:
        """The number of this query, which stays."""
        path = self._folder.with_name(f"{self._folder.name}.owner")
        said = first_wins.decide(path, str(new_claim()).encode())
        if not said.isdigit():
            raise UserError(f"{path}: not as the sink 'roost' writes it: expected a number")
        return int(said)

    def write(self, batch: int, batches: Iterable[Iterable[Outgoing]]) -> Part:
        """Put events into a file; in a task. Without events there is none, and its name is ""."""
        path = self._folder / f"{_name(batch)}-{secrets.token_hex(8)}.arrow"
        first_wins.unfinished_beside(path)
        count = 0
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SPOOLED) as writer:
            for events in batches:
                rows = spooled(events)
                writer.write_batch(rows)
                count += rows.num_rows
        if not count:
            path.unlink()
            return "", 0
        first_wins.sync(path)
        return path.name, count

    def decided(self, batch: int) -> Manifest | None:
        """The manifest of a batch, if there is one."""
        path = self._manifest(batch)
        with suppress(FileNotFoundError):
            return _decoded(path, path.read_bytes())
        return None

    def before(self, batch: int) -> int:
        """The number of the last event before a batch, as far as the spool knows; else 0."""
        manifest = self.decided(batch)
        if manifest is not None:
            return manifest.first - 1
        earlier = [number for number in self._batches() if number < batch]
        manifest = self.decided(max(earlier)) if earlier else None
        return 0 if manifest is None else manifest.last

    def decide(self, batch: int, parts: Sequence[Part], first: int, content: str = "") -> Manifest:
        """The manifest of a batch: as it was decided before, else these parts from this number on.

        With a sum over its content it has to be the same as before.
        """
        path = self._manifest(batch)
        manifest = Manifest(first, tuple(part for part in parts if part[1]), content)
        decided = _decoded(path, first_wins.decide(path, msgspec.json.encode(manifest)))
        if content and decided.content and content != decided.content:
            self.remove(name for name, _ in manifest.parts)
            raise UserError(
                f"{path}: a batch of this name has been published, or begun, with other events:"
                f" {_count(decided)} then, {_count(manifest)} now; expected the same events, or another name"
            )
        return decided

    def events(self, manifest: Manifest, above: int) -> Iterator[tuple[int, Outgoing]]:
        """The events of a manifest with their numbers, in order; only those above a number."""
        number = manifest.first
        for name, count in manifest.parts:
            if number + count - 1 > above:
                for event in self._read(name):
                    if number > above:
                        yield number, event
                    number += 1
            else:
                number += count

    def _read(self, name: str) -> Iterator[Outgoing]:
        path = self._folder / name
        try:
            with pa.memory_map(str(path)) as file:
                reader = pa.ipc.open_file(file)
                for i in range(reader.num_record_batches):
                    yield from unspooled(reader.get_batch(i))
        except FileNotFoundError:
            raise UserError(
                f"{path}: not there; the events of a batch that was begun stand in it, and the spool"
                " has to be a folder that the driver and all workers see"
            ) from None

    def clear(self, batch: int, manifest: Manifest) -> None:
        """A batch is published: what is older goes, and what tasks of it wrote in vain."""
        kept = {name for name, _ in manifest.parts}
        for path in self._folder.glob("*.arrow"):
            if path.name not in kept and int(path.name.partition("-")[0]) <= batch:
                path.unlink(missing_ok=True)
        for earlier in self._batches():
            if earlier < batch:
                self._manifest(earlier).unlink(missing_ok=True)

    def remove(self, names: Iterable[str]) -> None:
        """Files that no manifest is going to name."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def _batches(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdecimal()]

    def _manifest(self, batch: int) -> Path:
        return self._folder / f"{_name(batch)}.json"


def _count(manifest: Manifest) -> int:
    return manifest.last - manifest.first + 1


class Content:
    """What a task has put into a spool, as a sum that is the same for the same events in whatever order."""

    def __init__(self) -> None:
        self.total = 0

    def of(self, events: Iterable[Outgoing]) -> Iterator[Outgoing]:
        """The events, which are summed up on their way."""
        for event in events:
            digest = sha256(msgspec.msgpack.encode(event)).digest()
            self.total += int.from_bytes(digest[:16])
            yield event


def content_of(totals: Iterable[int]) -> str:
    """That of all tasks together."""
    return f"{sum(totals) % (1 << 128):032x}"


def _name(batch: int) -> str:
    return f"{batch:010}"


def _decoded(path: Path, data: bytes) -> Manifest:
    try:
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as bad:
        raise UserError(f"{path}: not as the sink 'roost' writes it: {bad}") from None
