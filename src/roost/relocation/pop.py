"""POP's decisions: what to trace, what traces tell, and where the publisher should go (000 section 3).

POP knows no tree. Every broker keeps, of each publisher, how many subscribers there are behind each
neighbour, and asks one question: does one link have more of them than all the other links and the broker
itself together? If so, the best place is behind that link, and the request goes there, with what the others
have together as the number for the link that it came by. If not, the best place is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

TRACED_MAX = 50  # the paper's N: traced publications in a window
WINDOW_S = 60.0  # its W
NEWEST_WEIGHT = 0.25
TRACES_NEEDED = 100  # P_threshold


# --- what to trace --------------------------------------------------------------------------------


class TraceWindow(Struct, frozen=True):
    """How many publications of a publisher were traced lately."""

    since: float
    traced: int = 0

    def at(self, now: float, window_s: float = WINDOW_S) -> TraceWindow:
        """This window, or the next, which begins with the first publication after it."""
        return self if now < self.since + window_s else TraceWindow(now)

    def probability(self, traced_max: int = TRACED_MAX) -> float:
        """P_trace = 1 - T / N: the first of a window for certain, never more than N."""
        return max(0.0, 1.0 - self.traced / traced_max)

    def with_traced(self) -> TraceWindow:
        """One more was traced."""
        return TraceWindow(self.since, self.traced + 1)


# --- what traces tell -----------------------------------------------------------------------------


class Profile(Struct, frozen=True):
    """The entry of a publisher in the Publisher Profile Table: average numbers of subscribers.

    The first trace is taken as it is. After that an average is three parts what it was and one part the
    newest number, and a neighbour that the publication was not sent to has the number 0: without that,
    whoever gets one publication in a hundred would look like an audience for all of them. The paper does
    not say so, nor that the subscribers here are averaged too.
    """

    traces: int = 0
    local: float = 0.0
    downstream: Mapping[str, float] = field(default_factory=dict)  # at and behind a neighbour

    def with_trace(
        self, local: int, downstream: Mapping[str, int], newest: float = NEWEST_WEIGHT
    ) -> Profile:
        """All answers to a traced publication are here."""
        weight = newest if self.traces else 1.0

        def average(old: float, new: int) -> float:
            return (1.0 - weight) * old + weight * new

        names = sorted({*self.downstream, *downstream})
        return Profile(
            self.traces + 1,
            average(self.local, local),
            {
                name: average(self.downstream.get(name, 0.0), downstream.get(name, 0))
                for name in names
            },
        )


def is_due(profile: Profile, outstanding: int, needed: int = TRACES_NEEDED) -> bool:
    """Whether to look for a better place: enough traces, and none whose answers are on the way."""
    return profile.traces >= needed and outstanding == 0


# --- where to go ----------------------------------------------------------------------------------


class Request(Struct, frozen=True, array_like=True):
    """A Relocation Request Message: which broker is nearest to the most subscribers?"""

    publisher: str
    subscribers: float = 0.0  # on the link that it comes by
    path: tuple[str, ...] = ()  # the brokers that it has passed, the last first
    # Links between the publisher's broker and those of its subscribers that a publication has to pass less,
    # summed over subscribers: on each link, those behind it less all others.
    saving: float = 0.0


class Forward(Struct, frozen=True):
    """The best place is behind this neighbour."""

    neighbour: str
    request: Request


class Answered(Struct, frozen=True):
    """The best place is here, and the publisher elsewhere: a Relocation Answer Message to its broker."""

    path: tuple[str, ...]  # the migration path, from here to the publisher's broker


class Stays(Struct, frozen=True):
    """The publisher is at the best place already; it is traced anew."""


Step: TypeAlias = Forward | Answered | Stays


def next_step(request: Request, here: str, profile: Profile) -> Step:
    """What a broker does with a request: one of the three outcomes of figure 2.

    The request never goes back. By the rule it could not, if all tables were of the same publications; but
    a broker counts only those that reach it, so that two neighbours may each see more subscribers behind
    the other.
    """
    came_from = request.path[0] if request.path else None
    links = {name: n for name, n in profile.downstream.items() if name != came_from}
    everyone = request.subscribers + profile.local + sum(links.values())
    for name, subscribers in links.items():
        others = everyone - subscribers
        if subscribers > others:  # at most one can have more than all the others
            onward = replace(
                request,
                subscribers=others,
                path=(here, *request.path),
                saving=request.saving + subscribers - others,
            )
            return Forward(name, onward)
    return Answered((here, *request.path)) if request.path else Stays()
