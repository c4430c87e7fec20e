"""`roost status`: how the brokers of a federation fare, once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import print_json
from roost.cli.figures import Column, Row, fitted, in_mb, wide
from roost.cli.fleet import (
    LINK_DOWN,
    OK,
    Fleet,
    Sight,
    about_fleet,
    look,
)

if TYPE_CHECKING:
    from rich.console import Console

EXIT_TROUBLE = 1

EXAMPLES = """\b
Exit code 1: a broker does not answer, has trouble, or lacks a link.

\b
Examples:
  roost status
  roost status --state /tmp/sites --json
  roost status --admin 10.0.0.2:7412 --admin https://10.0.0.3:7412 --authority authority.pem
"""
COLUMNS = (
    Column("broker", left=True),
    Column("address", left=True, expendable=4),
    Column("pid", expendable=5),
    Column("up since", expendable=6),
    Column("sessions", expendable=2),
    Column("subs", expendable=3),
    Column("in/s"),
    Column("out/s"),
    Column("cpu"),
    Column("memory", expendable=1),
    Column("waiting"),
    Column("links"),
    Column("state", left=True),
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("status", epilog=EXAMPLES)(status)


@about_fleet
def status(
    fleet: Fleet,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how the brokers fare: of the federation in .roost, else of the one on this machine."""
    sights = look(fleet)
    if json_:
        print_json({"brokers": [facts(sight) for sight in sights]})
    else:
        show(wide(), sights)
        if fleet.guessed:
            say_guessed(sights)
    if any(sight.state != OK for sight in sights):
        raise typer.Exit(EXIT_TROUBLE)


def say_guessed(sights: Sequence[Sight]) -> None:
    """Nobody has said which brokers, and here is one: perhaps not the one that was meant."""
    (only,) = sights
    print(
        f"no federation was started from this folder: this is what listens at {only.target.url}, the default;"
        " --state DIR or --admin URL say which you mean",
        file=sys.stderr,
    )


def facts(sight: Sight) -> dict[str, Any]:
    """All that a broker says, and what is to be said of one that says nothing."""
    return {
        **(sight.status or {}),
        "broker": sight.name,
        "address": sight.address,
        "admin": sight.target.url,
        "pid": sight.pid,
        "state": sight.state,
        "trouble": sight.trouble,
    }


def show(console: Console, sights: Sequence[Sight]) -> None:
    """A row for each, and below it what the matter is with some."""
    rows = [Row(row(sight), style_of(sight)) for sight in sights]
    console.print(fitted(COLUMNS, rows, console.width))
    for sight in sights:
        if sight.trouble:
            # Of one that is known by its address only, that is what the trouble begins with.
            known = sight.trouble.startswith(
                tuple(f"{before}{sight.name}: " for before in ("", "http://", "https://"))
            )
            said = sight.trouble if known else f"{sight.name}: {sight.trouble}"
            console.print(f"  {said}", style=style_of(sight), soft_wrap=True)
        for warning in sight.warnings:
            console.print(f"  {sight.name}: {warning}", style="yellow", soft_wrap=True)


def row(sight: Sight) -> tuple[str, ...]:
    pid = str(sight.pid) if sight.pid is not None else "-"
    if sight.status is None:
        nothing = ["-"] * (len(COLUMNS) - 4)
        return (sight.name, sight.address or "-", pid, *nothing, sight.state)
    status, load = sight.status, sight.load
    return (
        sight.name,
        sight.address,
        pid,
        since(status["uptime_s"]),
        f"{status['attached']:,}/{status['sessions']:,}",
        f"{status['subscriptions']:,}",
        f"{load['input_rate']:,.0f}" if load else "-",
        f"{load['output_rate']:,.0f}" if load else "-",
        f"{100 * load['cpu_utilisation']:.0f} %" if load else "-",
        in_mb(load["memory_bytes"]) if load else "-",
        f"{sight.waiting:,}",
        f"{len(sight.links) - len(sight.links_down)}/{len(sight.links)}",
        sight.shown_state,
    )


def since(uptime_s: float) -> str:
    """When that was: today's time, or the day."""
    now = datetime.now()
    begun = datetime.fromtimestamp(now.timestamp() - uptime_s)
    return f"{begun:%H:%M:%S}" if begun.date() == now.date() else f"{begun:%d %b}"


def style_of(sight: Sight) -> str | None:
    return {OK: None, LINK_DOWN: "yellow"}.get(sight.state, "red")
