"""Rows of `deliveries` from what a router has at hand: hops, links and what each client matched.

A driver taps the routing (`Module.tap`) and gets, of each publication,

    (source, publication, hops, links, local hops, what each of these matched)

and the table wants names. A live broker routes a publication in some 6 microseconds, so a row at a time would
cost it dear, and so would keeping all this for later: the collector of garbage looks at whatever stays. So a
`VisitLog` packs what is a publication's own into bytes at once. The rest is its *route*, which many that
follow each other have in common; it becomes names once, when rows are made of all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost.broker.hops import Hop, Session
from roost.broker.messages import Publication
from roost.traces.columns import Columns, Words
from roost.traces.rows import Names, Reached
from roost.wire import publication_bytes

Route: TypeAlias = tuple[Hop, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]]
RawVisit: TypeAlias = tuple[
    Hop, Publication, int, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]
]

# What is packed of a visit, in this order.
_OWN = np.dtype(
    [
        ("publisher", "i4"),
        ("sequence", "i8"),
        ("published_at", "f8"),
        ("bytes", "i4"),
        ("hop", "i4"),
        ("traced", "?"),
        ("route", "i4"),
    ]
)
_pack = Struct("=iqdii?i").pack


class Read(NamedTuple):
    """How many visits a live broker has had at a stretch, and when."""

    began: float  # in seconds since the epoch
    ended: float
    visits: int


class Visits(NamedTuple):
    """What a log held."""

    records: NDArray[np.void]
    publishers: Sequence[str]
    routes: Sequence[Route]


class VisitLog:
    """What a live broker routes, until rows are made of it."""

    def __init__(self) -> None:
        self._packed = bytearray()
        self._publishers = Words()
        self._routes: list[Route] = []
        self.tap, self._forget = self._new_tap()

    def __len__(self) -> int:
        return len(self._packed) // _OWN.itemsize

    def _new_tap(self) -> tuple[Callable[[tuple[Any, ...]], None], Callable[[], None]]:
        """Closures, because their variables are found more quickly than what an object has."""
        publishers, routes, extend = self._publishers, self._routes, self._packed.extend
        numbers: dict[tuple[Any, ...], int] = {}
        last_source: Hop | None = None
        last_links: Sequence[Hop] = ()
        last_local: Sequence[Hop] = ()
        last_matched: Sequence[tuple[str, ...]] = ()
        route = 0

        def tap(visit: tuple[Any, ...]) -> None:
            nonlocal last_source, last_links, last_local, last_matched, route
            source, publication, hops, links, local, matched = visit
            if (
                source is not last_source
                or matched != last_matched
                or local != last_local
                or links != last_links
            ):
                last_source, last_links, last_local, last_matched = source, links, local, matched
                key = (source, tuple(links), tuple(local), tuple(matched))
                route = numbers.setdefault(key, len(routes))
                if route == len(routes):
                    routes.append((source, links, local, matched))
            extend(
                _pack(
                    publishers[publication.publisher],
                    publication.sequence,
                    publication.published_at,
                    len(publication.encoded or publication_bytes(publication)),
                    hops,
                    publication.traced,
                    route,
                )
            )

        def forget() -> None:
            nonlocal last_source
            last_source = None
            numbers.clear()

        return tap, forget

    def take(self) -> Visits:
        """All of it, which is no longer here; no hop is held on to."""
        records = np.frombuffer(bytes(self._packed), _OWN)
        taken = Visits(records, list(map(str, self._publishers)), self._routes[:])
        for each in (self._packed, self._publishers, self._routes):
            each.clear()
        self._forget()
        return taken


def source_of(hop: Hop) -> str:
    """The neighbour or client that it is."""
    return hop.client if isinstance(hop, Session) else hop.name


def names_of(links: Iterable[Hop]) -> Names:
    return tuple(link.name for link in links)


def reached(local: Sequence[Hop], matched: Sequence[tuple[str, ...]]) -> Reached:
    """The clients among those who got it; a module of the broker is none."""
    pairs = zip(local, matched, strict=True)
    return tuple({hop.client: ids for hop, ids in pairs if isinstance(hop, Session)}.items())


def add_visits(
    columns: Columns, broker: str, life: int, visits: Visits, reads: Sequence[Read]
) -> None:
    """The rows of all that a live broker has routed, in order.

    What a publication took is its share of the stretch that it was handled in, and it waited for those ahead
    of it there. How long it lay in the buffers of the system before nobody knows.
    """
    own, route = visits.records, visits.records["route"]
    rows = np.zeros(len(own), columns.kind)
    for name in ("sequence", "bytes", "hop", "traced"):
        rows[name] = own[name]
    counts = [read.visits for read in reads]
    each_s = np.array([(read.ended - read.began) / read.visits for read in reads])
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    matching_s = np.repeat(each_s, counts)
    rows["matching_s"] = matching_s
    rows["queueing_s"] = place * matching_s
    began = np.repeat([read.began for read in reads], counts)
    rows["time"] = began + (place + 1) * matching_s
    rows["age_s"] = rows["time"] - own["published_at"]
    words, lists = columns.words, columns.lists
    rows["broker"] = words[broker]
    rows["life"] = life
    rows["publisher"] = _numbers(visits.publishers, words.__getitem__)[own["publisher"]]
    whom = [reached(local, matched) for _, _, local, matched in visits.routes]
    to = [names_of(links) for _, links, _, _ in visits.routes]
    sources = [source for source, _, _, _ in visits.routes]
    rows["source"] = _numbers(sources, lambda hop: words[source_of(hop)])[route]
    rows["from_client"] = _numbers(sources, lambda hop: hop.is_session)[route]
    rows["neighbours"] = _numbers(to, lists["neighbours"].__getitem__)[route]
    rows["forwarded"] = _numbers(to, len)[route]
    rows["clients"] = _numbers(whom, lists["clients"].__getitem__)[route]
    rows["local_subscribers"] = _numbers(whom, len)[route]
    columns.extend(rows)


def _numbers(values: Iterable[Any], function: Callable[[Any], int]) -> NDArray[np.int64]:
    return np.fromiter(map(function, values), np.int64)
