"""One run of `roost sim run`, from the file to the verdict."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from roost.broker.commands import Record
from roost.broker.events import LoadIndices
from roost.broker.registry import ModuleOrder, make_module
from roost.broker.story import Storybook
from roost.cli.decisions import CHANGES, decision_of, why
from roost.cli.sim.report import progress
from roost.errors import UserError
from roost.simulation.faults import with_faults
from roost.simulation.host import Host
from roost.simulation.run import Checks, check, end_of, run_workload, verdict
from roost.simulation.statements import AddBroker
from roost.simulation.summary import Summary, last_loads, summarise
from roost.simulation.workload_file import Workload, read_workload
from roost.simulation.world import World
from roost.traces import About, TraceWriter, decision_row, read_table
from roost.traces.rows import DecisionRow

# A time, and the links that there were from then on.
Overlay = tuple[float, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Plan:
    """What the command line asks for."""

    file: Path
    seed: int
    until: float | None
    trace: Path | None
    faults: str
    rest: bool
    stories: bool
    modules: tuple[ModuleOrder, ...] = ()  # besides those that the file names
    chunks: bool = False
    content: bool = False  # whether the trace has the events themselves

    @property
    def run(self) -> str:
        """The name of the run: the same for the same file, seed and faults."""
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.file.stem) or "run"
        profile = "" if self.faults == "none" else f"-{self.faults}"
        return f"{stem}-{self.seed}{profile}"


@dataclass(frozen=True)
class Result:
    """What came of it."""

    run: str
    summary: Summary
    checks: Checks
    # Why it is not at rest; nothing if it is.
    unfinished: tuple[str, ...]
    tables: dict[str, Path]
    storybook: Storybook | None
    decisions: Sequence[DecisionRow] = ()
    # When the overlay was seen to be another one, and its links.
    overlays: Sequence[Overlay] = ()

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "run": self.run,
            "summary": self.summary.as_dict(),
            "checks": msgspec.to_builtins(self.checks),
            "moves": [
                {
                    "time": row.time,
                    "broker": row.broker,
                    "module": row.module,
                    "kind": row.kind,
                    "subject": row.subject,
                    "choice": row.choice,
                }
                for row in changes_of(self)
            ],
        }


class WatchedWorld(World):
    """One that remembers what its optimisers decide, and how the overlay changes."""

    decisions: list[DecisionRow]
    overlays: list[Overlay]
    # The same, with the latencies of links in ms.
    measured_overlays: list[tuple[float, list[tuple[str, str, float]]]]

    def decided(self, host: Host, record: Record) -> None:
        self.decisions.append(decision_row(self.clock.now, host.name, record.decision))
        super().decided(host, record)

    def sampled(self, host: Host, load: LoadIndices) -> None:
        links = tuple(self.overlay.links())
        if not self.overlays or self.overlays[-1][1] != links:
            self.overlays.append((self.clock.now, links))
            known = [(a, b, self.overlay.latency_s(a, b) * 1e3) for a, b in links]
            self.measured_overlays.append((self.clock.now, known))
        super().sampled(host, load)


def carry_out(plan: Plan) -> Result:
    """Reads, runs, and judges."""
    workload = read_workload(plan.file)
    for order in plan.modules:
        make_module(order)  # or it says why not, before anything runs
    settings = workload.settings
    settings = msgspec.structs.replace(settings, modules=(*settings.modules, *plan.modules))
    workload = msgspec.structs.replace(workload, settings=settings)
    until = end_of(workload) if plan.until is None else plan.until
    if not (math.isfinite(until) and until > 0):
        raise UserError(f"{plan.file}: the run would end at {until:g} s; expected a time above 0")
    if plan.faults != "none":
        workload = with_faults(workload, plan.faults, plan.seed, until)
    storybook = Storybook() if plan.stories else None
    with traced(plan, workload, until) as trace:
        world = WatchedWorld(
            workload.settings,
            workload.statements,
            seed=plan.seed,
            trace=trace,
            storybook=storybook,
            chunks=plan.chunks,
        )
        world.decisions, world.overlays, world.measured_overlays = [], [], []
        began = time.perf_counter()
        checks, loads, reasons = judged(world, workload, until, plan)
        wall_s = time.perf_counter() - began
        if trace is not None:
            trace.note(overlays=world.measured_overlays)
    tables = trace.paths if trace is not None else {}
    summary = summarise(
        world,
        checks,
        until=until,
        wall_s=wall_s,
        loads=loads,
        trace=read_table(tables["loads"]) if tables else None,
    )
    return Result(
        plan.run,
        summary,
        checks,
        tuple(reasons),
        tables,
        storybook,
        tuple(world.decisions),
        tuple(world.overlays),
    )


def animated(plan: Plan, page: Path) -> Result:
    """The same, with a page that plays the run again; from its trace, which is not kept unless asked for."""
    from roost.cli.sinks import whole_file
    from roost.pictures.replay import Move, replay_page
    from roost.pictures.replay_of_run import replay_of

    with TemporaryDirectory(prefix="roost-animate-") if plan.trace is None else nullcontext() as to:
        kept = plan if to is None else replace(plan, trace=Path(to))
        with whole_file(page) as file:
            result = carry_out(kept)
            tables = {name: read_table(path) for name, path in result.tables.items()}
            moves = [Move(row.time, told(row)) for row in changes_of(result)]
            until_s = result.summary.virtual_s
            replay = replay_of(tables, result.run, until_s, result.overlays, moves)
            file.write(replay_page(replay).encode())
    return result if plan.trace is not None else replace(result, tables={})


def changes_of(result: Result) -> list[DecisionRow]:
    """What its optimisers have carried out."""
    return [row for row in result.decisions if row.acted and row.kind in CHANGES]


def told(row: DecisionRow) -> str:
    """A change in a sentence, with its reason."""
    if row.kind == "rewire":
        what = f"the link {row.subject} ends at {row.choice} instead of {row.broker}"
    else:
        what = f"{row.subject} moves from {row.broker} to {row.choice}"
    reason = why(decision_of(row._asdict()))
    return f"{what} ({row.module}: {reason})" if reason else f"{what} ({row.module})"


@contextmanager
def traced(plan: Plan, workload: Workload, until: float) -> Iterator[TraceWriter | None]:
    """The trace that is asked for; one of the same name is replaced."""
    if plan.trace is None:
        yield None
    else:
        about = About("simulated", plan.seed, config_of(plan, workload, until))
        with TraceWriter(plan.trace, plan.run, about=about, content=plan.content) as trace:
            yield trace


def config_of(plan: Plan, workload: Workload, until: float) -> dict[str, Any]:
    """What decides a run besides its seed, so that it can be made again."""
    # What comes through a pipe can't be read a second time.
    whole = plan.file.read_bytes() if plan.file.is_file() else None
    return {
        "workload": plan.file.name,
        "sha256": None if whole is None else sha256(whole).hexdigest(),
        "until_s": until,
        "faults": plan.faults,
        "rest": plan.rest,
        "settings": msgspec.to_builtins(workload.settings),
        "brokers": {
            statement.broker: (statement.cpu_mhz, statement.memory_mb, statement.bandwidth_mbps)
            for statement in workload.statements
            if isinstance(statement, AddBroker)
        },
    }


def judged(
    world: World, workload: Workload, until: float, plan: Plan
) -> tuple[Checks, dict[str, LoadIndices], list[str]]:
    """The verdict, the loads at the end of the run, and why it did not come to rest, if it did not."""
    with progress("virtual seconds", until) as say:
        run_workload(world, workload, until, say)
    loads = last_loads(world)
    if not plan.rest:
        return check(world, rested=False), loads, ["it was not given the time (--no-rest)"]
    checks, reasons = verdict(world, workload)
    return checks, loads, reasons
