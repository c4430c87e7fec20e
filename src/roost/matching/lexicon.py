"""What a kernel has to know to read an event from its bytes: names and words, kept as the index changes.

The tables (see `kernels.lexicon`) say the same as the attributes of the store (see `vocabulary`), by
bytes instead of by Python objects. They are filled when an index is first asked about bytes, and from
then on every change of an attribute is entered when it happens; nothing is ever filled anew. Of the
strings of an attribute with patterns (`prefix`, `contains`, an order) only those are known that were
tried: a kernel that meets another says so, and whoever decodes the event lets it be learnt. What was
tried before the patterns changed doesn't count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from roost.language.values import Value
from roost.language.valueset import ValueSet
from roost.matching.kernels import lexicon as tables
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.octets import Octets
from roost.matching.vocabulary import MEMO_MAX, Attribute, Tokens, members_of

_ROWS, _OCTETS, _SPANS, _SLOTS = 64, 1 << 10, 1 << 6, 16
# Strings longer than this are tried again each time rather than remembered.
_TRIED_BYTES_MAX = 4_096
_NOTHING = np.empty(0, np.int64)


class Lexicon:
    """Names, words and what was tried of the attributes of a store."""

    def __init__(self, attributes: Iterable[Attribute], moved: Callable[[], None]) -> None:
        self.table: Cells = tables.new_table(_ROWS)
        self.store: Octets = np.zeros(_OCTETS, np.uint8)
        self.spans: Cells = np.zeros(_SPANS, np.int64)
        self.slots: Cells = np.zeros(tables.SLOT * _SLOTS, np.int64)
        self._moved = moved  # to be told when an array is another
        self._clock = 1
        self._tried = 0
        for attribute in attributes:
            self.name(attribute)
            for admitted in attribute.tokens:
                self.changed(attribute, admitted)

    def name(self, attribute: Attribute) -> None:
        """Enter an attribute that is new."""
        while tables.SLOT * attribute.slot >= len(self.slots):
            self.slots = np.concatenate([self.slots, np.zeros_like(self.slots)])
            self._moved()
        row = tables.SLOT * attribute.slot
        self.slots[row : row + tables.SLOT] = 0
        self._put(tables.NAMES, attribute.name.encode(), (attribute.slot,))
        self._describe(attribute, new_patterns=False)

    def forget(self, attribute: Attribute) -> None:
        """Take out an attribute of which nobody speaks any more."""
        self._drop(tables.NAMES, attribute.name.encode())
        self.slots[tables.SLOT * attribute.slot + tables.PATTERNS_SINCE] = 0

    def changed(self, attribute: Attribute, admitted: ValueSet) -> None:
        """A token for these values has come or gone."""
        members = members_of(admitted)
        owner = tables.KINDS * attribute.slot
        for value in members or ():
            if isinstance(value, str):
                self._enter(owner + tables.WORD, value.encode(), attribute.strings.get(value))
            elif isinstance(value, bool):
                self._enter(owner + tables.BOOL, bytes((value,)), attribute.bools.get(value))
            elif _is_float(value):
                raw = struct.pack("<d", float(value) + 0.0)
                self._enter(owner + tables.NUMBER, raw, attribute.numbers.get(value))
        self._describe(attribute, new_patterns=members is None)

    def learn(self, attributes: Mapping[str, Attribute], event: Mapping[str, Value]) -> None:
        """Remember how the strings of an event fared with the patterns of their attributes."""
        for name, value in event.items():
            attribute = attributes.get(name)
            if attribute is None or not isinstance(value, str) or not attribute.has_patterns:
                continue
            raw = value.encode()
            if len(raw) > _TRIED_BYTES_MAX:
                continue
            if self._tried >= MEMO_MAX:
                self._forget_tried(attributes.values())
            self._tried += 1
            owner = tables.KINDS * attribute.slot + tables.TRIED
            self._put(owner, raw, attribute.patterns_of(value), self._clock)

    def memory_bytes(self) -> int:
        """What the tables take."""
        return self.table.nbytes + self.store.nbytes + self.spans.nbytes + self.slots.nbytes

    def _forget_tried(self, attributes: Iterable[Attribute]) -> None:
        for attribute in attributes:
            if attribute.has_patterns:
                self._describe(attribute, new_patterns=True)
        self._tried = 0
        self._lay_out(0, 0)

    def _describe(self, attribute: Attribute, *, new_patterns: bool) -> None:
        row = tables.SLOT * attribute.slot
        slots = self.slots
        slots[row + tables.WORDS] = bool(attribute.strings)
        slots[row + tables.NUMBERS] = bool(attribute.numbers)
        slots[row + tables.BOOLS] = bool(attribute.bools)
        if not attribute.has_patterns:
            slots[row + tables.PATTERNS_SINCE] = 0
        elif new_patterns:
            self._clock += 1
            slots[row + tables.PATTERNS_SINCE] = self._clock
        anything, number = attribute.presence
        slots[row + tables.PRESENT] = tables.NO_TOKENS if anything is None else anything
        slots[row + tables.PRESENT_NUMBER] = tables.NO_TOKENS if number is None else number

    def _enter(self, owner: int, raw: bytes, tokens: Tokens | None) -> None:
        if tokens:
            self._put(owner, raw, tokens)
        else:
            self._drop(owner, raw)

    def _put(self, owner: int, raw: bytes, tokens: Tokens, born: int = 0) -> None:
        octets = np.frombuffer(raw, np.uint8)
        codes = np.array(tokens, np.int64) if tokens else _NOTHING
        while not tables.put(self.table, self.store, self.spans, owner, octets, codes, born):
            self._lay_out(len(octets), len(codes) + 1)

    def _drop(self, owner: int, raw: bytes) -> None:
        tables.drop(self.table, self.store, owner, np.frombuffer(raw, np.uint8))

    def _lay_out(self, octets: int, spans: int) -> None:
        """New arrays with room for what lives, for so much more, and for as much again."""
        old = self.table
        live, live_octets, live_spans = tables.living(old, self.spans, self.slots)
        rows = _ROWS
        while rows < 4 * (live + 1):
            rows *= 2
        table = tables.new_table(rows)
        store = np.zeros(2 * (live_octets + octets) + _OCTETS, np.uint8)
        room = np.zeros(2 * (live_spans + spans) + _SPANS, np.int64)
        tables.lay_out(old, self.store, self.spans, self.slots, table, store, room)
        self.table, self.store, self.spans = table, store, room
        self._moved()


def _is_float(value: float) -> bool:
    """Whether a number of an event that a kernel reads can equal it: an int that no float equals can't."""
    return float(value) == value
