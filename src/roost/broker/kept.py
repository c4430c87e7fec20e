"""What of a lane stands in the store, until it has arrived.

    ("out", *lane, number)   a message and its hops
    ("run", *lane, first)    a `Run` of them, of which that is the first
    ("acked", *lane)         a number up to which all has arrived
    ("sent", *lane)          the last number given
    ("received", *lane)      the last number that has arrived here

A record goes when all of it has arrived. Where that is in the middle of a run, the number is written down; it
is only ever too low. A message that was replaced while it waited has a record of its own, which is right
where it stands in a run, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from roost.broker.commands import StoreKey
from roost.broker.journal import Journal
from roost.broker.messages import Message
from roost.broker.runs import Run


class Kept:
    """The records of one lane."""

    __slots__ = ("_journal", "_key", "_notes_acked", "_replaced", "_runs")

    def __init__(self, journal: Journal, key: StoreKey) -> None:
        self._journal = journal
        self._key = key
        self._runs: deque[tuple[int, int]] = deque()  # first and last number of each
        self._replaced: dict[int, None] = {}  # numbers in runs that have a record of their own
        self._notes_acked = False

    def restore(self, runs: Iterable[Run], singles: Iterable[int], *, notes_acked: bool) -> None:
        """That much is there."""
        self._runs.extend((run.first, run.last) for run in runs)
        spans = list(self._runs)
        at = 0
        for number in sorted(singles):
            while at < len(spans) and spans[at][1] < number:
                at += 1
            if at < len(spans) and spans[at][0] <= number:
                self._replaced[number] = None
        self._notes_acked = notes_acked

    def put(self, number: int, message: Message, hops: int) -> None:
        """One more message."""
        self._journal.put("out", *self._key, number, value=(message, hops))
        self._journal.put("sent", *self._key, value=number)

    def put_run(self, run: Run) -> None:
        self._journal.put("run", *self._key, run.first, value=run)
        self._journal.put("sent", *self._key, value=run.last)
        self._runs.append((run.first, run.last))

    def replace(self, number: int, message: Message, hops: int) -> None:
        self._journal.put("out", *self._key, number, value=(message, hops))
        if any(first <= number <= last for first, last in self._runs):
            self._replaced[number] = None

    def take_back(self, first: int, last: int) -> None:
        """These, which are the last and in no run, were never said."""
        for number in range(first, last + 1):
            self._journal.delete("out", *self._key, number)
        self._journal.put("sent", *self._key, value=first - 1)

    def received(self, number: int) -> None:
        self._journal.put("received", *self._key, value=number)

    def arrived(self, acked: int, sequence: int) -> None:
        """All up to this number has, behind what had before."""
        journal, key, runs = self._journal, self._key, self._runs
        number = acked + 1
        while number <= sequence:
            if not runs or number < runs[0][0]:
                journal.delete("out", *key, number)
                number += 1
                continue
            first, last = runs[0]
            if last > sequence:
                journal.put("acked", *key, value=sequence)
                self._notes_acked = True
                break
            journal.delete("run", *key, first)
            runs.popleft()
            number = last + 1
        if self._replaced:
            for replaced in [n for n in self._replaced if n <= sequence]:
                journal.delete("out", *key, replaced)
                del self._replaced[replaced]

    def forget(self, acked: int, sent: int) -> None:
        """Nothing of it stays."""
        self.arrived(acked, sent)
        if self._notes_acked:
            self._journal.delete("acked", *self._key)
        self._journal.delete("sent", *self._key)
        self._journal.delete("received", *self._key)

    def keys(self, first: int, last: int) -> list[StoreKey]:
        """Of the records that these messages are in: in their order, and behind a run what replaces it."""
        return [(kind, *self._key, number) for kind, number in self._places(first, last)]

    def _places(self, number: int, last: int) -> Iterator[tuple[str, int]]:
        for run_first, run_last in self._runs:
            if run_last < number:
                continue
            while number <= last and number < run_first:
                yield "out", number
                number += 1
            if number > last:
                return
            yield "run", run_first
            yield from (("out", n) for n in self._replaced if number <= n <= min(run_last, last))
            number = run_last + 1
        while number <= last:
            yield "out", number
            number += 1
