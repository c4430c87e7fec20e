"""What earlier sessions of a publisher have shown: the memory of its broker.

The paper decides from one session, and clears it. A session is a sample of about a hundred publications,
and traffic comes in spells: when the low-rated subscribers get a third of one session and nothing of the
next, the best place is a different one each time, and a publisher that follows is always one session late.
So a decision is made from the last few sessions together, as POP averages its traces over time (000 section
3.1), and a publisher that moves takes them along.

Sessions are put one behind the other: of each broker the bit vectors are joined and the deliveries added, as
if it had been one long session. The delays and links of a broker are those of its newest answer. Where the
answers of different times do not form one tree, links have been moved since, and the newest session counts
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from roost.optimising.bitvector import joined
from roost.optimising.goal import Goal
from roost.relocation.choosing import Choice
from roost.relocation.grape import choose_broker
from roost.relocation.statistics import Answer, Trace
from roost.relocation.tree import BadAnswersError

# Whose past is kept; the one that was last added to first is forgotten first.
HISTORIES_MAX = 1_000


class Past(Struct, frozen=True, array_like=True):
    """A session that is over."""

    first: int
    answers: tuple[Answer, ...]

    def without(self, known: frozenset[str]) -> Past:
        """Of brokers that have said the rest since, only what was delivered."""
        return Past(
            self.first,
            tuple(
                Answer(a.broker, bits=a.bits, deliveries=a.deliveries) if a.broker in known else a
                for a in self.answers
                if a.deliveries or a.broker not in known
            ),
        )


# The newest first.
History = tuple[Past, ...]


def added(history: History, newest: Past, count: int, memory: int) -> History:
    """The last `memory` sessions of `count` publications.

    What is long ago is left out: a publisher may have been elsewhere meanwhile, of its own accord. While it
    moves, sessions are lost, about every second one at most.
    """
    known = frozenset(answer.broker for answer in newest.answers)
    oldest = newest.first - 2 * memory * count
    recent = [past for past in history if oldest <= past.first < newest.first]
    return (newest, *(past.without(known) for past in recent[: memory - 1]))


def newest_answers(history: History) -> dict[str, Answer]:
    """Of each broker."""
    found: dict[str, Answer] = {}
    for past in history:
        for answer in past.answers:
            found.setdefault(answer.broker, answer)
    return found


def together(history: History, count: int) -> list[Answer]:
    """One answer a broker, of one long session."""
    found = newest_answers(history)
    bits = {name: [b""] * len(history) for name in found}
    deliveries = dict.fromkeys(found, 0)
    for number, past in enumerate(history):
        for answer in past.answers:
            bits[answer.broker][number] = answer.bits
            deliveries[answer.broker] += answer.deliveries
    try:
        return [
            replace(answer, bits=joined(bits[name], count), deliveries=deliveries[name])
            for name, answer in found.items()
        ]
    except ValueError as bad:
        raise BadAnswersError(str(bad)) from None


class Remembering(NamedTuple):
    """A choice, and what it was made from."""

    choice: Choice
    answers: Sequence[Answer]
    sessions: int


def choose_remembering(
    history: History,
    present: str,
    trace: Trace,
    goal: Goal,
    pings_s: Mapping[str, float] | None = None,
    utilisation_max: float = inf,
) -> Remembering:
    """`choose_broker`, from all sessions; `trace` is the newest one."""
    more = pings_s, utilisation_max
    if len(history) > 1:
        whole = Trace(trace.publications * len(history), trace.rate_per_s)
        try:
            answers = together(history, trace.publications)
            choice = choose_broker(answers, present, whole, goal, *more)
            return Remembering(choice, answers, len(history))
        except BadAnswersError:
            pass  # links have been moved since
    newest = history[0].answers
    return Remembering(choose_broker(newest, present, trace, goal, *more), newest, 1)


class Histories:
    """Those of the publishers at one broker."""

    def __init__(self, count: int, memory: int) -> None:
        self._count = count
        self._memory = memory
        self._histories: dict[str, History] = {}

    def add(self, publisher: str, newest: Past) -> History:
        """All that counts now."""
        history = added(self.take(publisher), newest, self._count, self._memory)
        self.put(publisher, history)
        return history

    def put(self, publisher: str, history: History) -> None:
        """It has come with a past, or has one now."""
        self._histories.pop(publisher, None)
        if len(self._histories) >= HISTORIES_MAX:
            del self._histories[next(iter(self._histories))]
        self._histories[publisher] = history

    def take(self, publisher: str) -> History:
        """It leaves."""
        return self._histories.pop(publisher, ())
