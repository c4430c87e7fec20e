"""Forwarding policies: which of its candidates a message is sent to (004 sections III.B and IV.D).

A matcher keeps a queue for each of its sets, and tells of each (`Pace`): how many subscriptions it has, how
many messages came and were matched a second over the last w seconds, and how many wait. A policy is a pure
function of the last report of each candidate, its age, and a random number. It says how long it takes the
message to be processed there, by its lights; the candidate with the least is chosen, and of equal ones the
one that the random number says.

    amount      the size of the set (III.B.1)
    response    (q + 1) / mu, as of the last report: queueing and matching
    adaptive    the same, with q extrapolated to now: q + (lambda - mu) (t - t')  (III.B.2)
    counting    the work that waits there and what matching takes, with what this dispatcher itself has sent
                since the report in place of lambda (t - t'). Not in the paper, nor is the next
    drift       the product of the two. The work that waits is a price: who is behind is asked only by those
                that it is cheap for. Divides messages as the best division does (`fluid`)
    random      any

Several dispatchers never talk to each other about this: what one sends, the next report tells all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

# A candidate of which nothing has been heard yet takes no time: it is tried.
UNHEARD = 0.0
# Nobody is so slow that a message would take longer.
SLOWEST_S = 1e9


class Pace(Struct, frozen=True, array_like=True):
    """What a matcher tells of one of its sets."""

    size: int = 0  # subscriptions
    arrivals_per_s: float = 0.0  # lambda
    matches_per_s: float = 0.0  # mu: what it could match a second, not what it has
    queue: int = 0  # q
    search_s: float = 0.0  # what a message takes by itself

    def has_changed(self, before: Pace, by: float = 0.1) -> bool:
        """Whether it differs by more than that, so that dispatchers want to know (004 section IV.C)."""
        pairs = (
            (self.size, before.size),
            (self.arrivals_per_s, before.arrivals_per_s),
            (self.matches_per_s, before.matches_per_s),
            (self.queue, before.queue),
            (self.search_s, before.search_s),
        )
        return any(abs(now - then) > by * max(abs(now), abs(then)) for now, then in pairs)


class Sight(Struct, frozen=True):
    """A candidate as a dispatcher sees it now."""

    pace: Pace | None = None  # None: nothing has been heard
    age_s: float = 0.0  # of what has been heard
    work_s: float = 0.0  # that waits there, as far as this dispatcher can tell


def queue_now(pace: Pace, age_s: float) -> float:
    """q_t = q + (lambda - mu)(t - t'); a queue is never shorter than empty."""
    return max(0.0, pace.queue + (pace.arrivals_per_s - pace.matches_per_s) * age_s)


def processing_s(queue: float, pace: Pace) -> float:
    """(q + 1) / mu: until a message that comes now has been matched."""
    return (queue + 1) / pace.matches_per_s if pace.matches_per_s > 0 else SLOWEST_S


def by_amount(sight: Sight, _: float) -> float:
    return UNHEARD if sight.pace is None else float(sight.pace.size)


def by_response(sight: Sight, _: float) -> float:
    return UNHEARD if sight.pace is None else processing_s(sight.pace.queue, sight.pace)


def adaptive(sight: Sight, _: float) -> float:
    pace = sight.pace
    return UNHEARD if pace is None else processing_s(queue_now(pace, sight.age_s), pace)


def by_counting(sight: Sight, _: float) -> float:
    return UNHEARD if sight.pace is None else sight.work_s + sight.pace.search_s


def by_drift(sight: Sight, _: float) -> float:
    pace = sight.pace
    return UNHEARD if pace is None else (sight.work_s + pace.search_s) * pace.search_s


def at_random(_: Sight, draw: float) -> float:
    return draw


Policy: TypeAlias = Callable[[Sight, float], float]

POLICIES: Final[Mapping[str, Policy]] = {
    "amount": by_amount,
    "response": by_response,
    "adaptive": adaptive,
    "counting": by_counting,
    "drift": by_drift,
    "random": at_random,
}


def choose(policy: Policy, sights: Sequence[Sight], draw: Callable[[], float]) -> int:
    """The place of the candidate that it is. One draw a candidate."""
    return min(range(len(sights)), key=lambda place: _order(policy, sights[place], draw()))


def _order(policy: Policy, sight: Sight, drawn: float) -> tuple[float, float]:
    return (policy(sight, drawn), drawn)
