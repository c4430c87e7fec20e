"""What is known of a run, as plans are made from it: plain values, whichever tables they came from.

Publications of a publisher that the same clients got are of one *kind* (as in `overlay.rewiring.demand`). All
that a decision asks of traffic (bit vectors, counts, flows) follows from kinds: their number, and who wants
them. A run of millions of publications has few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.optimising.bitvector import WORD_BITS
from roost.pipeline.plans.placement import Placement


class Kind(NamedTuple):
    """Publications that the same clients got."""

    times: int
    clients: tuple[str, ...]  # in order; none: nobody wanted them


class PublisherTraffic(Struct, frozen=True):
    """What a publisher has published."""

    name: str
    client: str  # by which it is redirected; mostly called the same
    kinds: tuple[Kind, ...]

    @property
    def publications(self) -> int:
        return sum(kind.times for kind in self.kinds)


class BrokerLoad(Struct, frozen=True, kw_only=True):
    """How a broker fared, on average. Of one that had nothing to do, times are those of the others."""

    waiting_s: float  # in the input queue
    matching_s: float
    sending_s: float  # that a message keeps the output busy
    input_utilisation: float
    output_utilisation: float
    input_rate: float
    output_rate: float
    output_bytes_per_s: float = 0.0
    subscriptions: int = 0  # in its table
    memory_bytes: float = 0.0
    memory_total_bytes: float = 0.0
    cpu_utilisation: float = 0.0


class Recorded(Struct, frozen=True, kw_only=True):
    """A part of a run."""

    run: str
    seconds: float
    placement: Placement  # at its end
    brokers: Mapping[str, BrokerLoad]
    transit_s: Mapping[tuple[str, str], float]  # from matched here to arrived there, by direction
    wants: Mapping[str, tuple[str, ...]]  # client -> its filters
    publishers: tuple[PublisherTraffic, ...]
    load_per_s: float  # messages between brokers, as counted
    delay_s: float  # mean from publishing until matched where it is delivered, as measured
    # Whether what a publication takes to be matched is in proportion to the subscriptions, as in the thesis.
    matching_grows: bool = False
    left_out: tuple[str, ...] = ()  # what could not be used, in words


# --- kinds --------------------------------------------------------------------------------------------


class Words(NamedTuple):
    """64 bits of who got, or published, what: a row of the profile `audiences`."""

    publisher: str
    broker: str
    client: str
    published: bool
    word: int
    bits: int  # as signed, which Spark has them
    last: float


def traffic_of(rows: Sequence[Words]) -> list[PublisherTraffic]:
    """The publishers, in the order of their names, with the kinds of what they published."""
    by_publisher: dict[str, list[Words]] = {}
    for row in rows:
        by_publisher.setdefault(row.publisher, []).append(row)
    return [_traffic(name, by_publisher[name]) for name in sorted(by_publisher)]


def _traffic(name: str, rows: Sequence[Words]) -> PublisherTraffic:
    words = sorted({row.word for row in rows})
    place = {word: i for i, word in enumerate(words)}
    clients = sorted({row.client for row in rows if not row.published})
    line = {client: i for i, client in enumerate(clients)}
    got = np.zeros((len(clients), len(words)), np.uint64)
    sent = np.zeros(len(words), np.uint64)
    own = {row.client: row.last for row in rows if row.published}
    for row in rows:
        bits = np.uint64(row.bits & (1 << WORD_BITS) - 1)
        if row.published:
            sent[place[row.word]] |= bits
        else:
            got[line[row.client], place[row.word]] |= bits
    # What was published before the first row, and is on its way then, has no row of its publisher.
    there = _flags(sent[None, :])[0].astype(bool)
    wanted = _flags(got)[:, there]
    kinds = []
    if wanted.shape[1]:
        columns, counts = np.unique(wanted, axis=1, return_counts=True)
        for column, count in zip(columns.T, counts, strict=True):
            who = tuple(clients[i] for i in np.flatnonzero(column))
            kinds.append(Kind(int(count), who))
    client = max(own, key=lambda each: own[each]) if own else name
    return PublisherTraffic(name, client, tuple(sorted(kinds, key=lambda kind: kind.clients)))


def _flags(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """A row of single bits for each row of words, the lowest first."""
    rows, width = words.shape
    return np.unpackbits(
        words.astype("<u8").view(np.uint8).reshape(rows, width * 8), axis=1, bitorder="little"
    )
