"""The fast index: a `Matcher` for a broker (one event, microseconds) and for a Spark task (batches).

Every filter has an *access token*: of what it demands (see `vocabulary`), the equality on the attribute
with the most distinct values, which is the one that the fewest events satisfy. A filter that demands no
token is found under token 0, which every event has. Filters that agree in everything but bounds form a
*group* (see `kernels.group`), stored once under the access token. An event visits the groups of its tokens
and of no others.

Two kinds of subscription do not fit that mould: those of several filters, and those with a bound that no
float equals. Their filters are stored under negative keys of the index's own, and such keys are turned into
ids, once each and after an exact comparison. It costs nothing where there are none.

A filter that no event can match is remembered and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.errors import UserError, type_of
from roost.language import Event, Filter, Interest, filters_of
from roost.language.filter import not_an_event
from roost.language.values import EXACT_INT
from roost.matching.answers import Room, longer
from roost.matching.batch import (
    Columns,
    Encoded,
    encode_columns,
    encode_events,
    encode_numbers,
    events_of,
)
from roost.matching.bulk import PredicateColumn, add_columns, spelled_out
from roost.matching.contract import DuplicateIdError, Ids, UnknownIdError, check_id
from roost.matching.demand import demand_of
from roost.matching.kernels import grid_search, search
from roost.matching.kernels.jit import direct
from roost.matching.kernels.reading import END, FULL, UNTRIED, match_octets, match_spans
from roost.matching.spans import Odds, Spans, event_of, new_event
from roost.matching.store import Store
from roost.matching.vocabulary import Attribute

_EXACT_MIN = -EXACT_INT
_MANY_ATTRIBUTES = 24
# Answers of `match` are slices of arrays of at least so many ids, one after the other.
_ANSWERS = 1 << 14
# Parts of a batch have about so many ids, which stay in the cache.
_PART_IDS = 1 << 15


_Words = tuple[str, Callable[[Any], int | None]]  # name, value -> token
_Bounds = tuple[str, int]  # name, slot


class _Odd(NamedTuple):
    """A filter under a key of the index's own: whose it is, and the filter if it must be compared."""

    id: int
    check: Filter | None


class Index:
    """A `Matcher` that visits only groups of subscriptions that the event's values lead to."""

    def __init__(self) -> None:
        self._store = Store()
        self._count = 0
        self._never: set[int] = set()
        self._odd: dict[int, _Odd] = {}
        self._parts: dict[int, list[int]] = {}
        self._odds = Odds()
        self._reading: Spans | None = None
        self._match_octets: Callable[..., int]
        self._read = 0  # how much of the room for answers of `match_bytes` is given out
        # How `match` reads an event: attributes that are asked to equal a string, attributes that have
        # bounds, attributes that are asked anything else.
        self._words: list[_Words] = []
        self._bounds: list[_Bounds] = []
        self._others: list[Attribute] = []
        self._words_of: dict[str, _Words] = {}
        self._bounds_of: dict[str, _Bounds] = {}
        self._match_one: Callable[..., int]
        self._event: Ids
        self._frame: Ids
        self._many = False  # whether to look only for attributes that the event has
        self._token_view: memoryview[Any]
        self._number_view: memoryview[Any]
        self._revision = -1  # of the store's attributes, when these were made
        self._out = np.empty(0, np.int64)
        self._used = 0
        self._out_size = grid_search.OVERRUN
        self._room = Room()
        self._ids_an_event = 1.0

    def __len__(self) -> int:
        return self._count

    def add(self, id_: int, interest: Interest) -> None:
        """Hold a subscription. DuplicateIdError if the id is in use."""
        id_ = check_id(id_)
        if id_ in self._never or id_ in self._parts:
            raise DuplicateIdError(id_)
        filters = filters_of(interest)
        if len(filters) == 1:
            demand = demand_of(filters[0], self._store.attribute, self._store.token)
            if demand is not None and demand.exact:
                self._store.add(id_, demand)
                self._count_one()
                return
        if search.any_known(self._store.cells, np.array([id_])) >= 0:
            raise DuplicateIdError(id_)
        self._add_parts(id_, filters)
        self._count_one()

    def remove(self, id_: int) -> None:
        """Forget a subscription. UnknownIdError if there is none."""
        id_ = check_id(id_)
        if id_ in self._never:
            self._never.remove(id_)
        elif id_ in self._parts:
            for key in self._parts.pop(id_):
                del self._odd[key]
                self._store.remove(key)
                self._odds.release(key)
        elif not self._store.remove(id_):
            raise UnknownIdError(id_)
        self._count -= 1

    def add_columns(self, ids: Ids | Sequence[int], predicates: Sequence[PredicateColumn]) -> None:
        """Hold many subscriptions that differ only in their constants.

        Each predicate is (attribute, operator, constants): subscription i is the conjunction of
        `attribute operator constants[i]` over all of them. DuplicateIdError if an id is in use or comes
        twice; nothing is added then.

        >>> index = Index()
        >>> index.add_columns([1, 2], [("symbol", "=", ["A", "B"]), ("high", ">", [10.0, 12.5])])
        >>> index.match(Event({"symbol": "B", "high": 13})).tolist()
        [2]
        """
        given = np.asarray(ids)
        if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
            raise UserError("the ids must be one column of whole numbers")
        if not isinstance(predicates, Sequence):
            what = f"the predicates are {type_of(predicates)}"
            raise TypeError(f"{what}; expected (attribute, operator, constants) of each")
        keys = given.astype(np.int64)
        self._refuse_duplicates(keys)
        never = add_columns(self._store, keys, predicates)
        if never is None:
            for id_, filter_ in zip(keys.tolist(), spelled_out(len(keys), predicates), strict=True):
                self.add(id_, filter_)
            return
        self._never.update(keys[never].tolist())
        self._count += len(keys)
        self._make_room_for_ids()

    def _refuse_duplicates(self, keys: Ids) -> None:
        if keys.ndim != 1:
            raise UserError("the ids must be one column of whole numbers")
        if len(keys) and keys.min() < 0:
            check_id(int(keys.min()))
        distinct, counts = np.unique(keys, return_counts=True)
        if len(distinct) < len(keys):
            raise DuplicateIdError(int(distinct[counts > 1][0]))
        known = search.any_known(self._store.cells, keys)
        if known >= 0:
            raise DuplicateIdError(int(keys[known]))
        if self._never or self._parts:
            for id_ in keys.tolist():
                if id_ in self._never or id_ in self._parts:
                    raise DuplicateIdError(id_)

    def _add_parts(self, id_: int, filters: Iterable[Filter]) -> None:
        """Store the filters of a subscription that needs a second look when they match."""
        keys = []
        for filter_ in filters:
            demand = demand_of(filter_, self._store.attribute, self._store.token)
            if demand is None:
                continue
            key = self._odds.new_key()
            self._store.add(key, demand)
            self._odd[key] = _Odd(id_, None if demand.exact else filter_)
            keys.append(key)
        if keys:
            self._parts[id_] = keys
            self._odds.put(id_, keys, [self._odd[key].check is not None for key in keys])
            self._store.revision += 1
        else:
            self._never.add(id_)

    def match(self, event: Event) -> Ids:
        """The ids of the subscriptions that the event matches, each once."""
        if self._revision != self._store.revision:
            self._refresh()
        numbers, tokens = self._number_view, self._token_view
        n = 1  # token 0 stands at the front for good
        try:
            get = event.attributes.get
        except AttributeError:
            raise not_an_event(event) from None
        words, bounds = self._words, self._bounds
        if self._many:
            words, bounds = self._narrowed(event)
        for name, token_of in words:
            # No word equals a number, a bool or None, so their kind need not be asked for.
            token = token_of(get(name))
            if token is not None:
                tokens[n] = token
                n += 1
        for name, slot in bounds:
            value = get(name)
            kind = type(value)
            if kind is float or (kind is int and _EXACT_MIN <= value <= EXACT_INT):  # type: ignore[operator]
                numbers[slot] = value
            elif value is not None and kind is not str and kind is not bool:
                # An int that no float equals, or a subclass of a kind of value.
                return self._match_the_long_way(event)
        for attribute in self._others:
            value = get(attribute.name)
            if value is not None:
                found = attribute.tokens_of(value)
                if n + len(found) > search.NUMBERS:
                    return self._match_the_long_way(event)
                for token in found:
                    tokens[n] = token
                    n += 1
        out, start = self._out, self._used
        if len(out) - start < self._out_size:
            out, start = self._renew_out(), 0
        end = self._used = self._match_one(self._frame, n, start)
        return self._resolved(out[start:end], event) if self._odd else out[start:end]

    def match_bytes(self, octets: bytes) -> Ids:
        """`match` for an event as MessagePack has it: a map of names to values.

        No object is made of it where the tables that kernels have (`lexicon`) decide. UserError if it is
        no event.

        >>> import msgspec
        >>> index = Index()
        >>> index.add_columns([1, 2], [("symbol", "=", ["A", "B"]), ("high", ">", [10.0, 12.5])])
        >>> index.match_bytes(msgspec.msgpack.encode({"symbol": "B", "high": 13})).tolist()
        [2]
        """
        if type(octets) is not bytes:
            raise TypeError(f"octets are {type_of(octets)}; expected bytes")
        reading, start = self._reading, self._read
        if (
            reading is None
            or reading.revision != self._store.revision
            or len(reading.out) - start < self._out_size
        ):
            reading = self._reading or self._begin_reading()
            start = reading.ready(start)
        end = self._match_octets(reading.frame, octets, start)
        if end < 0:
            return self._match_decoded(octets, end)
        self._read = end
        return reading.out[start:end]

    def _begin_reading(self) -> Spans:
        reading = self._reading = self.spans()
        match_octets(reading.frame, b"", reading.ready())
        self._match_octets = direct(match_octets)
        return reading

    def _match_decoded(self, octets: bytes, why: int) -> Ids:
        event = event_of(octets)
        if why == UNTRIED:
            self.learn(event)
        return self.match(event)

    def match_spans(self, octets: bytes, starts: Ids | Sequence[int]) -> tuple[Ids, Ids]:
        """`match_batch` for events that follow each other: event i from starts[i] to starts[i + 1].

        Each is a map as MessagePack has it, as for `match_bytes`.
        """
        if not isinstance(octets, bytes):
            raise TypeError(f"octets are {type_of(octets)}; expected bytes")
        try:
            places = np.ascontiguousarray(starts, np.int64)
        except (TypeError, ValueError):
            raise TypeError(f"starts are {type_of(starts)}; expected whole numbers") from None
        if places.ndim != 1 or not len(places) or places[0] < 0 or places[-1] > len(octets):
            raise UserError(
                f"starts are no places in {len(octets):,} bytes, from the first to the last"
            )
        if (np.diff(places) < 0).any():
            raise UserError("starts are not in order")
        # One of its own: `match_bytes` goes on where its last answer ends.
        reading = self.spans()
        size = int(1.25 * self._ids_an_event * (len(places) - 1)) + self._out_size
        reading.answer_in(self._room.of(size))
        offsets, raw = np.zeros(len(places), np.int64), np.frombuffer(octets, np.uint8)
        done = 0
        while True:
            done = match_spans(reading.frame, raw, places, offsets, done)
            if done == len(places) - 1:
                break
            why, n = int(reading.frame[END]), int(offsets[done])
            if why == FULL:
                reading.answer_in(longer(reading.out, n))
                continue
            found = self._match_decoded(octets[places[done] : places[done + 1]], why)
            if len(reading.out) - n < self._out_size:
                reading.answer_in(longer(reading.out, n))
            reading.out[n : n + len(found)] = found
            done += 1
            offsets[done] = n + len(found)
            reading.ready()
        if done:
            self._ids_an_event = max(1.0, offsets[-1] / done)
        return offsets, reading.out[: offsets[-1]]

    def spans(self) -> Spans:
        """The index for kernels that match events in the bytes of something larger."""
        return Spans(self._store, self._odds)

    def learn(self, event: Event) -> None:
        """Let kernels know from now on what the strings of an event are to the index.

        For events of which a kernel said UNTRIED; of others there is nothing to learn.
        """
        if not isinstance(event, Event):
            raise not_an_event(event)
        self._store.lexicon.learn(self._store.attributes, event.attributes)

    def _narrowed(self, event: Event) -> tuple[list[_Words], list[_Bounds]]:
        """What of `_words` and `_bounds` the event has."""
        words, bounds = self._words_of, self._bounds_of
        return (
            [words[name] for name in event.attributes if name in words],
            [bounds[name] for name in event.attributes if name in bounds],
        )

    def _match_the_long_way(self, event: Event) -> Ids:
        self._event.view(np.float64)[search.NUMBERS :] = np.nan
        return self.match_batch([event])[1]

    def match_batch(self, events: Columns | Sequence[Event]) -> tuple[Ids, Ids]:
        """(offsets, ids): event i matches ids[offsets[i]:offsets[i + 1]].

        `events` are events, or columns by attribute name: a mapping to NumPy or Arrow arrays or lists,
        an Arrow table or record batch, a pandas frame. A null or NaN is an attribute that the event does
        not have.
        """
        return self._checked(*self._search(self._encoded(events)), events)

    def match_parts(self, events: Columns | Sequence[Event]) -> Iterator[tuple[int, Ids, Ids]]:
        """`match_batch` in parts: the first event of each, and its (offsets, ids).

        An answer that is looked at at once, and not kept, need not leave the cache of the processor: with
        many matches that is several times as fast. The arrays of a part are its own until the next one is
        asked for.

        >>> index = Index()
        >>> index.add_columns([1, 2], [("x", ">", [1.0, 2.0])])
        >>> for first, offsets, ids in index.match_parts([Event({"x": 1.5}), Event({"x": 3})]):
        ...     print(first, offsets.tolist(), ids.tolist())
        0 [0, 1, 3] [1, 1, 2]
        """
        batch = self._encoded(events)
        rows = None
        out = self._room.of(_PART_IDS + self._out_size)
        for first, offsets, ids in _parts(self._store, batch, out[: _PART_IDS + self._out_size]):
            if self._odd:
                if rows is None:
                    rows = events if isinstance(events, list | tuple) else events_of(events)
                part = rows[first : first + len(offsets) - 1]
                yield first, *self._checked(offsets, ids, part)
            else:
                yield first, offsets, ids

    def _encoded(self, events: Columns | Sequence[Event]) -> Encoded:
        store = self._store
        if isinstance(events, list | tuple):
            return encode_events(events, store.attributes, store.slot_count)
        return encode_columns(events, store.attributes, store.slot_count)

    def match_numbers(
        self, columns: Mapping[str, NDArray[np.float64]], events: int | None = None
    ) -> tuple[Ids, Ids]:
        """`match_batch` for events whose attributes are all floats, without a look at each column.

        Of events without any attribute it has to be said how many there are.

        >>> index = Index()
        >>> index.add_columns([1, 2], [("x", ">", [1.0, 2.0])])
        >>> [each.tolist() for each in index.match_numbers({"x": np.array([1.5, 3.0])}, 2)]
        [[0, 1, 3], [1, 1, 2]]
        """
        if not isinstance(columns, Mapping):
            raise TypeError(f"columns is {type_of(columns)}; expected a mapping of arrays")
        if events is None:
            events = len(next(iter(columns.values()), ()))
        elif type(events) is not int or events < 0:
            raise TypeError(f"events is {events!r}; expected how many there are")
        store = self._store
        batch = encode_numbers(columns, events, store.attributes, store.slot_count)
        found = self._search(batch)
        return self._checked(*found, columns if columns else [Event({})] * events)

    def _checked(
        self, offsets: Ids, ids: Ids, events: Columns | Sequence[Event]
    ) -> tuple[Ids, Ids]:
        """What was found, with ids in place of keys of the index's own."""
        if not self._odd:
            return offsets, ids
        rows = events if isinstance(events, list | tuple) else events_of(events)
        answers = [
            self._resolved(ids[offsets[i] : offsets[i + 1]], event) for i, event in enumerate(rows)
        ]
        offsets = np.cumsum([0, *map(len, answers)], dtype=np.int64)
        return offsets, np.concatenate([np.empty(0, np.int64), *answers])

    def memory_bytes(self) -> int:
        """What the index takes for its subscriptions, without the caller's filter objects."""
        return self._store.memory_bytes() + 100 * (len(self._odd) + len(self._never))

    def _search(self, batch: Encoded) -> tuple[Ids, Ids]:
        offsets = np.zeros(batch.events + 1, np.int64)
        out = self._room.of(int(1.25 * self._ids_an_event * batch.events) + self._out_size)
        search_from = _searcher(self._store, batch, offsets)
        done = 0
        while (done := search_from(out, done)) < batch.events:
            out = longer(out, offsets[done])
        if batch.events:
            self._ids_an_event = max(1.0, offsets[-1] / batch.events)
        return offsets, out[: offsets[-1]]

    def _resolved(self, keys: Ids, event: Event) -> Ids:
        """The ids behind keys of the index's own, each once and only if it really matches."""
        odd = keys < 0
        if not odd.any():
            return keys
        found: dict[int, None] = {}
        for key in keys[odd].tolist():
            id_, check = self._odd[key]
            if id_ not in found and (check is None or check.matches(event)):
                found[id_] = None
        return np.concatenate([keys[~odd], np.array(list(found), np.int64)])

    def _count_one(self) -> None:
        self._count += 1
        self._make_room_for_ids()

    def _make_room_for_ids(self) -> None:
        # An event may match every filter, and a subscription may have several.
        self._out_size = self._count + len(self._odd) + grid_search.OVERRUN

    def _renew_out(self) -> Ids:
        """A new array for answers; those that were given out keep the old one."""
        self._out = np.empty(self._out_size + _ANSWERS, np.int64)
        self._frame = self._new_frame()
        return self._out

    def _new_frame(self) -> Ids:
        return search.frame_of(self._store.cells, self._store.directory, self._event, self._out)

    def _refresh(self) -> None:
        """Bring what `match` uses up to date after a change of the attributes."""
        store = self._store
        self._event = new_event(store.slot_count)
        self._token_view = memoryview(self._event)  # type: ignore[arg-type]
        self._number_view = memoryview(self._event.view(np.float64))[search.NUMBERS :]  # type: ignore[arg-type]
        attributes = store.attributes.values()
        self._words_of = {a.name: (a.name, a.equal.get) for a in attributes if a.words_only}
        self._bounds_of = {a.name: (a.name, a.slot) for a in attributes if a.bounded}
        self._words = list(self._words_of.values())
        self._bounds = list(self._bounds_of.values())
        self._others = [a for a in attributes if a.tokens and not a.words_only]
        self._many = len(attributes) > _MANY_ATTRIBUTES
        self._frame = self._new_frame()
        search.match_one(self._frame, 0, 0)
        self._match_one = direct(search.match_one)
        self._revision = store.revision


def _searcher(store: Store, batch: Encoded, offsets: Ids) -> Callable[[Ids, int], int]:
    """Matches events from some place on until their ids may not fit; see `search.match_many`."""
    tokens = np.empty(1 + len(batch.codes) + len(batch.lists), np.int64)
    arrays = (batch.codes, batch.lists, batch.spans, batch.lower.ravel(), batch.upper.ravel())

    def search_from(out: Ids, start: int) -> int:
        return search.match_many(
            store.cells, store.directory, *arrays, batch.exact, tokens, out, offsets, start
        )

    return search_from


def _parts(store: Store, batch: Encoded, out: Ids) -> Iterator[tuple[int, Ids, Ids]]:
    """Matches a batch a piece at a time, each into the same room."""
    offsets = np.zeros(batch.events + 1, np.int64)
    search_from = _searcher(store, batch, offsets)
    done = 0
    while done < batch.events:
        first, offsets[done] = done, 0
        done = search_from(out, done)
        # Its end is the beginning of the next, which is at 0 again.
        found = offsets[first : done + 1].copy()
        yield first, found, out[: found[-1]]
