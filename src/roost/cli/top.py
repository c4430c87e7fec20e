"""`roost top`: how the brokers of a federation fare, all the time.

A frame is made of two looks. Brokers measure their own load; what passes over a link is the difference
between what its ends had sent by the one look and by the other.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from roost.cli.figures import MB, Column, Row, bar, fitted, in_mb, wide
from roost.cli.fleet import (
    OK,
    Fleet,
    Sight,
    about_fleet,
    look,
)
from roost.cli.status import style_of
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

EXAMPLES = """\b
q or Ctrl-C ends it.

\b
Examples:
  roost top
  roost top --state /tmp/sites
  roost top --once | cat
"""
REFRESH_S = 1.0
# Between the two looks of a single frame.
ONCE_S = 0.5
# Of a frame that is neither a broker nor a link: titles, heads, blanks, and what says that there is more.
FRAME_LINES = 7

BROKER_COLUMNS = (
    Column("broker", left=True),
    Column("load", left=True, expendable=7),
    Column(""),
    Column("in/s"),
    Column("out/s"),
    Column("MB/s", expendable=5),
    Column("memory", expendable=4),
    Column("clients", expendable=2),
    Column("subs", expendable=3),
    Column("waiting"),
    Column("links", expendable=1),
    Column("state", left=True),
)
LINK_COLUMNS = (
    Column("link", left=True),
    Column("→/s"),
    Column("←/s"),
    Column("→ waiting", expendable=1),
    Column("← waiting", expendable=2),
    Column("state", left=True),
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("top", epilog=EXAMPLES)(top)


@about_fleet
def top(
    fleet: Fleet,
    once: Annotated[bool, typer.Option("--once", help="Print one frame, and end.")] = False,
) -> None:
    """Watch the brokers, the busiest first, and their links."""
    console = wide()
    if once:
        first = seen(fleet)
        time.sleep(ONCE_S)
        console.print(frame(seen(fleet), first, console.width))
    elif not console.is_terminal:
        raise UserError("standard output is no terminal; expected one, or --once for one frame")
    else:
        try:
            watch(console, fleet)
        except KeyboardInterrupt:
            return  # that is how one leaves


def watch(console: Console, fleet: Fleet) -> None:
    """Frame after frame, until q."""
    from rich.live import Live

    earlier = seen(fleet)  # says at once if there is nothing to see
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(frame(earlier, earlier, console.width, console.height), refresh=True)
        while "q" not in pressed(REFRESH_S).lower():
            now = seen(fleet)
            live.update(frame(now, earlier, console.width, console.height), refresh=True)
            earlier = now


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """What is typed within so many seconds, without waiting for the end of a line."""
    if not sys.stdin.isatty():
        yield nobody_types
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed(within_s: float) -> str:
        typed, _, _ = select.select([terminal], [], [], within_s)
        return os.read(terminal, 1024).decode("utf-8", "replace") if typed else ""

    tty.setcbreak(terminal)
    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def nobody_types(within_s: float) -> str:
    time.sleep(within_s)
    return ""


# --- two looks --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A look at all brokers, and when it was."""

    at_s: float
    sights: list[Sight]

    @property
    def brokers(self) -> dict[str, Sight]:
        """Those by whose names links know them."""
        return {sight.name: sight for sight in self.sights}


class LinkSight(NamedTuple):
    """A link, from its two ends."""

    a: str
    b: str
    up: bool
    to_b: float | None  # messages a second; None: nobody knows
    to_a: float | None
    waiting_at_a: int | None
    waiting_at_b: int | None

    @property
    def traffic(self) -> float:
        return (self.to_b or 0.0) + (self.to_a or 0.0)


def seen(fleet: Fleet) -> Seen:
    sights = look(fleet)
    return Seen(time.monotonic(), sights)


def links_of(now: Seen, earlier: Seen) -> list[LinkSight]:
    """Every link once, the busiest first."""
    found: dict[frozenset[str], LinkSight] = {}
    brokers = now.brokers
    for name, sight in brokers.items():
        for other, link in sight.links.items():
            ends = frozenset((name, other))
            if ends in found:
                continue
            there = brokers[other].links.get(name) if other in brokers else None
            found[ends] = LinkSight(
                name,
                other,
                link["up"] and (there is None or there["up"]),
                rate(now, earlier, name, other),
                rate(now, earlier, other, name),
                link["waiting"],
                there["waiting"] if there else None,
            )
    return sorted(found.values(), key=lambda link: -link.traffic)


def rate(now: Seen, earlier: Seen, source: str, target: str) -> float | None:
    """Messages a second from one end to the other, by what either of them says."""
    period_s = now.at_s - earlier.at_s
    for broker, other, key in ((source, target, "sent"), (target, source, "received")):
        sights = [look.brokers.get(broker) for look in (earlier, now)]
        counts = [x.links[other][key] for x in sights if x is not None and other in x.links]
        if len(counts) == 2 and period_s > 0:
            # Numbers begin anew when a broker has lost its memory.
            return float(max(0, counts[1] - counts[0])) / period_s
    return None


# --- a frame ----------------------------------------------------------------------------------------


def frame(now: Seen, earlier: Seen, width: int, lines: int | None = None) -> RenderableType:
    """All there is to see, or as much of it as fits."""
    from rich.console import Group

    brokers = sorted(now.sights, key=lambda sight: -sight.utilisation)
    links = links_of(now, earlier)
    room = max(2, lines - FRAME_LINES) if lines is not None else len(brokers) + len(links)
    for_links = min(len(links), max(room - len(brokers), room // 2))
    for_brokers = min(len(brokers), room - for_links)
    shown = [broker_row(sight) for sight in brokers[:for_brokers]]
    parts: list[RenderableType] = [title(brokers, links), "", fitted(BROKER_COLUMNS, shown, width)]
    parts += rest(len(brokers) - for_brokers, "brokers with less load")
    if links:
        shown = [link_row(link) for link in links[:for_links]]
        parts += ["", fitted(LINK_COLUMNS, shown, width)]
        parts += rest(len(links) - for_links, "links with less traffic")
    return Group(*parts)


def title(brokers: Sequence[Sight], links: Sequence[LinkSight]) -> Text:
    from rich.text import Text

    def total(key: str) -> float:
        return float(sum(sight.load.get(key, 0.0) for sight in brokers))

    well = sum(sight.state == OK for sight in brokers)
    up = sum(link.up for link in links)
    return Text.assemble(
        ("roost ", "bold"),
        (f"{datetime.now():%H:%M:%S}", "dim"),
        f"  {well}/{len(brokers)} brokers well, {up}/{len(links)} links up,",
        f" {total('input_rate'):,.0f} in/s, {total('output_rate'):,.0f} out/s,",
        f" {total('output_bytes_per_s') / MB:,.1f} MB/s",
        no_wrap=True,
        overflow="ellipsis",
    )


def rest(count: int, what: str) -> list[RenderableType]:
    from rich.text import Text

    if count <= 0:
        return []
    return [Text(f"and {count:,} {what}", style="dim", no_wrap=True, overflow="ellipsis")]


def broker_row(sight: Sight) -> Row:
    status, load = sight.status, sight.load
    cells = (
        sight.name,
        bar(sight.utilisation),
        f"{100 * sight.utilisation:.0f} %" if load else "-",
        f"{load['input_rate']:,.0f}" if load else "-",
        f"{load['output_rate']:,.0f}" if load else "-",
        f"{load['output_bytes_per_s'] / MB:,.1f}" if load else "-",
        in_mb(load["memory_bytes"]) if load else "-",
        f"{status['attached']:,}" if status else "-",
        f"{status['subscriptions']:,}" if status else "-",
        f"{sight.waiting:,}" if status else "-",
        f"{len(sight.links) - len(sight.links_down)}/{len(sight.links)}" if status else "-",
        sight.shown_state,
    )
    return Row(cells, style_of(sight))


def link_row(link: LinkSight) -> Row:
    figures = (link.to_b, link.to_a, link.waiting_at_a, link.waiting_at_b)
    cells = ["-" if figure is None else f"{figure:,.0f}" for figure in figures]
    state = "up" if link.up else "down"
    return Row((f"{link.a} - {link.b}", *cells, state), None if link.up else "yellow")
