"""Where an event goes, and where a subscription has to be so that it meets all events that it matches.

A routing divides the values of one attribute into buckets: numbers by ranges or by a hash, everything else
by a hash. An event goes to the bucket of its value, and to any one if it does not have the attribute. A
subscription goes to the buckets of the values that it admits, or everywhere: if one of its filters says
nothing on the attribute, or admits values without end that the hash has scattered.

Numbers are compared as floats here. To round a number to a float may make two equal but never exchanges
them, so a number within bounds is in a bucket between those of the bounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roost.language import Operator, Subscription, Value
from roost.language.values import is_nan
from roost.language.valueset import ValueSet
from roost.matching import Ids
from roost.matching.batch import as_arrow
from roost.pipeline.matching.loading import OPERATORS, Flat

Hashes = NDArray[np.uint64]

_LOWER = [OPERATORS.index(op.value) for op in (Operator.GT, Operator.GE)]


class Places(NamedTuple):
    """Where subscriptions go: some everywhere, of the others row `rows[i]` to `buckets[i]`."""

    everywhere: NDArray[np.int64]
    rows: NDArray[np.int64]
    buckets: NDArray[np.int64]


@dataclass(frozen=True)
class Routing:
    """Buckets by an attribute; without one there is a single bucket. With `cuts`, numbers go by ranges."""

    attribute: str | None = None
    buckets: int = 1
    cuts: tuple[float, ...] = ()

    # ------------------------------------------------------------------ events

    def of_column(self, column: Any, keys: Ids) -> NDArray[np.int64]:
        """The bucket of each value of a column of publications; `keys` scatter those without one."""
        absent = self._of_hashes(mixed(keys))
        if self.attribute is None or column is None:
            return absent
        values = as_arrow(self.attribute, column)
        if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
            numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            return np.where(np.isnan(numbers), absent, self._of_numbers(numbers))
        distinct = values.dictionary_encode() if not pa.types.is_dictionary(values.type) else values
        by_word = np.array([self.of_value(w) for w in distinct.dictionary.to_pylist()] or [0])
        present = values.is_valid().to_numpy(zero_copy_only=False)
        return np.where(present, by_word[distinct.indices.fill_null(0).to_numpy()], absent)

    def of_values(self, values: Sequence[Value | None], keys: Ids) -> NDArray[np.int64]:
        """The same for values of any kinds, as the events of a text have them."""
        found = self._of_hashes(mixed(keys))
        for row, value in enumerate(values):
            if value is not None and not is_nan(value):
                found[row] = self.of_value(value)
        return found

    def of_value(self, value: Value) -> int:
        """The bucket of one value."""
        if isinstance(value, str):
            return int(self._of_hashes(np.array([zlib.crc32(value.encode())], np.uint64))[0])
        if isinstance(value, bool):
            return int(value) % self.buckets
        return int(self._of_numbers(np.array([float(value)]))[0])

    def _of_numbers(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        if self.cuts:
            return np.searchsorted(self.cuts, numbers, side="right")
        # Plus zero, because -0.0 equals 0.0 and looks different.
        return self._of_hashes((numbers + 0.0).view(np.uint64))

    def _of_hashes(self, hashes: Hashes) -> NDArray[np.int64]:
        return (mixed(hashes) % np.uint64(self.buckets)).astype(np.int64)

    # ------------------------------------------------------------------ subscriptions

    def places(self, flat: Flat) -> Places:
        """Where subscriptions go."""
        none = np.empty(0, np.int64)
        if self.attribute is None:
            return Places(np.arange(len(flat.ids)), none, none)
        odd = np.flatnonzero(~flat.plain)
        of_odd = [self.of_subscription(s) for s in flat.subscriptions(odd)]
        unbound = np.array([found is None for found in of_odd], np.bool_)
        counts = [0 if found is None else len(found) for found in of_odd]
        plain = self._of_plain(flat)
        return Places(
            np.concatenate([plain.everywhere, odd[unbound]]),
            np.concatenate([plain.rows, np.repeat(odd, counts)]),
            np.concatenate([plain.buckets, *(sorted(found) for found in of_odd if found), none]),
        )

    def of_subscription(self, subscription: Subscription) -> set[int] | None:
        """The buckets in which it can match an event; None for everywhere."""
        found: set[int] = set()
        for filter_ in subscription.filters:
            if not filter_:
                continue
            admitted = filter_.sets.get(str(self.attribute))
            buckets = None if admitted is None else self._of_set(admitted)
            if buckets is None:
                return None
            found |= buckets
        return found

    def _of_set(self, admitted: ValueSet) -> set[int] | None:
        strings, numbers = admitted.strings, admitted.numbers
        if strings and strings.members is None:
            return None
        finite: Iterable[Value] = (*(strings.members or ()), *admitted.bools)
        found = {self.of_value(value) for value in finite}
        if numbers.members is not None:
            return found | {self.of_value(value) for value in numbers.members}
        if not numbers:
            return found
        if not self.cuts:
            return None
        return found | set(range(self.of_value(numbers.low), self.of_value(numbers.high) + 1))

    def _of_plain(self, flat: Flat) -> Places:
        """The same for all plain ones at once."""
        rows = np.flatnonzero(flat.plain)
        if self.attribute not in flat.names:
            return Places(rows, np.empty(0, np.int64), np.empty(0, np.int64))
        at = np.flatnonzero(flat.attributes == flat.names.index(self.attribute))
        owners = np.searchsorted(flat.offsets, at, side="right") - 1
        at, owners = at[flat.plain[owners]], owners[flat.plain[owners]]
        first = np.zeros(len(flat.ids), np.int64)
        last = np.full(len(flat.ids), self.buckets - 1)
        if self.cuts:
            self._bound(flat, at, owners, first, last)
        # An equality leaves one bucket. With two of them, or bounds beside one, nothing matches anyway.
        equal = at[flat.is_text[at]]
        words = flat.texts.take(pa.array(equal)).dictionary_encode()
        buckets = np.array([self.of_value(w) for w in words.dictionary.to_pylist()] or [0])
        of_equal = owners[flat.is_text[at]]
        first[of_equal] = last[of_equal] = buckets[words.indices.to_numpy()]
        counts = (last - first + 1).clip(min=0)[rows]
        somewhere = rows[counts < self.buckets] if self.buckets > 1 else rows[:0]
        counts = (last - first + 1).clip(min=0)[somewhere]
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        everywhere = np.setdiff1d(rows, somewhere, assume_unique=True)
        return Places(
            everywhere, np.repeat(somewhere, counts), np.repeat(first[somewhere], counts) + steps
        )

    def _bound(
        self,
        flat: Flat,
        at: NDArray[np.int64],
        owners: NDArray[np.int64],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
    ) -> None:
        bounded = ~flat.is_text[at]
        at, owners = at[bounded], owners[bounded]
        buckets = self._of_numbers(flat.numbers[at])
        lower = np.isin(flat.operators[at], _LOWER)
        np.maximum.at(first, owners[lower], buckets[lower])
        np.minimum.at(last, owners[~lower], buckets[~lower])


def mixed(keys: NDArray[Any]) -> Hashes:
    """Numbers that look random, the same everywhere for the same keys (the end of splitmix64)."""
    x = keys.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def keys_of(publications: pa.Array) -> Ids:
    """Keys that scatter publications. Those that go by texts are scattered by where they stand."""
    if not pa.types.is_integer(publications.type):
        return np.arange(len(publications))
    keys: Ids = pc.fill_null(publications, 0).to_numpy(zero_copy_only=False)
    return keys
