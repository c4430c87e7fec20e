"""Two brokers on the scales, and the subscriptions that could move from one to the other.

All that an offload knows while it chooses: the models of both brokers, and of each subscription, in arrays,
what one of its subscribers needs. Two things change with the choices, besides the models:

- what only one subscription attracts here. It is what the offloading broker gets less of, if all subscribers
  of that subscription go: its bits that no other one has (4.2.1, ANDNOT with children and siblings).
- what the accepting broker gets already, to which the bits of whatever moves are added (4.6).

Both change at most once a sample, so that the rates which follow from them are worked out seldom, however
many subscriptions there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.balancing.cards import LoadReport, ReportCard, Spectrum
from roost.balancing.estimation import BrokerModel, Floats, like, model_of
from roost.balancing.indices import Action
from roost.balancing.settings import BalancingConfig
from roost.optimising.bitvector import Words, counts, words_of

Positions = NDArray[np.int64]


class Scales:
    """Both brokers, and the candidates."""

    def __init__(
        self, own: LoadReport, other: LoadReport, spectrum: Spectrum, config: BalancingConfig
    ) -> None:
        self.config = config
        self.rules = config.rules
        self.own: BrokerModel = during(own, spectrum)
        self.other: BrokerModel = model_of(like(other, own))
        loads = spectrum.loads
        self.clients = np.array([len(load.clients) for load in loads], np.float64)
        self.entries = np.array([len(load.interests) for load in loads], np.float64)
        self._shared = np.array([load.kept > 0 for load in loads], np.bool_)
        n = max(1, spectrum.samples)
        self._a_sample = spectrum.input_rate / n if spectrum.samples else 0.0
        self._bits: Words = words_of([load.bits for load in loads], n)
        self.rates: Floats = self._rate_of(self._bits)
        self.bytes_per_s: Floats = self.rates * np.array(
            [load.message_bytes for load in loads], np.float64
        )
        self._there: Words = words_of([spectrum.css_bits], n)[0]
        # How many subscriptions attract each sample; what comes anyway is attracted once and for all.
        self._attracting = _unpacked(self._bits, n).sum(axis=0, dtype=np.int64)
        self._attracting += 2 * _unpacked(words_of([spectrum.kept_bits], n), n)[0]
        self._samples = n
        self.candidates = self.clients > 0
        self.extra: Floats = np.zeros(0)
        self.reducible: Floats = np.zeros(0)
        self._count_extra()
        self._count_reducible()

    def take(self, card: ReportCard) -> bool:
        """Subscribers of one subscription move. Whether that changes what comes in, here or there."""
        i, x = card.subscription, float(card.subscribers)
        entries, rate = float(self.entries[i]) * x, float(self.rates[i]) * x
        sent = float(self.bytes_per_s[i]) * x
        come = float(self.extra[i])
        is_last = self.is_last(i, card.subscribers)
        gone = float(self.reducible[i]) if is_last else 0.0
        self.own = self.own.changed(-entries, -gone, -rate, -sent)
        self.other = self.other.changed(entries, come, rate, sent)
        self.candidates[i] = False
        if come:
            self._there = self._there | self._bits[i]
            self._count_extra()
        changed = come > 0
        if is_last:
            mine = _unpacked(self._bits[i : i + 1], self._samples)[0]
            self._attracting -= mine
            if gone or (mine & (self._attracting == 1)).any():
                self._count_reducible()
                changed = True
        return changed

    def is_last(self, i: int, subscribers: int) -> bool:
        """Whether nobody is left of that subscription then."""
        return bool(subscribers == self.clients[i] and not self._shared[i])

    def card(self, i: int, subscribers: int, difference: float, *, covered: bool) -> ReportCard:
        """The report card of one."""
        reducible = 0.0 if self._shared[i] else float(self.reducible[i])
        return ReportCard(
            subscription=i,
            subscribers=subscribers,
            difference=difference,
            is_covered=covered,
            reduced_rate=reducible if self.is_last(i, subscribers) else 0.0,
            reducible_rate=reducible,
            output_bytes_per_s=float(self.bytes_per_s[i]),
            output_rate=float(self.rates[i]),
            extra_rate=float(self.extra[i]),
        )

    def difference(self, action: Action) -> float:
        """By how much the offloading broker is more loaded now."""
        own, other = self.own.indices(), self.other.indices()
        by = own.of(action) - other.of(action)
        return by / self.config.delay_normalisation_s if action is Action.MATCH else by

    def _rate_of(self, words: Words) -> Floats:
        """(4.1), of each row."""
        return counts(words).astype(np.float64) * self._a_sample

    def _count_extra(self) -> None:
        self.extra = self._rate_of(self._bits & ~self._there)

    def _count_reducible(self) -> None:
        once = _packed(self._attracting == 1, self._bits.shape[1])
        self.reducible = np.where(self._shared, 0.0, self._rate_of(self._bits & once))


def during(report: LoadReport, spectrum: Spectrum) -> BrokerModel:
    """The offloading broker while PRESS took its samples: what came in then is what rates are shares of."""
    model = model_of(report)
    if not spectrum.samples:
        return model
    return model.changed(0.0, spectrum.input_rate - report.input_rate, 0.0, 0.0)


def _unpacked(words: Words, bits: int) -> NDArray[np.uint8]:
    """One row of 0 and 1 for each row of words."""
    flat = np.ascontiguousarray(words).astype("<u8").view(np.uint8)
    rows = flat.reshape(len(words), words.shape[1] * 8)
    return np.unpackbits(rows, axis=1, count=bits, bitorder="little")


def _packed(bits: NDArray[np.bool_], width: int) -> Words:
    """The words of one row."""
    data = np.packbits(bits, bitorder="little").tobytes().ljust(width * 8, b"\0")
    return np.frombuffer(data, "<u8").astype(np.uint64)
