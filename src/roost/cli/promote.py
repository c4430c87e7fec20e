"""`roost promote`: the standby of a broker goes on as that broker, because somebody says so."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from roost.cli.console import print_json
from roost.cli.fleet import Fleet, Sight, about_fleet, look
from roost.errors import UserError

EXAMPLES = """\b
The broker yields to its standby, if it is there: nothing is lost, and its clients go on at the other node.
So the role is given back, too, or a machine made free. If it is not there, the standby goes on without it,
provided that it has all that was ever said; --force, whatever the other may know. That is for whoever knows
that the other node is dead, and stays so.

\b
Exit code 1: it is not the broker yet.

\b
Examples:
  roost promote B3
  roost promote B3 --admin 10.0.0.3:7412 --force
"""
EXIT_NOT_YET = 1
LOOK_EVERY_S = 0.1


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("promote", epilog=EXAMPLES)(promote)


@about_fleet
def promote(
    fleet: Fleet,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the broker.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also without what only the other node may know.")
    ] = False,
    within: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="How long to wait, in seconds.")
    ] = 15.0,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Have the standby of a broker go on as that broker."""
    from roost.runtime.admin_client import ask

    waiting = waiting_node(look(fleet), name)
    ask(waiting.target.url, "/promote", {"force": force}, fleet.access)
    deadline = time.monotonic() + within
    said = pair_of(waiting)
    while said["role"] != "leader" and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
        said = next(
            (pair_of(s) for s in look(fleet) if s.target == waiting.target and pair_of(s)), said
        )
    is_leader = said["role"] == "leader"
    if json_:
        print_json({"broker": name, "promoted": is_leader, "standby": said})
    elif is_leader:
        typer.echo(f"{name} goes on at {waiting.address}, in epoch {said['epoch']}")
    else:
        typer.echo(f"{name}: not yet: {said['trouble'] or said['role']}", err=True)
    if not is_leader:
        raise typer.Exit(EXIT_NOT_YET)


def pair_of(sight: Sight) -> dict[str, Any]:
    return dict((sight.status or {}).get("standby") or {})


def waiting_node(sights: list[Sight], name: str) -> Sight:
    """The node of this broker that is not the broker."""
    of_it = [sight for sight in sights if sight.status is not None and sight.name == name]
    if not of_it:
        raise UserError(f"there is no broker {name!r} that answers; expected a standby of it")
    found = [sight for sight in of_it if pair_of(sight).get("role") not in (None, "leader")]
    if not found:
        raise UserError(f"{name} has no standby that answers; --admin URL says where one is")
    return found[0]
