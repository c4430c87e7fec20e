"""All optimisers together: rounds of proposals on a modelled placement, until nothing is left that helps.

In a round each optimiser says what it wants of the placement as it is by then. Proposals are taken in the
order of what they gain on the weighted sum that was asked for. Two are in *conflict* if

- they move the same client,
- one moves a publisher and the other some of its audience, which would go past each other, or
- one of them moves a link and the other concerns one of its three brokers: what each has promised holds for
  the tree as it was.

The one that gains more is chosen; the others are looked at again in the next round, when their optimisers see
what has become of it. Each that is chosen has to make the sum smaller by the model as a whole, after those
before it: else it is left to the next round, and refused for good if it was the first. So the sum falls with
every decision, and it ends.

A plan of all together may still end in a poorer place than that of one optimiser alone. So each is tried
alone too, and the best is the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from roost.pipeline.plans.effect import Effect, Weights
from roost.pipeline.plans.model import Model, model_of
from roost.pipeline.plans.placement import Placement, placement_of
from roost.pipeline.plans.plan import Alone, Conflict, Decision, Limits, Plan, Step, Wish
from roost.pipeline.plans.proposing import LOAD, OPTIMISERS, PROPOSE, Proposal, Rules
from roost.pipeline.plans.recorded import Recorded

ROUNDS_MAX = 100
# Of the weighted sum: less is nothing.
LEAST_GAIN = 1e-6
REFUSED_MAX = 50
TOGETHER = "together"


class Scored(NamedTuple):
    """A proposal, and what it gains on the weighted sum."""

    proposal: Proposal
    gain: float


class Taken(NamedTuple):
    """A proposal that was chosen, with the placements before and after its round's choices up to it."""

    scored: Scored
    before: Effect
    after: Effect


class Outcome(Struct):
    """What came of rounds."""

    model: Model
    taken: list[Taken]
    conflicts: dict[str, Conflict]
    refused: dict[str, Wish]


def plan_of(
    recorded: Recorded,
    weights: Weights,
    rules: Rules,
    limits: Limits,
    optimisers: Sequence[str] = OPTIMISERS,
) -> Plan:
    """The plan."""
    start = model_of(recorded)
    before = start.effect()
    found = {name: together(start, weights, rules, limits, (name,)) for name in optimisers}
    notes = list(recorded.left_out)
    best = TOGETHER
    if len(found) > 1:
        found[TOGETHER] = together(start, weights, rules, limits, optimisers)
        costs = {who: weights.cost(one.model.effect(), before) for who, one in found.items()}
        best = min(costs, key=lambda who: (costs[who], who != TOGETHER))
        if best != TOGETHER:
            notes.append(
                f"{best} alone is predicted to come to {costs[best]:.4f} of the weighted sum, all together to"
                f" {costs[TOGETHER]:.4f}: the plan is that of {best}"
            )
    else:
        (best,) = found
    chosen = found[best]
    after = chosen.model.effect()
    steps = steps_of(recorded.placement, [taken.scored.proposal for taken in chosen.taken])
    wishes = [taken.scored.proposal.wish for taken in chosen.taken]
    moving = [step.client for step in steps if step.client]
    there = recorded.placement
    return Plan(
        run=recorded.run,
        seconds=recorded.seconds,
        goals=weights,
        limits=limits,
        placement=placement_of(
            there.brokers, there.links, {client: there.clients[client] for client in moving}
        ),
        digest=there.digest(moving),
        before=before,
        measured=Effect(
            recorded.load_per_s, recorded.delay_s, before.busiest, before.busiest_broker
        ),
        after=after,
        steps=steps,
        decisions=tuple(_decisions(chosen.taken)),
        conflicts=tuple(chosen.conflicts[wish] for wish in wishes if wish in chosen.conflicts),
        refused=tuple(chosen.refused.values())[:REFUSED_MAX],
        alone=tuple(
            Alone(who, effect := one.model.effect(), weights.cost(effect, before), _moves(one))
            for who, one in found.items()
        ),
        notes=tuple(notes),
    ).sealed()


def _decisions(taken: Iterable[Taken]) -> Iterable[Decision]:
    for number, (scored, before, after) in enumerate(taken, 1):
        proposal = scored.proposal
        yield Decision(
            number,
            proposal.by,
            proposal.wish,
            proposal.why,
            scored.gain,
            proposal.evidence,
            before,
            after,
        )


def _moves(outcome: Outcome) -> int:
    placement = outcome.model.recorded.placement
    return len(steps_of(placement, [taken.scored.proposal for taken in outcome.taken]))


# --- rounds -------------------------------------------------------------------------------------------


def together(
    start: Model, weights: Weights, rules: Rules, limits: Limits, optimisers: Sequence[str]
) -> Outcome:
    """What these optimisers come to, from there."""
    before = start.effect()
    found = Outcome(start, [], {}, {})
    for _ in range(ROUNDS_MAX):
        model = found.model
        scored = _scored(model, weights, rules, before, optimisers, found)
        if not scored:
            break
        for number, each in enumerate(_picked(model, scored, limits, found)):
            tried = _applied(found.model, [each.proposal])
            was, then = found.model.effect(), tried.effect()
            if weights.cost(was, before) - weights.cost(then, before) > LEAST_GAIN:
                found.taken.append(Taken(each, was, then))
                found.model = tried
            elif not number:
                _refuse(found, each, "the model as a whole finds no gain in it")
    return found


def _scored(
    model: Model,
    weights: Weights,
    rules: Rules,
    before: Effect,
    optimisers: Sequence[str],
    found: Outcome,
) -> list[Scored]:
    """What is wanted, best first; without what gains nothing, or was refused."""
    wanted = []
    now = weights.cost(model.effect(), before)
    delivered = model.rates.delivered
    for name in optimisers:
        for proposal in PROPOSE[name](model, rules):
            if proposal.wish in found.refused:
                continue
            if proposal.by == LOAD or weights.balance:
                gain = now - weights.cost(_applied(model, [proposal]).effect(), before)
            else:
                delay = before.delay_s * delivered
                gain = weights.load * _part(proposal.saves_per_s, before.load_per_s)
                gain += weights.delay * _part(proposal.saves_s, delay)
            one = Scored(proposal, gain)
            if gain > LEAST_GAIN:
                wanted.append(one)
            else:
                _refuse(found, one, "it would not lower what was asked for")
    return sorted(wanted, key=lambda each: (-each.gain, each.proposal.wish))


def _part(saved: float, of: float) -> float:
    return saved / of if of > 0 else 0.0


def _refuse(found: Outcome, scored: Scored, why: str) -> None:
    wish = Wish(scored.proposal.by, scored.proposal.wish, scored.gain, why)
    found.refused[wish.wish] = wish


def _picked(model: Model, scored: Sequence[Scored], limits: Limits, found: Outcome) -> list[Scored]:
    """Those that go together, and that there are moves left for."""
    picked: list[Scored] = []
    where = model.placement.clients
    audiences = {
        publisher.client: {client for kind in publisher.kinds for client in kind.clients}
        for publisher in model.recorded.publishers
    }
    for each in scored:
        clashes = ((one, _clash(one.proposal, each.proposal, where, audiences)) for one in picked)
        rival, why = next((found for found in clashes if found[1]), (None, ""))
        if rival is not None:
            _note(found, rival, each, why)
            continue
        if limits.moves is not None:
            all_ = [t.scored.proposal for t in found.taken] + [one.proposal for one in picked]
            used = len(steps_of(model.recorded.placement, all_))
            with_it = len(steps_of(model.recorded.placement, [*all_, each.proposal]))
            if with_it > limits.moves:
                left = limits.moves - used
                _refuse(found, each, f"takes {with_it - used} moves more, and {left} are left")
                continue
        picked.append(each)
    return picked


def _clash(
    one: Proposal,
    other: Proposal,
    where: Mapping[str, str],
    audiences: Mapping[str, Collection[str]],
) -> str:
    """Why two proposals do not go together; "" if they do."""
    if same := set(one.clients).intersection(other.clients):
        return f"both move {min(same)}"
    for mine, theirs in ((one, other), (other, one)):
        for client in mine.clients:
            if client in audiences and any(each in audiences[client] for each in theirs.clients):
                return f"one moves {client}, and the other some of those who hear it"
    if one.rewiring is None and other.rewiring is None:
        return ""
    if shared := one.brokers(where) & other.brokers(where):
        return f"the tree changes at {min(shared)}"
    return ""


def _note(found: Outcome, rival: Scored, loser: Scored, why: str) -> None:
    """Who wanted what; once, however often it comes up."""
    key = rival.proposal.wish
    said = found.conflicts.get(key) or Conflict(key, rival.proposal.by, rival.gain, ())
    told = f"{why}; it gains {loser.gain:.3g}, not {rival.gain:.3g}, and was looked at again afterwards"
    wish = Wish(loser.proposal.by, loser.proposal.wish, loser.gain, told)
    if wish.wish not in {each.wish for each in said.others}:
        found.conflicts[key] = replace(said, others=(*said.others, wish))


def _applied(model: Model, proposals: Iterable[Proposal]) -> Model:
    return Model(model.recorded, moved(model.placement, proposals), model.scale, model.then)


def moved(placement: Placement, proposals: Iterable[Proposal]) -> Placement:
    """A placement after these."""
    clients = dict(placement.clients)
    links: Collection[tuple[str, str]] = placement.links
    for proposal in proposals:
        clients.update(dict.fromkeys(proposal.clients, proposal.target))
        if proposal.rewiring is not None:
            middle, mover, anchor = proposal.rewiring
            links = [link for link in links if set(link) != {middle, mover}] + [(mover, anchor)]
    return placement_of(placement.brokers, links, clients)


def steps_of(start: Placement, proposals: Sequence[Proposal]) -> tuple[Step, ...]:
    """What is to be asked of brokers: who moves more than once goes straight to where it ends."""
    last = {client: n for n, each in enumerate(proposals) for client in each.clients}
    steps: list[Step] = []
    for n, proposal in enumerate(proposals):
        number = n + 1
        if proposal.rewiring is not None:
            middle, mover, anchor = proposal.rewiring
            steps.append(
                Step(len(steps) + 1, "rewire", number, middle=middle, mover=mover, anchor=anchor)
            )
        for client in proposal.clients:
            source = start.clients[client]
            if last[client] == n and source != proposal.target:
                steps.append(Step(len(steps) + 1, "move", number, client, source, proposal.target))
    return tuple(steps)
