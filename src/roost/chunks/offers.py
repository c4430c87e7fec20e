"""What a client may publish, for the kernels: its advertisements as lists of comparisons (`broker.demands`).

As in the broker itself, a few advertisements are looked at one by one. Clients with many, or with one that
is no matter of comparing attributes with constants, publish through the machine.
"""

from __future__ import annotations

import operator
import struct

import numpy as np
from numpy.typing import NDArray

from roost.broker.demands import Demand
from roost.broker.hops import Entry, Hop, Session
from roost.broker.router import FEW
from roost.chunks.kernels import layout as at
from roost.chunks.tables import Tables
from roost.chunks.text import TextHeap
from roost.language.values import EXACT_INT

Offer = NDArray[np.int64]
# Of whoever need not advertise: one advertisement, which demands nothing.
ANYTHING: Offer = np.array([1, 0], np.int64)

_OPERATORS = {
    operator.eq: at.EQUAL,
    operator.lt: at.LESS,
    operator.le: at.AT_MOST,
    operator.gt: at.MORE_THAN,
    operator.ge: at.AT_LEAST,
}


class Offers:
    """The advertisements of clients here: a `Follower` of them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._heap: TextHeap = tables.heap
        self._known: dict[Hop, Offer | None] = {}
        # What of the tables each has taken: names of attributes, and places of strings.
        self._names: dict[Hop, list[str]] = {}
        self._strings: dict[Hop, list[tuple[int, int]]] = {}

    def of(self, session: Session) -> Offer | None:
        """What it may publish; None: the machine has to say."""
        if session in self._known:
            return self._known[session]
        entries = session.advertisements.values()
        if not entries:
            return None
        offer = None
        if len(entries) <= FEW and all(map(_is_plain, entries)):
            self._names[session], self._strings[session] = [], []
            words = [len(entries)]
            for entry in entries:
                assert entry.demands is not None
                words.append(len(entry.demands))
                for demand in entry.demands:
                    words += self._demand(session, demand)
            offer = np.array(words, np.int64)
        self._known[session] = offer
        return offer

    def _demand(self, session: Session, demand: Demand) -> tuple[int, int, int, int]:
        name, _, compare, constant = demand
        number = self._tables.number_of(name)
        self._names[session].append(name)
        op = _OPERATORS.get(compare, at.PRESENT)
        if isinstance(constant, str):
            text = constant.encode()
            place = self._heap.keep(text)
            self._strings[session].append((place, len(text)))
            return number, op, place, len(text)
        (bits,) = struct.unpack("<q", struct.pack("<d", 0.0 if constant is None else constant))
        return number, op, bits, -1

    def entered(self, entry: Entry) -> None:
        self._changed(entry.hop)

    def left(self, entry: Entry) -> None:
        self._changed(entry.hop)

    def _changed(self, hop: Hop) -> None:
        """It has other advertisements than before."""
        if hop in self._known:
            del self._known[hop]
            for name in self._names.pop(hop, ()):
                self._tables.release(name)
            for place, length in self._strings.pop(hop, ()):
                self._heap.drop(place, length)


def _is_plain(entry: Entry) -> bool:
    """Whether it is a matter of comparisons that floats can be trusted with."""
    return entry.demands is not None and all(
        not isinstance(constant, int) or -EXACT_INT <= constant <= EXACT_INT
        for _, _, _, constant in entry.demands
    )
