"""What one module sees of the broker that it lives in, and may do there: see `module` for the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from roost.broker.arbiter import Arbiter, Proposal, link_between
from roost.broker.commands import CancelTimer, Decision, Record, SetTimer
from roost.broker.errors import InvariantError
from roost.broker.events import LoadIndices
from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.identity import Identity
from roost.broker.messages import CONTROL, Message, Note, Probe, Publication
from roost.broker.module import Module, ModuleState
from roost.broker.names import Address
from roost.broker.newcomers import Newcomer, Newcomers
from roost.broker.router import Flooding
from roost.broker.watches import Watches
from roost.broker.work import Work
from roost.language import Advertisement, Event, Subscription, Value

# The attribute whose values are reserved.
CLASS = "class"


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
