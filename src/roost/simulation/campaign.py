"""Random scenarios of many seeds, in several processes if wanted, with the same answers."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct

from roost.simulation.fuzz import fuzz
from roost.simulation.run import Checks

# A violation that is about a publication begins with its id; one about a table quotes the ids of what is
# missing or stale.
_publication = re.compile(r"[A-Za-z0-9_.-]+:[0-9]+(?=[ ,])").match
_request = re.compile(r"(?<=')[A-Za-z0-9_.-]+/[0-9]+(?=')").search
# Seeds that a process takes at a time.
CHUNK = 5


class Outcome(Struct, frozen=True):
    """What became of a seed."""

    seed: int
    checks: Checks

    @property
    def subject(self) -> str | None:
        """Whose story may tell what went wrong: the first publication, else the first request."""
        violations = self.checks.violations
        found = [_publication(text) for text in violations] + [_request(v) for v in violations]
        return next((match[0] for match in found if match), None)


def outcome(profile: str, seed: int) -> Outcome:
    """Run one seed. Of the module, so that other processes find it."""
    return Outcome(seed, fuzz(seed, profile)[2])


def campaign(seeds: Sequence[int], profile: str, jobs: int = 1) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, as they come."""
    work = partial(outcome, profile)
    if jobs == 1 or len(seeds) == 1:
        yield from map(work, seeds)
        return
    # Not forked: whoever calls may have threads, which a fork would leave half alive.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap(work, seeds, CHUNK)
