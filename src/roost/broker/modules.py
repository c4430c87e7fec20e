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
from roost.broker.module import Module, ModuleState, Passage, Visit, Way
from roost.broker.module_host import CLASS, ModuleHost, Premises
from roost.broker.names import Address
from roost.errors import UserError
from roost.language import Event

# Questions to clients whose answers are waited for.
PROBES_MAX = 1_000


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
        self._taps = [host.module.tap for host in self._awake if host.module.tap is not None]
        self._hearing = [host for host in self._awake if host.module.tap is None]
        self.__dict__.pop("routed", None)
        if len(self._taps) == 1 and not self._hearing:
            # Who is off watches nothing: what is routed concerns nobody else.
            self.routed = self._taps[0]  # type: ignore[method-assign]

    def together(self, source: Hop, now: float) -> int | None:
        """How many publications from there may pass before all have heard of them; None: any, unheard."""
        wanted = (host.module.hears_every(source, now) for host in self._awake)
        numbers = [number for number in wanted if number is not None]
        if numbers:
            return gcd(*numbers)
        return 0 if self._at.watches else None

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
                for publication, way in _each(passage):
                    tap(passage.source, publication, way.hops, way.links, way.local, now)
        if self._at.watches:
            for event in range(len(passage)):
                publication = passage.publication(event)
                for name, names in self._at.watches.match(publication.event).items():
                    self._hosts[name].module.heard(publication, names, now)

    def _visits(self, passage: Passage) -> Iterator[Visit]:
        for publication, way in _each(passage):
            yield self._visit(passage.source, publication, way.hops, way.links, way.local)

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


def _each(passage: Passage) -> Iterator[tuple[Publication, Way]]:
    """Each, and its way, whose local hops say what they matched until the next one."""
    for event, number in enumerate(passage.way.tolist()):
        way = passage.ways[number]
        for hop, ids in zip(way.local, way.matched, strict=True):
            hop.matched = ids
        yield passage.publication(event), way
