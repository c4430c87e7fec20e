"""What a rewiring has saved, measured where it shows: at the anchor.

Before it, the middle counted the messages that passed its links to mover and anchor, and how often they
did. Afterwards the same messages pass the anchor's links to middle and mover, and no others do: whatever
goes from one of the three brokers to another has to. So over as many of them the anchor counts again, and the
difference has been saved, as far as traffic was the same. The anchor records it, and tells the middle.

If one of the two links moves on before that, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from roost.broker.arbiter import link_between
from roost.broker.module import Surroundings, Visit
from roost.overlay.organising.notes import Found, Rewarded, body_of


class Watched(Struct):
    """A rewiring whose outcome is being measured here."""

    middle: str
    promise: Rewarded
    since: float
    messages: int = 0
    crossings: int = 0

    @property
    def pair(self) -> tuple[str, str]:
        return self.middle, self.promise.mover


class Outcomes:
    """Those that a broker has been the anchor of, lately."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._watched: list[Watched] = []

    def watch(self, middle: str, promise: Rewarded, now: float) -> None:
        """A neighbour says that it has given us another one."""
        self._watched.append(Watched(middle, promise, now))
        self.neighbours_are(self._around.neighbours)

    def passed(self, visit: Visit, now: float) -> None:
        """A publication has been routed."""
        if not self._watched:
            return
        source = "" if visit.from_client else visit.source
        for watched in self._watched:
            times = (source in watched.pair) + sum(
                name in watched.pair for name in visit.neighbours
            )
            watched.crossings += times
            watched.messages += times > 0
        over = [w for w in self._watched if w.messages >= w.promise.messages]
        if over:
            self._watched = [w for w in self._watched if w not in over]
            for watched in over:
                self._record(watched, now)

    def neighbours_are(self, neighbours: Collection[str]) -> None:
        """Of those whose links are not there any more nothing is known."""
        there = set(neighbours)
        for watched in [w for w in self._watched if not there.issuperset(w.pair)]:
            self._watched.remove(watched)
            gone = sorted({*watched.pair} - there)
            evidence = {
                "decision": watched.promise.decision,
                "why": f"{' and '.join(gone)} moved on after {watched.messages} messages"
                f" of {watched.promise.messages}",
            }
            self._decide("no outcome", watched, evidence)

    def _record(self, watched: Watched, now: float) -> None:
        promise = watched.promise
        measured = {
            "saves": float(promise.crossings - watched.crossings),
            "load_per_s": watched.crossings / max(now - watched.since, 1e-9),
        }
        evidence = {
            "decision": promise.decision,
            "measured": measured,
            "messages": watched.messages,
            "crossings": [promise.crossings, watched.crossings],
        }
        self._decide("outcome", watched, evidence)
        found = Found(promise.saves, measured["saves"])
        self._around.tell(watched.middle, body_of(found), promise.decision)

    def _decide(self, kind: str, watched: Watched, evidence: Mapping[str, object]) -> None:
        around, promise = self._around, watched.promise
        around.decide(
            kind,
            link_between(watched.middle, promise.mover),
            around.broker,
            evidence=evidence,
            predicted={"saves": promise.saves, "load_per_s": promise.load_per_s},
        )
