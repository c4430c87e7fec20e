"""Random federations with churn and faults, for a module or a router of one's own.

Each seed is one scenario (`Scenario`), and always the same one: what fails is run again by its seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from roost.broker.router import Flooding
from roost.broker.story import Storybook
from roost.client.arguments import check_callable, check_kind, check_text
from roost.errors import UserError
from roost.simulation.campaign import subject_of
from roost.simulation.faults import PROFILES
from roost.simulation.fuzz import fuzz as run_seed
from roost.simulation.optimisers import Modules
from roost.simulation.run import Checks
from roost.simulation.scenario_settings import BALANCING, MOVES
from roost.testing.laboratory import name_of, violations_of

STORY_LINES_SHOWN = 40


class Failure(Struct, frozen=True):
    """A seed whose scenario broke a promise, or fell over."""

    seed: int
    profile: str
    checks: Checks | None  # None if it fell over
    error: Exception | None = None
    story: tuple[str, ...] = ()  # of the first publication or request that went wrong

    def __str__(self) -> str:
        if self.checks is None:
            what = f"{type(self.error).__name__}: {self.error}"
        else:
            what = violations_of(self.checks)
        again = f"run it again: fuzz([{self.seed}], profile={self.profile!r}, ...)"
        shown = self.story[-STORY_LINES_SHOWN:]
        return "\n  ".join([f"seed {self.seed}: {what}", again, *shown])


class Fuzzed(Struct, frozen=True):
    """What became of all seeds."""

    seeds: tuple[int, ...]
    delivered: int
    failures: tuple[Failure, ...]

    def assert_clean(self) -> None:
        """AssertionError with the first failure and its story, if there are failures."""
        if self.failures:
            first, *others = self.failures
            more = (
                f"\nand {len(others)} more, of seeds {[f.seed for f in others]}" if others else ""
            )
            text = f"{len(self.failures)} of {len(self.seeds)} scenarios failed\n{first}{more}"
            raise AssertionError(text) from first.error


def fuzz(
    seeds: int | Iterable[int] = 20,
    *,
    profile: str = "all",
    modules: Modules | None = None,
    router: type[Flooding] | str | None = None,
) -> Fuzzed:
    """Run the random scenarios of these seeds, and judge each. A number means so many, from 0 on.

    | argument | what it says |
    | --- | --- |
    | `profile` | which faults: one of `PROFILES`, `moves`, in which clients move all the time, `balancing` |
    | `modules` | what makes the modules of a broker, besides those that a scenario has of its own |
    | `router` | in place of the scenario's: a class that can be imported, or its name |

    To fall over is to fail: an exception is kept with its seed, and the others go on.

    >>> fuzz(2, profile="none").assert_clean()
    """
    check_kind("seeds", seeds, (int, Iterable), "how many, or some of them")
    check_text("profile", profile, optional=False)
    check_callable("modules", modules)
    if profile not in (known := (*PROFILES, MOVES, BALANCING)):
        raise UserError(f"no profile of faults is called {profile!r}; there are {', '.join(known)}")
    routing = None if router is None else name_of(router)
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    delivered, failures = 0, []
    for seed in chosen:
        try:
            _, _, checks = run_seed(seed, profile, modules=modules, routing=routing)
        except UserError:
            raise  # the same for every seed
        except Exception as error:  # somebody else's code: it may raise anything
            failures.append(Failure(seed, profile, None, error))
            continue
        delivered += checks.delivered
        if not checks.clean:
            story = _story(seed, profile, checks, modules, routing)
            failures.append(Failure(seed, profile, checks, story=story))
    return Fuzzed(chosen, delivered, tuple(failures))


def _story(
    seed: int, profile: str, checks: Checks, modules: Modules | None, routing: str | None
) -> tuple[str, ...]:
    """The seed is run again, this time with somebody who listens."""
    subject = subject_of(checks)
    if subject is None:
        return ()
    book = Storybook()
    run_seed(seed, profile, book, modules=modules, routing=routing)
    return tuple(map(str, book.story(subject)))
