"""`roost optimise` and `roost redirect`: what an operator tells optimisers, and what it does itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from roost.built_in import BUILT_IN, MODULES
from roost.cli.fleet import (
    Fleet,
    Sight,
    about_fleet,
    answers_of,
    look,
)
from roost.errors import UserError

OPTIMISE_EXAMPLES = """\b
MODULE is one of {names}, or one that the settings of the brokers name. Several may act: no client
and no link is moved by two at a time, and `roost decisions` says who has objected to what. What they are
to achieve is in a table of each broker's settings; see `roost broker --print-config`.

\b
Examples:
  roost optimise grape observe
  roost decisions
  roost optimise grape on
  roost optimise grape off
""".format(names=", ".join(BUILT_IN[MODULES]))
REDIRECT_EXAMPLES = """\b
CLIENT is a name as `roost decisions` or /sessions shows it, or its part before the ~ if only one has
it. BROKER is the name of a broker of the federation, or HOST:PORT.

\b
Examples:
  roost redirect desk~3f9a12bc45de6789 B6
  roost redirect desk 10.0.0.3:7411
"""
STATES = {"on": "acting", "observe": "observing", "off": "off"}
SESSIONS_A_PAGE = 10_000


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimise", epilog=OPTIMISE_EXAMPLES)(optimise)
    app.command("redirect", epilog=REDIRECT_EXAMPLES)(redirect)


@about_fleet
def optimise(
    fleet: Fleet,
    module: Annotated[str, typer.Argument(metavar="MODULE", help="Which one; see below.")],
    state_: Annotated[
        Literal["on", "observe", "off"],
        typer.Argument(metavar="on|observe|off", help="To observe is to decide, and not to act."),
    ],
) -> None:
    """Turn an optimiser on or off at all brokers, or have it say what it would do."""
    order = {"module": module, "state": STATES[state_]}
    for target, answer in answers_of(fleet, "/module", order):
        states = ", ".join(f"{each} {how}" for each, how in answer["modules"].items())
        typer.echo(f"{target.label}: {states}")


@about_fleet
def redirect(
    fleet: Fleet,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Who is to move.")],
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Where to.")],
) -> None:
    """Ask a client to move to another broker. It loses nothing, and its application does not notice."""
    from roost.runtime.admin_client import ask

    sights = look(fleet)
    address = address_in(sights, broker)
    name, url = whereabouts(fleet, client)
    here = next(sight.name for sight in sights if sight.target.url == url)
    if here == broker:
        raise UserError(f"{name} is at {broker}; expected another broker")
    ask(url, "/redirect", {"client": name, "broker": address}, fleet.access)
    typer.echo(f"{name}: asked to move from {here} to {broker}")


def address_in(sights: Sequence[Sight], broker: str) -> str:
    """Where clients find a broker: by its name in the federation, or as it was said."""
    from roost.client.url import address_of

    addresses = {
        sight.name: str(sight.status["address"]) for sight in sights if sight.status is not None
    }
    if broker in addresses:
        return addresses[broker]
    if not addresses:
        raise UserError("; ".join(sight.trouble for sight in sights))
    if not broker.rpartition(":")[2].isdecimal() or address_of(broker) is None:
        raise UserError(
            f"there is no broker {broker!r}; expected {', '.join(addresses)}, or HOST:PORT"
        )
    return broker


def whereabouts(fleet: Fleet, client: str) -> tuple[str, str]:
    """A client's whole name, and where to tell the broker that it is at."""
    found: dict[str, str] = {}
    path = f"/sessions?limit={SESSIONS_A_PAGE}"
    try:
        for target, answer in answers_of(fleet, path):
            for name in clients_of(fleet, target.url, answer):
                if client in (name, name.partition("~")[0]):
                    found[name] = target.url
    except UserError:
        if not found:
            raise
    if client in found:
        return client, found[client]
    if not found:
        raise UserError(f"there is no client {client!r} at any of these brokers")
    if len(found) > 1:
        raise UserError(f"{client!r} may be {', '.join(sorted(found))}; expected one of them")
    (only,) = found.items()
    return only


def clients_of(fleet: Fleet, url: str, page: dict[str, Any]) -> list[str]:
    """The clients of a broker that are attached, from the first page on."""
    from urllib.parse import quote

    from roost.runtime.admin_client import ask

    names = [session["client"] for session in page["sessions"] if session["attached"]]
    while page["next"] is not None:
        path = f"/sessions?limit={SESSIONS_A_PAGE}&after={quote(page['next'], safe='')}"
        page = ask(url, path, access=fleet.access)
        names += [session["client"] for session in page["sessions"] if session["attached"]]
    return names
