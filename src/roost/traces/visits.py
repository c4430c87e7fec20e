"""Rows of `deliveries` from what a router has at hand: hops, links and what each client matched.

A driver taps the routing (`Module.tap`) and hears, of each publication,

    source, publication, hops, links, local hops (each of which says what it matched), and the time

and the table wants names. A live broker routes a publication in some 6 microseconds, and recording is to
take a tenth of that at most. So a `VisitLog` does next to nothing when it hears of one:

- What is a publication's own is in the publication, which is kept until the broker is through with what came
  with it, and then packed, a column at a time. Longer it is not kept: memory that is not used again at once
  is not in the cache when it is, which costs more than all the rest.
- What comes in columns is copied once (`tap_many`). A column of the log is a list of such pieces: to put them
  together is for whoever makes the table.
- The rest is its *route*, which many that follow each other have in common: all there is to do is to see
  that it is the same. A route becomes names once (`routes`).

What was taken has no hop any more, and is made into a table by whoever has the time (`delivery_table`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.broker.hops import Hop, Session
from roost.broker.messages import Publication
from roost.broker.module import Passage, Way
from roost.traces.columns import Words
from roost.traces.routes import SCHEMA, Route, Routes, taken
from roost.traces.rows import Names, Reached
from roost.wire import publication_bytes

# (source, publication, hops, links, local hops, what each of these matched)
RawVisit: TypeAlias = tuple[
    Hop, Publication, int, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]
]
Tap: TypeAlias = Callable[[Hop, Publication, int, Sequence[Hop], Sequence[Hop], float], None]
Pieces: TypeAlias = list[NDArray[Any]]

# So many are packed at a time, at least.
PIECE = 64
# So many routes are remembered, and those of the log that went beyond.
ROUTES_MAX = 1 << 14
_NONE: NDArray[np.int32] = np.empty(0, np.int32)


class Read(NamedTuple):
    """How many visits a live broker has had at a stretch, and when."""

    began: float  # in seconds since the epoch
    ended: float
    visits: int


class Visits(NamedTuple):
    """What a log held, in columns; each is in pieces."""

    total: int
    publishers: Sequence[str]
    publisher: Pieces  # the number of each one's
    sequence: Pieces
    published_at: Pieces
    bytes: Pieces
    traced: Pieces
    route: Pieces  # the number of each one's,
    routes: Routes  # among these,
    known: int  # of which there were so many

    def __len__(self) -> int:
        return self.total


class VisitLog:
    """What a live broker routes, until somebody takes it."""

    def __init__(self) -> None:
        self._heard: list[Publication] = []  # and not yet packed
        self._routes = Routes()
        self._numbers: dict[tuple[object, ...], int] = {}  # of these, by hops
        # ... and for each source of passages, by the way; ways of another epoch are others.
        self._epoch = 0
        self._of_ways: dict[tuple[str, bool], NDArray[np.int32]] = {}
        self._begin()
        self.tap, self._turn = self._new_tap()

    def _begin(self) -> None:
        self._packed = 0  # visits, in the pieces of these:
        self._publishers = Words()
        self._publisher: Pieces = []
        self._sequence: Pieces = []
        self._published_at: Pieces = []
        self._bytes: Pieces = []
        self._traced: Pieces = []
        self._route: Pieces = []
        # Of those not yet packed: runs of one route, by its number and the first visit.
        self._runs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._packed + len(self._heard)

    def _new_tap(self) -> tuple[Tap, Callable[[], None]]:
        """Closures, because their variables are found more quickly than what an object has."""
        heard = self._heard
        hear, begin_run, matched_of = heard.append, self._begin_run, attrgetter("matched")
        number_of = self._number_of
        last_source: Hop | None = None
        last_hops = 0
        last_links: Sequence[Hop] = ()
        last_local: Sequence[Hop] = ()
        last_matched: Sequence[tuple[str, ...]] = ()

        def tap(
            source: Hop,
            publication: Publication,
            hops: int,
            links: Sequence[Hop],
            local: Sequence[Hop],
            now: float,  # noqa: ARG001
        ) -> None:
            nonlocal last_source, last_hops, last_links, last_local, last_matched
            if not (
                source is last_source
                and hops == last_hops
                and links == last_links
                and local == last_local
                and (
                    local[0].matched is last_matched[0]
                    if len(local) == 1
                    else list(map(matched_of, local)) == last_matched
                )
            ):
                matched = list(map(matched_of, local))
                last_source, last_hops, last_links, last_local = source, hops, links, local
                last_matched = matched
                begin_run(number_of(source, hops, links, local, matched))
            hear(publication)

        def turn() -> None:
            nonlocal last_source
            last_source = None

        return tap, turn

    def _number_of(
        self,
        source: Hop,
        hops: int,
        links: Sequence[Hop],
        local: Sequence[Hop],
        matched: Sequence[tuple[str, ...]],
    ) -> int:
        key = (source, hops, tuple(links), tuple(local), tuple(matched))
        number = self._numbers.get(key)
        if number is None:
            route = route_of(source, Way(hops, links, local, matched))
            number = self._numbers[key] = self._routes.number(route)
        return number

    def tap_many(self, passage: Passage) -> None:
        """The same of many that were routed together."""
        self._pack()
        self._turn()
        self._route.append(self._routes_of(passage))
        publishers, places = passage.publishers
        numbers = np.array([self._publishers[name] for name in publishers], np.int32)
        self._publisher.append(numbers[places])
        # Copies, as what they are columns of is there for this moment.
        self._sequence.append(passage.sequence.astype(np.int64))
        self._published_at.append(passage.published_at.astype(np.float64))
        self._bytes.append(passage.bytes.astype(np.int32))
        self._traced.append(np.zeros(len(passage), np.bool_))
        self._packed += len(passage)

    def _routes_of(self, passage: Passage) -> NDArray[np.int32]:
        """The number of each one's route."""
        if passage.epoch != self._epoch:
            self._of_ways.clear()
            self._epoch = passage.epoch
        source = (source_of(passage.source), passage.source.is_session)
        of_way = self._of_ways.get(source, _NONE)
        if len(of_way) < len(passage.ways):
            more = np.full(len(passage.ways) - len(of_way), -1, np.int32)
            of_way = self._of_ways[source] = np.concatenate((of_way, more))
        way = passage.way
        found = of_way[way]
        if found.min() < 0:
            for number in dict.fromkeys(way[found < 0].tolist()):
                route = route_of(passage.source, passage.ways[number])
                of_way[number] = self._routes.number(route)
            found = of_way[way]
        return found

    def _begin_run(self, route: int) -> None:
        self._runs.append((route, len(self._heard)))

    def pack_if_full(self) -> None:
        """To be called now and then."""
        if len(self._heard) >= PIECE:
            self._pack()

    def _pack(self) -> None:
        heard, numbers = self._heard, self._publishers
        if not heard:
            return
        publishers = [numbers[each.publisher] for each in heard]
        sizes = [len(each.encoded or publication_bytes(each)) for each in heard]
        self._publisher.append(np.array(publishers, np.int32))
        self._sequence.append(np.array([each.sequence for each in heard], np.int64))
        self._published_at.append(np.array([each.published_at for each in heard], np.float64))
        self._bytes.append(np.array(sizes, np.int32))
        self._traced.append(np.array([each.traced for each in heard], np.bool_))
        routes, first = zip(*self._runs, strict=True)
        lengths = np.diff(first, append=len(heard))
        self._route.append(np.repeat(np.array(routes, np.int32), lengths))
        self._packed += len(heard)
        heard.clear()
        # Of what comes next the route has to be said anew.
        self._runs = []
        self._turn()

    def take(self) -> Visits:
        """All of it, which is no longer here; no hop is held on to."""
        self._pack()
        taken = Visits(
            total=self._packed,
            publishers=list(map(str, self._publishers)),
            publisher=self._publisher,
            sequence=self._sequence,
            published_at=self._published_at,
            bytes=self._bytes,
            traced=self._traced,
            route=self._route,
            routes=self._routes,
            known=len(self._routes),
        )
        self._numbers.clear()
        if len(self._routes) > ROUTES_MAX:
            self._routes = Routes()
            self._of_ways.clear()
        self._turn()
        self._begin()
        return taken


def route_of(source: Hop, way: Way) -> Route:
    return Route(
        source_of(source),
        source.is_session,
        way.hops,
        names_of(way.links),
        reached(way.local, way.matched),
    )


def source_of(hop: Hop) -> str:
    """The neighbour or client that it is."""
    return hop.client if isinstance(hop, Session) else hop.name


def names_of(links: Iterable[Hop]) -> Names:
    return tuple(link.name for link in links)


def reached(local: Sequence[Hop], matched: Sequence[tuple[str, ...]]) -> Reached:
    """The clients among those who got it; a module of the broker is none."""
    pairs = zip(local, matched, strict=True)
    return tuple({hop.client: ids for hop, ids in pairs if isinstance(hop, Session)}.items())


# --- rows -------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """What a live broker has routed for a while, and when."""

    visits: Visits
    reads: Sequence[Read]

    def __len__(self) -> int:
        return len(self.visits)


def delivery_schema() -> pa.Schema:
    """Of what `delivery_table` gives: words are numbers of a dictionary, as they are in the file."""
    return pa.schema([field.with_type(_with_numbers(field.type)) for field in SCHEMA])


def _with_numbers(type_: pa.DataType) -> pa.DataType:
    """The type with numbers for words, however deep they lie."""
    if type_ == pa.string():
        return pa.dictionary(pa.int32(), pa.string())
    if pa.types.is_list(type_):
        return pa.list_(_with_numbers(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in type_])
    return type_


def delivery_table(broker: str, life: int, stretches: Sequence[Stretch]) -> pa.Table:
    """The rows of all that a live broker has routed, in order.

    What a publication took is its share of the read that it came with, and it waited for those ahead of it
    there. How long it lay in the buffers of the system before nobody knows.
    """
    visits = [stretch.visits for stretch in stretches]
    rows = sum(map(len, visits))
    time, queueing_s, matching_s = _times([read for each in stretches for read in each.reads])
    publishers = Words()
    publisher = np.concatenate(
        [
            _renumbered(each.publishers, publishers)[np.concatenate(each.publisher)]
            for each in visits
        ]
    )
    routes, numbers = _joined_routes(visits)
    ways = routes.columns(max((each.known for each in visits), default=0))
    route = np.concatenate(numbers)
    columns = {
        "time": time,
        "publisher": _coded(list(publishers), publisher),
        "sequence": _joined(each.sequence for each in visits),
        "broker": _coded([broker], np.zeros(rows, np.int32)),
        "hop": ways.hop[route],
        "local_subscribers": ways.local_subscribers[route],
        "forwarded": ways.forwarded[route],
        "bytes": _joined(each.bytes for each in visits),
        "queueing_s": queueing_s,
        "matching_s": matching_s,
        "age_s": time - _joined(each.published_at for each in visits),
        "source": _coded(ways.sources, ways.source[route]),
        "from_client": ways.from_client[route],
        "traced": _joined(each.traced for each in visits),
        "life": np.full(rows, life),
        "neighbours": taken(ways.neighbours, route),
        "clients": taken(ways.clients, route),
    }
    schema = delivery_schema()
    arrays = [
        each if isinstance(each := columns[field.name], pa.Array) else pa.array(each, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _joined_routes(visits: Sequence[Visits]) -> tuple[Routes, list[NDArray[np.int32]]]:
    """The routes of all, and the number of each visit's."""
    routes = visits[0].routes
    if all(each.routes is routes for each in visits):
        return routes, list(chain.from_iterable(each.route for each in visits))
    routes, numbers = Routes(), []
    for each in visits:
        number = [routes.number(each.routes[n]) for n in range(each.known)]
        numbers += [np.array(number, np.int32)[piece] for piece in each.route]
    return routes, numbers


def _times(reads: Sequence[Read]) -> tuple[NDArray[np.float64], ...]:
    """Of each visit when it was over, how long it waited, and how long it took."""
    counts = np.array([read.visits for read in reads])
    began = np.array([read.began for read in reads])
    each_s = (np.array([read.ended for read in reads]) - began) / counts
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    matching_s = np.repeat(each_s, counts)
    queueing_s = place * matching_s
    return np.repeat(began, counts) + queueing_s + matching_s, queueing_s, matching_s


def _joined(columns: Iterable[Pieces]) -> NDArray[Any]:
    return np.concatenate(list(chain.from_iterable(columns)))


def _renumbered(values: Iterable[Hashable], numbers: Words) -> NDArray[np.int32]:
    """The number of each, where the same have the same in all stretches."""
    return np.fromiter(map(numbers.__getitem__, values), np.int32)


def _coded(words: Sequence[object], numbers: NDArray[np.int32]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(numbers, pa.array(words, pa.string()))
