"""`roost drain`: a broker whose clients are to go elsewhere, before it stops."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated, Any

import typer

from roost.cli.console import print_json, visible, warn
from roost.cli.fleet import Fleet, Target, about_fleet, look
from roost.errors import UserError

EXAMPLES = """\b
The load balancer of the broker (`roost up --optimise balancing`) sends its clients to the other edge-brokers
of its cluster, as many to each as it has room for, and newcomers too. Nothing is lost. Without --no-wait the
command ends when the broker may stop. Durable sessions stay: end them, or keep the broker.

\b
Exit code 1: it may not stop yet.

\b
Examples:
  roost drain B3
  roost drain B3 --no-wait
  roost drain B3 --cancel
"""
MODULE = "balancing"
EXIT_NOT_YET = 1
LOOK_EVERY_S = 1.0
NO_ROLE = "none"
ROLE_WITHIN_S, ROLE_EVERY_S = 2.0, 0.1
NAMED_MAX = 10


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drain", epilog=EXAMPLES)(drain)


@about_fleet
def drain(
    fleet: Fleet,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the broker.")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Have it take clients again.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until it may stop, or the time is up.")
    ] = True,
    within: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="How long to wait, in seconds.")
    ] = 600.0,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Empty a broker: its clients go where there is room, and it says when it may stop."""
    target = target_of(fleet, name)
    with suppress(UserError):  # who has no load balancer says so when it is asked to drain
        await_role(fleet, target)
    said = asked(fleet, target, "drain", do="cancel" if cancel else "begin")
    deadline = time.monotonic() + within
    shown = -1
    while wait and not cancel and is_on_its_way(said) and time.monotonic() < deadline:
        if said["clients"] != shown and not json_:
            shown = said["clients"]
            typer.echo(f"{name}: {counted(shown)} to go", err=True)
        time.sleep(LOOK_EVERY_S)
        said = asked(fleet, target, "drain", do="look")
    if json_:
        print_json({"broker": name, **said})
    else:
        typer.echo(f"{name}: {verdict(said)}")
    if wait and not cancel and not said["may_stop"]:
        raise typer.Exit(EXIT_NOT_YET)


def target_of(fleet: Fleet, name: str) -> Target:
    """Where to ask a broker."""
    sights = look(fleet)
    for sight in sights:
        if sight.status is not None and sight.status["broker"] == name:
            if sight.status.get("modules", {}).get(MODULE) == "off":
                raise UserError(
                    f"{name}: its load balancer is off; `roost optimise {MODULE} on` wakes it"
                )
            return sight.target
    names = [str(sight.status["broker"]) for sight in sights if sight.status is not None]
    silent = [sight.target.label for sight in sights if sight.status is None]
    if silent:
        warn(f"{', '.join(silent)} did not answer")
    raise UserError(
        f"there is no broker {name!r}; expected {' or '.join(names) or 'one that runs'}"
    )


def await_role(fleet: Fleet, target: Target) -> None:
    """Until it has heard what it is: one that has just been started is told so by its neighbours."""
    deadline = time.monotonic() + ROLE_WITHIN_S
    while asked(fleet, target, "balancing")["role"] == NO_ROLE and time.monotonic() < deadline:
        time.sleep(ROLE_EVERY_S)


def asked(fleet: Fleet, target: Target, request: str, **arguments: str) -> dict[str, Any]:
    """What its load balancer says."""
    from roost.runtime.admin_client import ask

    question = {"request": request, "arguments": arguments, "module": MODULE}
    return dict(ask(target.url, "/ask", question, fleet.access)["answers"][MODULE])


def is_on_its_way(said: dict[str, Any]) -> bool:
    """Whether waiting helps: who is durable stays."""
    return not said["may_stop"] and said["clients"] > len(said["durable"])


def counted(clients: int) -> str:
    return f"{clients:,} client{'' if clients == 1 else 's'}"


def verdict(said: dict[str, Any]) -> str:
    """For people."""
    if said["may_stop"]:
        return "it has no clients any more, and may stop"
    if not said["draining"]:
        return "it takes clients again"
    durable = [visible(str(each)) for each in said["durable"]]
    if durable:
        named = ", ".join(durable[:NAMED_MAX] + ["..."][: len(durable) > NAMED_MAX])
        return (
            f"{counted(said['clients'])} still there, of which these are durable and stay: {named}"
        )
    return f"{counted(said['clients'])} still there"
