"""What `roost sweep` shows people: how far it is, figures over the seeds, and what went wrong."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from roost.confidence import half_width
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.progress import Progress, Say
from roost.pipeline.sweeps.sweep import Outcome
from roost.pipeline.sweeps.table import Group, Spread, violations
from roost.pipeline.sweeps.tasks import BREACHES, FIRST_VIOLATION, Task

# Without a terminal, a line so often.
LINE_EVERY_S = 5.0
PROBLEMS_SHOWN = 10


# --- how far it is ----------------------------------------------------------------------------------


@contextmanager
def progress() -> Iterator[Say]:
    """A bar on stderr; for no person a line now and then, and one at the end."""
    if sys.stderr.isatty():
        with _bar() as say:
            yield say
        return
    lines = _Lines()
    try:
        yield lines.say
    finally:
        lines.end()


@contextmanager
def _bar() -> Iterator[Say]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("cells{task.fields[more]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, more="")

        def say(now: Progress) -> None:
            bar.update(task, total=now.total, completed=now.done, more=_more(now))

        yield say


class _Lines:
    """Says no more than a line every few seconds."""

    def __init__(self) -> None:
        self._said_at = perf_counter()
        self._said = self._now = ""

    def say(self, now: Progress) -> None:
        self._now = f"{now.done:,} of {now.total:,} cells{_more(now)}"
        if perf_counter() - self._said_at >= LINE_EVERY_S:
            self._print()

    def end(self) -> None:
        if self._now != self._said:
            self._print()

    def _print(self) -> None:
        print(self._now, file=sys.stderr, flush=True)
        self._said, self._said_at = self._now, perf_counter()


def _more(now: Progress) -> str:
    parts = [f"{now.failed:,} failed"] * (now.failed > 0)
    if now.running:
        parts.append(f"{now.running:,} running")
    if now.left_s and now.done < now.total:
        parts.append(f"{clock(now.left_s)} to go")
    return "".join(f", {part}" for part in parts)


def clock(seconds: float) -> str:
    """A time to go, as people read it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )


# --- what came of it --------------------------------------------------------------------------------


def show_tasks(console: Console, tasks: Mapping[str, Task]) -> None:
    """What there is to sweep."""
    for name, task in tasks.items():
        console.print(name, style="bold")
        console.print(Padding(task.description, (0, 0, 0, 2), expand=False))
    console.print("MODULE:FUNCTION", style="bold")
    console.print(Padding("A function of (parameters, seed) that gives a row.", (0, 0, 0, 2)))


def show_outcome(
    console: Console, outcome: Outcome, figures: Sequence[str], *, title: str, task: str
) -> None:
    """The figures of every combination; what failed; and how well the cores were used."""
    console.print(f"Sweep {title}", style="bold")
    _show_groups(console, outcome, figures)
    _show_problems(console, outcome.failed, "failed", task)
    _show_problems(console, outcome.broken, "found violations", task)
    kept = len(outcome.results) - outcome.ran
    parts = [f"{len(outcome.results):,} cell{'s' * (len(outcome.results) > 1)}"]
    if kept:
        parts.append(f"{kept:,} of them kept from before")
    if outcome.ran:
        parts.append(
            f"{outcome.wall_s:,.1f} s for {outcome.cell_s:,.1f} s of cells on {outcome.slots}"
            f" core{'s' * (outcome.slots > 1)}: efficiency {100 * outcome.efficiency:.0f} %"
        )
    console.print("; ".join(parts), style="dim", soft_wrap=True)


def _show_groups(console: Console, outcome: Outcome, figures: Sequence[str]) -> None:
    names = list(dict.fromkeys(name for group in outcome.groups for name in group.parameters))
    fixed: list[str] = []
    axes: list[str] = []
    for name in names:
        values = {group.parameters.get(name) for group in outcome.groups}
        (axes if len(values) > 1 else fixed).append(name)
    if fixed:
        first = outcome.groups[0].parameters
        text = " ".join(f"{name}={first[name]}" for name in fixed)
        console.print(Padding(text, (0, 0, 0, 2), expand=False), style="dim")
    grid = Table()
    for name in axes:
        grid.add_column(name, overflow="fold")
    for name in ("seeds", *figures):
        # Between words a title can be broken.
        grid.add_column(name.replace("_", " "), justify="right")
    for group in outcome.groups:
        told = [_figure(group.figures.get(name)) for name in figures]
        seeds = f"{group.done:,}" + f" ({group.failed:,} failed)" * (group.failed > 0)
        bad = "red" if group.violations or group.failed else None
        grid.add_row(
            *(str(group.parameters.get(name, "")) for name in axes), seeds, *told, style=bad
        )
    console.print(grid)
    if any(group.done > 1 for group in outcome.groups):
        console.print("  means over the seeds, ± 95 % of confidence", style="dim")


def _figure(spread: Spread | None) -> str:
    """The mean, and by how much it may be off."""
    if spread is None:
        return "-"
    mean, half = _digits(spread.mean, 4), half_width(spread.std, spread.n)
    return f"{mean} ± {_digits(half, 2)}" if half else mean


def _digits(number: float, digits: int) -> str:
    """A number to so many digits, but never with an exponent because it is large."""
    return f"{number:,.{digits}g}" if abs(number) < 10**digits - 0.5 else f"{number:,.0f}"


def _show_problems(console: Console, results: Sequence[Result], what: str, task: str) -> None:
    if not results:
        return
    console.print(f"{len(results):,} cell{'s' * (len(results) > 1)} {what}", style="bold red")
    for result in results[:PROBLEMS_SHOWN]:
        console.print(f"  {_why(result)}", style="red", soft_wrap=True)
        console.print(f"    run it alone: {replay(task, result)}", soft_wrap=True)
    more = len(results) - PROBLEMS_SHOWN
    if more > 0:
        console.print(f"  and {more:,} more", style="red")
    if len(results) == 1 and results[0].traceback:
        print(results[0].traceback, file=sys.stderr, end="")


def _why(result: Result) -> str:
    said = result.error or result.figures.get(FIRST_VIOLATION) or f"{violations(result):,}"
    return f"{result.cell}: {said}"


def replay(task: str, result: Result) -> str:
    """The command that runs just one cell, and keeps nothing."""
    words = ["roost", "sweep", task]
    for name, value in result.parameters.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--seeds", f"{result.seed}-{result.seed}"])


def as_json(
    name: str, reference: str, outcome: Outcome, table: Path | None, task: str
) -> dict[str, Any]:
    """The whole for programs."""
    done = [result.figures for result in outcome.results if result.error is None]
    checked = [n for n in ("delivered", *BREACHES) if any(n in row for row in done)]
    return {
        "run": name,
        "task": reference,
        "summary": {
            "cells": len(outcome.results),
            "ran": outcome.ran,
            "failed": len(outcome.failed),
            "wall_s": outcome.wall_s,
            "cell_s": outcome.cell_s,
            "cores": outcome.slots,
            "efficiency": outcome.efficiency,
        },
        "checks": {n: sum(row.get(n) or 0 for row in done) for n in checked},
        "table": None if table is None else str(table),
        "groups": [_group(group) for group in outcome.groups],
        "failures": [_problem(task, result) for result in outcome.failed],
        "violations": [_problem(task, result) for result in outcome.broken],
    }


def _group(group: Group) -> dict[str, Any]:
    """With the half of each interval of confidence; null of one seed alone."""
    told: dict[str, Any] = msgspec.to_builtins(group)
    for name, spread in group.figures.items():
        told["figures"][name]["confidence_95"] = half_width(spread.std, spread.n)
    return told


def _problem(task: str, result: Result) -> dict[str, Any]:
    return {
        "cell": result.cell,
        "parameters": result.parameters,
        "seed": result.seed,
        "error": result.error or result.figures.get(FIRST_VIOLATION),
        "replay": replay(task, result),
    }
