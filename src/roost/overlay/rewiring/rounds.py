"""Training and reconfiguration of all brokers, round by round, as 002 simulates it (section 6.1).

In a round every broker trains on the same traffic; then they decide one after the other, in an order that is
drawn. A rewiring locks its three brokers until the round is over (section 4.1): a broker that is locked
decides nothing, and one whose best pair has a locked broker in it takes the next best (`if_locked="wait"`:
nothing).

With these locks the utilities of a round add up to what the round saves, exactly: the three brokers of
another rewiring are all on one side of each of these three, so that none of the sides changes that its
utility was computed from. Without locks the second rewiring of a broker would be decided by counters that
the first has made wrong.

A *rule* says what a broker decides: the paper's, OCBR's or Roost's own. What it computes from the counters
of a broker is kept until one of its links moves, since nothing else changes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from roost.optimising.goal import Goal
from roost.overlay.rewiring import kernels
from roost.overlay.rewiring.annealing import (
    AnnealingTerms,
    Climate,
    after_neighbour,
    after_training,
    noise,
    start,
)
from roost.overlay.rewiring.choosing import Offers, is_above, noise_at, ranks_of, values_at
from roost.overlay.rewiring.counters import Rewiring
from roost.overlay.rewiring.deciding import offers_ocbr, offers_roost
from roost.overlay.rewiring.demand import Amounts
from roost.overlay.rewiring.flows import Flows, Savings, Sides, table_of
from roost.overlay.rewiring.limits import Limits
from roost.overlay.rewiring.theorem import Counts

if TYPE_CHECKING:
    from random import Random


# Where there are no second values, and no pairs that are no candidates.
NO_SECOND: Counts = np.empty((0, 0), np.int64)
NONE_BARRED: kernels.Flags = np.empty((0, 0), bool)


class Done(NamedTuple):
    """A rewiring of a round, by positions, and what it was said to save."""

    middle: int
    mover: int
    anchor: int
    utility: float


class Rule(ABC):
    """What a broker decides by."""

    threshold = 0.0

    @abstractmethod
    def measure(self, sides: Sides) -> Any:
        """What depends on the counters of a broker alone."""

    def offers(self, broker: int, measured: Any, degrees: list[int], random: Random) -> Offers:  # noqa: ARG002
        """What it could rewire; its neighbours have so many neighbours."""
        found: Offers = measured
        return found

    def accepts(self, broker: int, measured: Any, utility: float, second: float) -> bool:  # noqa: ARG002
        """Whether the best is good enough."""
        return is_above(utility, second, self.threshold)

    def decided(self, broker: int, rewired: float | None, degree: int) -> None:  # noqa: B027 (a hook)
        """What came of its decision: the utility of what was rewired, if anything."""

    def involved(self, broker: int, degree: int) -> None:  # noqa: B027
        """Another broker has moved a link to it or from it."""


class PaperRule(Rule):
    """002: the greatest U(R), if it is above T.

    By content `subscriptions` has a column for each: 1 for the kinds that it matches.
    """

    def __init__(self, threshold: float = 0.0, subscriptions: Amounts | None = None) -> None:
        self.threshold, self.subscriptions = threshold, subscriptions

    def measure(self, sides: Sides) -> Offers:
        return Offers(kernels.utilities(*table_of(sides, self.subscriptions)))


class OcbrRule(Rule):
    """The most traffic forwarded between two neighbours."""

    def __init__(self, *, gated: bool) -> None:
        self.gated = gated

    def measure(self, sides: Sides) -> Offers:
        return offers_ocbr(sides.couples(), sides.link_messages(), gated=self.gated)


class RoostRule(Rule):
    """Roost's own, with the price of a rewiring in messages of a round."""

    def __init__(
        self,
        goal: Goal = Goal("load", 100.0),  # noqa: B008 (frozen)
        degree_max: int | None = None,
        price: float = 0.0,
        terms: AnnealingTerms = AnnealingTerms(),  # noqa: B008 (frozen)
    ) -> None:
        self.goal, self.degree_max, self.price, self.terms = goal, degree_max, price, terms
        self.climates: dict[int, Climate] = {}

    def measure(self, sides: Sides) -> Savings:
        return sides.savings()

    def offers(self, broker: int, measured: Savings, degrees: list[int], random: Random) -> Offers:
        found = offers_roost(measured.saved, measured.shorter, self.goal, degrees, self.degree_max)
        temperature = self._climate(broker).temperature
        if temperature:
            link_mean = float(measured.link.mean())
            found = found._replace(noise=noise(len(degrees), temperature, link_mean, random))
        return found

    def _climate(self, broker: int) -> Climate:
        return self.climates.get(broker) or start(self.terms)

    def accepts(self, broker: int, measured: Savings, utility: float, second: float) -> bool:
        threshold = self._climate(broker).threshold(self.price)
        if not is_above(utility, second, threshold):
            return False
        promise = measured.relayed / max(len(measured.link) - 1, 1)
        return max(utility, promise) >= self.price

    def decided(self, broker: int, rewired: float | None, degree: int) -> None:
        climate = self._climate(broker)
        self.climates[broker] = after_training(climate, rewired, degree, self.terms)

    def involved(self, broker: int, degree: int) -> None:
        climate = self._climate(broker)
        self.climates[broker] = after_neighbour(climate, degree, self.terms)

    def warmed(self) -> None:
        """Traffic has changed."""
        self.climates.clear()


class Organisation:
    """A tree whose brokers rewire it."""

    def __init__(
        self,
        flows: Flows,
        rule: Rule,
        random: Random,
        limits: Limits | None = None,
        *,
        if_locked: Literal["next", "wait"] = "next",
    ) -> None:
        self.flows, self.rule, self.random, self.if_locked = flows, rule, random, if_locked
        self.limits = limits or Limits()
        self._named = bool(self.limits.pinned or self.limits.forbidden or self.limits.edges)
        self._measured: dict[int, tuple[list[int], Any]] = {}

    def changed(self, brokers: Iterable[int]) -> None:
        """The counters of these are others, by what did not happen in a round."""
        for broker in brokers:
            self._measured.pop(broker, None)

    def round(self) -> list[Done]:
        """One training and one reconfiguration."""
        order = list(range(len(self.flows.near)))
        self.random.shuffle(order)
        locked: set[int] = set()
        done = []
        for broker in order:
            if broker in locked or len(self.flows.near[broker]) < 2:
                continue
            near = self.flows.near[broker]
            found = self._decide(broker, locked)
            # Who finds nothing because a neighbour is locked has not found that there is nothing.
            if found is not None or locked.isdisjoint(near):
                self.rule.decided(broker, None if found is None else found.utility, len(near))
            if found is None:
                continue
            three = found[:3]
            self.flows.rewire(*three)
            self.changed(three)
            for one in (found.mover, found.anchor):
                self.rule.involved(one, len(self.flows.near[one]))
            locked.update(three)
            done.append(found)
        return done

    def _decide(self, broker: int, locked: set[int]) -> Done | None:
        if broker not in self._measured:
            sides = self.flows.sides(broker)
            self._measured[broker] = sides.near, self.rule.measure(sides)
        near, measured = self._measured[broker]
        degrees = [len(self.flows.near[other]) for other in near]
        offers = self.rule.offers(broker, measured, degrees, self.random)
        free = np.array([other not in locked for other in near])
        allowed = free if self.if_locked == "next" else np.ones(len(near), bool)
        places = kernels.best_places(
            ranks_of(offers),
            NO_SECOND if offers.second is None else offers.second,
            self._barred(broker, near, offers),
            allowed,
            allowed & self._room(degrees),
        )
        if not len(places):
            return None
        best = divmod(int(self.random.choice(places)), len(near))
        if not (free[best[0]] and free[best[1]]):
            return None
        utility, second = values_at(offers, best)
        if not self.rule.accepts(broker, measured, utility + noise_at(offers, best), second):
            return None
        return Done(broker, near[best[0]], near[best[1]], utility)

    def _room(self, degrees: list[int]) -> kernels.Flags | bool:
        """Which neighbours may have one more."""
        most = self.limits.degree_max
        return most is None or max(degrees) < most or np.array(degrees) < most

    def _barred(self, broker: int, near: list[int], offers: Offers) -> kernels.Flags:
        """Pairs that are no candidates, or that limits forbid by name."""
        if not self._named:
            return NONE_BARRED if offers.barred is None else offers.barred
        names = self.flows.brokers
        barred = np.zeros((len(near), len(near)), bool)
        for mover, anchor in np.ndindex(barred.shape):
            rewiring = Rewiring(names[broker], names[near[mover]], names[near[anchor]])
            barred[mover, anchor] = bool(self.limits.objection(rewiring, {}))
        return barred if offers.barred is None else barred | offers.barred
