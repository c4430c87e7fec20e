"""What a module decides at the end of a training, and what it says of it: pure functions of its counters.

The decisions themselves are those of `overlay.rewiring`, one for each variant. Roost's own has more to ask:

    has traffic changed?      the broker is warm again, and trains briefly (`annealing`)
    the threshold             0 while it is warm, and what a rewiring costs when it has cooled
    is the best more than chance, and does it repay moving the tables?      else it stays
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roost.overlay.organising.counting import by_side, crossings
from roost.overlay.organising.settings import OverlaySettings
from roost.overlay.rewiring import exact
from roost.overlay.rewiring.annealing import Climate, is_significant
from roost.overlay.rewiring.choosing import RewiringChoice
from roost.overlay.rewiring.counters import Passages, Rewiring, Training
from roost.overlay.rewiring.deciding import decide_ocbr, decide_paper, decide_roost
from roost.overlay.rewiring.repaying import price, promise_of, repays

if TYPE_CHECKING:
    from random import Random

Objection = Callable[[Rewiring], str]

# What a subscription costs when the link to the mover moves, in messages between brokers, as a test measures
# it: if it came from the mover, it is told to two and withdrawn by two, with whatever depends on it; any
# other is told to the mover anew. An advertisement costs about the same whichever side it is from.
BY_MOVER, BY_OTHERS, BY_ADVERTISEMENT = 6, 1, 2


class Trained(Struct, frozen=True):
    """What a broker has counted, and knows besides."""

    middle: str
    neighbours: Sequence[str]  # in the order of their names
    passages: Passages
    training: Training | None  # the paper's
    seconds: float
    subscriptions: Mapping[str, int]  # that came from each neighbour, and from L
    advertisements: int  # that are known here
    degrees: Mapping[str, int]  # of neighbours, as far as they have said so

    def entries(self, mover: str) -> int:
        """What has to be said of tables if the link to this neighbour moves."""
        from_mover = self.subscriptions.get(mover, 0)
        others = sum(self.subscriptions.values()) - from_mover
        told = BY_MOVER * from_mover + BY_OTHERS * others
        return told + BY_ADVERTISEMENT * self.advertisements

    def exact(self, rewiring: Rewiring) -> int:
        """What a rewiring would have saved of the messages that were counted."""
        found = exact.saved(exact.sums(self.neighbours, self.passages.kinds))
        return int(found[self._place(rewiring.mover), self._place(rewiring.anchor)])

    def link_messages(self, neighbour: str) -> int:
        """Messages over the link to a neighbour, both ways."""
        found = exact.sums(self.neighbours, self.passages.kinds)
        return int(found.link[self._place(neighbour)])

    def _place(self, neighbour: str) -> int:
        return self.neighbours.index(neighbour)


class Decided(Struct, frozen=True):
    """A choice, and what else speaks against it: then it is not to be carried out."""

    choice: RewiringChoice
    reason: str  # why it is made, or not
    rewiring: Rewiring | None


def decide(
    trained: Trained,
    settings: OverlaySettings,
    climate: Climate,
    objection: Objection,
    random: Random,
) -> Decided:
    """The best rewiring by the variant, if it is good enough."""
    middle, near, kept = trained.middle, trained.neighbours, trained.passages
    if settings.variant == "paper":
        assert trained.training is not None
        return _as_it_is(
            decide_paper(
                middle,
                near,
                trained.training,
                settings.threshold,
                objection,
                weight=settings.price_of(),
                random=random,
            )
        )
    if settings.variant != "roost":
        gated = settings.variant == "ocbr-gated"
        return _as_it_is(decide_ocbr(middle, near, kept, objection, gated=gated, random=random))
    terms = settings.rewiring_terms()
    least = min(trained.entries(name) for name in near)
    choice = decide_roost(
        middle,
        near,
        kept,
        climate.threshold(price(least, trained.seconds, terms)),
        objection,
        goal=settings.goal(),
        degrees=trained.degrees,
        degree_max=settings.degree_max or None,
        temperature=climate.temperature,
        weight=settings.price_of(),
        random=random,
    )
    found = choice.rewiring
    if found is None:
        return _as_it_is(choice)
    crossed = trained.link_messages(found.mover)
    # Chance is in numbers of messages, whatever they cost.
    saves = trained.exact(found) if settings.prices else choice.utility
    if not is_significant(saves, crossed, settings.annealing_terms()):
        return Decided(choice, f"of {crossed} messages, {saves:g} may be chance", None)
    promise = promise_of(kept.kinds, len(near))
    verdict = repays(choice.utility, promise, trained.seconds, trained.entries(found.mover), terms)
    return Decided(choice, verdict.reason, found if verdict.pays else None)


def _as_it_is(choice: RewiringChoice) -> Decided:
    if choice.rewiring is None:
        return Decided(choice, "nothing is good enough", None)
    return Decided(choice, f"{choice.utility:g} is the best", choice.rewiring)


# --- the evidence -----------------------------------------------------------------------------------


def evidence_of(
    trained: Trained, settings: OverlaySettings, climate: Climate, decided: Decided
) -> dict[str, Any]:
    """What a decision was made from, for its record."""
    choice = decided.choice
    come, gone = by_side(trained.passages)
    evidence: dict[str, Any] = {
        "why": decided.reason,
        "variant": settings.variant,
        "threshold": choice.threshold,
        "messages": trained.passages.messages,
        "seconds": trained.seconds,
        "came_from": come,
        "went_to": gone,
        "candidates": choice.candidates,
        "rewirings": msgspec.to_builtins(choice.evidence),
    }
    if settings.variant == "roost":
        evidence["climate"] = msgspec.to_builtins(climate)
    if choice.rewiring is not None:
        passed, crossed = crossings(trained.passages, choice.rewiring)
        evidence |= {
            "utility": choice.utility,
            "saves_exactly": trained.exact(choice.rewiring),
            "crossings": crossed,
            "crossed_by": passed,
            "present": {"load_per_s": crossed / trained.seconds},
        }
    return evidence


def predicted_of(
    trained: Trained, settings: OverlaySettings, choice: RewiringChoice
) -> dict[str, float]:
    """What a rewiring is to save, of the messages that were counted, and what is left a second.

    The paper's variant predicts by its U(R), if that is in messages. OCBR predicts nothing: here it is what
    its choice will save.
    """
    if choice.rewiring is None:
        return {}
    exact_ = float(trained.exact(choice.rewiring))
    by_utility = settings.variant == "paper" and not settings.prices
    saves = choice.utility if by_utility else exact_
    _, crossed = crossings(trained.passages, choice.rewiring)
    return {"saves": saves, "load_per_s": (crossed - saves) / trained.seconds}
