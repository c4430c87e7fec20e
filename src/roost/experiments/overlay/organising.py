"""One overlay that organises itself, round by round, and what it looks like after each."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Literal, NamedTuple, get_args

from roost.errors import UserError
from roost.experiments.overlay.churn import ChurnTerms, perturbed
from roost.experiments.overlay.workload import Load
from roost.optimising.goal import Goal
from roost.overlay.rewiring.annealing import AnnealingTerms
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.rewiring.limits import Limits
from roost.overlay.rewiring.rounds import OcbrRule, Organisation, PaperRule, RoostRule, Rule
from roost.overlay.trees import Topology

Variant = Literal["paper", "ocbr", "gated", "roost"]
VARIANTS: tuple[str, ...] = get_args(Variant)
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


class Terms(NamedTuple):
    """What the brokers decide by, beside the variant."""

    threshold: float = 0.0  # of the paper's
    goal: Goal = Goal("load", 100.0)  # of Roost's own, and so is the price, in messages of a round
    price: float = 0.0
    degree_max: int | None = None
    noise: float = 0.0


def rule_of(variant: str, load: Load, terms: Terms) -> Rule:
    """What the brokers decide by."""
    match variant:
        case "paper":
            return PaperRule(terms.threshold, load.subscriptions)
        case "ocbr" | "gated":
            return OcbrRule(gated=variant == "gated")
        case "roost":
            annealing = AnnealingTerms(noise=terms.noise)
            return RoostRule(terms.goal, terms.degree_max, terms.price, annealing)
    raise UserError(f"variant {variant!r}; expected {', '.join(VARIANTS)}")


def organised(
    topology: Topology,
    load: Load,
    variant: str,
    seed: int,
    terms: Terms = Terms(),  # noqa: B008 (immutable)
    *,
    rounds: int = ROUNDS_MAX,
    churn: str = "none",
    churn_share: float = 0.01,
    join: str = "drawn",
) -> Track:
    """A run until it rests, or for so many rounds; with churn it goes on for all of them."""
    random = Random(seed)
    limits = Limits(degree_max=terms.degree_max)
    perturbing = ChurnTerms(churn, churn_share, join, terms.degree_max or inf)
    rule = rule_of(variant, load, terms)
    own = Organisation(flows_of(topology, load.demand), rule, random, limits)
    states = [state_of(own.flows, 0)]
    for _ in range(rounds):
        done = own.round()
        if not done and churn == "none":
            return Track(states, True, own.flows)
        states.append(state_of(own.flows, states[-1].rewirings + len(done)))
        if churn != "none":
            before = load
            load, changed = perturbed(own.flows, load, perturbing, random)
            own.changed(changed)
            _inform(rule, before, load)
    return Track(states, False, own.flows)


def _inform(rule: Rule, before: Load, load: Load) -> None:
    """Tells a rule that the tree or the demand is another."""
    if isinstance(rule, PaperRule) and load is not before:
        rule.subscriptions = load.subscriptions
    if isinstance(rule, RoostRule):
        rule.warmed()


def state_of(flows: Flows, rewirings: int) -> State:
    """What there is."""
    demand = flows.demand
    hops = flows.hops() / max(demand.deliveries, 1)
    return State(rewirings, flows.traffic(), demand.bound, max(flows.degrees()), hops)
