"""One overlay that organises itself, round by round, and what it looks like after each."""

from __future__ import annotations

from random import Random
from typing import Literal, NamedTuple, get_args

from roost.errors import UserError
from roost.experiments.overlay.churn import perturbed
from roost.experiments.overlay.workload import Load, Start, tree_of
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.rewiring.limits import Limits
from roost.overlay.rewiring.rounds import OcbrRule, Organisation, PaperRule, RoostRule, Rule

Variant = Literal["paper", "ocbr", "gated", "roost"]
# A run that has not come to rest by then is cut off; OCBR without its gate never does.
ROUNDS_MAX = 1_500


class State(NamedTuple):
    """An overlay after a round."""

    rewirings: int  # since the start
    traffic: int
    bound: int  # below which no tree is
    degree: int  # the greatest
    hops: float  # links on the way of a delivery, on average


class Track(NamedTuple):
    """A run."""

    states: list[State]  # the first is the start
    rested: bool
    flows: Flows

    @property
    def end(self) -> State:
        """What it came to."""
        return self.states[-1]

    def at_rewirings(self, count: int) -> State:
        """The first state with so many rewirings, or the last."""
        return next((state for state in self.states if state.rewirings >= count), self.end)

    def at_round(self, number: int) -> State:
        """After so many rounds, or the last."""
        return self.states[min(number, len(self.states) - 1)]


def rule_of(
    variant: str, load: Load, *, threshold: float, degree_max: int | None, price: float
) -> Rule:
    """What the brokers decide by."""
    match variant:
        case "paper":
            return PaperRule(threshold, load.subscriptions)
        case "ocbr" | "gated":
            return OcbrRule(gated=variant == "gated")
        case "roost":
            return RoostRule(degree_max=degree_max, price=price)
    raise UserError(f"variant {variant!r}; expected {', '.join(get_args(Variant))}")


def organised(
    load: Load,
    start: Start,
    variant: str,
    seed: int,
    *,
    threshold: float = 0.0,
    degree_max: int | None = None,
    price: float = 0.0,
    rounds: int = ROUNDS_MAX,
    churn: str = "none",
) -> Track:
    """A run until it rests, or for so many rounds; with churn it goes on for all of them."""
    demand = load.demand
    flows = flows_of(tree_of(start, len(demand.brokers), seed), demand)
    random = Random(seed)

    def organisation() -> Organisation:
        return Organisation(flows, rule, random, Limits(degree_max=degree_max))

    rule = rule_of(variant, load, threshold=threshold, degree_max=degree_max, price=price)
    own = organisation()
    states = [state_of(flows, 0)]
    for _ in range(rounds):
        done = own.round()
        rewirings = states[-1].rewirings + len(done)
        states.append(state_of(flows, rewirings))
        if churn != "none":
            flows, load = perturbed(flows, load, churn, random)
            if isinstance(rule, PaperRule):
                rule = PaperRule(threshold, load.subscriptions)
            elif isinstance(rule, RoostRule):
                rule.warmed()
            own = organisation()
        elif not done:
            return Track(states[:-1], True, flows)
    return Track(states, False, flows)


def state_of(flows: Flows, rewirings: int) -> State:
    """What there is."""
    demand = flows.demand
    hops = flows.hops() / max(demand.deliveries, 1)
    return State(rewirings, flows.traffic(), demand.bound, max(flows.degrees()), hops)
