"""Optimisers that agree: one of them at a time may move a client, a link or a broker.

A module *proposes*. The broker asks the other modules that are awake for objections, and if there are none
it grants a *lease* on each subject, for as long as the change takes; after it the subject *rests*. Leases
live at the client's broker, or at both ends of a link: there is nobody to coordinate. Where a client that was
moved arrives, it rests, too, so it is not sent back at once by whoever is there.

    free      proposed, and nobody objects -> leased
    leased    it has left, or the change is made -> rests      it takes too long -> abandoned, and rests
    rests     time passes -> free      something more urgent is proposed -> leased

What is more urgent may end a rest, and never a lease: two hands on one thing is what this is against.
"""

from __future__ import annotations

from msgspec import Struct

# From the most urgent on (001, 003, 002, 000).
URGENCIES = ("overload", "drain", "role", "rewiring", "relocation", "evening out")
# The one that was granted first is forgotten first.
RESTS_MAX = 100_000


def link_between(a: str, b: str) -> str:
    """What a link is called as a subject, at both its ends."""
    return " - ".join(sorted((a, b)))


class Proposal(Struct, frozen=True):
    """What a module wants to do."""

    module: str
    urgency: str  # one of `URGENCIES`
    kind: str  # what sort of change, as the module calls it
    subjects: tuple[str, ...]  # the clients, links or brokers that it concerns, by name
    choice: str


class Lease(Struct, frozen=True):
    """Somebody is at it."""

    module: str
    urgency: str
    choice: str
    cause: str  # the decision
    since: float
    until: float


class Rest(Struct, frozen=True):
    """Somebody was."""

    urgency: str
    until: float


class Arbiter:
    """The leases of one broker."""

    def __init__(self, *, lease_s: float, rest_s: float) -> None:
        self._lease_s = lease_s
        self._rest_s = rest_s
        self.leases: dict[str, Lease] = {}
        self._rests: dict[str, Rest] = {}
        self._arriving: dict[str, float] = {}  # until when, at most

    def objection_to(self, proposal: Proposal, now: float) -> str:
        """What speaks against it here; "" for nothing."""
        for subject in proposal.subjects:
            lease = self.leases.get(subject)
            if lease is not None:
                return f"{subject} is under a lease of {lease.module} ({lease.cause})"
            if self.is_arriving(subject, now):
                return f"{subject} is still on its way here"
            rest = self._rests.get(subject)
            if rest is not None and now < rest.until:
                more_urgent = URGENCIES.index(proposal.urgency) < URGENCIES.index(rest.urgency)
                if not more_urgent:
                    return f"{subject} rests for {rest.until - now:.1f} s more"
        return ""

    def grant(self, proposal: Proposal, cause: str, now: float) -> None:
        for subject in proposal.subjects:
            self.leases[subject] = Lease(
                proposal.module,
                proposal.urgency,
                proposal.choice,
                cause,
                now,
                now + self._lease_s,
            )

    def holds(self, module: str, subject: str) -> bool:
        """Whether a module may act on it."""
        lease = self.leases.get(subject)
        return lease is not None and lease.module == module

    def over(self, subject: str, now: float) -> Lease | None:
        """It has left, or the change is made: the lease that there was. It rests, if it is still here."""
        lease = self.leases.pop(subject, None)
        self._arriving.pop(subject, None)
        if lease is not None:
            self._rest(subject, lease.urgency, now)
        return lease

    def arriving(self, subject: str, now: float) -> None:
        """It is on its way here: whoever sent it has it under a lease of theirs, until it has arrived."""
        self._arriving[subject] = now + self._lease_s

    def is_arriving(self, subject: str, now: float) -> bool:
        return now < self._arriving.get(subject, 0.0)

    def arrived(self, subject: str, now: float) -> None:
        """It was moved here, by whomever, and however urgent that was: nothing moves it on for a while."""
        self._arriving.pop(subject, None)
        self._rest(subject, URGENCIES[0], now)

    def expired(self, now: float) -> list[tuple[str, Lease]]:
        """What took too long: it is abandoned, and rests."""
        late = [(subject, lease) for subject, lease in self.leases.items() if lease.until <= now]
        for subject, _ in late:
            self.over(subject, now)
        return late

    def _rest(self, subject: str, urgency: str, now: float) -> None:
        if self._rest_s > 0:
            self._rests.pop(subject, None)
            if len(self._rests) >= RESTS_MAX:
                del self._rests[next(iter(self._rests))]
            self._rests[subject] = Rest(urgency, now + self._rest_s)
