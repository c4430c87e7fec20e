"""The decision at the end of a training: pure functions of the counters.

    variant      the value of a rewiring                        applied if it is
    paper        U(R) by subscription (`theorem`)               above `threshold`
    ocbr         messages forwarded between the two (`ocbr`);   above 0
                 the one with less residual traffic moves
    ocbr-gated   the same                                       and the residual traffic is less than that
    roost        U(R) to the message (`exact`), and with        above the threshold of the moment, and it
                 `delay_weight` what ways of deliveries save    repays what moving the tables costs

Whether a rewiring repays is asked in messages: what it saves a second, over the horizon, against what it
costs (`cost_of`), which has been measured in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roost.overlay.organising.counting import by_side, crossings
from roost.overlay.organising.settings import OverlaySettings
from roost.overlay.rewiring.choosing import RewiringChoice, choose_rewiring
from roost.overlay.rewiring.counters import Passages, Rewiring, Training
from roost.overlay.rewiring.exact import between, links_saved, saved, sums
from roost.overlay.rewiring.ocbr import couples, traffic
from roost.overlay.rewiring.theorem import utilities

if TYPE_CHECKING:
    from random import Random

Objection = Callable[[Rewiring], str]

# What a rewiring costs in messages between brokers, as a test measures it: what the three say to each other
# and modules to anchors; for each subscription from the mover, which is told to two and withdrawn by two, and
# whatever depends on it; and for each of the others, which the mover is told anew.
MESSAGES = 40.0
MESSAGES_BY_MOVER, MESSAGES_BY_OTHERS = 6.0, 1.0
SHORTEST_S = 1e-3


class Trained(Struct, frozen=True):
    """What a broker has counted."""

    middle: str
    neighbours: Sequence[str]  # in the order of their names
    passages: Passages
    training: Training | None  # the paper's
    seconds: float

    def exact(self, rewiring: Rewiring) -> int:
        """What a rewiring would have saved of the messages that were counted."""
        found = saved(sums(self.neighbours, self.passages.kinds))
        mover, anchor = (self.neighbours.index(name) for name in (rewiring.mover, rewiring.anchor))
        return int(found[mover, anchor])


def choose(
    trained: Trained,
    settings: OverlaySettings,
    threshold: float,
    objection: Objection,
    random: Random,
) -> RewiringChoice:
    """The best rewiring by the variant, if it is good enough."""
    middle, neighbours = trained.middle, trained.neighbours
    kinds = trained.passages.kinds
    if settings.variant == "paper":
        assert trained.training is not None
        incoming, outgoing = trained.training.incoming, trained.training.outgoing
        values = utilities(neighbours, incoming, outgoing)
        return choose_rewiring(middle, neighbours, values, threshold, objection, random=random)
    if settings.variant != "roost":
        found = traffic(couples(neighbours, kinds))

        def gate(rewiring: Rewiring) -> str:
            place = tuple(neighbours.index(name) for name in rewiring[1:])
            residual, forwarded = int(found.residual[place]), int(found.forwarded[place])
            if settings.variant == "ocbr-gated" and residual >= forwarded:
                return f"{residual} messages would go further, and {forwarded} less far"
            return objection(rewiring)

        return choose_rewiring(
            middle, neighbours, found.forwarded, 0.0, gate, second=-found.residual, random=random
        )
    shorter = links_saved(between(neighbours, trained.passages.deliveries))
    weight = settings.delay_weight
    fewer = saved(sums(neighbours, kinds))
    value = (1 - weight) * fewer + weight * shorter
    return choose_rewiring(
        middle, neighbours, value, threshold, objection, second=shorter, random=random
    )


# --- whether it pays --------------------------------------------------------------------------------


class Repays(Struct, frozen=True):
    """Whether a rewiring repays its cost: both in messages."""

    pays: bool
    saving: float  # over the horizon
    cost: float
    reason: str


def cost_of(from_mover: int, from_others: int) -> float:
    """Messages that a rewiring takes, with so many subscriptions from either side of the link."""
    return MESSAGES + MESSAGES_BY_MOVER * from_mover + MESSAGES_BY_OTHERS * from_others


def repays(saves: float, seconds: float, cost: float, settings: OverlaySettings) -> Repays:
    """Judge a rewiring that would have saved so much in so many seconds."""
    saving = saves / max(seconds, SHORTEST_S) * settings.horizon_s
    found = f"saves {saving:,.0f} messages in {settings.horizon_s:g} s and costs {cost:,.0f}"
    if saving <= settings.margin * cost:
        return Repays(False, saving, cost, f"{found}, which is not {settings.margin:g} times less")
    return Repays(True, saving, cost, found)


# --- the evidence -----------------------------------------------------------------------------------


def evidence_of(
    trained: Trained, settings: OverlaySettings, choice: RewiringChoice
) -> dict[str, Any]:
    """What a decision was made from, for its record."""
    come, gone = by_side(trained.passages)
    evidence: dict[str, Any] = {
        "variant": settings.variant,
        "threshold": choice.threshold,
        "messages": trained.passages.messages,
        "seconds": trained.seconds,
        "came_from": come,
        "went_to": gone,
        "candidates": choice.candidates,
        "rewirings": msgspec.to_builtins(choice.evidence),
    }
    if choice.rewiring is not None:
        passed, crossed = crossings(trained.passages, choice.rewiring)
        evidence |= {
            "utility": choice.utility,
            "saves_exactly": trained.exact(choice.rewiring),
            "crossings": crossed,
            "crossed_by": passed,
            "present": {"load_per_s": crossed / max(trained.seconds, SHORTEST_S)},
        }
    return evidence


def predicted_of(
    trained: Trained, settings: OverlaySettings, choice: RewiringChoice
) -> dict[str, float]:
    """What a rewiring is to save, of the messages that were counted, and what is left a second.

    The paper's variant predicts by its U(R). OCBR predicts nothing: here it is what its choice will save.
    """
    if choice.rewiring is None:
        return {}
    exact = float(trained.exact(choice.rewiring))
    saves = choice.utility if settings.variant == "paper" else exact
    _, crossed = crossings(trained.passages, choice.rewiring)
    return {
        "saves": saves,
        "load_per_s": (crossed - saves) / max(trained.seconds, SHORTEST_S),
    }
