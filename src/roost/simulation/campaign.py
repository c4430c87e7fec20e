"""Random scenarios of many seeds, in several processes if wanted, with the same answers."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import islice

from msgspec import Struct, field

from roost.broker.moving import MoveCounts
from roost.simulation.fuzz import fuzz
from roost.simulation.run import Checks

# A violation that is about a publication begins with its id; one about a table quotes the ids of what is
# missing or stale.
_publication = re.compile(r"[A-Za-z0-9_.-]+:[0-9]+(?=[ ,])").match
_request = re.compile(r"(?<=')[A-Za-z0-9_.-]+/[0-9]+(?=')").search
# Seeds that a process takes at a time, and that each may be ahead of who looks at the outcomes.
CHUNK = 5
AHEAD = 20 * CHUNK


class Outcome(Struct, frozen=True):
    """What became of a seed."""

    seed: int
    checks: Checks
    moves: MoveCounts  # of all clients

    @property
    def subject(self) -> str | None:
        """Whose story may tell what went wrong."""
        return subject_of(self.checks)


class Campaign(Struct):
    """What became of many."""

    seeds: int = 0
    delivered: int = 0
    moves: MoveCounts = field(default_factory=MoveCounts)
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.delivered += outcome.checks.delivered
        self.moves = sum_of([self.moves, outcome.moves])
        if not outcome.checks.clean:
            self.wrong.append(outcome)


def subject_of(checks: Checks) -> str | None:
    """Whose story may tell what went wrong: the first publication, else the first request."""
    violations = checks.violations
    found = [_publication(text) for text in violations] + [_request(v) for v in violations]
    return next((match[0] for match in found if match), None)


def sum_of(counts: Collection[MoveCounts]) -> MoveCounts:
    return MoveCounts(
        finished=sum(count.finished for count in counts),
        migrated=sum(count.migrated for count in counts),
        abandoned=sum(count.abandoned for count in counts),
    )


def outcome(profile: str, chunks: bool, seed: int) -> Outcome:
    """Run one seed. Of the module, so that other processes find it."""
    _, world, checks = fuzz(seed, profile, chunks=chunks)
    moves = sum_of([client.machine.move_counts for client in world.clients.values()])
    return Outcome(seed, checks, moves)


def campaign(
    seeds: Iterable[int], profile: str, jobs: int = 1, *, chunks: bool = False
) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, as they come. There may be seeds without end."""
    work = partial(outcome, profile, chunks)
    if jobs == 1:
        yield from map(work, seeds)
        return
    left = iter(seeds)
    # Not forked: whoever calls may have threads, which a fork would leave half alive.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        while some := list(islice(left, jobs * AHEAD)):
            yield from pool.imap(work, some, CHUNK)
