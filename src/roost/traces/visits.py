"""Rows of `deliveries` from what a router has at hand: hops, links and what each client matched.

A driver taps the routing (`Module.tap`) and gets, of each publication,

    (source, publication, hops, links, local hops, what each of these matched)

and the table wants names. A live broker routes a publication in some 6 microseconds, so one row at a time
would cost it dear: it hands over all of a read together, and what is the same for many that follow each other
(their publisher, where they came from, where they went) is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost.broker.hops import Hop, Session
from roost.broker.messages import Publication
from roost.traces.columns import Columns
from roost.traces.rows import Names, Reached
from roost.wire import publication_bytes

RawVisit: TypeAlias = tuple[
    Hop, Publication, int, Sequence[Hop], Sequence[Hop], Sequence[tuple[str, ...]]
]
_facts = attrgetter("publisher", "sequence", "published_at", "traced", "encoded")


class Read(NamedTuple):
    """What a live broker has routed at a stretch, and when."""

    began: float  # in seconds since the epoch
    ended: float
    visits: Sequence[RawVisit]


def source_of(hop: Hop) -> str:
    """The neighbour or client that it is."""
    return hop.client if isinstance(hop, Session) else hop.name


def names_of(links: Iterable[Hop]) -> Names:
    return tuple(link.name for link in links)


def reached(local: Sequence[Hop], matched: Sequence[tuple[str, ...]]) -> Reached:
    """The clients among those who got it; a module of the broker is none."""
    pairs = zip(local, matched, strict=True)
    return tuple({hop.client: ids for hop, ids in pairs if isinstance(hop, Session)}.items())


def add_reads(columns: Columns, broker: str, life: int, reads: Sequence[Read]) -> None:
    """The rows of all that a live broker has routed, in order.

    What a publication took is its share of the stretch that it was handled in, and it waited for those ahead
    of it there. How long it lay in the buffers of the system before nobody knows.
    """
    counts = [len(read.visits) for read in reads]
    sources, publications, hops, links, local, matched = zip(
        *chain.from_iterable(read.visits for read in reads), strict=True
    )
    publishers, sequences, published_at, traced, encoded = zip(
        *map(_facts, publications), strict=True
    )
    rows = np.zeros(len(publications), columns.kind)
    words, lists = columns.words, columns.lists
    began = np.array([read.began for read in reads])
    each_s = np.array([read.ended - read.began for read in reads]) / counts
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    matching_s = np.repeat(each_s, counts)
    rows["matching_s"] = matching_s
    rows["queueing_s"] = place * matching_s
    rows["time"] = np.repeat(began, counts) + (place + 1) * matching_s
    rows["age_s"] = rows["time"] - published_at
    rows["publisher"] = Runs(publishers).numbers(words.__getitem__)
    rows["sequence"] = sequences
    rows["broker"] = words[broker]
    rows["life"] = life
    rows["hop"] = hops
    rows["traced"] = traced
    sizes = [*map(len, encoded)]
    if not all(sizes):
        sizes = [len(publication_bytes(publication)) for publication in publications]
    rows["bytes"] = sizes
    from_ = Runs(sources)
    rows["source"] = from_.numbers(lambda hop: words[source_of(hop)])
    rows["from_client"] = from_.numbers(lambda hop: hop.is_session)
    to = Runs(links)
    rows["forwarded"] = to.numbers(len)
    rows["neighbours"] = to.numbers(lambda ours: lists["neighbours"][names_of(ours)])
    whom = Runs(zip(local, matched, strict=True)).mapped(lambda pair: reached(*pair))
    rows["local_subscribers"] = whom.numbers(len)
    rows["clients"] = whom.numbers(lists["clients"].__getitem__)
    columns.extend(rows)


class Runs:
    """Values of which many that follow each other are the same: each once, and how often."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values: list[Any] = []
        self._counts: list[int] = []
        for value, same in groupby(values):
            self._values.append(value)
            self._counts.append(len(list(same)))

    def mapped(self, function: Callable[[Any], Any]) -> Runs:
        """Something else in place of each; also where that makes two the same."""
        other = Runs(())
        other._values, other._counts = [*map(function, self._values)], self._counts
        return other

    def numbers(self, function: Callable[[Any], int]) -> NDArray[np.int64]:
        """A number for each of all values."""
        return np.repeat(np.fromiter(map(function, self._values), np.int64), self._counts)
