"""What the three offload algorithms have in common: the scales, the choices so far, and when it is enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.balancing.cards import LoadReport, ReportCard, Spectrum
from roost.balancing.estimation import Floats
from roost.balancing.indices import Action
from roost.balancing.offload.relations import Covering, covered_by, interest_of
from roost.balancing.offload.scales import Positions, Scales
from roost.balancing.offload.selection import nearest, relieving
from roost.balancing.settings import BalancingConfig

BALANCED = "balanced"
EXHAUSTED = "no more subscriptions"
NO_GAIN = "no card would bring the two nearer"
FULL = "the accepting broker has no room"
RELIEVED = "below the lower overload threshold"


class Run:
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
        self.scales = Scales(own, other, spectrum, config)
        self.config = config
        self.is_overloaded = is_overloaded
        self._interests = [interest_of(load) for load in spectrum.loads]
        self.covered: NDArray[np.bool_] = covered_by(other.css, self._interests)
        self._covering: Covering | None = None
        self.cards: list[ReportCard] = []
        self.considered = 0

    @property
    def covering(self) -> Covering:
        """Which subscriptions cover which. Not every offload asks."""
        if self._covering is None:
            self._covering = Covering(self._interests)
            for card in self.cards:
                self._gone(card)
        return self._covering

    def is_balanced(self, action: Action) -> bool:
        """Whether the offloading broker is no longer the more loaded one, or nearly so."""
        return self.scales.difference(action) < self.config.balance_percentage

    def pick(
        self, action: Action, i: Positions, counts: Floats, differences: Floats
    ) -> ReportCard | None:
        """One of these, by figure 4.2 or 4.3."""
        scales = self.scales
        self.considered += len(i)
        able = counts >= 1
        i, counts, differences = i[able], counts[able], differences[able]
        reduced = np.where(scales.lasts(i, counts), scales.reducible[i], 0.0)
        if self.is_overloaded:
            k = relieving(differences, reduced, counts)
        else:
            k = nearest(differences, reduced, counts, scales.difference(action))
        if k is None:
            return None
        return self.card(int(i[k]), int(counts[k]), float(differences[k]))

    def card(self, i: int, subscribers: int, difference: float) -> ReportCard:
        """The report card of one."""
        return self.scales.card(i, subscribers, difference, covered=bool(self.covered[i]))

    def take(self, card: ReportCard) -> bool:
        """It is chosen. Whether the accepting broker gets more publications than before."""
        self.cards.append(card)
        more = self.scales.take(card)
        if self._covering is not None:
            self._gone(card)
        return more

    def _gone(self, card: ReportCard) -> None:
        assert self._covering is not None
        if self.scales.is_last(card.subscription, card.subscribers):
            self._covering.remove(card.subscription)
