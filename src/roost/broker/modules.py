"""The modules of a broker: who is awake, who hears of what, and whose proposal is granted.

What each of them sees is in `module_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

from msgspec.structs import replace

from roost.broker.arbiter import Lease, Proposal, link_between
from roost.broker.commands import Answered
from roost.broker.events import Asked, LoadIndices
from roost.broker.hops import Hop, Inside, Session
from roost.broker.messages import Note, Probed, Publication
from roost.broker.module import Module, ModuleState, Passage, Visit
from roost.broker.module_host import CLASS, ModuleHost, Premises
from roost.broker.names import Address
from roost.errors import UserError
from roost.language import Event

# Questions to clients whose answers are waited for.
PROBES_MAX = 1_000


<<<<<<< HEAD
=======
class Premises:
    """What modules may touch of the machine that they live in."""

    def __init__(
        self,
        identity: Identity,
        work: Work,
        links: Mapping[str, Link],
        sessions: Mapping[str, Session],
        router: Flooding,
        arbiter: Arbiter,
        *,
        tell: Callable[[Link | Session, Message], None],
        publish: Callable[[Hop, Publication, int], None],
        redirect: Callable[[str, Address, str], None],
        rewire: Callable[[str, str, str, str], str],
    ) -> None:
        self.identity = identity
        self.work = work
        self.links = links
        self.sessions = sessions
        self.router = router
        self.tell = tell
        self.publish = publish
        self.redirect = redirect
        self.rewire = rewire  # mover, anchor, cause and urgency
        self.arbiter = arbiter
        self.watches = Watches()
        self.newcomers = Newcomers()
        self.load: LoadIndices | None = None  # the last sample


class ModuleHost:
    """What one module sees: `Surroundings`, and what the broker keeps for it."""

    def __init__(
        self,
        premises: Premises,
        module: Module,
        new_probe: Callable[[ModuleHost], int],
        objection_to: Callable[[Proposal, ModuleHost], tuple[str, str]],
    ) -> None:
        self._at = premises
        self._new_probe = new_probe
        self._objection_to = objection_to
        self.broker = premises.identity.name
        self.module = module
        self.state = ModuleState.OFF
        self.hop = Inside(module.name)
        self._timers: dict[str, None] = {}
        self._decisions = 0

    @property
    def address(self) -> Address:
        return self._at.identity.address

    def address_of(self, broker: str) -> Address | None:
        if broker == self.broker:
            return self.address
        link = self._at.links.get(broker)
        return link.address or None if link is not None else None

    @property
    def acting(self) -> bool:
        return self.state is ModuleState.ACTING

    @property
    def neighbours(self) -> Sequence[str]:
        return [name for name, link in self._at.links.items() if not link.standby]

    @property
    def load(self) -> LoadIndices | None:
        return self._at.load

    def clients(self) -> Mapping[str, Mapping[str, Subscription]]:
        found: dict[str, dict[str, Subscription]] = {}
        for session in self._at.sessions.values():
            found.setdefault(session.client, {}).update(_subscriptions(session))
        return found

    def subscriptions_from(self, neighbour: str) -> Mapping[str, Subscription]:
        link = self._at.links.get(neighbour)
        return _subscriptions(link) if link is not None else {}

    def advertisements_from(self, neighbour: str) -> Mapping[str, Advertisement]:
        link = self._at.links.get(neighbour)
        return _advertisements(link) if link is not None else {}

    def publishers(self) -> Mapping[str, Mapping[str, Advertisement]]:
        found: dict[str, dict[str, Advertisement]] = {}
        for session in self._at.sessions.values():
            if session.advertisements:
                found.setdefault(session.client, {}).update(_advertisements(session))
        return found

    def covering_set(self) -> Mapping[str, Subscription]:
        return self._at.router.covering_set()

    def is_movable(self, client: str) -> bool:
        sessions = [s for s in self._at.sessions.values() if s.client == client]
        return bool(sessions) and not any(s.durable or s.ending or s.leaving for s in sessions)

    def movable(self) -> Collection[str]:
        found: dict[str, bool] = {}
        for s in self._at.sessions.values():
            stays = s.durable or s.ending or s.leaving
            found[s.client] = found.get(s.client, True) and not stays
        return {client: None for client, is_so in found.items() if is_so}.keys()

    def publish(self, attributes: Mapping[str, Value], payload: bytes = b"") -> None:
        event = Event(attributes)
        if attributes.get(CLASS) not in self.module.reserved:
            raise InvariantError(
                f"module {self.module.name} publishes {event}, which is no class that it reserves"
            )
        self.hop.sequence += 1
        publication = Publication(
            publisher=f"{self._name}/{self.module.name}",
            sequence=self.hop.sequence,
            event=event,
            payload=payload,
            priority=CONTROL,
        )
        self._at.publish(self.hop, publication, 0)

    def advertise(self, name: str, advertisement: Advertisement) -> None:
        self._at.router.advertise(self.hop, self._id(name), advertisement, self._cause)

    def unadvertise(self, name: str) -> None:
        self._at.router.unadvertise(self.hop, self._id(name), self._cause)

    def subscribe(self, name: str, subscription: Subscription, *, local: bool = False) -> None:
        if local:
            self.unsubscribe(name)
            self._at.watches.add(self.module.name, name, subscription)
        else:
            self._at.watches.remove(self.module.name, name)
            self._at.router.subscribe(self.hop, self._id(name), subscription, self._cause)

    def unsubscribe(self, name: str) -> None:
        self._at.watches.remove(self.module.name, name)
        self._at.router.unsubscribe(self.hop, self._id(name), self._cause)

    def tell(self, neighbour: str, body: bytes, cause: str, *, behind: bool = False) -> None:
        link = self._at.links.get(neighbour)
        if link is not None and link.greeted:
            self._at.tell(link, Note(self.module.name, body, cause, behind))

    def probe(self, client: str, addresses: Sequence[Address]) -> bool:
        sessions = self._at.sessions.values()
        session = next((s for s in sessions if s.client == client and not s.ending), None)
        if session is None:
            return False
        probe = Probe(self._new_probe(self), tuple(addresses))
        self._at.tell(session, probe)
        return True

    def set_timer(self, name: str, delay_s: float) -> None:
        self._timers[name] = None
        self._at.work.command(SetTimer(f"module:{self.module.name}:{name}", delay_s))

    def cancel_timer(self, name: str) -> None:
        self._timers.pop(name, None)
        self._at.work.command(CancelTimer(f"module:{self.module.name}:{name}"))

    def decide(
        self,
        kind: str,
        subject: str,
        choice: str,
        *,
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
    ) -> str | None:
        cause = self.new_cause()
        self.record(kind, subject, choice, evidence, predicted, cause, acted=self.acting)
        return cause if self.acting else None

    def new_cause(self) -> str:
        """The id of the next decision."""
        self._decisions += 1
        return f"{self._name}/{self.module.name}/decision {self._decisions}"

    def record(
        self,
        kind: str,
        subject: str,
        choice: str,
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
        cause: str,
        *,
        acted: bool,
    ) -> None:
        name = self.module.name
        decision = Decision(name, kind, subject, choice, acted, evidence, predicted, cause)
        self._at.work.command(Record(decision))

    def propose(
        self,
        urgency: str,
        kind: str,
        subject: str,
        choice: str,
        *,
        subjects: Sequence[str],
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
    ) -> str | None:
        cause = self.new_cause()
        if not self.acting:
            self.record(kind, subject, choice, evidence, predicted, cause, acted=False)
            return None
        proposal = Proposal(self.module.name, urgency, kind, tuple(subjects), choice)
        by, why = self._objection_to(proposal, self)
        if why:
            evidence = {**evidence, "proposed": kind, "by": by, "why": why}
            self.record("refused", subject, choice, evidence, predicted, cause, acted=False)
            return None
        self._at.arbiter.grant(proposal, cause, self._at.work.now)
        self.record(kind, subject, choice, evidence, predicted, cause, acted=True)
        return cause

    def objection_to(self, urgency: str, kind: str, subjects: Sequence[str], choice: str) -> str:
        proposal = Proposal(self.module.name, urgency, kind, tuple(subjects), choice)
        _, why = self._objection_to(proposal, self)
        return why

    def expect(
        self,
        client: str,
        decision: str,
        predicted: Mapping[str, float],
        publishes_per_s: float = 0.0,
    ) -> None:
        now, module = self._at.work.now, self.module.name
        newcomer = Newcomer(module, now, decision, predicted, publishes_per_s)
        self._at.newcomers.expect(client, newcomer)

    def expected_per_s(self) -> float:
        return self._at.newcomers.expected_per_s(self._at.work.now)

    def since_moved_s(self, client: str) -> float | None:
        return self._at.newcomers.since_s(client, self._at.work.now)

    def awaits_outcome(self, client: str) -> bool:
        return self._at.newcomers.awaits_outcome(client, self.module.name)

    def outcome(self, client: str, measured: Mapping[str, float]) -> None:
        newcomer = self._at.newcomers.end_of_wait(client, self.module.name)
        if newcomer is not None:
            evidence = {"decision": newcomer.decision, "measured": measured}
            self.decide(
                "outcome", client, self.broker, evidence=evidence, predicted=newcomer.predicted
            )

    def redirect(self, client: str, address: Address, cause: str) -> None:
        if not self.acting:
            raise InvariantError(f"module {self.module.name} acts while {self.state.value}")
        if address in self._at.links and address != self.address_of(address):
            raise InvariantError(
                f"module {self.module.name} sends {client} to {address!r}, which is the name of a"
                f" broker; expected its address: around.address_of({address!r})"
            )
        if not self._at.arbiter.holds(self.module.name, client):
            raise InvariantError(
                f"module {self.module.name} moves {client}, which it was not granted; expected a"
                " proposal first"
            )
        self._at.redirect(client, address, cause)

    def rewire(self, mover: str, anchor: str, cause: str) -> str:
        if not self.acting:
            raise InvariantError(f"module {self.module.name} acts while {self.state.value}")
        link = link_between(self.broker, mover)
        lease = self._at.arbiter.leases.get(link)
        if lease is None or lease.module != self.module.name:
            raise InvariantError(
                f"module {self.module.name} moves the link {link}, which it was not granted; expected a"
                " proposal first"
            )
        return self._at.rewire(mover, anchor, cause, lease.urgency)

    def begin(self, now: float) -> None:
        self.module.started(self, now)

    def end(self, now: float) -> None:
        for name in list(self._timers):
            self.cancel_timer(name)
        self._at.router.forget(self.hop, f"module {self.module.name} is off")
        self._at.router.drop_covering_set()
        self._at.watches.forget(self.module.name)
        self.module.stopped(now)

    def fire(self, name: str, now: float) -> None:
        if self._timers.pop(name, "gone") != "gone":
            self.module.timer(name, now)

    @property
    def _name(self) -> str:
        """The broker in this life."""
        return self._at.identity.in_this_life

    @property
    def _cause(self) -> str:
        return f"module {self.module.name} of {self.broker}"

    def _id(self, name: str) -> str:
        return f"{self._name}/{self.module.name}/{name}"


def _subscriptions(hop: Hop) -> dict[str, Subscription]:
    found = {}
    for entry in hop.subscriptions.values():
        assert isinstance(entry.interest, Subscription)
        found[entry.id] = entry.interest
    return found


def _advertisements(hop: Hop) -> dict[str, Advertisement]:
    found = {}
    for entry in hop.advertisements.values():
        assert isinstance(entry.interest, Advertisement)
        found[entry.id] = entry.interest
    return found


>>>>>>> s27-overlay
class Modules:
    """All modules of a broker."""

    def __init__(self, premises: Premises, modules: Iterable[Module]) -> None:
        self._at = premises
        self._hosts = {
            module.name: ModuleHost(premises, module, self._probe_for, self._objection_to)
            for module in modules
        }
        self._awake: list[ModuleHost] = []
        self._reserved = frozenset(c for h in self._hosts.values() for c in h.module.reserved)
        self._initial = dict.fromkeys(self._hosts, ModuleState.ACTING)
        self._running = False
        self._probes: dict[int, ModuleHost] = {}  # who asked; the oldest is forgotten first
        self._probe_count = 0
        self.together = 0  # see `Module.hears_every`, of all of them
        self.listening = False  # whether any module is awake
        self.tracing = False  # ... and says what is traced
        self._wants_behind = False  # ... and is told what matches behind neighbours
        self._taps: list[Callable[..., None]] = []  # of those that want no `Visit`
        self._hearing: list[ModuleHost] = []  # the others

    @property
    def load(self) -> LoadIndices | None:
        """The last sample."""
        return self._at.load

    @property
    def reserved(self) -> Sequence[str]:
        """The classes that only modules may publish."""
        return sorted(self._reserved)

    def reserves(self, event: Event) -> bool:
        return bool(self._reserved) and event.attributes.get(CLASS) in self._reserved

    def start(self, now: float) -> None:
        """The broker runs: so do the modules, as far as they should."""
        self._running = True
        for name, state in self._initial.items():
            self.switch(name, state, now)

    def switch(self, name: str, state: ModuleState, now: float) -> None:
        """Turn a module off, to observing or to acting; before the start, say how it will begin."""
        if not self._running:
            self._initial[name] = state
            return
        host = self._hosts[name]
        before, host.state = host.state, state
        if before is ModuleState.OFF and state is not ModuleState.OFF:
            self._awake.append(host)
            self._count_awake()
            host.begin(now)
        elif state is ModuleState.OFF and before is not ModuleState.OFF:
            self._awake.remove(host)
            self._count_awake()
            host.end(now)

    def _count_awake(self) -> None:
        self.listening = bool(self._awake)
        self.tracing = any(host.module.traces for host in self._awake)
        self._wants_behind = any(host.module.wants_behind for host in self._awake)
        self.together = gcd(*(host.module.hears_every for host in self._awake))
        self._taps = [host.module.tap for host in self._awake if host.module.tap is not None]
        self._hearing = [host for host in self._awake if host.module.tap is None]
        self.__dict__.pop("routed", None)
        if len(self._taps) == 1 and not self._hearing:
            # Who is off watches nothing: what is routed concerns nobody else.
            self.routed = self._taps[0]  # type: ignore[method-assign]

    def state(self, name: str) -> ModuleState:
        return self._hosts[name].state

    def routed(
        self,
        source: Hop,
        publication: Publication,
        hops: int,
        neighbours: Iterable[Hop],
        local: Iterable[Hop],
        now: float,
    ) -> None:
        for tap in self._taps:
            tap(source, publication, hops, neighbours, local, now)
        event = publication.event
        if self._hearing:
            self._tell_of(source, publication, hops, neighbours, local, now)
        if self._at.watches:
            for name, names in self._at.watches.match(event).items():
                self._hosts[name].module.heard(publication, names, now)

    def _tell_of(
        self,
        source: Hop,
        publication: Publication,
        hops: int,
        neighbours: Iterable[Hop],
        local: Iterable[Hop],
        now: float,
    ) -> None:
        visit = self._visit(source, publication, hops, neighbours, local)
        for host in self._hearing:
            host.module.routed(visit, now)

    def _visit(
        self,
        source: Hop,
        publication: Publication,
        hops: int,
        neighbours: Iterable[Hop],
        local: Iterable[Hop],
    ) -> Visit:
        return Visit(
            publication=publication,
            hops=hops,
            source=source.client if isinstance(source, Session) else source.name,
            from_client=source.is_session,
            neighbours=[hop.name for hop in neighbours],
            matches={h.client: h.matched for h in local if isinstance(h, Session)},
            behind=(
                self._at.router.behind(publication.event, source) if self._wants_behind else {}
            ),
        )

    def passed(self, passage: Passage, now: float) -> None:
        """The same of many that were routed together (see `roost.chunks`)."""
        for host in self._awake:
            tap = host.module.tap
            if tap is None:
                host.module.routed_many(passage, self._visits(passage), now)
            elif host.module.tap_many is not None:
                host.module.tap_many(passage)
            else:
                for event, (publication, links, local) in enumerate(_each(passage)):
                    tap(passage.source, publication, int(passage.hops[event]), links, local, now)
        if self._at.watches:
            for event in range(len(passage)):
                publication = passage.publication(event)
                for name, names in self._at.watches.match(publication.event).items():
                    self._hosts[name].module.heard(publication, names, now)

    def _visits(self, passage: Passage) -> Iterator[Visit]:
        for event, (publication, links, local) in enumerate(_each(passage)):
            yield self._visit(passage.source, publication, int(passage.hops[event]), links, local)

    def traced(self, publication: Publication, now: float) -> Publication:
        """As it is to be routed: marked, if a module wants to know where it is delivered."""
        if any(host.module.is_traced(publication, now) for host in self._awake):
            return replace(publication, traced=True, encoded=b"")
        return publication

    def told(self, link: Hop, note: Note, now: float) -> None:
        """A note, which nobody reads if the module is not awake here."""
        host = self._hosts.get(note.module)
        if host is not None and host.state is not ModuleState.OFF:
            host.module.told(link.name, note.body, now)

    def _probe_for(self, host: ModuleHost) -> int:
        """The number of a question to a client."""
        if len(self._probes) >= PROBES_MAX:
            del self._probes[next(iter(self._probes))]
        self._probe_count += 1
        self._probes[self._probe_count] = host
        return self._probe_count

    def probed(self, session: Session, answer: Probed, now: float) -> None:
        host = self._probes.pop(answer.id, None)
        if host is not None and host.state is not ModuleState.OFF:
            times = dict(zip(answer.brokers, answer.round_trips_s, strict=False))
            host.module.probed(session.client, times, now)

    def heard(self, hop: Inside, publication: Publication, ids: Sequence[str], now: float) -> None:
        names = [id_.rpartition("/")[2] for id_ in ids]
        self._hosts[hop.name].module.heard(publication, names, now)

    def timer(self, name: str, now: float) -> None:
        module, _, timer = name.partition(":")
        self._hosts[module].fire(timer, now)

    def sampled(self, load: LoadIndices, now: float) -> None:
        self._at.load = load
        for host in self._awake:
            host.module.sampled(load, now)

    def place(self, client: str, now: float) -> Address | None:
        places = (h.module.place(client, now) for h in self._awake if h.acting)
        return next((place for place in places if place is not None), None)

    def asked(self, event: Asked) -> None:
        """An operator wants something of those who are awake."""
        answers: dict[str, Mapping[str, Any]] = {}
        objections: dict[str, str] = {}
        for host in self._awake:
            name = host.module.name
            if event.module and event.module != name:
                continue
            try:
                answer = host.module.asked(event.request, event.arguments, self._at.work.now)
            except UserError as error:
                objections[name] = str(error)
                continue
            if answer is not None:
                answers[name] = answer
        self._at.work.command(Answered(event.id, answers, objections))

    # --- who may act (see `arbiter`) ------------------------------------------------------------------

    def _objection_to(self, proposal: Proposal, proposer: ModuleHost) -> tuple[str, str]:
        """Who objects, and why; two empty words if nobody does."""
        now, arbiter = self._at.work.now, self._at.arbiter
        self._abandon_what_is_late()
        why = arbiter.objection_to(proposal, now)
        if why:
            return "arbiter", why
        for host in self._awake:
            if host is not proposer and (why := host.module.objection_to(proposal, now)):
                return host.module.name, why
        return "", ""

    def _abandon_what_is_late(self) -> None:
        for subject, lease in self._at.arbiter.expired(self._at.work.now):
            self._end_of(subject, lease, "abandoned")

    def _end_of(self, subject: str, lease: Lease, how: str, why: str = "") -> None:
        """What has become of a decision is recorded by whoever made it."""
        host = self._hosts[lease.module]
        took_s = self._at.work.now - lease.since
        evidence = {"decision": lease.cause, "took_s": took_s, **({"why": why} if why else {})}
        host.record(how, subject, lease.choice, evidence, {}, host.new_cause(), acted=True)

    def first_advertised(self, client: str) -> None:
        """It had no advertisement here so far."""
        now = self._at.work.now
        if not self._at.arbiter.is_arriving(client, now):
            for host in self._awake:
                host.module.first_advertised(client, now)

    def first_subscribed(self, client: str) -> None:
        """It had no subscription here so far."""
        now = self._at.work.now
        if not self._at.arbiter.is_arriving(client, now):
            for host in self._awake:
                host.module.first_subscribed(client, now)

    def left(self, session: Session) -> None:
        """A client is not here any more: this was its last session."""
        client, now = session.client, self._at.work.now
        lease = self._at.arbiter.over(client, now)
        if lease is not None:
            self._end_of(client, lease, "carried out")
        for host in self._awake:
            if session.departure == "moved":
                host.module.moved(client, now)
            elif session.departure == "given up":
                host.module.given_up(client, now)
            host.module.left(client, now)

    def arriving(self, client: str) -> None:
        """A client is being moved here."""
        self._at.arbiter.arriving(client, self._at.work.now)

    def arrived(self, client: str) -> None:
        """It is here; or still here, if it was to leave."""
        lease = self._at.arbiter.over(client, self._at.work.now)
        if lease is not None:
            self._end_of(client, lease, "abandoned")
            return
        self._at.arbiter.arrived(client, self._at.work.now)
        for host in self._awake:
            host.module.arrived(client, self._at.work.now)

    def rewired(self, mover: str, anchor: str, objection: str) -> None:
        """A link of this broker has moved, or will not."""
        now, link = self._at.work.now, link_between(self._at.identity.name, mover)
        lease = self._at.arbiter.over(link, now)
        if lease is not None:
            self._end_of(link, lease, "abandoned" if objection else "carried out", objection)
        for host in self._awake:
            host.module.rewired(mover, anchor, objection, now)

    def neighbours_changed(self, now: float) -> None:
        for host in self._awake:
            host.module.neighbours_changed(now)


def _each(passage: Passage) -> Iterator[tuple[Publication, Sequence[Hop], Sequence[Hop]]]:
    """Publication, links and local hops of each, which say what they matched until the next one."""
    for event in range(len(passage)):
        links, local, matched = passage.way_of(event)
        for hop, ids in zip(local, matched, strict=True):
            hop.matched = ids
        yield passage.publication(event), links, local
