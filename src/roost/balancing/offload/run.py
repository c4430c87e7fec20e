"""What the three offload algorithms have in common: the scales, the choices so far, and when it is enough."""

from __future__ import annotations

import numpy as np

from roost.balancing.cards import LoadReport, ReportCard, Spectrum
from roost.balancing.indices import Action
from roost.balancing.offload.counting import Counts, Mask, Steps
from roost.balancing.offload.relations import Covering, SubscriptionPoset, covered_by
from roost.balancing.offload.scales import Positions, Scales
from roost.balancing.offload.selection import nearest, relieving
from roost.balancing.settings import BalancingConfig

BALANCED = "balanced"
EXHAUSTED = "no more subscriptions"
NO_GAIN = "no card would bring the two nearer"
FULL = "no card is within the bounds of the accepting broker"
RELIEVED = "below the lower overload threshold"


class Run:
    """One offload, as it is chosen."""

    def __init__(
        self,
        own: LoadReport,
        other: LoadReport,
        spectrum: Spectrum,
        config: BalancingConfig,
        poset: SubscriptionPoset,
        *,
        is_overloaded: bool,
    ) -> None:
        self.scales = Scales(own, other, spectrum, config)
        self.steps = Steps(self.scales, is_overloaded=is_overloaded)
        self.config = config
        self.is_overloaded = is_overloaded
        self._loads = spectrum.loads
        self._poset = poset
        self.covered: Mask = covered_by(other.css, spectrum.loads)
        self._covering: Covering | None = None
        self.cards: list[ReportCard] = []
        self.considered = 0

    @property
    def covering(self) -> Covering:
        """Which subscriptions cover which. Not every offload asks."""
        if self._covering is None:
            self._covering = self._poset.covering(self._loads)
            for card in self.cards:
                if self.scales.is_last(card.subscription, card.subscribers):
                    self._covering.remove(card.subscription)
        return self._covering

    def candidates(self, among: Mask) -> Positions:
        """Those that can still be chosen, of these."""
        return np.flatnonzero(self.scales.candidates & among)

    def is_balanced(self, action: Action) -> bool:
        """Whether the offloading broker is no longer the more loaded one, or nearly so."""
        return self.scales.difference(action) < self.config.balance_percentage

    def pick(self, action: Action, i: Positions, counts: Counts, able: Mask) -> int | None:
        """Which of those that are able is to go, by figure 4.2 or 4.3."""
        scales = self.scales
        reduced = np.where(counts.subscribers == scales.clients[i], scales.reducible[i], 0.0)
        if self.is_overloaded:
            return relieving(counts, reduced, able)
        return nearest(counts, reduced, able, scales.difference(action))

    def take(self, i: Positions, k: int, counts: Counts) -> bool:
        """The k-th of these goes. Whether that changes what comes in, here or there."""
        which, scales = int(i[k]), self.scales
        card = scales.card(
            which,
            int(counts.subscribers[k]),
            float(counts.differences[k]),
            covered=bool(self.covered[which]),
        )
        self.cards.append(card)
        changed = scales.take(card)
        if changed:
            self.steps = Steps(scales, is_overloaded=self.is_overloaded)
        if self._covering is not None and scales.is_last(which, card.subscribers):
            self._covering.remove(which)
        return changed
