"""`roost backup` and `roost restore`: the store of a broker, as one file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import print_json

if TYPE_CHECKING:
    from roost.runtime.backup import Lost, Restored

BACKUP_EXAMPLES = """\b
The broker may run, and notices nothing. The backup is the store as it was at the end of a transaction; it
has been read from one end to the other before it gets its name.

\b
Examples:
  roost backup /var/lib/roost /backups/roost.db
  roost backup roost.toml /backups/               # a file for each time
"""
RESTORE_EXAMPLES = """\b
The broker must not run. Started with a backup it begins anew: its neighbours tell it all again, durable
sessions and what waits for them are as they were, clients of other sessions say again what they want. What
was accepted since the backup is lost, unless a neighbour or an outbox still has it.

\b
Examples:
  roost restore /backups/roost.db /var/lib/roost
"""

Place = Annotated[
    Path, typer.Argument(metavar="FOLDER|CONFIG", help="[broker] data, or the file that says it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("backup", epilog=BACKUP_EXAMPLES)(backup)
    app.command("restore", epilog=RESTORE_EXAMPLES)(restore)


def backup(
    place: Place,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where it goes; a folder gets a new file.")
    ],
    replace: Annotated[bool, typer.Option("--replace", help="A file that is there.")] = False,
    json: Json = False,
) -> None:
    """Back up the store of a broker, also while it runs."""
    from msgspec.structs import asdict

    from roost.runtime.backup import back_up, store_of

    made = back_up(store_of(place), target, replace=replace)
    if json:
        print_json(asdict(made))
        return
    typer.echo(
        f"{made.path}: {made.records:,} records, {made.bytes:,} bytes, as of {at(made.made_at)}"
    )


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="As `roost backup` made it.")],
    place: Place,
    force: Annotated[
        bool, typer.Option("--force", help="A store that is there is kept under another name.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup in the place of a broker's store."""
    from msgspec import to_builtins

    from roost.runtime.backup import restore as put_back
    from roost.runtime.backup import store_of

    done = put_back(source, store_of(place), force=force)
    if json:
        shown = to_builtins(done)
        del shown["anew"]["writes"]
        print_json(shown)
        return
    for line in account(done):
        typer.echo(line)


def account(done: Restored) -> list[str]:
    """What has become of what, for whoever has to explain it."""
    anew = done.anew
    lines = [
        f"{done.store}: restored from {done.backup}, as of {at(done.made_at)},"
        f" {time.time() - done.made_at:,.0f} s ago; {done.records:,} records",
        f"  kept   durable sessions: {anew.durable:,}, of which outboxes: {anew.outboxes:,}; deliveries that"
        f" wait for them: {anew.waiting:,}",
        f"  gone   other sessions, whose clients begin anew: {anew.others:,}; deliveries that waited for"
        f" them: {anew.lost:,}",
        f"  again  events that waited for {anew.links:,} neighbours: {anew.sent_again:,}",
    ]
    if done.kept is not None:
        lines.append(f"  the store that was there is {done.kept} now")
        lines.append(f"  lost   {compared(done.lost)}")
    else:
        lines.append(
            "  lost   what was accepted since, unless a neighbour or an outbox still has it"
        )
    return lines


def compared(lost: Lost | None) -> str:
    if lost is None:
        return (
            "what was accepted since; how much nobody knows: the store that was there can't be read"
        )
    since = "" if lost.commits is None else f", {lost.commits:,} commits since"
    return (
        f"compared with that{since}: durable sessions: {lost.sessions:,}; deliveries for durable sessions:"
        f" {lost.deliveries:,}; events for neighbours: {lost.events:,}; handled since, and delivered again:"
        f" {lost.again:,}"
    )


def at(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
