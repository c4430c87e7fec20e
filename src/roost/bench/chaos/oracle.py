"""The oracle: what has to have come, from what publishers and subscribers say of themselves.

It knows no broker, only what was promised: an event that was acknowledged reaches each subscription that was
in place when it was published, once, and in the order of its publisher.

**Which events.** A publisher says a number and the time *before* it publishes the event of that number and
those behind it (`published`), and how far it is acknowledged (`acked`). What somebody has got was accepted,
whether the publisher lived to hear of it or not, and so was all before it.

**In place** is a subscription from when `ready` has returned to when it begins to end. One that stays to the
end has to have got all. Of one that ended nobody knows how far it would have come; but what it got of a
publisher has no holes.

**Restored.** A broker that begins anew with a backup has lost what it had accepted since. It is forgiven what
was on its way to it or through it then: events for which it is between publisher and subscriber, or at one
end, which had not come when the backup was made, and were published before the broker was there again; or,
for its own subscribers, before they were in place again. To those also comes again what they had acknowledged
since. These are counted for themselves (`forgiven`).
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from roost.bench.chaos.interests import Interest
from roost.bench.chaos.ranges import Range, overlap, without
from roost.bench.chaos.tally import Tally

# A publisher says the time at least every so many numbers.
MARK_EVERY = 16
ENDLESS = 1 << 62
EXAMPLES_MAX = 20


class Publisher(Struct):
    """One that is or was there."""

    broker: str
    class_: str
    acked: int = 0
    over: bool = False
    # Numbers from here on were published no earlier than then; both rise.
    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def mark(self, number: int, at: float) -> None:
        # The next process begins with what was not accepted, which the one before may have published, too.
        if not self.numbers or number >= self.numbers[-1] + MARK_EVERY:
            self.numbers.append(number)
            self.times.append(at)

    def first_since(self, at: float) -> int:
        """A number from which on all were published later."""
        place = bisect_left(self.times, at)
        return self.numbers[place] if place < len(self.numbers) else ENDLESS


class Subscriber(Struct):
    """One that is or was there, and what it has got of each publisher."""

    broker: str
    interest: Interest
    readies: list[float] = field(default_factory=list)  # when `ready` returned, each time
    over: bool = False
    tallies: dict[str, Tally] = field(default_factory=dict)
    confirmed: dict[str, int] = field(default_factory=dict)
    since: float = -math.inf  # when its broker was last down to be restored

    def reached(self) -> dict[str, int]:
        """The last number of each publisher, in any life."""
        return {name: tally.next - 1 for name, tally in self.tallies.items()}

    def confirm(self, asked_at: float, numbers: Mapping[str, int], at: float) -> None:
        """The broker has answered: it has heard of these, and the subscription is in place.

        One that was restored meanwhile has forgotten what it had been asked before.
        """
        self.readies.append(at)
        if asked_at > self.since:
            for name, number in numbers.items():
                self.confirmed[name] = max(number, self.confirmed.get(name, 0))


class Backup(Struct, frozen=True):
    """A backup, and what was known when it was begun: what had come, and what was confirmed."""

    broker: str
    reached: dict[str, dict[str, int]]  # by subscriber and publisher
    confirmed: dict[str, dict[str, int]]


class Restored(Struct, frozen=True):
    backup: Backup
    at: float


class Counts(Struct, frozen=True):
    """The verdict in numbers, over all subscribers."""

    expected: int
    delivered: int  # different ones, expected or not
    lost: int
    doubled: int
    reordered: int
    again: int  # to a process that came after one that was killed
    forgiven: int
    examples: list[str]  # of what is wrong
    forgiven_examples: list[str]

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered)


class Oracle:
    """Hears what publishers and subscribers say (`player`), and counts."""

    def __init__(self, paths: Mapping[tuple[str, str], frozenset[str]]) -> None:
        self._paths = paths  # the brokers between two, and those two
        self.publishers: dict[str, Publisher] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.failures: deque[str] = deque(maxlen=20)  # the last that clients have complained of
        self._restored: list[Restored] = []
        self._began = time.monotonic()

    # --- what happens -------------------------------------------------------------------------------

    def publisher(self, name: str, broker: str, class_: str) -> None:
        self.publishers[name] = Publisher(broker, class_)

    def subscriber(self, name: str, broker: str, interest: Interest) -> None:
        self.subscribers[name] = Subscriber(broker, interest)

    def hear(self, what: str, name: str, *said: Any) -> None:
        """A line of a player."""
        if what == "published":
            self.publishers[name].mark(*said)
        elif what == "acked":
            publisher = self.publishers[name]
            publisher.acked = max(publisher.acked, *said)
        elif what == "came":
            self._came(self.subscribers[name], *said)
        elif what == "life":
            self._begin_life(self.subscribers[name])
        elif what == "ready":
            self.subscribers[name].readies.append(*said)
        elif what == "confirmed":
            self.subscribers[name].confirm(*said)
        elif what == "ended":
            self.gone(name)
        elif what == "failed":
            self.failures.append(f"{name}: {said[0]}")

    def gone(self, name: str) -> None:
        """It ends, or was killed and won't come back."""
        one = self.publishers.get(name) or self.subscribers[name]
        one.over = True

    def _came(self, subscriber: Subscriber, numbers_of: dict[str, list[int]]) -> None:
        for name, numbers in numbers_of.items():
            tally = subscriber.tallies.get(name)
            if tally is None:
                tally = subscriber.tallies[name] = Tally(subscriber.interest)
            for number in numbers:
                tally.came(number)

    def _begin_life(self, subscriber: Subscriber) -> None:
        for name, tally in subscriber.tallies.items():
            tally.begin_life(subscriber.confirmed.get(name, 0))

    def backup(self, broker: str) -> Backup:
        """One is about to be made."""
        there = self.subscribers.items()
        return Backup(
            broker,
            {name: subscriber.reached() for name, subscriber in there},
            {name: dict(subscriber.confirmed) for name, subscriber in there},
        )

    def about_to_restore(self, backup: Backup, at: float) -> None:
        """The broker is down: whoever takes over a subscription there gets what the backup has."""
        for name, subscriber in self.subscribers.items():
            if subscriber.broker == backup.broker:
                # The same backup may serve again.
                subscriber.confirmed = dict(backup.confirmed.get(name, {}))
                subscriber.since = at
                # Also of a process that has begun since the broker is down, and waits for it.
                for publisher, tally in subscriber.tallies.items():
                    tally.forget_confirmed(subscriber.confirmed.get(publisher, 0))

    def restored(self, backup: Backup, at: float) -> None:
        """The broker is there again."""
        self._restored.append(Restored(backup, at))

    # --- questions ----------------------------------------------------------------------------------

    @property
    def acknowledged(self) -> int:
        return sum(publisher.acked for publisher in self.publishers.values())

    @property
    def published(self) -> int:
        """At least so many."""
        return sum(
            max(publisher.acked, publisher.numbers[-1] if publisher.numbers else 0)
            for publisher in self.publishers.values()
        )

    def acked_at(self, broker: str) -> int:
        return sum(one.acked for one in self.publishers.values() if one.broker == broker)

    def flows(self, since: float, publishers: Iterable[str], subscribers: Iterable[str]) -> bool:
        """Whether these have all got something of all those that was published since then."""
        return all(
            tally is not None and tally.next > self.publishers[publisher].first_since(since)
            for subscriber in subscribers
            for publisher in publishers
            if self.subscribers[subscriber].interest.is_for(self.publishers[publisher].class_)
            for tally in (self.subscribers[subscriber].tallies.get(publisher),)
        )

    def outstanding(self) -> int:
        """How many have not come to subscribers that are there, of all that have to come."""
        accepted = self._accepted()
        return sum(
            subscriber.interest.count(first, end)
            for name, subscriber in self.subscribers.items()
            if not subscriber.over
            for publisher, last in accepted.items()
            for first, end in self._missing(name, publisher, last)[0]
        )

    def counts(self) -> Counts:
        expected = lost = forgiven = 0
        examples: list[str] = []
        forgiven_examples: list[str] = []
        accepted = self._accepted()
        for name, subscriber in self.subscribers.items():
            count = subscriber.interest.count
            for publisher, last in accepted.items():
                missing, excused, (first, end) = self._missing(name, publisher, last)
                expected += count(first, end)
                excused = [part for part in excused if count(*part)]
                forgiven += sum(count(*part) for part in excused)
                forgiven_examples += [self._example(name, publisher, part) for part in excused]
                missed = [part for part in missing if count(*part)]
                lost += sum(count(*part) for part in missed)
                examples += [self._example(name, publisher, part) for part in missed]
        tallies = [
            (f"{name} of {publisher}", tally)
            for name, subscriber in self.subscribers.items()
            for publisher, tally in subscriber.tallies.items()
        ]
        for whose, tally in tallies:
            if tally.doubled or tally.reordered:
                examples.append(f"{whose}: {tally.doubled} doubled, {tally.reordered} reordered")
        return Counts(
            expected=expected,
            delivered=sum(tally.received for _, tally in tallies),
            lost=lost,
            doubled=sum(tally.doubled for _, tally in tallies),
            reordered=sum(tally.reordered for _, tally in tallies),
            again=sum(tally.again for _, tally in tallies),
            forgiven=forgiven,
            examples=examples[:EXAMPLES_MAX],
            forgiven_examples=forgiven_examples[:EXAMPLES_MAX],
        )

    # --- what is missing ----------------------------------------------------------------------------

    def _missing(
        self, name: str, publisher_name: str, accepted: int
    ) -> tuple[list[Range], list[Range], Range]:
        """What one misses of the other, what of that is forgiven, and what it was to get."""
        subscriber, publisher = self.subscribers[name], self.publishers[publisher_name]
        nothing: Range = (1, 1)
        if not subscriber.readies or not subscriber.interest.is_for(publisher.class_):
            return [], [], nothing
        tally = subscriber.tallies.get(publisher_name) or Tally(subscriber.interest)
        first = publisher.first_since(subscriber.readies[0])
        end = tally.next if subscriber.over else accepted + 1
        if first >= end:
            return [], [], nothing
        missing = overlap(tally.missing(end), first, end)
        left = without(missing, self._forgiven(name, publisher_name)) if missing else []
        return left, without(missing, left), (first, end)

    def _example(self, name: str, publisher_name: str, part: Range) -> str:
        """With what helps to find out why: where they are, and when it was."""
        subscriber, publisher = self.subscribers[name], self.publishers[publisher_name]
        place = bisect_right(publisher.numbers, part[0]) - 1
        at_s = publisher.times[max(place, 0)] - self._began
        ready_s = subscriber.readies[0] - self._began
        return (
            f"{name} misses {_shown(part)} of {publisher_name}; at {subscriber.broker}, in place at"
            f" {ready_s:.1f} s; at {publisher.broker}, published after {at_s:.1f} s"
        )

    def _accepted(self) -> dict[str, int]:
        """The last event of each publisher that is known to have been accepted."""
        accepted = {name: publisher.acked for name, publisher in self.publishers.items()}
        for subscriber in self.subscribers.values():
            for name, number in subscriber.reached().items():
                accepted[name] = max(accepted[name], number)
        return accepted

    def _forgiven(self, name: str, publisher_name: str) -> list[Range]:
        subscriber, publisher = self.subscribers[name], self.publishers[publisher_name]
        between = self._paths[publisher.broker, subscriber.broker]
        ranges = []
        for restored in self._restored:
            broker = restored.backup.broker
            if broker in between:
                until = restored.at
                if subscriber.broker == broker:
                    until = next((t for t in subscriber.readies if t >= restored.at), math.inf)
                had = restored.backup.reached.get(name, {}).get(publisher_name, 0)
                ranges.append((had + 1, publisher.first_since(until)))
        return ranges


def _shown(part: Range) -> str:
    return str(part[0]) if part[1] == part[0] + 1 else f"{part[0]}..{part[1] - 1}"


def paths_of(
    brokers: Sequence[str], links: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], frozenset[str]]:
    """The brokers on the way from each to each, in a tree.

    >>> sorted(paths_of("abc", [("a", "b"), ("b", "c")])["a", "c"])
    ['a', 'b', 'c']
    """
    neighbours: dict[str, list[str]] = {name: [] for name in brokers}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    paths = {}
    for origin in brokers:
        found = {origin: frozenset([origin])}
        queue = deque([origin])
        while queue:
            here = queue.popleft()
            for there in neighbours[here]:
                if there not in found:
                    found[there] = found[here] | {there}
                    queue.append(there)
        paths.update({(origin, other): path for other, path in found.items()})
    return paths
