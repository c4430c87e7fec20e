"""What a Spark task does with publications and an index: batches of rows in, batches of matches out.

The matches of a batch can be a thousand times its rows. So a batch is matched a few rows at a time, as many
as gave about the right number of matches last time, and no batch of the answer is larger than it should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from roost.errors import UserError
from roost.language import Event, LanguageError, parse_event
from roost.matching import Ids, Index
from roost.matching.batch import Columns
from roost.pipeline.parsing import Batches

PAIRS, LISTS = FORMS = ("pairs", "lists")

# Matches that are looked for at a time, rows to begin with, and matches that there might be at worst.
MATCHES = 1 << 20
FIRST_ROWS = 256
MATCHES_MAX = 1 << 27
# Rows of a batch of pairs.
PAIRS_MAX = 1 << 18


@dataclass(frozen=True)
class Reading:
    """How the columns of a batch are read: the first is the publication's number.

    The attributes and the columns to keep are numbers of columns and their names. `event` is the column
    with the event as a text, if that is how events come.
    """

    attributes: tuple[tuple[int, str], ...]
    keep: tuple[tuple[int, str], ...]
    event: int | None = None

    def events(self, batch: pa.RecordBatch) -> Columns | list[Event]:
        """The events of a batch, as `Index.match_batch` takes them."""
        if self.event is not None:
            texts = batch.column(self.event).to_pylist()
            return [_event(batch, row, text) for row, text in enumerate(texts)]
        if not self.attributes:
            return [Event.trusted({})] * batch.num_rows
        return {name: batch.column(at) for at, name in self.attributes}


def _event(batch: pa.RecordBatch, row: int, text: str | None) -> Event:
    try:
        if text is None:
            raise LanguageError("the event is null; expected a text")
        return parse_event(text)
    except LanguageError as error:
        raise UserError(f"publication {batch.column(0)[row]}: {error}") from None


class Matching:
    """Matches batches of publications, in either form of the answer."""

    def __init__(self, index: Index, reading: Reading, form: str) -> None:
        self._index = index
        self._reading = reading
        self._answer = _pairs if form == PAIRS else _lists
        # Even if every subscription matched every row.
        self._rows_max = max(1, MATCHES_MAX // max(1, len(index)))
        self._rows = min(FIRST_ROWS, self._rows_max)

    def answers(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The matches of all batches."""
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, self._rows)
                start += part.num_rows
                offsets, ids = self._index.match_batch(self._reading.events(part))
                # The next part may be twice as large, not more: matches come in clusters.
                wanted = MATCHES * part.num_rows // max(1, len(ids))
                self._rows = max(1, min(2 * self._rows, wanted, self._rows_max))
                if len(ids):
                    yield from self._answer(part, offsets, ids, self._reading.keep)


def _pairs(
    batch: pa.RecordBatch, offsets: Ids, ids: Ids, keep: tuple[tuple[int, str], ...]
) -> Iterator[pa.RecordBatch]:
    rows = pa.array(np.repeat(np.arange(batch.num_rows), np.diff(offsets)))
    answer = pa.record_batch(
        [
            batch.column(0).take(rows),
            pa.array(ids),
            *(batch.column(at).take(rows) for at, _ in keep),
        ],
        ["publication", "subscription", *(name for _, name in keep)],
    )
    for start in range(0, answer.num_rows, PAIRS_MAX):
        yield answer.slice(start, PAIRS_MAX)


def _lists(
    batch: pa.RecordBatch, offsets: Ids, ids: Ids, keep: tuple[tuple[int, str], ...]
) -> Iterator[pa.RecordBatch]:
    matching = np.flatnonzero(np.diff(offsets))
    rows = pa.array(matching)
    # Rows without a match take no ids, so that leaving them out leaves no gap.
    ends = pa.array(np.append(offsets[matching], len(ids)), pa.int32())
    yield pa.record_batch(
        [
            batch.column(0).take(rows),
            pa.ListArray.from_arrays(ends, pa.array(ids)),
            *(batch.column(at).take(rows) for at, _ in keep),
        ],
        ["publication", "subscriptions", *(name for _, name in keep)],
    )
