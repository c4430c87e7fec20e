"""Events that a dispatcher has accepted and that are not on their way yet.

Each is held until a matcher has said what it matches. Events of one publisher are matched on different
matchers, with different queues, so that answers come in any order: they are let go in the publisher's.
Whoever is asked may be lost, or can't say: then another candidate is, and all again after a while when none
is left.

    waiting   nobody is asked: there was nobody to ask, or all that there were could not say
    asked     one matcher is, with others, in one question
    found     the answer is there, and an event before it is still held
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from roost.broker.hops import Session
from roost.broker.messages import Publication
from roost.partition.roster import Answer
from roost.partition.segments import Option


class Held:
    """An event."""

    __slots__ = ("asked", "at", "found", "number", "place", "publication", "source", "tried")

    def __init__(
        self, number: int, at: float, publication: Publication, source: Session | None
    ) -> None:
        self.number = number  # in the order in which they were accepted, ...
        self.at = at  # ... and when
        self.publication = publication
        self.source = source
        self.asked: Question | None = None
        self.tried: tuple[Option, ...] = ()  # who could not say, or was lost
        self.found: Answer | None = None  # for several, ...
        self.place = 0  # ... of which it is this one


class Question:
    """What one matcher is asked at once."""

    __slots__ = ("events", "heard", "left", "option", "request")

    def __init__(
        self, request: int, option: Option, heard: int, events: Sequence[Held | None]
    ) -> None:
        self.request = request
        self.option = option
        self.heard = heard  # how much the matcher has heard at least when it answers
        self.events = list(events)  # None: there is an answer
        self.left = len(events)


class Holding:
    """All of one dispatcher."""

    def __init__(self, life: str = "") -> None:
        self.life = life  # whatever is asked says so: no two lives have a request in common
        self._publishers: dict[str, deque[Held]] = {}
        self._questions: dict[int, Question] = {}
        self._number = 0
        self._request = 0
        self._numbers: dict[int, float] = {}  # of all that are held, in order, and since when

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Held]:
        for queue in self._publishers.values():
            yield from queue

    def hold(self, publication: Publication, source: Session | None, now: float) -> Held:
        self._number = number = self._number + 1
        held = Held(number, now, publication, source)
        queue = self._publishers.get(publication.publisher)
        if queue is None:
            queue = self._publishers[publication.publisher] = deque()
        queue.append(held)
        self._numbers[number] = now
        return held

    def asking(self, events: Sequence[Held], option: Option, heard: int) -> int:
        """Somebody is asked about these: the number of the request."""
        self._request += 1
        question = Question(self._request, option, heard, events)
        self._questions[self._request] = question
        for held in events:
            held.asked = question
        return self._request

    def answered(
        self, request: int, rows: Sequence[int] | None
    ) -> tuple[Question | None, list[Held | None]]:
        """An answer has come for these events of a question, or all; None for whom nobody waits any more."""
        question = self._questions.get(request)
        if question is None:
            return None, []
        if rows is None:
            some, question.events, question.left = question.events, [], 0
        else:
            some = [question.events[row] for row in rows]
            for row in rows:
                question.events[row] = None
            question.left -= len(rows)
        if question.left <= 0:
            del self._questions[request]
        for held in some:
            if held is not None:
                held.asked = None
        return question, some

    def given_up(self, matcher: str) -> list[Held]:
        """No answer of that matcher is waited for any more: these have to ask somebody else."""
        given_up = []
        for request, question in list(self._questions.items()):
            if question.option.matcher == matcher:
                for held in self.answered(request, None)[1]:
                    if held is not None:
                        held.tried = (*held.tried, question.option)
                        given_up.append(held)
        return given_up

    def waiting(self) -> list[Held]:
        """Those that nobody is asked about, in the order in which they came."""
        waiting = (h for h in self if h.asked is None and h.found is None)
        return sorted(
            (h for h in waiting if h.number in self._numbers), key=lambda held: held.number
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

    def let_go(self, held: Held) -> None:
        """It is held no longer, whatever is before it; there is an answer."""
        del self._numbers[held.number]
        publisher = held.publication.publisher
        queue = self._publishers[publisher]
        while queue and queue[0].number not in self._numbers:
            queue.popleft()
        if not queue:
            del self._publishers[publisher]

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
