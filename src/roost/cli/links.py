"""`roost rewire`, `routing`, `place`, `join` and `leave`: links and brokers of a federation that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from roost.cli.console import print_json
from roost.cli.fleet import Fleet, StateOption, Target, about_fleet, fleet_of, look, speaking
from roost.errors import UserError
from roost.overlay.placement import (
    FANOUT_MAX,
    Candidate,
    Placement,
    hops_to_farthest,
)
from roost.overlay.placement import place as place_newcomer

REWIRE_EXAMPLES = """\b
B0 and B2 have a neighbour in common. B0's link to it is replaced by one to B2, under traffic: nothing is
lost, doubled or reordered. Brokers with a store keep their new neighbours.

\b
Examples:
  roost rewire B0 B2
  roost rewire B0 B2 --state ./somewhere
  roost rewire B0 B2 --admin http://10.0.0.1:7412 --admin http://10.0.0.2:7412
"""
ROUTING_EXAMPLES = """\b
In a hierarchy (`roost up cluster:2x3`) subscriptions go up and events go up to meet them, as in a cluster; or
subscriptions go everywhere and events where somebody wants them, as in a tree. Brokers change from one to the
other under traffic: nothing is lost, doubled or reordered. Without WAY it says which way each goes.

\b
Examples:
  roost routing
  roost routing tree
  roost routing cluster --state ./somewhere
"""
PLACE_EXAMPLES = """\b
To be run where the new broker will be: it takes the time to every broker. The nearest that has fewer
neighbours than --fanout-max is chosen; of those that are equally near, the one from which all others are
the fewest hops away, and then the one with the fewest neighbours.

\b
Examples:
  roost place
  roost place --admin http://10.0.0.1:7412 --admin http://10.0.0.2:7412 --fanout-max 4
  roost place --json
"""
JOIN_EXAMPLES = """\b
Starts a broker in the federation of `roost up`. It listens on free ports, with the settings of its
neighbour; without --to, that is the one that `roost place` names.

\b
Examples:
  roost join B7
  roost join B7 --to B2
  roost join B7 --fanout-max 3 --state ./somewhere
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
FanoutOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="A broker has no more neighbours than these.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("rewire", epilog=REWIRE_EXAMPLES)(rewire)
    app.command("routing", epilog=ROUTING_EXAMPLES)(routing)
    app.command("place", epilog=PLACE_EXAMPLES)(place)
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


@about_fleet
def routing(
    fleet: Fleet,
    way: Annotated[str, typer.Argument(metavar="[WAY]", help="tree or cluster.")] = "",
    json_: JsonOption = False,
) -> None:
    """Say which way events and subscriptions go in a hierarchy, or have all brokers go another."""
    from roost.runtime.growing import switch

    fleet = speaking(fleet)
    if way:
        switch([target.url for target in fleet.targets], way, fleet.access)
    ways = {}
    for sight in look(fleet):
        if sight.status is None:
            raise UserError(f"{sight.name}: {sight.problem}")
        if sight.stands_by:
            raise UserError(f"{sight.name}: {sight.trouble}")
        ways[sight.name] = str(sight.status["routing"])
    if json_:
        print_json({"routing": ways})
        return
    for name, goes in ways.items():
        typer.echo(f"{name}: {goes}")


@about_fleet
def place(fleet: Fleet, fanout_max: FanoutOption = FANOUT_MAX, json_: JsonOption = False) -> None:
    """Say which broker one that joins from here had better be linked to."""
    placement, addresses = placed(fleet, fanout_max)
    if json_:
        said = {"neighbour": placement.broker, "address": addresses[placement.broker]}
        print_json({**said, "why": placement.why, "passed_over": dict(placement.passed_over)})
        return
    typer.echo(f"{placement.broker} at {addresses[placement.broker]}: {placement.why}")
    for broker, why in placement.passed_over.items():
        typer.echo(f"  not {broker}, which {why}")


def placed(fleet: Fleet, fanout_max: int) -> tuple[Placement, Mapping[str, str]]:
    """Where a newcomer is linked, and the addresses of all that are there."""
    import asyncio

    from roost.client.entry import distances
    from roost.client.url import address_of

    seen = look(fleet)
    sights = [sight for sight in seen if sight.status is not None and not sight.stands_by]
    links = [(sight.name, other) for sight in sights for other in sight.links]
    hops = hops_to_farthest(links, [sight.name for sight in sights])
    places = [address_of(sight.reachable_at) for sight in sights]
    known = [(sight, at) for sight, at in zip(sights, places, strict=True) if at is not None]
    times = asyncio.run(distances([at for _, at in known]))
    candidates = [
        Candidate(sight.name, time_s, len(sight.links), hops[sight.name])
        for (sight, _), time_s in zip(known, times, strict=True)
    ]
    return place_newcomer(candidates, fanout_max), {
        sight.name: sight.reachable_at for sight, _ in known
    }


def join(
    name: NameArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="Its neighbour; else the nearest with room.")
    ] = "",
    fanout_max: FanoutOption = FANOUT_MAX,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Add a broker to a federation that runs."""
    from roost.runtime import growing
    from roost.runtime.federation import DEFAULT_STATE, running_federation

    folder = state or DEFAULT_STATE
    why = ""
    if not to:
        running_federation(folder)  # or it says that there is none
        placement, _ = placed(fleet_of(folder), fanout_max)
        to, why = placement.broker, placement.why
    member = growing.join(folder, name, to)
    if json_:
        said = {"broker": name, "address": member.address, "admin": member.admin_url}
        print_json({**said, "neighbour": to, "why": why})
    else:
        because = f" ({why})" if why else ""
        typer.echo(f"{name} has joined at {member.address}, as a neighbour of {to}{because}")


def leave(name: NameArgument, state: StateOption = None) -> None:
    """Take a broker out of a federation that runs, without loss."""
    from roost.runtime import growing
    from roost.runtime.federation import DEFAULT_STATE

    growing.leave(state or DEFAULT_STATE, name, typer.echo)
