"""Events that a dispatcher has accepted and that are not on their way yet.

Each is held until a matcher has said what it matches. Events of one publisher are matched on different
matchers, with different queues, so that answers come in any order: they are let go in the publisher's.
Whoever is asked may be lost, or can't say: then another candidate is, and all again after a while when none
is left.

    waiting   nobody is asked: there was nobody to ask, or all that there were could not say
    asked     one matcher is
    found     the answer is there, and an event before it is still held
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from roost.broker.hops import Session
from roost.broker.messages import Publication
from roost.partition.dimensions import Point
from roost.partition.segments import Option


class Held:
    """An event."""

    __slots__ = (
        "asked",
        "at",
        "found",
        "heard",
        "number",
        "point",
        "publication",
        "request",
        "source",
        "tried",
    )

    def __init__(
        self, number: int, at: float, publication: Publication, point: Point, source: Session | None
    ) -> None:
        self.number = number  # in the order in which they were accepted, ...
        self.at = at  # ... and when
        self.publication = publication
        self.point = point
        self.source = source
        self.request = ""
        self.asked = ""  # the matcher, ...
        self.heard = 0  # ... and how much it has heard at least when it answers
        self.tried: dict[Option, None] = {}
        self.found: dict[str, tuple[str, ...]] | None = None


class Holding:
    """All of one dispatcher."""

    def __init__(self, life: str = "") -> None:
        self.life = life
        self._publishers: dict[str, deque[Held]] = {}
        self._requests: dict[str, Held] = {}
        self._number = 0
        self._request = 0
        self._numbers: dict[int, float] = {}  # of all that are held, in order, and since when

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Held]:
        for queue in self._publishers.values():
            yield from queue

    def hold(
        self, publication: Publication, point: Point, source: Session | None, now: float
    ) -> Held:
        self._number += 1
        held = Held(self._number, now, publication, point, source)
        self._publishers.setdefault(publication.publisher, deque()).append(held)
        self._numbers[held.number] = now
        return held

    def asking(self, held: Held, option: Option, heard: int) -> str:
        """Somebody is asked: the name of the request, which no other has, in no other life."""
        self._request += 1
        held.request = f"{self._request}@{self.life}"
        held.asked = option.matcher
        held.heard = heard
        held.tried[option] = None
        self._requests[held.request] = held
        return held.request

    def answered(self, request: str) -> Held | None:
        """An answer has come; None: nobody waits for it any more."""
        held = self._requests.pop(request, None)
        if held is not None:
            held.asked = ""
        return held

    def given_up(self, matcher: str) -> list[Held]:
        """No answer of that matcher is waited for any more: these have to ask somebody else."""
        some = [held for held in self._requests.values() if held.asked == matcher]
        for held in some:
            self.answered(held.request)
        return some

    def waiting(self) -> list[Held]:
        """Those that nobody is asked about, in the order in which they came."""
        return sorted(
            (h for h in self if not h.asked and h.found is None), key=lambda held: held.number
        )

    def released(self, publisher: str) -> Iterator[Held]:
        """Those of a publisher that can be let go now, in order; they are held no longer."""
        queue = self._publishers.get(publisher)
        while queue and queue[0].found is not None:
            held = queue.popleft()
            del self._numbers[held.number]
            if not queue:
                del self._publishers[publisher]
            yield held

    def waits_s(self, now: float) -> float:
        """How long the one that has been held longest has."""
        return now - next(iter(self._numbers.values()), now)

    @property
    def newest(self) -> int:
        """The number of the last that was accepted."""
        return self._number

    def has_passed(self, number: int) -> bool:
        """Whether none up to that one is held any more."""
        oldest = next(iter(self._numbers), None)
        return oldest is None or oldest > number
