"""The offload algorithms of 001 section 4.2 as printed: figures 4.1 to 4.10, loop by loop.

What `choose` is held to, and what it is measured against. Nothing is remembered from one choice to the next:
each report card is worked out anew, bit vector by bit vector. Where the thesis contradicts itself or stops
short, this follows the same readings as `choose` does (docs/BALANCING.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from roost.balancing.cards import LoadReport, ReportCard, Spectrum
from roost.balancing.estimation import (
    BrokerModel,
    additional_rate,
    aggregated,
    like,
    model_of,
    publication_rate,
)
from roost.balancing.indices import Action
from roost.balancing.offload.counting import EQUAL
from roost.balancing.offload.relations import SubscriptionPoset, covered_by
from roost.balancing.offload.scales import during
from roost.balancing.settings import BalancingConfig
from roost.optimising.bitvector import BitVector


class LiteralOffload:
    """One offload, as it is chosen."""

    def __init__(
        self,
        own: LoadReport,
        other: LoadReport,
        spectrum: Spectrum,
        config: BalancingConfig,
        *,
        is_overloaded: bool,
    ) -> None:
        self.own, self.other = during(own, spectrum), model_of(like(other, own))
        self.loads, self.config, self.is_overloaded = spectrum.loads, config, is_overloaded
        self.samples, self.rate = spectrum.samples, spectrum.input_rate
        self.bits = [BitVector.from_bytes(load.bits) for load in spectrum.loads]
        self.css_bits = BitVector.from_bytes(spectrum.css_bits)
        self.kept_bits = BitVector.from_bytes(spectrum.kept_bits)
        self.covering = SubscriptionPoset().covering(spectrum.loads)
        self.covered = covered_by(other.css, spectrum.loads).tolist()
        self.attracting = list(range(len(self.loads)))
        self.candidates = [i for i in self.attracting if self.loads[i].clients]
        self.cards: list[ReportCard] = []

    # --- estimates

    def extra(self, i: int) -> float:
        """What is new to the accepting broker (4.5)."""
        return additional_rate(self.bits[i], self.css_bits, self.samples, self.rate)

    def output_rate(self, i: int) -> float:
        """What one subscriber gets (4.1)."""
        return publication_rate(self.bits[i], self.samples, self.rate)

    def reducible(self, i: int) -> float:
        """What only this subscription attracts."""
        if self.loads[i].kept:
            return 0.0
        others = aggregated(self.bits[j] for j in self.attracting if j != i)
        return publication_rate(self.bits[i] - others - self.kept_bits, self.samples, self.rate)

    def ours(self, i: int, n: int) -> BrokerModel:
        """The offloading broker without n subscribers."""
        load, rate = self.loads[i], self.output_rate(i)
        reduced = self.reducible(i) if n == len(load.clients) else 0.0
        entries, sent = len(load.interests) * n, rate * load.message_bytes * n
        return self.own.changed(-entries, -reduced, -rate * n, -sent)

    def theirs(self, i: int, n: int) -> BrokerModel:
        """The accepting broker with n subscribers more."""
        load, rate = self.loads[i], self.output_rate(i)
        entries, sent = len(load.interests) * n, rate * load.message_bytes * n
        return self.other.changed(entries, self.extra(i), rate * n, sent)

    def difference(self, ours: BrokerModel, theirs: BrokerModel, action: Action) -> float:
        """calcRatioDiff() and calcDelayDiff()."""
        by = ours.indices().of(action) - theirs.indices().of(action)
        return by / self.config.delay_normalisation_s if action is Action.MATCH else by

    # --- how many subscribers

    def max_possible(self, i: int) -> int:
        """4.2.1: as many as leave the accepting broker below the limit."""
        limit = self.config.rules.accept_limit
        for n in range(len(self.loads[i].clients), 0, -1):
            now = self.theirs(i, n).indices()
            ratios = (now.input_ratio, now.output_ratio, now.cpu_ratio, now.memory_ratio)
            if all(ratio < limit for ratio in ratios):
                return n
        return 0

    def count(
        self,
        i: int,
        is_balanced: Callable[[BrokerModel, BrokerModel], bool],
        is_skipped: Callable[[BrokerModel, BrokerModel], bool] = lambda *_: False,
    ) -> int:
        """Figures 4.1, 4.5, 4.6 and 4.8, which differ in their conditions."""
        was_balanced = False
        last = 0
        for n in range(self.max_possible(i), 0, -1):
            ours, theirs = self.ours(i, n), self.theirs(i, n)
            if is_skipped(ours, theirs):
                continue
            if not is_balanced(ours, theirs):
                return last if was_balanced else n
            was_balanced, last = True, n
        return 1 if was_balanced else 0

    def within(self, action: Action) -> Callable[[BrokerModel, BrokerModel], bool]:
        """The condition of figures 4.1, 4.5 and 4.8."""

        def is_balanced(ours: BrokerModel, theirs: BrokerModel) -> bool:
            is_less = ours.indices().of(action) < theirs.indices().of(action)
            by = self.difference(ours, theirs, action)
            return is_less or abs(by) < self.config.balance_percentage

        return is_balanced

    def is_relieved(self, ours: BrokerModel, _: BrokerModel) -> bool:
        """The condition of figure 4.6."""
        now, low = ours.indices(), self.config.overload_low
        return now.cpu_ratio < low and now.memory_ratio < low and now.input_ratio < low

    def is_guarded(self, ours: BrokerModel, theirs: BrokerModel) -> bool:
        """The guard of figure 4.8, as its prose has it, with the exception for an overloaded output."""
        above = theirs.indices().input_ratio - ours.indices().input_ratio
        is_exempt = self.is_overloaded and ours.indices().output_ratio >= self.config.overload_low
        return above > self.config.local_ratio_threshold and not is_exempt

    # --- which card (figures 4.2 and 4.3)

    def card(self, i: int, n: int, action: Action) -> ReportCard:
        """A report card."""
        load, rate, reducible = self.loads[i], self.output_rate(i), self.reducible(i)
        is_whole = n == len(load.clients) and not load.kept
        return ReportCard(
            subscription=i,
            subscribers=n,
            difference=self.difference(self.ours(i, n), self.theirs(i, n), action),
            is_covered=self.covered[i],
            reduced_rate=reducible if is_whole else 0.0,
            reducible_rate=reducible,
            output_bytes_per_s=rate * load.message_bytes,
            output_rate=rate,
            extra_rate=self.extra(i),
        )

    def select(self, cards: Iterable[ReportCard], action: Action) -> ReportCard | None:
        """Figure 4.2, or 4.3 for an overloaded broker."""
        rows = sorted(
            cards,
            key=lambda card: (round(card.difference, 12), -card.reduced_rate, -card.subscribers),
        )
        if self.is_overloaded:
            negative = [card for card in rows if card.difference < 0]
            first = negative[-1] if negative else next(iter(rows), None)
            return first if first is None else next(c for c in rows if _same(c, first))
        if not rows:
            return None
        best = min(abs(card.difference) for card in rows)
        if not best < abs(self.difference(self.own, self.other, action)) - EQUAL:
            return None
        equal = [card for card in rows if abs(card.difference) <= best + EQUAL]
        equal.sort(key=lambda c: (-c.reduced_rate, -c.subscribers, c.subscription))
        return equal[0]

    def take(self, card: ReportCard) -> None:
        """It is chosen."""
        i, n = card.subscription, card.subscribers
        self.own, self.other = self.ours(i, n), self.theirs(i, n)
        self.css_bits = self.css_bits | self.bits[i]
        self.candidates.remove(i)
        self.cards.append(card)
        if n == len(self.loads[i].clients) and not self.loads[i].kept:
            self.attracting.remove(i)
            self.covering.remove(i)

    def is_balanced(self, action: Action) -> bool:
        """Two of the conditions to stop."""
        return self.within(action)(self.own, self.other)

    # --- the algorithms

    def by_input(self) -> None:
        """Figure 4.4."""
        while not self.is_balanced(Action.INPUT):
            cards = []
            for i in self.candidates:
                n = self.count(i, self.within(Action.INPUT)) if self.covering.css[i] else 0
                if n:
                    cards.append(self.card(i, n, Action.INPUT))
            chosen = self.select(cards, Action.INPUT)
            if chosen is None:
                return
            self.take(chosen)

    def by_match(self) -> None:
        """Figure 4.7."""
        condition = self.is_relieved if self.is_overloaded else self.within(Action.MATCH)
        while not condition(self.own, self.other):
            now = abs(self.difference(self.own, self.other, Action.MATCH))
            counts = [(i, self.count(i, condition)) for i in self.candidates]
            cards = [self.card(i, n, Action.MATCH) for i, n in counts if n]
            if not self.is_overloaded:
                cards = [card for card in cards if abs(card.difference) < now - EQUAL]
            if not cards:
                return
            self.take(
                min(
                    cards,
                    key=lambda c: (c.output_rate + c.extra_rate, c.extra_rate, c.subscription),
                )
            )

    def by_output(self) -> None:
        """Figures 4.9 and 4.10."""
        self.phase_one(self.candidates)
        while not self.is_balanced(Action.OUTPUT):
            cards = self.output_cards(i for i in self.candidates if not self.covered[i])
            card = self.select(cards, Action.OUTPUT)
            if card is None:
                return
            card = max((c for c in cards if _same(c, card)), key=_gamma)
            fresh = [i for i in self.covering.below(card.subscription) if not self.covered[i]]
            self.take(card)
            for i in fresh:
                self.covered[i] = True
            self.phase_one(fresh)

    def phase_one(self, among: Iterable[int]) -> None:
        """Covered ones, type by type."""
        among = list(among)
        while not self.is_balanced(Action.OUTPUT):
            cards = self.output_cards(i for i in among if i in self.candidates and self.covered[i])
            types: dict[int, list[ReportCard]] = {1: [], 2: [], 3: []}
            for card in cards:
                types[1 if card.reduced_rate else 2 if card.reducible_rate else 3].append(card)
            selected = (self.select(each, Action.OUTPUT) for each in types.values())
            chosen = next((card for card in selected if card is not None), None)
            if chosen is None:
                return
            self.take(chosen)

    def output_cards(self, among: Iterable[int]) -> list[ReportCard]:
        """Those that figure 4.8 moves somebody of."""
        counts = ((i, self.count(i, self.within(Action.OUTPUT), self.is_guarded)) for i in among)
        return [self.card(i, n, Action.OUTPUT) for i, n in counts if n]


def _gamma(card: ReportCard) -> float:
    """(4.19)."""
    if not card.extra_rate:
        return math.inf
    return card.output_rate * card.output_bytes_per_s * card.subscribers / card.extra_rate


def _same(one: ReportCard, other: ReportCard) -> bool:
    return abs(one.difference - other.difference) <= EQUAL


def choose_literally(
    action: Action,
    own: LoadReport,
    other: LoadReport,
    spectrum: Spectrum,
    config: BalancingConfig,
    *,
    is_overloaded: bool = False,
) -> LiteralOffload:
    """The same question as `choose`."""
    run = LiteralOffload(own, other, spectrum, config, is_overloaded=is_overloaded)
    if action is Action.OUTPUT:
        run.by_output()
    elif action is Action.MATCH:
        run.by_match()
    else:
        run.by_input()
        if is_overloaded and run.own.indices().input_ratio >= config.overload_low:
            run.by_match()
    return run
