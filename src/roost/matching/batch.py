"""Batches of events, as the kernels read them: codes for tokens, and rows of numbers.

A batch is columns by attribute name (NumPy or Arrow arrays, lists, an Arrow table or record batch, a pandas
frame), where a null or a NaN is an attribute that the event does not have; or simply events. Strings are
encoded a distinct value at a time, so that a batch with few distinct values costs few look-ups. What an
event can't be, a row of columns can't be either: an attribute has one value, and strings have the same
bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roost.errors import UserError, type_of
from roost.language import Event
from roost.language.filter import not_an_event
from roost.language.values import EXACT_INT, STRING_LENGTH_MAX
from roost.matching.demand import float_above, float_below
from roost.matching.kernels.search import NO_TOKENS
from roost.matching.vocabulary import Attribute, Tokens

# Columns by attribute name: a mapping, an Arrow table or record batch, or a pandas frame (none of which has
# types to check).
Columns: TypeAlias = Mapping[str, Any] | Any

_FLOATS = frozenset(kind.id for kind in (pa.float16(), pa.float32(), pa.float64()))
_INTS = (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)
_NUMBERS = _FLOATS | {kind().id for kind in _INTS}
_STRINGS = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.string_view()))
# What is turned into tokens a distinct value at a time.
_WORDS = _STRINGS | {pa.bool_().id}


@dataclass(slots=True)
class Encoded:
    """A batch for `match_many`: see there."""

    events: int
    codes: NDArray[np.int64]
    lists: NDArray[np.int64]
    spans: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    exact: bool


class _Codes:
    """Codes for the tokens of values: a token is its own code, several are a numbered span of `lists`."""

    def __init__(self) -> None:
        self._known: dict[Tokens, int] = {(): NO_TOKENS}
        self.lists: list[int] = []
        self.spans: list[int] = []

    def of(self, tokens: Tokens) -> int:
        if len(tokens) == 1:
            return tokens[0]
        code = self._known.get(tokens)
        if code is None:
            code = self._known[tokens] = NO_TOKENS - 1 - len(self.spans) // 2
            self.spans.append(len(self.lists))
            self.lists.extend(tokens)
            self.spans.append(len(self.lists))
        return code


def encode_columns(columns: Columns, attributes: Mapping[str, Attribute], slots: int) -> Encoded:
    """The batch in the terms of the index; columns that no subscription speaks of are not looked at."""
    arrays = {name: array for name, array in _named(columns) if name in attributes}
    events = _length(columns)
    lower = np.full((slots, events), np.nan)
    upper = lower
    exact = True
    codes = _Codes()
    code_columns = []
    for name, array in arrays.items():
        attribute = attributes[name]
        values = as_arrow(name, array)
        if values.type.id in _NUMBERS:
            numbers, is_exact = _floats(values)
            lower[attribute.slot] = numbers
            if not is_exact:
                if exact:
                    upper, exact = lower.copy(), False
                _bracket(values, lower[attribute.slot], upper[attribute.slot])
            elif not exact:
                upper[attribute.slot] = numbers
            if attribute.asks_numbers:
                code_columns.append(_codes_of(values, attribute, codes))
        else:
            code_columns.append(_codes_of(values, attribute, codes))
    return Encoded(
        events,
        np.array(code_columns, np.int64).reshape(len(code_columns), events),
        np.array(codes.lists, np.int64),
        np.array(codes.spans, np.int64),
        lower,
        upper,
        exact,
    )


def encode_numbers(
    columns: Mapping[str, NDArray[np.float64]],
    events: int,
    attributes: Mapping[str, Attribute],
    slots: int,
) -> Encoded:
    """`encode_columns` for columns of floats, which need no look at what they are."""
    lower = np.full((slots, events), np.nan)
    codes = _Codes()
    code_columns = []
    for name, numbers in columns.items():
        attribute = attributes.get(name)
        if attribute is not None:
            lower[attribute.slot] = numbers
            if attribute.asks_numbers:
                code_columns.append(
                    _codes_of(pa.array(numbers, from_pandas=True), attribute, codes)
                )
    return Encoded(
        events,
        np.array(code_columns, np.int64).reshape(len(code_columns), events),
        np.array(codes.lists, np.int64),
        np.array(codes.spans, np.int64),
        lower,
        lower,
        exact=True,
    )


def encode_events(
    events: Iterable[Event], attributes: Mapping[str, Attribute], slots: int
) -> Encoded:
    """The same for events whose attributes may be of any kind, each for itself."""
    try:
        rows = [event.attributes for event in events]
    except AttributeError:
        other = next(event for event in events if not hasattr(event, "attributes"))
        raise not_an_event(other) from None
    lower = np.full((slots, len(rows)), np.nan)
    upper = lower
    exact = True
    codes = _Codes()
    code_rows = np.full((len(attributes), len(rows)), NO_TOKENS)
    for column, attribute in enumerate(attributes.values()):
        name, slot = attribute.name, attribute.slot
        for e, row in enumerate(rows):
            value = row.get(name)
            if value is None:
                continue
            code_rows[column, e] = codes.of(attribute.tokens_of(value))
            if not isinstance(value, str | bool):
                lower[slot, e] = value
                if isinstance(value, int) and not -EXACT_INT <= value <= EXACT_INT:
                    if exact:
                        upper, exact = lower.copy(), False
                    lower[slot, e] = float_below(value)
                    upper[slot, e] = float_above(value)
                elif not exact:
                    upper[slot, e] = value
    return Encoded(
        len(rows),
        code_rows,
        np.array(codes.lists, np.int64),
        np.array(codes.spans, np.int64),
        lower,
        upper,
        exact,
    )


def events_of(columns: Columns) -> list[Event]:
    """The events of a batch, one by one."""
    names = []
    lists = []
    for name, array in _named(columns):
        names.append(name)
        lists.append(as_arrow(name, array).to_pylist())
    return [
        Event({n: v for n, v in zip(names, row, strict=True) if v is not None})
        for row in zip(*lists, strict=True)
    ] or [Event({}) for _ in range(_length(columns))]


def as_arrow(name: str, array: Any) -> pa.Array:
    """A column as one Arrow array of strings, bools, ints or floats."""
    try:
        values = array if isinstance(array, pa.Array | pa.ChunkedArray) else pa.array(array)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as bad:
        raise UserError(f"column {name!r} is not a column of one type: {bad}") from None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if kind.id in _NUMBERS or kind.id in _WORDS:
        return values
    if kind.id == pa.null().id:
        return values.cast(pa.string())
    if isinstance(values, pa.DictionaryArray):
        kind = kind.value_type
    if kind.id not in _NUMBERS and kind.id not in _WORDS:
        raise UserError(
            f"column {name!r} has the type {kind}; expected bool, int, float or string (events are flat)"
        )
    return values.dictionary_decode() if kind.id in _NUMBERS else values


def _named(columns: Columns) -> Iterable[tuple[str, Any]]:
    if isinstance(columns, Mapping):
        return columns.items()
    if isinstance(columns, pa.Table | pa.RecordBatch):
        _refuse_doubles(columns.schema.names)
        return zip(columns.schema.names, columns.columns, strict=True)
    if not _is_frame(columns):
        raise TypeError(
            f"events are {type_of(columns)}; expected a list of events, columns by name,"
            " an Arrow table or a pandas frame"
        )
    names = list(columns.columns)
    _refuse_doubles(names)
    return ((name, columns[name]) for name in names)


def _is_frame(columns: Any) -> bool:
    """Whether it is a frame of pandas, which is not loaded to find out."""
    return any(
        kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"
        for kind in type(columns).__mro__
    )


def _refuse_doubles(names: Sequence[Any]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"two columns of the batch are called {twice[0]!r}; expected one")


def too_long(name: str) -> str:
    """What is wrong with a column that has a string which is longer than one of an event may be."""
    return (
        f"column {name!r} has a string of more than {STRING_LENGTH_MAX:,} characters, which is the most"
        " that an event may have"
    )


def _length(columns: Columns) -> int:
    if isinstance(columns, pa.Table | pa.RecordBatch):
        return int(columns.num_rows)
    if not isinstance(columns, Mapping):
        return len(columns)
    lengths = {len(array) for array in columns.values()}
    if len(lengths) > 1:
        raise UserError(f"the columns of a batch have different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def _floats(values: pa.Array) -> tuple[NDArray[np.float64], bool]:
    """The numbers as floats, NaN for null, and whether that lost nothing."""
    if values.type.id in _FLOATS:
        numbers = values.to_numpy(zero_copy_only=False)
        return numbers.astype(np.float64, copy=False), True
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        whole = values.fill_null(0).to_numpy(zero_copy_only=False)
        return np.where(present, whole.astype(np.float64), np.nan), _all_exact(whole)
    whole = values.to_numpy(zero_copy_only=False)
    return whole.astype(np.float64), _all_exact(whole)


def _all_exact(whole: NDArray[Any]) -> bool:
    if whole.dtype.itemsize < 8 or not len(whole):
        return True
    return bool(whole.max() <= EXACT_INT and whole.min() >= -EXACT_INT)


def _bracket(values: pa.Array, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
    """The floats next to each int, below and above."""
    for e, value in enumerate(values.to_pylist()):
        lower[e] = math.nan if value is None else float_below(value)
        upper[e] = math.nan if value is None else float_above(value)


def _codes_of(values: pa.Array, attribute: Attribute, codes: _Codes) -> NDArray[np.int64]:
    """A code for each value, found once a distinct value."""
    distinct = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
    # Where all together are no longer than one may be, none has to be looked at.
    if distinct.dictionary.type.id in _STRINGS and distinct.dictionary.nbytes > STRING_LENGTH_MAX:
        longest = pc.max(pc.utf8_length(distinct.dictionary.cast(pa.large_string()))).as_py()
        if longest is not None and longest > STRING_LENGTH_MAX:
            raise UserError(too_long(attribute.name))
    words: list[Any] = distinct.dictionary.to_pylist()
    # Behind the words: what a null is.
    by_word = np.full(len(words) + 1, NO_TOKENS)
    if attribute.words_only:
        found: Iterable[int] = map(attribute.equal.get, words, repeat(NO_TOKENS))
    else:
        found = (NO_TOKENS if w is None else codes.of(attribute.tokens_of(w)) for w in words)
    by_word[:-1] = np.fromiter(found, np.int64, len(words))
    indices = distinct.indices
    if indices.null_count:
        indices = indices.fill_null(len(words))
    codes_of_values: NDArray[np.int64] = by_word.take(indices.to_numpy(zero_copy_only=False))
    return codes_of_values
