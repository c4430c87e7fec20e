"""One simulated run as a test wants it: a workload goes in; the verdict, and what clients got, come out."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import NoneType
from typing import NamedTuple

import msgspec

from roost.broker.commands import Decision, Record
from roost.broker.messages import Publication
from roost.broker.router import Flooding
from roost.broker.story import Storybook
from roost.client.arguments import check_callable, check_kind, check_seconds, check_text
from roost.language import Event
from roost.simulation.faults import with_faults
from roost.simulation.host import Host
from roost.simulation.optimisers import Modules, modules_of
from roost.simulation.oracle import Party
from roost.simulation.run import Checks, end_of, run_workload, verdict
from roost.simulation.settings import settings_with
from roost.simulation.workload_file import Workload, parse_workload, read_workload
from roost.simulation.world import World
from roost.traces import About, TraceWriter

VIOLATIONS_SHOWN = 5


class Receipt(NamedTuple):
    """An event that reached a client."""

    at: float
    id: str  # PUBLISHER:NUMBER
    event: Event
    subscriptions: tuple[str, ...]  # of the client, by the names that the workload gives them


class NotedDecision(NamedTuple):
    """What a module decided, whether or not it was carried out, and when."""

    at: float
    broker: str
    decision: Decision


class NotingWorld(World):
    """One that remembers what clients got, and what modules decided."""

    received: dict[str, list[Receipt]]
    decisions: list[NotedDecision]

    def watch(self) -> None:
        """To be called before time passes."""
        self.received, self.decisions = {}, []
        arrived = self.oracle.arrived

        def listening(
            party: Party, publication: Publication, names: Collection[str], now: float
        ) -> None:
            receipt = Receipt(now, publication.id, publication.event, tuple(names))
            self.received.setdefault(party.name, []).append(receipt)
            arrived(party, publication, names, now)

        # The oracle is the one place that hears of every delivery.
        self.oracle.arrived = listening  # type: ignore[method-assign]

    def decided(self, host: Host, record: Record) -> None:
        self.decisions.append(NotedDecision(self.clock.now, host.name, record.decision))
        super().decided(host, record)


class Simulation:
    """A run that is over.

    `checks` is the verdict of all checkers, `unfinished` says why it did not come to rest where that is
    the workload's doing (a broker that stays down), and `world` is all there is, as it was left.
    """

    def __init__(
        self, world: NotingWorld, workload: Workload, checks: Checks, unfinished: Sequence[str]
    ) -> None:
        self.world = world
        self.workload = workload
        self.checks = checks
        self.unfinished = tuple(unfinished)

    @property
    def decisions(self) -> Sequence[NotedDecision]:
        """What modules decided, in the order of time."""
        return self.world.decisions

    def received(self, client: str) -> Sequence[Receipt]:
        """What reached a client, in the order in which it came."""
        self._check(client)
        return self.world.received.get(client, ())

    def broker_of(self, client: str) -> str:
        """Where a client is, at the end."""
        self._check(client)
        return self.world.clients[client].broker

    def story(self, id_: str) -> list[str]:
        """What was said about a publication (`P:17`), a client (`S`) or a request (`S/1`), a line each."""
        check_text("id", id_, optional=False)
        book = self.world.storybook
        assert book is not None  # `simulate` keeps one
        return [str(chapter) for chapter in book.story(id_)]

    def assert_clean(self) -> None:
        """AssertionError with the violations, if any checker found some."""
        if not self.checks.clean:
            raise AssertionError(f"{self.workload.name}: {violations_of(self.checks)}")

    def _check(self, client: str) -> None:
        """A slip of the pen would pass for somebody whom nothing reached."""
        if client not in self.world.clients:
            there = ", ".join(self.world.clients) or "none"
            raise ValueError(f"there is no client {client!r}; there are {there}")


def simulate(
    workload: str | Path,
    *,
    modules: Modules | None = None,
    router: type[Flooding] | str | None = None,
    settings: Mapping[str, str] | None = None,
    faults: str = "none",
    seed: int = 0,
    until_s: float | None = None,
    trace: Path | None = None,
    run: str | None = None,
) -> Simulation:
    """Run a workload to its end, let everything arrive, and judge. The same arguments give the same run.

    | argument | what it says |
    | --- | --- |
    | `workload` | the text of a workload, or the path of a file (docs/SIMULATION.md) |
    | `modules` | what makes the modules of a broker, besides those that the workload names |
    | `router` | in place of the workload's `routing`: a class that can be imported, or its name |
    | `settings` | more of what `federation set` can say, as text |
    | `faults` | a profile of faults to add, one of `PROFILES` |
    | `seed` | of all that the workload leaves open, the faults among it |
    | `until_s` | when it ends, if not where the workload says |
    | `trace` | a folder for the tables of its trace, as `roost lake` and the pipeline read them |
    | `run` | the name of the run there; else made of the workload's and the seed |

    UserError if the workload or a setting will not do.

    >>> ran = simulate('''
    ...     0.0 broker add B0 1000 16 10
    ...     0.0 publisher add P - 0 B0 a > 1
    ...     0.0 subscriber add S B0 a > 5
    ...     5.0 publisher publish P [a,7]
    ...     9.0 end
    ... ''')
    >>> ran.assert_clean()
    >>> [(receipt.id, receipt.event.attributes["a"]) for receipt in ran.received("S")]
    [('P:1', 7)]
    """
    check_kind("workload", workload, (str, Path), "the text of a workload or a Path")
    check_callable("modules", modules)
    check_kind("settings", settings, (Mapping, NoneType), "texts by their names or None")
    check_text("faults", faults, optional=False)
    check_kind("seed", seed, (int,), "a whole number")
    check_seconds("until_s", until_s)
    check_kind("trace", trace, (Path, NoneType), "a Path or None")
    check_text("run", run)
    if isinstance(workload, Path):
        planned = read_workload(workload)
    else:
        planned = parse_workload(workload, "workload", None)
    chosen = planned.settings
    more = dict(settings or {})
    if router is not None:
        more["routing"] = name_of(router)
    for key, value in more.items():
        chosen = settings_with(chosen, key, value)
    planned = msgspec.structs.replace(planned, settings=chosen)
    end_s = end_of(planned) if until_s is None else until_s
    if faults != "none":
        planned = with_faults(planned, faults, seed, end_s)
    config = {
        "workload": planned.name,
        "until_s": end_s,
        "faults": faults,
        "settings": msgspec.to_builtins(chosen),
        "script": Path(sys.argv[0]).name,
    }
    with traced(trace, run or f"{Path(planned.name).stem}-{seed}", seed, config) as writer:
        world = NotingWorld(
            chosen,
            planned.statements,
            seed=seed,
            storybook=Storybook(),
            modules=modules_of(chosen, modules),
            trace=writer,
        )
        world.watch()
        run_workload(world, planned, end_s)
        checks, unfinished = verdict(world, planned)
    return Simulation(world, planned, checks, unfinished)


def traced(
    folder: Path | None, run: str, seed: int, config: Mapping[str, object]
) -> AbstractContextManager[TraceWriter | None]:
    """A trace that says of which kind its run is, and what it was made of; or none."""
    if folder is None:
        return nullcontext()
    return TraceWriter(folder, run, about=About("simulated", seed, config))


def name_of(router: type[Flooding] | str) -> str:
    """A router as settings name it."""
    check_kind("router", router, (type, str), "a class or its name")
    return router if isinstance(router, str) else f"{router.__module__}:{router.__qualname__}"


def violations_of(checks: Checks) -> str:
    """What checkers found, in words."""
    shown = checks.violations[:VIOLATIONS_SHOWN]
    lines = [f"{checks.broken} promise{'' if checks.broken == 1 else 's'} broken", *shown]
    if checks.broken > len(shown):
        lines.append(f"and {checks.broken - len(shown)} more")
    return "\n  ".join(lines)
