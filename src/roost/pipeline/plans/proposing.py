"""What each optimiser wants of a modelled placement: the decision functions that it has on-line.

    publishers    `relocation.choose_broker`, for each publisher (000 section 4.2)
    subscribers   `relocation.choose_broker_for_group`, for the clients of a broker that ask for the same
    links         `overlay.rewiring`: U(R) and D(R) of all brokers, from the flows of the tree (002)
    load          `balancing`: detection, and whom an offload takes (001 sections 3.3.2 and 4.2)

A proposal says what it wants, why, what the function looked at, and what it would save: the metrics are those
of the function itself, so that what is promised here is what the optimiser would promise in a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from roost.balancing import BalancingConfig
from roost.balancing.cards import LoadReport, Spectrum, SubscriptionLoad
from roost.balancing.detection import PieEntry, detect, is_available
from roost.balancing.indices import BrokerIndices
from roost.balancing.offload import choose as choose_offload
from roost.balancing.states import Status
from roost.language import parse_subscription
from roost.optimising.goal import Goal
from roost.optimising.groups import called, groups_of
from roost.optimising.room import UTILISATION_MAX
from roost.optimising.worth import Terms, Verdict, worth_of_delay
from roost.overlay.rewiring.choosing import choose_rewiring
from roost.overlay.rewiring.counters import Rewiring
from roost.overlay.rewiring.deciding import offers_roost
from roost.overlay.rewiring.limits import Limits
from roost.overlay.rewiring.repaying import RewiringTerms, repays
from roost.pipeline.plans.model import Model
from roost.pipeline.plans.recorded import PublisherTraffic
from roost.relocation.choosing import Choice, worth
from roost.relocation.grape import choose_broker
from roost.relocation.statistics import Trace
from roost.relocation.subscribers import Source, choose_broker_for_group

PUBLISHERS, SUBSCRIBERS, LINKS, LOAD = OPTIMISERS = ("publishers", "subscribers", "links", "load")


class Rules(Struct, frozen=True):
    """What proposals have to keep to."""

    goal: Goal = Goal("load", 100.0)
    terms: Terms = Terms()
    rewiring: RewiringTerms = RewiringTerms()
    balancing: BalancingConfig = BalancingConfig()
    utilisation_max: float = UTILISATION_MAX
    excluded: frozenset[str] = frozenset()  # brokers that nothing moves to, and whose links stay
    kept: frozenset[str] = frozenset()  # clients that stay
    links: Limits = Limits()

    def barred(self) -> dict[str, str]:
        """Brokers that no client moves to, and why."""
        return dict.fromkeys(sorted(self.excluded), "the operator has excluded it")


class Proposal(Struct, frozen=True, kw_only=True):
    """What an optimiser wants."""

    by: str
    subject: str  # as people call it
    clients: tuple[str, ...] = ()  # that move, ...
    target: str = ""  # ... to this broker
    rewiring: Rewiring | None = None
    why: str
    evidence: Mapping[str, Any]
    saves_per_s: float  # messages between brokers
    saves_s: float  # of delay, summed over the deliveries of a second

    @property
    def wish(self) -> str:
        """In words."""
        if self.rewiring is not None:
            middle, mover, anchor = self.rewiring
            return f"link {mover} to {anchor} instead of {middle}"
        return f"move {self.subject} to {self.target}"

    def brokers(self, where: Mapping[str, str]) -> frozenset[str]:
        """That it concerns, with the clients where they are."""
        if self.rewiring is not None:
            return frozenset(self.rewiring)
        return frozenset((self.target, *(where[client] for client in self.clients)))


# --- relocation ---------------------------------------------------------------------------------------


def _bits(kinds: Sequence[tuple[int, bool]]) -> bytes:
    """A vector in which publications of a kind stand together."""
    bits, at = 0, 0
    for count, is_set in kinds:
        if is_set:
            bits |= ((1 << count) - 1) << at
        at += count
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _vectors(
    model: Model, publisher: PublisherTraffic, without: frozenset[str] = frozenset()
) -> tuple[dict[str, bytes], dict[str, int]]:
    """Which publications each broker delivered to clients, but to these; and how many deliveries."""
    got: dict[str, list[tuple[int, bool]]] = {}
    deliveries: dict[str, int] = {}
    kinds = publisher.kinds
    for number, kind in enumerate(kinds):
        wanted = [client for client in kind.clients if client not in without]
        for broker, clients in model.audience(wanted).items():
            if broker not in got:
                got[broker] = [(each.times, False) for each in kinds]
            got[broker][number] = (kind.times, True)
            deliveries[broker] = deliveries.get(broker, 0) + kind.times * clients
    return {broker: _bits(flags) for broker, flags in got.items()}, deliveries


def publishers(model: Model, rules: Rules) -> Iterator[Proposal]:
    """Those that would be better elsewhere."""
    answers = model.answers()
    for publisher in model.recorded.publishers:
        origin, count = model.origin(publisher), publisher.publications
        if origin is None or not count or publisher.client in rules.kept:
            continue
        bits, deliveries = _vectors(model, publisher)
        told = [
            msgspec.structs.replace(
                a, bits=bits.get(a.broker, b""), deliveries=deliveries.get(a.broker, 0)
            )
            for a in answers
        ]
        trace = Trace(count, count / model.recorded.seconds)
        choice = choose_broker(
            told, origin, trace, rules.goal, None, rules.utilisation_max, rules.barred()
        )
        yield from _relocation(
            model, rules, PUBLISHERS, publisher.client, (publisher.client,), origin, choice
        )


def subscribers(model: Model, rules: Rules) -> Iterator[Proposal]:
    """Groups that would be better elsewhere."""
    recorded, where = model.recorded, model.placement.clients
    answers = model.answers()
    own = {publisher.client for publisher in recorded.publishers if publisher.publications}
    heard: dict[str, list[PublisherTraffic]] = {}  # by client
    for publisher in recorded.publishers:
        for client in dict.fromkeys(c for kind in publisher.kinds for c in kind.clients):
            heard.setdefault(client, []).append(publisher)
    at: dict[str, dict[str, dict[str, object]]] = {}
    for client, broker in where.items():
        filters: dict[str, object] = {each: each for each in recorded.wants.get(client, ())}
        at.setdefault(broker, {})[client] = filters
    for broker in sorted(at):
        groups = groups_of(at[broker], lambda client: client not in own | rules.kept)
        for wanted, members in sorted(groups.items()):
            sources = _sources(model, frozenset(members), heard)
            if not sources:
                continue
            choice = choose_broker_for_group(
                answers, broker, sources, rules.goal, None, rules.utilisation_max, rules.barred()
            )
            name = called(members, wanted)
            yield from _relocation(model, rules, SUBSCRIBERS, name, tuple(members), broker, choice)


def _sources(
    model: Model, members: frozenset[str], heard: Mapping[str, Sequence[PublisherTraffic]]
) -> list[Source]:
    found = []
    known = {p.name: p for client in sorted(members) for p in heard.get(client, ())}
    for publisher in known.values():
        origin = model.origin(publisher)
        if origin is None:
            continue
        others, _ = _vectors(model, publisher, without=members)
        counts = [(kind.times, len(members.intersection(kind.clients))) for kind in publisher.kinds]
        wanted = _bits([(count, got > 0) for count, got in counts])
        deliveries = sum(count * got for count, got in counts)
        trace = Trace(publisher.publications, publisher.publications / model.recorded.seconds)
        found.append(Source(origin, trace, others, wanted, deliveries))
    return found


def _relocation(
    model: Model,
    rules: Rules,
    by: str,
    name: str,
    clients: tuple[str, ...],
    here: str,
    choice: Choice,
) -> Iterator[Proposal]:
    if not choice.moves:
        return
    path = model.way(here, choice.chosen.broker)
    verdict = worth(choice, len(path), None, rules.terms)
    if not verdict.pays:
        return
    present, chosen = choice.present, choice.chosen
    yield Proposal(
        by=by,
        subject=name,
        clients=clients,
        target=chosen.broker,
        why=verdict.reason,
        evidence={
            "goal": f"{choice.goal.priority}{choice.goal.weight:g}",
            "path": path,
            "deliveries_per_s": choice.deliveries_per_s,
            "candidates": choice.candidates,
            "present": msgspec.to_builtins(present),
            "others": msgspec.to_builtins(choice.evidence),
        },
        saves_per_s=present.load_per_s - chosen.load_per_s,
        saves_s=(present.delay_s - chosen.delay_s) * choice.deliveries_per_s * model.scale,
    )


# --- links --------------------------------------------------------------------------------------------


def links(model: Model, rules: Rules) -> Iterator[Proposal]:
    """The best rewiring of each broker, if it pays."""
    flows = model.flows()
    names, degrees = flows.brokers, flows.degrees()
    of = dict(zip(names, degrees, strict=True))

    def objection(rewiring: Rewiring) -> str:
        for broker in rewiring:
            if broker in rules.excluded:
                return f"the operator has excluded {broker}"
        return rules.links.objection(rewiring, of)

    for place, middle in enumerate(names):
        sides = flows.sides(place)
        near = [names[other] for other in sides.near]
        if len(near) < 2:
            continue
        savings = sides.savings()
        offers = offers_roost(
            savings.saved,
            savings.shorter,
            rules.goal,
            [degrees[other] for other in sides.near],
            rules.links.degree_max,
        )
        choice = choose_rewiring(middle, near, offers, 0.0, objection)
        if choice.rewiring is None:
            continue
        at = near.index(choice.rewiring.mover), near.index(choice.rewiring.anchor)
        saved, shorter = float(savings.saved[at]), float(savings.shorter[at])
        mover = names.index(choice.rewiring.mover)
        entries = int((sides.wanted[at[0]] > 0).sum()) + degrees[mover]
        promise = savings.relayed / (len(near) - 1)
        verdict = _pays(model, rules, saved, shorter, promise, entries)
        if not verdict.pays:
            continue
        yield Proposal(
            by=LINKS,
            subject=f"{middle} - {choice.rewiring.mover}",
            rewiring=choice.rewiring,
            why=verdict.reason,
            evidence={
                "saved": saved,
                "shorter": shorter,
                "seconds": model.recorded.seconds,
                "candidates": choice.candidates,
                "rewirings": msgspec.to_builtins(choice.evidence),
            },
            saves_per_s=saved / model.recorded.seconds,
            saves_s=shorter * _hop_s(model) / model.recorded.seconds,
        )


def _hop_s(model: Model) -> float:
    """What a link and a broker on the way add to a delivery, on average over what is sent."""
    rates = model.rates.links
    if not (messages := sum(rates.values())):
        return 0.0
    spent = sum(
        rate * (model.transit_s(x, y) + model.through_s(y)) for (x, y), rate in rates.items()
    )
    return model.scale * spent / messages


def _pays(
    model: Model, rules: Rules, saved: float, shorter: float, promise: float, entries: int
) -> Verdict:
    """By the metric that the goal looks at first."""
    if rules.goal.priority == "load" or saved > 0:
        return repays(saved, promise, model.recorded.seconds, entries, rules.rewiring)
    delivered = model.rates.delivered
    now_s = model.effect().delay_s
    saves_s = shorter * _hop_s(model) / model.recorded.seconds / delivered if delivered else 0.0
    return worth_of_delay(now_s, now_s - saves_s, delivered, 3, None, rules.terms)


# --- load ---------------------------------------------------------------------------------------------


def load(model: Model, rules: Rules) -> Iterator[Proposal]:
    """Whom brokers that are busier than others would give away, to the first that they would ask."""
    config = rules.balancing
    indices = {broker: _indices(model, broker) for broker in model.placement.brokers}
    entries = [
        PieEntry(broker, Status.OK if is_available(own, config) else Status.NOT_AVAILABLE, own)
        for broker, own in indices.items()
        if broker not in rules.excluded
    ]
    for broker, own in indices.items():
        if not _movable(model, rules, broker):
            continue
        others = [entry for entry in entries if entry.broker != broker]
        status = Status.OK if is_available(own, config) else Status.NOT_AVAILABLE
        detection = detect(own, status, others, config)
        for action in detection.actions[:1]:
            offload = choose_offload(
                action.action,
                _report(model, broker),
                _report(model, action.broker),
                _spectrum(model, rules, broker, action.broker),
                config,
                is_overloaded=detection.overload is not None,
            )
            if not offload.clients:
                continue
            why = (
                f"{action.action.value} is higher than at {action.broker} by {action.difference:.3g};"
                f" {offload.ended}"
            )
            yield Proposal(
                by=LOAD,
                subject=called(offload.clients, ("what takes load along",)),
                clients=offload.clients,
                target=action.broker,
                why=why,
                evidence={
                    "action": offload.action.value,
                    "overloaded": offload.is_overloaded,
                    "own": msgspec.to_builtins(offload.own),
                    "own_predicted": msgspec.to_builtins(offload.own_predicted),
                    "other": msgspec.to_builtins(offload.other),
                    "other_predicted": msgspec.to_builtins(offload.other_predicted),
                },
                saves_per_s=0.0,  # its business is another; the model says what it comes to
                saves_s=0.0,
            )


def _movable(model: Model, rules: Rules, broker: str) -> dict[str, tuple[str, ...]]:
    """Subscribers here that may move, and what they ask for."""
    own = {publisher.client for publisher in model.recorded.publishers}
    return {
        client: wants
        for client, at in model.placement.clients.items()
        if at == broker
        and client not in own
        and client not in rules.kept
        and (wants := model.recorded.wants.get(client, ()))
    }


def _indices(model: Model, broker: str) -> BrokerIndices:
    load = model.recorded.brokers[broker]
    busy, sending = model.utilisations[broker]
    total = load.memory_total_bytes
    return BrokerIndices(
        input_ratio=busy,
        output_ratio=sending,
        matching_delay_s=model.matching_s(broker),
        cpu_ratio=busy,
        memory_ratio=load.memory_bytes / total if total else 0.0,
    )


def _report(model: Model, broker: str) -> LoadReport:
    """What it would reply to a request for load balancing (001 section 3.4.1)."""
    load = model.recorded.brokers[broker]
    busy, _ = model.utilisations[broker]
    come, gone = model.rates.inputs.get(broker, 0.0), model.rates.outputs.get(broker, 0.0)
    size = load.output_bytes_per_s / load.output_rate if load.output_rate else 0.0
    matching_s = model.matching_s(broker)
    grows = model.recorded.matching_grows and load.subscriptions > 0
    held = {w for w in model.recorded.wants.items() if model.placement.clients.get(w[0]) == broker}
    return LoadReport(
        css=tuple(sorted({text for _, wants in held for text in wants})),
        cpu_ratio=busy,
        input_bytes_per_s=come * size,
        input_queue_bytes=0.0,
        input_rate=come,
        matching_slope_s=matching_s / load.subscriptions if grows else 0.0,
        publication_s=0.0 if grows else matching_s,
        memory_total_bytes=load.memory_total_bytes,
        output_total_bytes_per_s=size / load.sending_s if load.sending_s else 0.0,
        subscriptions=load.subscriptions,
        output_bytes_per_s=gone * size,
        output_queue_bytes=0.0,
        matching_delay_s=matching_s,
        input_ratio=busy,
        matching_memory_bytes=load.memory_bytes,
        output_rate=gone,
    )


def _spectrum(model: Model, rules: Rules, broker: str, other: str) -> Spectrum:
    """What PRESS would find here: all publications that come here are samples (001 section 4.1.1)."""
    movable = _movable(model, rules, broker)
    texts = {client: {text: text for text in wants} for client, wants in movable.items()}
    groups = groups_of(texts, lambda _: True)
    got: dict[str, list[int]] = {client: [] for client in movable}  # positions of kinds
    counts: list[int] = []
    theirs, stays = [], []
    for publisher in model.recorded.publishers:
        origin = model.origin(publisher)
        if origin is None:
            continue
        towards = model.towards(broker)
        for kind in publisher.kinds:
            audience = model.audience(kind.clients)
            here, beyond = audience.get(broker, 0), False
            for at in audience:
                if at != broker and origin in towards:
                    beyond = beyond or broker in model.way(at, origin)
            if not (here or beyond or origin == broker):
                continue
            number = len(counts)
            counts.append(kind.times)
            for client in kind.clients:
                if client in got:
                    got[client].append(number)
            theirs.append(audience.get(other, 0) > 0)
            unmoved = here > sum(client in got for client in kind.clients)
            stays.append(origin == broker or beyond or unmoved)

    def vector(flags: Sequence[bool]) -> bytes:
        return _bits(list(zip(counts, flags, strict=True)))

    def chosen(clients: Sequence[str]) -> bytes:
        numbers = {number for client in clients for number in got[client]}
        return vector([number in numbers for number in range(len(counts))])

    load = model.recorded.brokers[broker]
    size = load.output_bytes_per_s / load.output_rate if load.output_rate else 0.0
    return Spectrum(
        samples=sum(counts),
        input_rate=model.rates.inputs.get(broker, 0.0),
        loads=tuple(
            SubscriptionLoad(
                tuple(members),
                tuple(parse_subscription(text) for text in wanted),
                chosen(members),
                size,
            )
            for wanted, members in sorted(groups.items())
        ),
        css_bits=vector(theirs),
        kept_bits=vector(stays),
    )


PROPOSE = {PUBLISHERS: publishers, SUBSCRIBERS: subscribers, LINKS: links, LOAD: load}
