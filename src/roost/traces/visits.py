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
  that it is the same. So a log has *runs* of one route. A route becomes names once, when the log is taken.

What was taken has no hop any more, and is made into a table by whoever has the time (`delivery_table`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.broker.hops import Hop, Session
from roost.broker.messages import Publication
from roost.broker.module import Passage
from roost.traces.columns import Words
from roost.traces.rows import Names, Reached
from roost.traces.schemas import SCHEMAS
from roost.wire import publication_bytes

# (source, publication, hops, links, local hops, what each of these matched)
RawVisit: TypeAlias = tuple[
    Hop, Publication, int, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]
]
Tap: TypeAlias = Callable[[Hop, Publication, int, Sequence[Hop], Sequence[Hop], float], None]
Pieces: TypeAlias = list[NDArray[Any]]
# The same without the publication.
_Unnamed: TypeAlias = tuple[Hop, int, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]]

SCHEMA = SCHEMAS["deliveries"]
# So many are packed at a time, at least.
PIECE = 64


class Read(NamedTuple):
    """How many visits a live broker has had at a stretch, and when."""

    began: float  # in seconds since the epoch
    ended: float
    visits: int


class Route(NamedTuple):
    """Where a publication came from and went to."""

    source: str
    from_client: bool
    hop: int
    neighbours: Names
    clients: Reached


class Visits(NamedTuple):
    """What a log held, in columns; each is in pieces."""

    total: int
    publishers: Sequence[str]
    publisher: Pieces  # the number of each one's
    sequence: Pieces
    published_at: Pieces
    bytes: Pieces
    traced: Pieces
    routes: Sequence[Route]
    run_route: array[int]  # of each run the number of its route,
    run_from: array[int]  # and of its first visit

    def __len__(self) -> int:
        return self.total


class VisitLog:
    """What a live broker routes, until somebody takes it."""

    def __init__(self) -> None:
        self._heard: list[Publication] = []  # and not yet packed
        self._routes: list[_Unnamed] = []
        self._numbers: dict[tuple[object, ...], int] = {}  # of routes
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
        self._run_route = array("i")
        self._run_from = array("q")

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
        routes = self._routes
        key = (source, hops, tuple(links), tuple(local), tuple(matched))
        number = self._numbers.setdefault(key, len(routes))
        if number == len(routes):
            routes.append((source, hops, links, local, matched))
        return number

    def tap_many(self, passage: Passage) -> None:
        """The same of many that were routed together."""
        self._pack()
        self._turn()
        first, hops = self._packed, passage.hops
        for turn, way in zip(passage.turns.tolist(), passage.ways, strict=True):
            number = self._number_of(passage.source, int(hops[turn]), *way)
            if not self._run_route or self._run_route[-1] != number:
                self._run_route.append(number)
                self._run_from.append(first + turn)
        publishers, places = passage.publishers
        numbers = np.array([self._publishers[name] for name in publishers], np.int32)
        self._publisher.append(numbers[places])
        # Copies, as what they are columns of is much larger.
        self._sequence.append(passage.sequence.astype(np.int64))
        self._published_at.append(passage.published_at.astype(np.float64))
        self._bytes.append(passage.bytes.astype(np.int32))
        self._traced.append(np.zeros(len(passage), np.bool_))
        self._packed += len(passage)

    def _begin_run(self, route: int) -> None:
        self._run_route.append(route)
        self._run_from.append(len(self))

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
        self._packed += len(heard)
        heard.clear()

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
            routes=[_named(route) for route in self._routes],
            run_route=self._run_route,
            run_from=self._run_from,
        )
        self._routes.clear()
        self._numbers.clear()
        self._turn()
        self._begin()
        return taken


def _named(route: _Unnamed) -> Route:
    source, hops, links, local, matched = route
    return Route(
        source_of(source), source.is_session, hops, names_of(links), reached(local, matched)
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


def _numbered(values: pa.Array) -> pa.Array:
    """Lists with numbers for words: what is taken from them are numbers then, and no texts are copied."""
    if values.type == pa.string():
        return values.dictionary_encode()
    if pa.types.is_list(values.type):
        return pa.ListArray.from_arrays(values.offsets, _numbered(values.values))
    if pa.types.is_struct(values.type):
        inner = [_numbered(values.field(place)) for place in range(values.type.num_fields)]
        return pa.StructArray.from_arrays(inner, [field.name for field in values.type])
    return values


def delivery_table(broker: str, life: int, stretches: Sequence[Stretch]) -> pa.Table:
    """The rows of all that a live broker has routed, in order.

    What a publication took is its share of the read that it came with, and it waited for those ahead of it
    there. How long it lay in the buffers of the system before nobody knows.
    """
    visits = [stretch.visits for stretch in stretches]
    rows = sum(map(len, visits))
    time, queueing_s, matching_s = _times([read for each in stretches for read in each.reads])
    publishers, routes = Words(), Words()
    publisher = np.concatenate(
        [
            _renumbered(each.publishers, publishers)[np.concatenate(each.publisher)]
            for each in visits
        ]
    )
    run_route = np.concatenate(
        [_renumbered(each.routes, routes)[_array(each.run_route)] for each in visits]
    )
    lengths = np.concatenate([np.diff(_array(each.run_from), append=len(each)) for each in visits])
    route = np.repeat(run_route, lengths)
    known = [Route(*each) for each in routes]  # type: ignore[misc]
    sources = Words()
    source = _renumbered((each.source for each in known), sources)
    columns = {
        "time": time,
        "publisher": _coded(list(publishers), publisher),
        "sequence": _joined(each.sequence for each in visits),
        "broker": _coded([broker], np.zeros(rows, np.int32)),
        "hop": np.array([each.hop for each in known], np.int32)[route],
        "local_subscribers": np.array([len(each.clients) for each in known], np.int32)[route],
        "forwarded": np.array([len(each.neighbours) for each in known], np.int32)[route],
        "bytes": _joined(each.bytes for each in visits),
        "queueing_s": queueing_s,
        "matching_s": matching_s,
        "age_s": time - _joined(each.published_at for each in visits),
        "source": _coded(list(sources), source[route]),
        "from_client": np.array([each.from_client for each in known])[route],
        "traced": _joined(each.traced for each in visits),
        "life": np.full(rows, life),
    }
    for name in ("neighbours", "clients"):
        lists = [getattr(each, name) for each in known]
        columns[name] = _numbered(pa.array(lists, SCHEMA.field(name).type)).take(pa.array(route))
    schema = delivery_schema()
    arrays = [
        each if isinstance(each := columns[field.name], pa.Array) else pa.array(each, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _times(reads: Sequence[Read]) -> tuple[NDArray[np.float64], ...]:
    """Of each visit when it was over, how long it waited, and how long it took."""
    counts = np.array([read.visits for read in reads])
    began = np.array([read.began for read in reads])
    each_s = (np.array([read.ended for read in reads]) - began) / counts
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    matching_s = np.repeat(each_s, counts)
    queueing_s = place * matching_s
    return np.repeat(began, counts) + queueing_s + matching_s, queueing_s, matching_s


def _array(values: array[int]) -> NDArray[Any]:
    return np.frombuffer(values, values.typecode) if values else np.empty(0, values.typecode)


def _joined(columns: Iterable[Pieces]) -> NDArray[Any]:
    return np.concatenate(list(chain.from_iterable(columns)))


def _renumbered(values: Iterable[Hashable], numbers: Words) -> NDArray[np.int32]:
    """The number of each, where the same have the same in all stretches."""
    return np.fromiter(map(numbers.__getitem__, values), np.int32)


def _coded(words: Sequence[object], numbers: NDArray[np.int32]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(numbers, pa.array(words, pa.string()))
