"""What the kernels know of a broker: tables that follow its own as these change, one row at a time.

    subscriptions   the router says which handle has come, gone, or come to be another hop's
    values          the matcher says which set of values has got a token, or lost it
    attributes      read anew when the matcher reads events in another way: as rare as a new attribute is
    strings         of attributes of which prefixes, suffixes or ranges are asked: the matcher is asked once a
                    string, and the answer kept until such a thing is asked or no longer asked
    publishers      numbered as they come

Nothing here is ever made anew because there are many subscriptions. What comes is entered before the next
chunk is read, together: a crowd that arrives at once costs each of its members a fraction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import msgpack
from numpy.typing import NDArray

from roost.broker.hops import Entry, Hop
from roost.broker.router import Flooding
from roost.chunks.kernels import layout as at
from roost.chunks.text import TextHeap, TextTable
from roost.language.values import Value
from roost.language.valueset import ValueSet
from roost.matching.reading import IndexReader
from roost.matching.vocabulary import Attribute, members_of

_pack = msgpack.Encoder().encode
# Bounds of what comes from outside: beyond, all is forgotten, and asked for again.
PUBLISHERS_MAX = 1 << 16
MEMO_MAX = 1 << 14
# Rows of a chunk.
EVENTS_MAX = 1 << 13
DELIVERIES_MAX = 1 << 15
# How much may wait to be entered: nobody who publishes then waits for more than that.
WAITING_MAX = 512

_KIND = {str: at.STRING_KIND, bool: at.BOOL_KIND, int: at.NUMBER_KIND, float: at.NUMBER_KIND}


class Frame:
    """The arrays of the kernels, by their places (see `kernels.layout`)."""

    def __init__(self) -> None:
        self.words = np.zeros(at.FRAME_WORDS, np.int64)
        self.view: memoryview[Any] = memoryview(self.words)  # type: ignore[arg-type]
        self._arrays: dict[int, NDArray[Any]] = {}

    def put(self, place: int, array: NDArray[Any]) -> None:
        """From now on this is the array there."""
        self._arrays[place] = array  # which keeps it where it is
        self.words[place], self.words[place + 1] = array.ctypes.data, len(array)

    def array(self, place: int) -> NDArray[Any]:
        return self._arrays[place]

    def new(self, place: int, cells: int) -> NDArray[np.int64]:
        array = np.zeros(cells, np.int64)
        self.put(place, array)
        return array


class Rows:
    """An array of rows that grows."""

    def __init__(self, frame: Frame, place: int, width: int, count: int = 16) -> None:
        self._frame, self._place, self._width = frame, place, width
        self.cells: NDArray[np.int64]
        self.view: memoryview[Any]  # through which few numbers are read and written more quickly
        self._set(frame.new(place, width * count))

    def _set(self, cells: NDArray[np.int64]) -> None:
        self.cells, self.view = cells, memoryview(cells)  # type: ignore[arg-type]

    def reserve(self, count: int) -> None:
        """Room for so many rows; whoever holds `cells` has to ask for it again."""
        if count * self._width > len(self.cells):
            before = self.cells
            self._set(self._frame.new(self._place, max(2 * len(before), count * self._width)))
            self.cells[: len(before)] = before

    def write(self, row: int, numbers: Sequence[int]) -> None:
        """All of a row."""
        for at_, number in enumerate(numbers, row * self._width):
            self.view[at_] = number


class Numbers:
    """Small numbers that are given out, and again when they are free."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def new(self) -> int:
        if self._free:
            return self._free.pop()
        self._next += 1
        return self._next - 1

    def free(self, number: int) -> None:
        self._free.append(number)


class Words:
    """(value, attribute) -> a list of tokens."""

    def __init__(self, heap: TextHeap, table: TextTable) -> None:
        self._heap, self._table = heap, table

    def put(self, key: bytes, owner: int, tokens: Sequence[int]) -> None:
        self._forget(self._table.put(key, self._heap.keep_list(tokens), owner))

    def put_many(self, words: Sequence[tuple[bytes, int, Sequence[int]]]) -> None:
        keys, owners, lists = zip(*words, strict=True)
        sizes = [len(tokens) for tokens in lists]
        cells = np.empty(len(sizes) + sum(sizes), np.int64)
        ends = np.cumsum(np.array(sizes) + 1)
        cells[ends - np.array(sizes) - 1] = sizes
        is_token = np.ones(len(cells), bool)
        is_token[ends - np.array(sizes) - 1] = False
        cells[is_token] = list(chain.from_iterable(lists))
        blocks = self._heap.keep_many(cells.tobytes(), ends * cells.itemsize) // cells.itemsize
        key_ends = np.cumsum(list(map(len, keys)))
        self._table.put_lists(b"".join(keys), key_ends, np.array(owners, np.int64), blocks)

    def drop(self, key: bytes, owner: int) -> None:
        self._forget(self._table.drop(key, owner))

    def _forget(self, block: int) -> None:
        if block >= 0:
            self._heap.drop_list(block)

    def clear(self) -> None:
        for block in self._table.values():
            self._heap.drop_list(block)
        self._table.clear()

    def __len__(self) -> int:
        return self._table.count


class Tables:
    """The tables of one broker's kernels."""

    def __init__(self, router: Flooding, reserved: Sequence[str], reserved_attribute: str) -> None:
        self.frame = frame = Frame()
        self._index = IndexReader(router.index)
        self.heap = heap = TextHeap(lambda cells: frame.put(at.TEXT, cells))
        self._names = self._table(at.NAMES)
        self._words = Words(heap, self._table(at.WORDS))
        self._memo = Words(heap, self._table(at.MEMO))
        self._publishers = self._table(at.PUBLISHERS)
        self.publishers: list[str] = []  # by number
        self._publisher_numbers: dict[str, int] = {}
        self._attributes = Rows(frame, at.ATTRIBUTES, at.ATTRIBUTE)
        self._values = Rows(frame, at.VALUES, at.VALUE_ROW)
        self._seen = Rows(frame, at.SEEN, 1)
        self._entries = Rows(frame, at.ENTRIES, at.ENTRY)
        self._hops = Rows(frame, at.HOPS, at.HOP)
        self._touched = Rows(frame, at.TOUCHED_HOPS, 1)
        self._published = Rows(frame, at.PUBLISHED, at.PUBLISHED_ROW)
        self._touched_publishers = Rows(frame, at.TOUCHED_PUBLISHERS, 1)
        for place, cells in (
            (at.EVENTS, EVENTS_MAX * at.EVENT_ROW),
            (at.DELIVERIES, DELIVERIES_MAX * at.DELIVERY),
            (at.MORE_IDS, DELIVERIES_MAX * at.MORE),
            (at.OFFER, 2),
        ):
            frame.new(place, cells)
        # Attributes: their numbers, and how many want them.
        self._numbers: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._attribute_numbers = Numbers()
        self._indexed: dict[str, None] = {}  # those that the matcher asks something of
        self._tried: dict[int, Attribute] = {}  # by number: those whose strings have to be tried
        self._answers = 0
        self._odd = np.empty(0, np.int64)
        self._revision = -1
        self._is_stale = True
        # Hops: their numbers, and how many entries are theirs.
        self.version = 0  # of whose each handle is
        self.hops: list[Hop | None] = []  # by number
        self.hop_numbers: dict[Hop, int] = {}
        self._entry_counts: dict[int, int] = {}
        self._hop_numbers = Numbers()
        # What is not entered yet: sets of values that have got or lost a token; entries by handle.
        self._changed: list[tuple[Attribute, ValueSet]] = []
        self._entering: dict[int, Entry] = {}
        self._reserve(reserved, reserved_attribute)
        self._index.watch(self._token_changed)

    def _table(self, place: int) -> TextTable:
        return TextTable(self.heap, lambda rows: self.frame.put(place, rows))

    @property
    def touched_hops(self) -> memoryview[Any]:
        return self._touched.view

    @property
    def hop_view(self) -> memoryview[Any]:
        return self._hops.view

    def up_to_date(self) -> None:
        """Before anything is read."""
        if self._changed or self._entering:
            self._enter_all()
        index = self._index
        if self._is_stale or self._revision != index.revision:
            self._read_anew()
        if self._answers < 2 * index.answers_max:
            self._renew_answers()
        if self._odd is not index.odds.rows:
            self._odd = index.odds.rows
            self.frame.put(at.ODD, self._odd)

    # --- attributes -----------------------------------------------------------------------------------

    def number_of(self, name: str) -> int:
        """The number of an attribute, which somebody wants from now on until `release`."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._attribute_numbers.new()
            self._names.put(name.encode(), number)
            for rows in (self._attributes, self._values, self._seen):
                rows.reserve(number + 1)
            self._set_attribute(number, 0)
            self._values.cells[number * at.VALUE_ROW + at.V_EVENT] = -1
        self._wanted[name] = self._wanted.get(name, 0) + 1
        return number

    def release(self, name: str) -> None:
        self._wanted[name] -= 1
        if not self._wanted[name]:
            del self._wanted[name]
            self._names.drop(name.encode())
            self._attribute_numbers.free(self._numbers.pop(name))

    def _set_attribute(
        self, number: int, reading: int, *, slot: int = -1, any_: int = -1, numbers: int = -1
    ) -> None:
        self._attributes.write(number, (slot, any_, numbers, reading))

    def _reserve(self, words: Sequence[str], attribute: str) -> None:
        """These values of an attribute are for brokers only."""
        self._reserved = self.number_of(attribute) if words else -1
        for word in words:
            self._words.put(word.encode(), self._reserved * at.KINDS + at.RESERVED_KIND, ())

    def _read_anew(self) -> None:
        """The matcher reads events in another way."""
        reading = self._index.reading()
        asked = dict.fromkeys((*reading.words, *reading.bounds, *(a.name for a in reading.others)))
        for name in [name for name in self._indexed if name not in asked]:
            del self._indexed[name]
            self._set_attribute(self._numbers[name], 0)
            self.release(name)
        for name in asked:
            if name not in self._indexed:
                self.number_of(name)
                self._indexed[name] = None
        words, others = dict.fromkeys(reading.words), {a.name: a for a in reading.others}
        for name in asked:
            slot = reading.bounds.get(name, -1)
            how = at.IS_WORDS if name in words else 0
            any_ = numbers = None
            attribute = others.get(name)
            if attribute is not None:
                how |= at.IS_OTHER | (at.IS_TRIED if attribute.has_patterns else 0)
                any_, numbers = attribute.presence
            self._set_attribute(
                self._numbers[name],
                how,
                slot=slot,
                any_=-1 if any_ is None else any_,
                numbers=-1 if numbers is None else numbers,
            )
        if self._reserved >= 0:
            self._attributes.cells[self._reserved * at.ATTRIBUTE + at.READING] |= at.IS_RESERVED
        self._tried = {self._numbers[a.name]: a for a in reading.others if a.has_patterns}
        frame = self.frame
        frame.put(at.WORD_ORDER, np.array([self._numbers[n] for n in reading.words], np.int64))
        frame.put(at.OTHER_ORDER, np.array([self._numbers[n] for n in others], np.int64))
        frame.words[at.MANY] = reading.many
        frame.put(at.EVENT, reading.event)
        self._revision, self._is_stale = self._index.revision, False
        self._renew_answers()

    def _renew_answers(self) -> None:
        # Twice: see `_resolved` of the kernel.
        self._answers = 2 * self._index.answers_max + DELIVERIES_MAX
        answers = self.frame.new(at.MATCHED, self._answers)
        self.frame.put(at.MATCHER, self._index.frame(answers))

    # --- values ---------------------------------------------------------------------------------------

    def _token_changed(self, attribute: Attribute, admitted: ValueSet) -> None:
        self._changed.append((attribute, admitted))
        if len(self._changed) >= WAITING_MAX:
            self._enter_all()

    def _enter_all(self) -> None:
        """What has waited: of values whatever has become of them since."""
        if self._changed:
            changed, self._changed = self._changed, []
            words = [word for one in changed for word in self._changed_words(*one)]
            for key, owner, tokens in words:
                if not tokens:
                    self._words.drop(key, owner)
            found = [word for word in words if word[2]]
            if len(found) > 1:
                self._words.put_many(found)
            elif found:
                self._words.put(*found[0])
        if self._entering:
            entering, self._entering = self._entering, {}
            self._enter(list(entering.values()))

    def _changed_words(
        self, attribute: Attribute, admitted: ValueSet
    ) -> Iterator[tuple[bytes, int, Sequence[int]]]:
        """(value, whose, its tokens) of all values of a set; a value that has none is to go."""
        members = members_of(admitted)
        if members is None:
            self._is_stale = True
            self._memo.clear()
            return
        if attribute.name not in self._indexed:
            self._indexed[attribute.name] = None
            self.number_of(attribute.name)
        number = self._numbers[attribute.name]
        for value in members:
            key = key_of(value)
            if key is None:
                continue
            owner = number * at.KINDS + _KIND[type(value)]
            if isinstance(value, str):
                yield key, owner, attribute.strings.get(value, ())
                self._memo.drop(key, owner)
            elif isinstance(value, bool):
                yield key, owner, attribute.bools.get(value, ())
            else:
                yield key, owner, attribute.numbers.get(value, ())

    def try_string(self, number: int, text: bytes) -> bool:
        """Keep which tokens a string of an attribute has; False: it is no string."""
        try:
            string = text.decode()
        except UnicodeDecodeError:
            return False
        if len(self._memo) >= MEMO_MAX:
            self._memo.clear()
        # What any value has is added for all kinds alike, behind these.
        tokens = self._tried[number].tokens_of_string(string)
        self._memo.put(text, number * at.KINDS + at.STRING_KIND, tokens)
        return True

    # --- publishers -----------------------------------------------------------------------------------

    def publisher(self, name: str) -> int:
        """The number of a publisher."""
        number = self._publisher_numbers.get(name)
        if number is not None:
            return number
        if len(self._publisher_numbers) >= PUBLISHERS_MAX:
            self._publishers.clear()
            self._publisher_numbers.clear()
            self.publishers.clear()
        number = self._publisher_numbers[name] = len(self.publishers)
        self.publishers.append(name)
        self._publishers.put(name.encode(), number)
        self._published.reserve(number + 1)
        self._touched_publishers.reserve(number + 1)
        self._published.cells[number * at.PUBLISHED_ROW + at.P_CHUNK] = -1
        return number

    def published(self) -> list[tuple[str, int, int]]:
        """The publishers of the chunk that was read: name, first and last number, in order."""
        rows, touched, found = self._published.view, self._touched_publishers.view, []
        for i in range(self.frame.view[at.PUBLISHER_COUNT]):
            number = touched[i]
            row = number * at.PUBLISHED_ROW
            first, last = rows[row + at.P_FIRST], rows[row + at.P_LAST]
            found.append((self.publishers[number], first, last))
        return found

    # --- subscriptions: what the router says -----------------------------------------------------------

    def entered(self, entry: Entry) -> None:
        """A subscription has a handle."""
        self.version += 1
        self._entering[entry.handle] = entry
        if len(self._entering) >= WAITING_MAX:
            self._enter_all()

    def _enter(self, entries: Sequence[Entry]) -> None:
        self._entries.reserve(1 + max(entry.handle for entry in entries))
        ids, rows = [], []
        for entry in entries:
            hop = entry.hop
            number = self.hop_numbers.get(hop)
            if number is None:
                number = self._new_hop(hop)
            self._entry_counts[number] += 1
            packed = _pack(entry.id) if hop.is_session else b""
            ids.append(packed)
            rows.append((entry.handle, number, len(packed)))
        text = b"".join(ids)
        kept = [len(packed) for packed in ids if packed]
        places = iter(self.heap.keep_many(text, np.cumsum(kept)).tolist() if kept else ())
        for handle, number, length in rows:
            place = next(places) if length else 0
            self._entries.write(handle, (number, place, length, -1))

    def left(self, entry: Entry) -> None:
        """It has none any more."""
        self.version += 1
        if self._entering.pop(entry.handle, None) is not None:
            return
        row = entry.handle * at.ENTRY
        number, place, length, _ = self._entries.cells[row : row + at.ENTRY].tolist()
        if length:
            self.heap.drop(place, length)
        self._entry_counts[number] -= 1
        if not self._entry_counts[number]:
            hop = self.hops[number]
            assert hop is not None
            del self.hop_numbers[hop], self._entry_counts[number]
            self.hops[number] = None
            self._hop_numbers.free(number)

    def _new_hop(self, hop: Hop) -> int:
        number = self.hop_numbers[hop] = self._hop_numbers.new()
        self._entry_counts[number] = 0
        if number == len(self.hops):
            self.hops.append(hop)
        else:
            self.hops[number] = hop
        self._hops.reserve(number + 1)
        self._touched.reserve(number + 1)
        kind = at.LINK_HOP if hop.is_link else at.SESSION_HOP if hop.is_session else at.INSIDE_HOP
        self._hops.write(number, (-1, 0, -1, 0, 0, kind, 0, 0))
        return number


def key_of(value: Value) -> bytes | None:
    """A value as the tables have it; None: a number that no value equals which a chunk may have."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return struct.pack("<q", value)
    number = float(value)
    return struct.pack("<d", number + 0.0) if number == value else None
