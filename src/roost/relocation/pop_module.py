"""POP on-line: broker by broker towards the most subscribers (000 section 3).

    tracing     the publisher's broker marks some of its publications; wherever one is delivered, the number
                of subscribers goes back (TRM), added up on the way, into the profile tables of all brokers
    asking      with enough traces, and none on the way, a request (RRM) goes from broker to broker to where
                the most subscribers are (`pop.next_step`); the last one answers (RAM)
    moving      the client is redirected there, and the rest is its own (`broker.moving`)

Besides the subscribers, a result counts the links between them and the broker that it speaks of. So a move
has a prediction (links that publications have to pass less, over all subscribers), a price, and an outcome.
It has to pay as in GRAPE (`worth`), in messages: a subscriber's link is one at most.

A broker forgets the profile of a publisher whose publications come from another side than before: it has
moved (section 3.3), and what is downstream is so no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from roost.broker.messages import Publication
from roost.broker.module import Module, Surroundings, Visit
from roost.optimising.worth import Terms, worth_of_messages
from roost.relocation import pop
from roost.relocation.announcing import announce
from roost.relocation.notes import (
    Arriving,
    RelocationAnswer,
    RelocationRequest,
    TraceResult,
    body_of,
    read_note,
)
from roost.relocation.pop import Answered, Forward, Profile, Request, TraceWindow, next_step

# Publishers of which something is remembered; the one that came first is forgotten first.
PUBLISHERS_MAX = 10_000
SWEEP = "sweep"


class PopConfig(Struct, frozen=True, kw_only=True):
    """What POP is to do. The same in the whole federation."""

    traced_max: int = pop.TRACED_MAX  # N
    window_s: float = pop.WINDOW_S  # W
    traces: int = pop.TRACES_NEEDED  # P_threshold
    newest: float = pop.NEWEST_WEIGHT
    terms: Terms = Terms()
    # A trace that has no result after so long is given up, and so is a request.
    timeout_s: float = 10.0
    seed: int = 0  # of what is traced


class AwaitedResults(Struct):
    """A traced publication whose results are on the way."""

    since: float
    upstream: str | None  # None: the publisher is here
    local: int
    waiting: dict[str, None]
    downstream: dict[str, int] = field(default_factory=dict)
    hops: int = 0


class KnownPublisher(Struct):
    """What a broker knows of a publisher."""

    upstream: str | None
    profile: Profile = Profile()
    hops: float = 0.0  # average of links to subscribers, over all of them
    pending: dict[int, AwaitedResults] = field(default_factory=dict)  # by sequence
    # Only where it is a client.
    window: TraceWindow | None = None
    asked_at: float | None = None  # a request is on the way
    decided: int = 0  # traces of the profile when it was decided for
    seen: int = 0  # publications, since the first ...
    since: float = 0.0  # ... at this time


class Pop(Module):
    """POP in one broker."""

    name = "pop"
    trees_only = True
    traces = True
    Config = PopConfig

    def __init__(self, config: PopConfig | None = None) -> None:
        self.config = config or PopConfig()
        self._around: Surroundings

    def started(self, around: Surroundings, now: float) -> None:
        self._around = around
        self._publishers: dict[str, KnownPublisher] = {}
        self._now = now
        self._is_sweeping = False

    # --- phase 1: tracing ---------------------------------------------------------------------------

    def is_traced(self, publication: Publication, now: float) -> bool:
        config, known = self.config, self._publisher(publication.publisher, None)
        if not known.seen:
            known.since = now
        known.seen += 1
        window = (known.window or TraceWindow(now)).at(now, config.window_s)
        traced = self._draw(publication) < window.probability(config.traced_max)
        known.window = window.with_traced() if traced else window
        return traced

    def _draw(self, publication: Publication) -> float:
        """A number in [0, 1) that only depends on the publication and the seed."""
        text = f"{self.config.seed}/{publication.id}".encode()
        return int.from_bytes(blake2b(text, digest_size=7).digest()) / 2**56

    def _publisher(self, name: str, upstream: str | None) -> KnownPublisher:
        known = self._publishers.get(name)
        if known is None or known.upstream != upstream:
            self._publishers.pop(name, None)
            if len(self._publishers) >= PUBLISHERS_MAX:
                del self._publishers[next(iter(self._publishers))]
            known = self._publishers[name] = KnownPublisher(upstream)
        return known

    def routed(self, visit: Visit, now: float) -> None:
        publication = visit.publication
        if not publication.traced:
            return
        self._now = now
        upstream = None if visit.from_client else visit.source
        known = self._publisher(publication.publisher, upstream)
        pending = AwaitedResults(now, upstream, len(visit.matches), dict.fromkeys(visit.neighbours))
        known.pending[publication.sequence] = pending
        self._sweep_later()
        if not pending.waiting:
            self._traced(publication.publisher, known, publication.sequence)

    def _result(self, neighbour: str, result: TraceResult) -> None:
        known = self._publishers.get(result.publisher)
        pending = known.pending.get(result.sequence) if known is not None else None
        if known is None or pending is None or neighbour not in pending.waiting:
            return  # it comes too late
        del pending.waiting[neighbour]
        pending.downstream[neighbour] = result.subscribers
        pending.hops += result.hops + result.subscribers
        if not pending.waiting:
            self._traced(result.publisher, known, result.sequence)

    def _traced(self, publisher: str, known: KnownPublisher, sequence: int) -> None:
        """All results of a publication are here."""
        pending = known.pending.pop(sequence)
        newest = self.config.newest
        weight = newest if known.profile.traces else 1.0
        known.profile = known.profile.with_trace(pending.local, pending.downstream, newest)
        known.hops += weight * (pending.hops - known.hops)
        if pending.upstream is None:
            self._consider(publisher, known)
            return
        subscribers = pending.local + sum(pending.downstream.values())
        result = TraceResult(publisher, sequence, subscribers, pending.hops)
        self._around.tell(pending.upstream, body_of(result), f"TRM of {publisher}:{sequence}")

    # --- phase 2: asking ----------------------------------------------------------------------------

    def _consider(self, publisher: str, known: KnownPublisher) -> None:
        """Whether it is time to look for a better place."""
        waits = known.asked_at is not None
        needed = known.decided + self.config.traces
        if waits or not pop.is_due(known.profile, len(known.pending), needed):
            return
        known.asked_at = self._now
        self._around.outcome(publisher, {"subscriber_links": known.hops})
        self._step(Request(publisher), known.profile)

    def _step(self, request: Request, profile: Profile) -> None:
        step = next_step(request, self._around.broker, profile)
        if isinstance(step, Forward):
            note = RelocationRequest(step.request)
            self._around.tell(step.neighbour, body_of(note), f"RRM of {request.publisher}")
        elif isinstance(step, Answered):
            answer = msgspec.structs.replace(request, path=step.path)
            self._answer(RelocationAnswer(answer, self._around.address, request.path))
        else:
            self._decide_to_stay(request, "more subscribers are behind no link than elsewhere")

    def _answer(self, answer: RelocationAnswer) -> None:
        """On its way back, or here."""
        if answer.back:
            onward = msgspec.structs.replace(answer, back=answer.back[1:])
            self._around.tell(answer.back[0], body_of(onward), f"RAM of {onward.request.publisher}")
        else:
            self._decide(answer)

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        self._now = now
        match read_note(neighbour, body):
            case TraceResult() as result:
                self._result(neighbour, result)
            case RelocationRequest(request):
                known = self._publishers.get(request.publisher)
                self._step(request, Profile() if known is None else known.profile)
            case RelocationAnswer() as answer:
                self._answer(answer)
            case Arriving() as arriving:
                announce(arriving, self._around)

    # --- phase 3: moving ----------------------------------------------------------------------------

    def _decide(self, answer: RelocationAnswer) -> None:
        request = answer.request
        known = self._publishers.get(request.publisher)
        if known is None or known.asked_at is None:
            return  # it is not here any more, or the answer comes too late
        target, path = request.path[0], request.path
        rate_per_s = known.seen / max(self._now - known.since, 1.0)
        verdict = worth_of_messages(
            known.hops * rate_per_s,
            (known.hops - request.saving) * rate_per_s,
            len(path),
            self._around.since_moved_s(request.publisher),
            self.config.terms,
        )
        if not verdict.pays:
            self._decide_to_stay(request, verdict.reason)
            return
        predicted = {"subscriber_links": max(0.0, known.hops - request.saving)}
        evidence = {
            **self._evidence(known),
            "path": path[::-1],
            "saving": request.saving,
            "worth": msgspec.to_builtins(verdict),
        }
        cause = self._around.propose(
            "relocation",
            "move",
            request.publisher,
            target,
            subjects=(request.publisher,),
            evidence=evidence,
            predicted=predicted,
        )
        self._begin_anew(known)
        if cause is not None:
            arriving = Arriving(request.publisher, path[-2::-1], cause, predicted)
            announce(arriving, self._around)
            self._around.redirect(request.publisher, answer.address, cause)

    def _decide_to_stay(self, request: Request, why: str) -> None:
        known = self._publishers[request.publisher]
        self._around.decide(
            "stay",
            request.publisher,
            self._around.broker,
            evidence={**self._evidence(known), "why": why},
            predicted={"subscriber_links": known.hops},
        )
        self._begin_anew(known)

    def _evidence(self, known: KnownPublisher) -> dict[str, object]:
        """The entry of the profile table."""
        profile = known.profile
        table: Mapping[str, float] = profile.downstream
        took_s = self._now - (known.asked_at or self._now)
        return {
            "local": profile.local,
            "downstream": dict(table),
            "traces": profile.traces - known.decided,
            "took_s": took_s,
        }

    def _begin_anew(self, known: KnownPublisher) -> None:
        """So many traces again, before the next request; what they told so far is not forgotten."""
        known.asked_at = None
        known.decided = known.profile.traces

    # --- what takes too long ------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        if not self._is_sweeping:
            self._is_sweeping = True
            self._around.set_timer(SWEEP, self.config.timeout_s)

    def timer(self, name: str, now: float) -> None:  # noqa: ARG002
        self._now = now
        self._is_sweeping = False
        too_old = now - self.config.timeout_s
        busy = False
        for known in self._publishers.values():
            late = [n for n, pending in known.pending.items() if pending.since <= too_old]
            for sequence in late:
                del known.pending[sequence]
            if known.asked_at is not None and known.asked_at <= too_old:
                known.asked_at = None
            busy = busy or bool(known.pending) or known.asked_at is not None
        if busy:
            self._sweep_later()
