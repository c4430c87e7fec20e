"""A transcript: a workload in steps, each followed by what happened.

    # What it shows, and where the paper says so.
    0.0 broker add B1 1000 16 10
    ---- the title of a step
    1.0 publisher add P - 0 B1 a > 1
    ==>
    P -> B1   advertise P/1 a > 1
    ...

Up to the first step are the lines that build the federation. A step lasts until the first line of the
next one, the last until its `end`. Below `==>` stands

    who -> whom  what            every message, in the order in which they were sent, with its cause
    S gets P:1 [a,7] (main)      every event that reached an application
    waiting  B1 -> B2  P:2       messages that have not arrived, when the step ends
    tables                       hop, id, filter: the routing tables, when the step ends
    clients                      those that are not attached, and why

and at the end of the file the verdict of all checkers. Whatever is as it was after the last step is
left out. There are no times in it, so it changes only when something happens in another order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from roost.broker.messages import Message, Publication
from roost.broker.story import Chapter, Storybook, describe
from roost.simulation.checkers import lanes
from roost.simulation.oracle import Oracle, Party
from roost.simulation.run import check, rest
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World

STEP = "----"
RESULT = "==>"
VERDICT = "===="


class Step(NamedTuple):
    """A title (none for what comes before the first step) and the lines of workload under it."""

    title: str
    lines: list[str]


def steps_of(text: str) -> list[Step]:
    """The steps of a transcript, without what happened in them."""
    steps = [Step("", [])]
    skipping = False
    for line in text.splitlines():
        if line.startswith(VERDICT):
            break
        if line.startswith(STEP):
            steps.append(Step(line.removeprefix(STEP).strip(), []))
            skipping = False
        elif line == RESULT:
            skipping = True
        elif not skipping:
            steps[-1].lines.append(line)
    return steps


def transcribe(text: str, name: str) -> str:
    """The transcript with what happens in it, whatever it said before."""
    steps = steps_of(text)
    workload = parse_workload("\n".join(line for step in steps for line in step.lines), name, None)
    ends = [*_beginnings(steps[1:], name), workload.statements[-1].at]
    storybook = Storybook()
    world = World(workload.settings, workload.statements, storybook=storybook)
    reporter = Reporter(world, storybook)
    written: list[str] = []
    for number, (step, end) in enumerate(zip(steps, ends, strict=True)):
        if step.title:
            written.append(f"{STEP} {step.title}")
        written += step.lines
        # Up to the next step, not into it.
        world.run(end if number == len(steps) - 1 else math.nextafter(end, 0.0))
        report = reporter.report()
        if step.title:
            written += [RESULT, *report]
    return "\n".join([*written, *_verdict(world)]) + "\n"


def _beginnings(steps: Iterable[Step], name: str) -> Iterator[float]:
    for step in steps:
        yield parse_time(next(line for line in step.lines if line and line[0].isdigit()), name)


def parse_time(line: str, name: str) -> float:
    try:
        return float(line.split(maxsplit=1)[0])
    except ValueError:
        raise ValueError(f"{name}: a step begins with {line!r}, which has no time") from None


def _verdict(world: World) -> list[str]:
    rested = rest(world)
    checks = check(world, rested=rested, must_rest=True)
    verdict = "clean" if checks.clean else "NOT CLEAN"
    counts = f"{checks.delivered} delivered, {checks.lost} lost, {checks.doubled} doubled"
    return [f"{VERDICT} {verdict}: {counts}", *checks.violations]


class Reporter:
    """What has happened since it was last asked."""

    def __init__(self, world: World, storybook: Storybook) -> None:
        self._world = world
        self._storybook = storybook
        self._lines: list[tuple[int, str]] = []  # how many chapters there were before, line
        self._tables: list[str] = []
        self._listen(world.oracle)

    def _listen(self, oracle: Oracle) -> None:
        arrived = oracle.arrived

        def listen(
            party: Party, publication: Publication, names: Collection[str], now: float
        ) -> None:
            what = f"{party.name} gets {publication.id} {publication.event} ({', '.join(names)})"
            self._lines.append((len(self._storybook.chapters), what))
            arrived(party, publication, names, now)

        setattr(oracle, "arrived", listen)  # noqa: B010 (it is a method, for the type checker)

    def report(self) -> list[str]:
        said = [self._told(chapter) for chapter in self._storybook.chapters]
        lines = self._in_order(said)
        self._storybook.chapters.clear()
        self._lines.clear()
        lines += [f"waiting  {what}" for what in self._waiting()]
        tables = [line for name in self._world.overlay.brokers() for line in self._table(name)]
        if tables != self._tables:
            lines += ["tables", *columns(tables)]
        self._tables = tables
        return [*lines, *self._absent()]

    def _in_order(self, said: list[str]) -> list[str]:
        lines = [(number, 1, line) for number, line in enumerate(columns(said, indent=""))]
        lines += [(number, 0, line) for number, line in self._lines]
        return [line for _, _, line in sorted(lines, key=lambda item: item[:2])]

    def _told(self, chapter: Chapter) -> str:
        text = f"{chapter.verb} {chapter.text}".rstrip()
        # That it is its own doing, or the workload's, goes without saying.
        known = chapter.cause.startswith((f"{chapter.who} ", "line "))
        cause = f"  ({chapter.cause})" if chapter.cause and not known else ""
        return f"{chapter.who} -> {chapter.to}\t{text}{cause}"

    def _waiting(self) -> Iterator[str]:
        for name, lane, other in lanes(self._world):
            arrived = other.received if other is not None else lane.acked
            for frame in lane.outbox:
                if frame.sequence > arrived:
                    yield f"{name}  {brief(frame.message)}"

    def _table(self, name: str) -> Iterator[str]:
        life = self._world.hosts[name].life
        if life is None:
            yield f"{name} is down"
            return
        routing = life.broker.router
        for kind, table in (("sub", routing.subscriptions), ("adv", routing.advertisements)):
            for entry in table.values():
                hop = entry.hop.name.split(".")[0]  # a session is its client's
                yield f"{name}\t{kind}\t{hop}\t{entry.id}\t{entry.interest}"

    def _absent(self) -> Iterator[str]:
        for name, client in self._world.clients.items():
            if client.machine.state != "attached":
                left = " (it has left)" if client.gone else ""
                yield f"{name} is {client.machine.state}{left}"


def brief(message: Message) -> str:
    verb, subject, _, _ = describe(message)
    return f"{verb} {subject}".rstrip()


def columns(lines: list[str], indent: str = "  ") -> list[str]:
    """Lines with tabs, as columns that are as wide as they have to be."""
    rows = [line.split("\t") for line in lines]
    cells = max(map(len, rows), default=0)
    widths = [max(len(row[i]) for row in rows if i < len(row) - 1) for i in range(cells - 1)]
    return [
        indent + "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]])
        if len(row) > 1
        else indent + row[0]
        for row in rows
    ]
