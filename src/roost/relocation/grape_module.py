"""GRAPE on-line: a broker that traces the publishers here, decides for each, and moves it (000 section 4).

    every broker      notes what it delivers of each publisher (`sessions`)
    a session ends    at the publisher's broker, which collects what all others noted (`collecting`)
    round trips       the publisher's client is asked for those to the candidates (`broker.probing`), unless
                      the goal does not look at delays
    the decision      `grape.choose_broker`, and whether it pays (`worth`); recorded, with the evidence
    the move          the client is redirected, and the rest is its own (`broker.moving`)
    the outcome       the new broker has heard what was predicted, and records what its first whole session
                      there has measured

A publisher that is at the best place, or just beside it, is decided for again after each session; that it
stays is a decision, too. With `subscribers` on, groups of subscribers are decided for from the same
statistics (`groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from roost.broker.module import Module, Passage, Surroundings, Visit
from roost.optimising.goal import Goal
from roost.optimising.room import UTILISATION_MAX
from roost.optimising.worth import Terms, Verdict
from roost.relocation.announcing import announce
from roost.relocation.choosing import Choice, worth
from roost.relocation.collecting import Collecting, Collection
from roost.relocation.grape import choose_broker
from roost.relocation.groups import Group, Groups
from roost.relocation.history import (
    Histories,
    History,
    Past,
    choose_remembering,
    newest_answers,
)
from roost.relocation.link_times import LinkTimes
from roost.relocation.notes import (
    Arriving,
    LinkPing,
    LinkPong,
    SessionAnswer,
    SessionRequest,
    TraceInformationAnswer,
    TraceInformationRequest,
    read_note,
)
from roost.relocation.sessions import TraceSession, TraceSessions
from roost.relocation.statistics import Answer, Trace
from roost.relocation.subscribers import choose_broker_for_group
from roost.relocation.tree import BadAnswersError, path_between

if TYPE_CHECKING:
    from roost.broker.events import LoadIndices
    from roost.broker.hops import Hop

# Publications that come all at once have been published within this.
SHORTEST_S = 1e-3
ROUND_TRIPS = "round trips "


class GrapeConfig(Struct, frozen=True, kw_only=True):
    """What GRAPE is to do. The same in the whole federation."""

    goal: Goal = Goal()
    session: int = 100  # publications that are traced before a decision: G_threshold
    # How long a publisher is left alone between two sessions. The paper's publishers are slow, and never are.
    session_rest_s: float = 0.0
    memory: int = 6  # sessions that a decision is made from; with 1 it is the paper's
    terms: Terms = Terms()
    # A collection may take so long: where brokers are overloaded, it waits in all queues.
    collection_s: float = 120.0
    # A client that is asked for round trips, or the brokers of a group's publishers, may take so long.
    timeout_s: float = 10.0
    # How often links are measured.
    link_period_s: float = 300.0
    # Whether clients are asked how far they are from the candidates.
    round_trips: bool = True
    # A broker that would be busier than this has no room.
    utilisation_max: float = UTILISATION_MAX
    # Whether subscribers move, too; how often a broker decides for a group.
    subscribers: bool = False
    group_period_s: float = 60.0

    @property
    def needs_round_trips(self) -> bool:
        """They are part of the delay, which `load100` looks at only where loads are equal."""
        return self.round_trips and self.goal != Goal("load", 100.0)


class Case(Struct, frozen=True):
    """A publisher that is to be decided for."""

    trace: Trace  # of the newest session
    history: History
    asked_at: float

    def brokers(self) -> list[Answer]:
        """All that may be candidates."""
        return list(newest_answers(self.history).values())


class Grape(Module):
    """GRAPE in one broker."""

    name = "grape"
    trees_only = True
    Config = GrapeConfig

    def __init__(self, config: GrapeConfig | None = None) -> None:
        self.config = config or GrapeConfig()
        self._around: Surroundings

    def started(self, around: Surroundings, now: float) -> None:
        config = self.config
        self._around = around
        self._links = LinkTimes(around, config.link_period_s)
        self._sessions = TraceSessions(
            config.session, by_client=config.subscribers, rest_s=config.session_rest_s
        )
        self._groups: Groups | None = None
        if config.subscribers:
            period_s, timeout_s = config.group_period_s, config.timeout_s
            self._groups = Groups(around, period_s, timeout_s, self._group_is_ready)
        self._collecting = Collecting(
            around,
            self._links,
            config.session,
            config.collection_s,
            self._collected,
            self.measures,
        )
        # Clients that are asked for round trips, for themselves or for their group.
        self._undecided: dict[str, Case | Group] = {}
        self._histories = Histories(config.session, config.memory)
        self._now = now
        self._links.ask(now)

    def neighbours_changed(self, now: float) -> None:
        self._links.ask(now)

    def sampled(self, load: LoadIndices, now: float) -> None:  # noqa: ARG002
        self._links.ask(now)

    # --- phase 1: tracing ---------------------------------------------------------------------------

    def hears_every(self, source: Hop, now: float) -> int | None:
        # The request for a session goes behind its last publication, and ahead of the next.
        if source.is_session:
            return self.config.session if self._sessions.may_end(source, now) else None
        return 0

    def routed(self, visit: Visit, now: float) -> None:
        self._now = now
        over = self._sessions.visited(visit, now)
        if over is not None:
            self._over(visit.publication.publisher, over)

    def routed_many(self, passage: Passage, visits: Iterable[Visit], now: float) -> None:  # noqa: ARG002
        self._now = now
        for publisher, over in self._sessions.passed(passage, now):
            self._over(publisher, over)

    def _over(self, publisher: str, session: TraceSession) -> None:
        if self._groups is not None:
            self._groups.over(publisher, session)
        self._collecting.begin(publisher, session, self._now)

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        self._now = now
        match read_note(neighbour, body):
            case TraceInformationRequest() as request:
                session = self._sessions.take(request.publisher, request.first)
                if self._groups is not None and session is not None:
                    self._groups.over(request.publisher, session)
                self._collecting.asked(neighbour, request, session, now)
            case TraceInformationAnswer() as answer:
                self._collecting.answered(neighbour, answer)
            case LinkPing() as ping:
                self._links.asked(neighbour, ping)
            case LinkPong() as pong:
                self._links.answered(neighbour, pong, now)
            case Arriving() as arriving:
                if arriving.history and not arriving.path:
                    self._histories.put(arriving.client, arriving.history)
                announce(arriving, self._around)
            case SessionRequest() as question if self._groups is not None:
                self._groups.asked(neighbour, question)
            case SessionAnswer() as told if self._groups is not None:
                self._groups.answered(told)

    def timer(self, name: str, now: float) -> None:
        self._now = now
        if name.startswith(ROUND_TRIPS):
            # The client does not answer: it may be about to leave.
            self._undecided.pop(name.removeprefix(ROUND_TRIPS), None)
        elif not self._collecting.timed_out(name) and self._groups is not None:
            self._groups.timer(name, now)

    # --- phase 2: the decision ----------------------------------------------------------------------

    def _collected(self, publisher: str, collection: Collection) -> None:
        """All statistics of a session of a publisher here."""
        if collection.objection:
            self._no_decision(publisher, collection.objection)
            return
        here, first, trace = self._around.broker, collection.session.first, self._trace(collection)
        newest = tuple(collection.answers)
        if self._groups is not None:
            whole = SessionAnswer(publisher, first, here, trace, newest, ())
            self._groups.collected(publisher, whole)
        history = self._histories.add(publisher, Past(first, newest))
        case = Case(trace, history, collection.asked_at)
        if not self._asks(publisher, case.brokers(), case):
            self._decide(publisher, case, None)

    def _group_is_ready(self, group: Group) -> None:
        """All statistics of the publishers of a group here."""
        if not self._asks(group.members[0], group.brokers(), group):
            self._decide_group(group, None)

    def _asks(self, client: str, answers: Sequence[Answer], about: Case | Group) -> bool:
        """Whether round trips count, and are being measured."""
        addresses = [answer.address for answer in answers]
        asks = (
            self.config.needs_round_trips
            and len(addresses) > 1
            and self._around.probe(client, addresses)
        )
        if asks:
            self._undecided[client] = about
            self._around.set_timer(ROUND_TRIPS + client, self.config.timeout_s)
        return asks

    def probed(self, client: str, round_trips_s: Mapping[str, float], now: float) -> None:
        self._now = now
        about = self._undecided.pop(client, None)
        if about is None:
            return
        self._around.cancel_timer(ROUND_TRIPS + client)
        for address, seconds in round_trips_s.items():
            self.measures(now, "round trip", client, seconds, other=address)
        times = {
            answer.broker: round_trips_s[answer.address]
            for answer in about.brokers()
            if answer.address in round_trips_s
        }
        if isinstance(about, Group):
            self._decide_group(about, times)
        else:
            self._decide(client, about, times)

    def _trace(self, collection: Collection) -> Trace:
        session, count = collection.session, self.config.session
        return Trace(count, (count - 1) / max(session.last - session.began, SHORTEST_S))

    def _decide(self, publisher: str, case: Case, times: Mapping[str, float] | None) -> None:
        here, goal, trace = self._around.broker, self.config.goal, case.trace
        newest, full = case.history[0], self.config.utilisation_max
        try:
            if self._around.awaits_outcome(publisher):
                self._measured(publisher, choose_broker(newest.answers, here, trace, goal, times))
            choice, answers, sessions = choose_remembering(
                case.history, here, trace, goal, times, full
            )
        except BadAnswersError as bad:
            self._no_decision(publisher, str(bad))
            return
        about = {
            "session": newest.first,
            "sessions": sessions,
            "rate_per_s": trace.rate_per_s,
            "took_s": self._now - case.asked_at,
        }
        self._carry_out(publisher, (publisher,), choice, answers, about, trace.rate_per_s)

    def _decide_group(self, group: Group, times: Mapping[str, float] | None) -> None:
        here, config, answers = self._around.broker, self.config, group.brokers()
        try:
            choice = choose_broker_for_group(
                answers, here, group.sources(here), config.goal, times, config.utilisation_max
            )
        except BadAnswersError as bad:
            self._no_decision(group.name, str(bad))
            return
        about = {
            "publishers": sorted(group.answers),
            "members": group.members,
            "took_s": self._now - group.asked_at,
        }
        for member in group.members:
            self._measured(member, choice)
        self._carry_out(group.name, group.members, choice, answers, about)

    def _measured(self, client: str, choice: Choice) -> None:
        """What it is like where the client is, by its newest session."""
        present = choice.present
        measured = {"delay_s": present.delay_s, "load_per_s": present.load_per_s}
        self._around.outcome(client, measured)

    def _no_decision(self, subject: str, why: str) -> None:
        self._around.decide("no decision", subject, "stay", evidence={"why": why}, predicted={})

    # --- phase 3: the move --------------------------------------------------------------------------

    def _carry_out(
        self,
        subject: str,
        clients: Sequence[str],
        choice: Choice,
        answers: Sequence[Answer],
        about: Mapping[str, object],
        publishes_per_s: float = 0.0,
    ) -> None:
        """Record the decision, and if it pays have the clients move."""
        around, target = self._around, choice.chosen.broker
        times = [around.since_moved_s(client) for client in clients]
        since_s = min((seconds for seconds in times if seconds is not None), default=None)
        path = path_between(answers, around.broker, target)
        verdict = worth(choice, len(path), since_s, self.config.terms)
        evidence = {**evidence_of(choice, verdict), **about, "path": path}
        predicted = {"delay_s": choice.chosen.delay_s, "load_per_s": choice.chosen.load_per_s}
        if not verdict.pays:
            around.decide("stay", subject, around.broker, evidence=evidence, predicted=predicted)
            return
        cause = around.propose(
            "relocation",
            "move",
            subject,
            target,
            subjects=clients,
            evidence=evidence,
            predicted=predicted,
        )
        if cause is not None:
            address = next(answer.address for answer in answers if answer.broker == target)
            for client in clients:
                history = self._histories.take(client)
                arriving = Arriving(client, path[1:], cause, predicted, history, publishes_per_s)
                announce(arriving, around)
                around.redirect(client, address, cause)


def evidence_of(choice: Choice, verdict: Verdict) -> dict[str, Any]:
    """What a decision was made from, for its record."""
    return {
        "goal": f"{choice.goal.priority}{choice.goal.weight:g}",
        "present": msgspec.to_builtins(choice.present),
        "chosen": msgspec.to_builtins(choice.chosen),
        "candidates": choice.candidates,
        "others": msgspec.to_builtins(choice.evidence),
        "worth": msgspec.to_builtins(verdict),
    }
