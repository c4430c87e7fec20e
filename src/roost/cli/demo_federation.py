"""The parts of `roost demo` that run a federation: one told step by step, and one that things happen to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

    from roost.broker.story import Chapter
    from roost.simulation.run import Checks
    from roost.simulation.statements import Statement

FIGURE = "figure-2.2.workload"
# A scenario in which brokers crash, with their stores, so that nothing is forgiven for it.
SEED = 134
WHAT_WIDTH = 24

_is_title = re.compile(r"# (\d+: .+)").fullmatch
_is_picture = re.compile(r"#( {5,}.+)").fullmatch


class Step(NamedTuple):
    """What the remark in front of some lines of a workload says, and when the first of them happens."""

    title: str
    at: float


# --- figure 2.2 -------------------------------------------------------------------------------------


def show_figure(console: Console, text: str) -> None:
    """The federation of 001 figure 2.2: who told whom what, from its workload file."""
    from roost.broker.story import Storybook
    from roost.simulation.run import check, end_of, rest
    from roost.simulation.workload_file import parse_workload
    from roost.simulation.world import World

    workload = parse_workload(text, FIGURE, None)
    storybook = Storybook()
    world = World(workload.settings, workload.statements, storybook=storybook)
    world.run(end_of(workload))
    checks = check(world, rested=rest(world), must_rest=True)

    console.print("A federation of brokers: who tells whom what (001 figure 2.2)\n", style="bold")
    for line in filter(None, map(_is_picture, text.splitlines())):
        console.print(line[1])
    steps = steps_of(text)
    ends = [step.at for step in steps[1:]] + [float("inf")]
    for step, end in zip(steps, ends, strict=True):
        console.print(f"\n{step.title}")
        for what, way in account([c for c in storybook.chapters if step.at <= c.at < end]):
            console.print(f"    {what:<{WHAT_WIDTH}}  {way}", style="cyan")
    console.print()
    show_verdict(console, checks)
    console.print()


def steps_of(text: str) -> list[Step]:
    """The steps of a workload file whose remarks number them."""
    steps = []
    title = ""
    for line in text.splitlines():
        if found := _is_title(line):
            title = found[1]
        elif title and line[:1].isdigit():
            steps.append(Step(title, float(line.split()[0])))
            title = ""
    return steps


def account(chapters: Sequence[Chapter]) -> list[tuple[str, str]]:
    """What was said, and the way that it went: a row for all who said the same, one after the other."""
    return [
        (what, way_of(list(same)))
        for what, same in groupby(chapters, lambda c: f"{c.verb} {c.text}".rstrip())
    ]


def way_of(chapters: Sequence[Chapter]) -> str:
    """`P -> B1 -> B2 -> B4, B2 -> B3`"""
    way = last = ""
    for chapter in chapters:
        if chapter.who == last:
            way += f" -> {chapter.to}"
        else:
            way += f"{', ' if way else ''}{chapter.who} -> {chapter.to}"
        last = chapter.to
    return way


# --- faults -----------------------------------------------------------------------------------------


def show_faults(console: Console) -> None:
    """A random scenario, and what all checkers say of it."""
    from roost.simulation.fuzz import fuzz

    with console.status("running a scenario with faults"):
        scenario, world, checks = fuzz(SEED)
    console.print(f"And when things break: random scenario {SEED}", style="bold")
    published = world.oracle.published_count
    console.print(f"  federation      {', '.join(inventory(scenario.statements))}")
    console.print(f"  what happened   {', '.join(happenings(scenario.statements))}")
    console.print(f"  events          {published:,} published, {checks.delivered:,} delivered")
    show_verdict(console, checks)
    console.print()


def inventory(statements: Sequence[Statement]) -> list[str]:
    """Who ever was in a federation, counted."""
    from roost.simulation import statements as st

    return counted(
        statements,
        {"broker": (st.AddBroker,), "client": (st.AddPublisher, st.AddSubscriber)},
    )


def happenings(statements: Sequence[Statement]) -> list[str]:
    """What happened to it, counted."""
    from roost.simulation import statements as st

    # To be slow no longer is a statement, too.
    begun = [s for s in statements if not isinstance(s, st.SlowBroker) or s.factor > 1]
    return counted(
        begun,
        {
            "crash": (st.CrashBroker,),
            "cut link": (st.CutLink,),
            "partition": (st.Partition,),
            "late link": (st.DelayLink,),
            "slow broker": (st.SlowBroker,),
            "lost connection": (st.VanishClient,),
            "moved client": (st.RedirectClient,),
            "removed link": (st.RemoveLink,),
        },
    )


def counted(
    statements: Sequence[Statement], kinds: Mapping[str, tuple[type[Statement], ...]]
) -> list[str]:
    """How many there are of each kind that there are any of, in words."""
    numbers = {what: sum(isinstance(s, types) for s in statements) for what, types in kinds.items()}
    return [f"{n} {plural(what) if n > 1 else what}" for what, n in numbers.items() if n]


def plural(what: str) -> str:
    """As English has it."""
    return f"{what}es" if what.endswith("sh") else f"{what}s"


def show_verdict(console: Console, checks: Checks) -> None:
    """What the checkers found, in a line; more if it is not nothing."""
    from roost.cli.sim_report import counts, show_violations

    found = ", ".join(f"{what} {number:,}" for what, number in counts(checks))
    style = "green" if checks.clean else "red"
    console.print(f"  checked         {found}", style=style)
    show_violations(console, checks)
