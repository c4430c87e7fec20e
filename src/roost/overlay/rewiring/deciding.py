"""What a broker decides after a training: one entrance for each variant, from plain counters to a choice.

    decide_paper    002's own: U(R) by (neighbour, subscription), above T
    decide_ocbr     OCBR, plain or gated
    decide_roost    Roost's own: exact, with delay, room and what moving the tables costs

All give a `RewiringChoice`. `offers_*` are the same decisions as tables of values, for those who have tables
already (`rounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from roost.optimising.goal import Goal
from roost.overlay.rewiring import exact, ocbr, theorem
from roost.overlay.rewiring.annealing import noise
from roost.overlay.rewiring.choosing import Offers, RewiringChoice, Values, choose_rewiring
from roost.overlay.rewiring.counters import Passages, Rewiring, Training
from roost.overlay.rewiring.gathering import second_values
from roost.overlay.rewiring.theorem import Counts, Weight

if TYPE_CHECKING:
    from random import Random

Objection = Callable[[Rewiring], str]


def no_objection(_: Rewiring) -> str:
    """Nothing speaks against it."""
    return ""


# --- the paper's --------------------------------------------------------------------------------------


def decide_paper(
    middle: str,
    neighbours: Sequence[str],
    training: Training,
    threshold: float,
    objection: Objection = no_objection,
    *,
    weight: Weight | None = None,
    random: Random | None = None,
) -> RewiringChoice:
    """The pair with the greatest U(R), if it is above T (002 sections 4.1, 5.1, 5.2)."""
    near = sorted(neighbours)
    tables = (near, training.incoming, training.outgoing)
    values = theorem.utilities(*tables)
    offers = Offers(values)
    if weight is not None:
        crossing = theorem.link_messages(*tables)
        offers = Offers(theorem.weighted(middle, near, values, crossing, weight))
    return choose_rewiring(middle, near, offers, threshold, objection, random=random)


# --- OCBR ---------------------------------------------------------------------------------------------


def decide_ocbr(
    middle: str,
    neighbours: Sequence[str],
    passages: Passages,
    objection: Objection = no_objection,
    *,
    gated: bool,
    random: Random | None = None,
) -> RewiringChoice:
    """The pair with the most traffic between them; the one with less other traffic moves (002 section 3)."""
    near = sorted(neighbours)
    link = exact.sums(near, passages.kinds).link
    offers = offers_ocbr(ocbr.couples(near, passages.kinds), link, gated=gated)
    return choose_rewiring(middle, near, offers, 0, objection, random=random)


def offers_ocbr(couples: Counts, link: Counts, *, gated: bool) -> Offers:
    """From couples and the messages over each link."""
    found = ocbr.traffic(couples, link)
    return Offers(
        found.forwarded,
        -found.residual,
        found.residual >= found.forwarded if gated else None,
        "its other traffic is not less than what is forwarded",
    )


# --- Roost's own --------------------------------------------------------------------------------------


def decide_roost(
    middle: str,
    neighbours: Sequence[str],
    passages: Passages,
    threshold: float,
    objection: Objection = no_objection,
    *,
    goal: Goal = Goal("load", 100.0),  # noqa: B008 (frozen)
    degrees: Mapping[str, int] | None = None,
    degree_max: int | None = None,
    temperature: float = 0.0,
    weight: Weight | None = None,
    random: Random | None = None,
) -> RewiringChoice:
    """The pair that saves most by the goal, exactly; at equal values what makes ways shorter, or room.

    `degrees` are those of the neighbours, as far as they are known. A `temperature` above 0 takes `random`.
    With a `weight` of links (002 section 5.2), what is saved is so much of that, of ways as of messages.
    """
    near = sorted(neighbours)
    sums = exact.sums(near, passages.kinds)
    saved: Values = exact.saved(sums)
    apart = exact.between(near, passages.deliveries)
    shorter: Values = exact.links_saved(apart)
    if weight is not None:
        saved = theorem.weighted(middle, near, exact.saved(sums), sums.link, weight)
        shorter = exact.time_saved(middle, near, apart, weight)
    known = degrees or {}
    offers = offers_roost(saved, shorter, goal, [known.get(n, 1) for n in near], degree_max)
    if temperature and random is not None and near:
        chance = noise(len(near), temperature, float(sums.link.mean()), random)
        offers = offers._replace(noise=chance)
    return choose_rewiring(middle, near, offers, threshold, objection, random=random)


def offers_roost(
    saved: Values, shorter: Values, goal: Goal, degrees: Sequence[int], degree_max: int | None
) -> Offers:
    """From U(R) and D(R), in messages and in links times deliveries.

    A goal is a sum of both, with the weight that it gives them: `load75` counts three quarters of a message
    against a quarter of a link on the way of a delivery. Such a sum over all links and deliveries changes by
    exactly so much with a rewiring, wherever it is, so that brokers which each follow it do not work against
    each other. (GRAPE's way, the best of those not too bad by the first metric, is for a single choice.)
    At weight 100 the other metric decides between equals, as with GRAPE.
    """
    first, other = (saved, shorter) if goal.priority == "load" else (shorter, saved)
    if goal.weight == 100:
        return Offers(first, second_values(other, degrees, degree_max))
    if goal.weight == 0:
        return Offers(other, second_values(first, degrees, degree_max))
    share = goal.weight / 100
    return Offers(share * first + (1 - share) * other)
