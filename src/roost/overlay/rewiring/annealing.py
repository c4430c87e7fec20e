"""The threshold and the length of training, adapted to what comes of them (the future work of 002 section 7).

A broker is *warm* or *cold*.

    warm    the threshold is 0: all that saves anything is done, and as an investment what saves nothing, but
            makes ways shorter, or room (`gathering`)
    cold    the threshold is the price of a rewiring (`repaying`): only what pays for itself is done

It starts warm. Investments have to bring something: a broker that has made as many of them as it had links,
and nothing was saved since, cools. It cools, too, when a training of the greatest length has found nothing.
It warms when traffic changes: when the shares of its sides in the messages are others than before, by more
than chance. And it warms when another broker has moved a link to it or from it, since there may be something
to find now; but what it has spent it has spent, or brokers could keep each other warm for ever.

**Noise** (002 section 5.1), where it is wanted: a threshold below 0 takes the least bad rewiring, which its
neighbours undo. Here chance is added to the value of every candidate, as much as the *temperature* says, a
share of what a link carries on average: what would cost little is sometimes done, what would cost much
hardly ever. It cools with every training, and starts again when traffic changes. It finds better trees and
takes more rewirings, so it is 0 unless somebody asks for it.

Training starts short, so that the first rewirings, which save most, come early, and doubles each time when
nothing was found: what is left to be found is smaller, and takes longer to be told from chance. A change of
traffic makes it short again; and an outcome that is far below what was predicted makes it longer, as it was
too short to know.

A saving is *significant* if it is more than chance: messages that a rewiring makes a difference to all cross
the mover's link, each one more or one less, so that of m messages over it about sqrt(m) are chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.errors import UserError
from roost.overlay.rewiring.choosing import Values

if TYPE_CHECKING:
    from random import Random

# Of the first temperature; below, it is nothing.
COLD = 0.01


class AnnealingTerms(Struct, frozen=True):
    """How a broker adapts."""

    training_min: int = 200  # messages
    training_max: int = 20_000
    significance: float = 2.0  # standard errors that a saving has to be above
    change: float = 0.2  # of the messages come from other sides than before: traffic has changed
    doubt: float = 0.5  # of what was predicted has to be measured; else training was too short
    noise: float = 0.0  # the first temperature, as a share of the mean traffic of a link
    cooling: float = 0.9  # of the temperature is left after each training

    def __post_init__(self) -> None:
        if not 1 <= self.training_min <= self.training_max:
            raise UserError(
                f"training from {self.training_min} to {self.training_max} messages; expected 1 or more,"
                " and the least first"
            )
        for name in ("significance", "change", "doubt", "noise"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} {getattr(self, name):g}; expected 0 or more")
        if not 0 <= self.cooling < 1:
            raise UserError(f"cooling {self.cooling:g}; expected 0 or more, and less than 1")


class Climate(Struct, frozen=True):
    """What a broker has learned."""

    warm: bool = True
    training: int = 200  # messages, of the next training
    spent: int = 0  # rewirings that saved nothing, since the last one that did
    links: int = 0  # the most that the broker had meanwhile
    temperature: float = 0.0

    def threshold(self, price: float) -> float:
        """T, where a rewiring costs so much."""
        return 0.0 if self.warm else price


def _cooler(temperature: float, terms: AnnealingTerms) -> float:
    cooler = temperature * terms.cooling
    return cooler if cooler > COLD * terms.noise else 0.0


def noise(neighbours: int, temperature: float, link_mean: float, random: Random) -> Values | None:
    """What chance adds to the value of each pair of neighbours."""
    scale = temperature * link_mean
    if scale <= 0:
        return None
    drawn = np.array([random.random() for _ in range(neighbours * neighbours)])
    odds = np.clip(drawn, 1e-12, 1 - 1e-12)
    found: Values = scale * np.log(odds / (1 - odds)).reshape(neighbours, neighbours)
    return found


def start(terms: AnnealingTerms) -> Climate:
    """Nothing is known, or all that was known is of another traffic."""
    return Climate(training=terms.training_min, temperature=terms.noise)


def after_training(
    climate: Climate, rewired: float | None, degree: int, terms: AnnealingTerms
) -> Climate:
    """A training is over: what was rewired saves so much; None: nothing was.

    `degree` is how many neighbours the broker had.
    """
    climate = replace(climate, temperature=_cooler(climate.temperature, terms))
    if rewired is None:
        longer = min(2 * climate.training, terms.training_max)
        found_out = climate.training >= terms.training_max
        return replace(climate, training=longer, warm=climate.warm and not found_out)
    if rewired > 0:
        return replace(climate, spent=0, links=0)
    spent, links = climate.spent + 1, max(climate.links, degree)
    return replace(climate, spent=spent, links=links, warm=climate.warm and spent < links)


def after_neighbour(climate: Climate, degree: int, terms: AnnealingTerms) -> Climate:
    """A link has come or gone that others have moved; the broker has so many neighbours now."""
    return replace(
        climate, warm=climate.spent < max(climate.links, degree), training=terms.training_min
    )


def after_outcome(
    climate: Climate, predicted: float, measured: float, terms: AnnealingTerms
) -> Climate:
    """What a rewiring was said to save, and what it did."""
    if predicted <= 0 or measured >= terms.doubt * predicted:
        return climate
    return replace(climate, training=min(2 * climate.training, terms.training_max))


def has_changed(before: Mapping[str, int], now: Mapping[str, int], terms: AnnealingTerms) -> bool:
    """Whether the messages of two trainings come from other sides, by more than chance.

    Half of the sum of differences between the shares is the part of messages that came from other sides; of k
    sides and n messages about sqrt(k / n) of it is chance.
    """
    was, is_now = sum(before.values()), sum(now.values())
    if not was or not is_now:
        return False
    sides = before.keys() | now.keys()
    moved = sum(abs(before.get(s, 0) / was - now.get(s, 0) / is_now) for s in sorted(sides)) / 2
    chance = terms.significance * sqrt(len(sides)) * (sqrt(1 / was) + sqrt(1 / is_now)) / 2
    return moved > terms.change + chance


def is_significant(utility: float, link_messages: int, terms: AnnealingTerms) -> bool:
    """Whether a saving is more than chance. None at all is exact enough: nothing speaks against it."""
    return utility <= 0 or utility >= terms.significance * sqrt(link_messages)
