"""`roost rewire`, `roost join` and `roost leave`: links and brokers of a federation that runs."""

from __future__ import annotations

from typing import Annotated

import typer

from roost.cli.console import print_json
from roost.cli.fleet import Fleet, StateOption, Target, about_fleet, look
from roost.errors import UserError

REWIRE_EXAMPLES = """\b
B0 and B2 have a neighbour in common. B0's link to it is replaced by one to B2, under traffic: nothing is
lost, doubled or reordered. Brokers with a store keep their new neighbours.

\b
Examples:
  roost rewire B0 B2
  roost rewire B0 B2 --state ./somewhere
  roost rewire B0 B2 --admin http://10.0.0.1:7412 --admin http://10.0.0.2:7412
"""
JOIN_EXAMPLES = """\b
Starts a broker in the federation of `roost up`. It listens on free ports, with the settings of its
neighbour.

\b
Examples:
  roost join B7 --to B2
  roost join B7 --to B2 --state ./somewhere
"""
LEAVE_EXAMPLES = """\b
Its neighbours become neighbours of one of them, its clients are sent there, and when nothing is left that
waits in it the process ends. Nothing is lost. Durable sessions keep it: end them first.

\b
Examples:
  roost leave B3
  roost leave B3 --state ./somewhere
"""

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the broker.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("rewire", epilog=REWIRE_EXAMPLES)(rewire)
    app.command("join", epilog=JOIN_EXAMPLES)(join)
    app.command("leave", epilog=LEAVE_EXAMPLES)(leave)


@about_fleet
def rewire(
    fleet: Fleet,
    mover: Annotated[str, typer.Argument(metavar="MOVER", help="The broker whose link moves.")],
    anchor: Annotated[str, typer.Argument(metavar="ANCHOR", help="The one that gets it.")],
    json_: JsonOption = False,
) -> None:
    """Move a link: one broker becomes a neighbour of another, instead of the neighbour of both."""
    from roost.runtime.growing import move

    middle, target = between(fleet, mover, anchor)
    move(target.url, mover, anchor, fleet.access)
    if json_:
        print_json({"middle": middle, "mover": mover, "anchor": anchor})
    else:
        typer.echo(f"{mover} is a neighbour of {anchor} now, and no longer of {middle}")


def between(fleet: Fleet, mover: str, anchor: str) -> tuple[str, Target]:
    """The neighbour of both, and where to ask it."""
    sights = look(fleet)
    for sight in sights:
        if sight.status is not None and {mover, anchor} <= sight.status["links"].keys():
            return sight.status["broker"], sight.target
    silent = [sight.target.label for sight in sights if sight.status is None]
    unknown = f" ({', '.join(silent)} did not answer)" if silent else ""
    raise UserError(
        f"{mover} and {anchor} have no neighbour in common{unknown}; expected two that have, as"
        " `roost status` shows"
    )


def join(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Its neighbour.")],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Add a broker to a federation that runs."""
    from roost.runtime import growing
    from roost.runtime.federation import DEFAULT_STATE

    member = growing.join(state or DEFAULT_STATE, name, to)
    if json_:
        said = {"broker": name, "address": member.address, "admin": member.admin_url}
        print_json({**said, "neighbour": to})
    else:
        typer.echo(f"{name} has joined at {member.address}, as a neighbour of {to}")


def leave(name: NameArgument, state: StateOption = None) -> None:
    """Take a broker out of a federation that runs, without loss."""
    from roost.runtime import growing
    from roost.runtime.federation import DEFAULT_STATE

    growing.leave(state or DEFAULT_STATE, name, typer.echo)
