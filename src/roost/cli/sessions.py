"""`roost sessions`: whom brokers keep something for, and an end to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import typer

from roost.cli.console import print_json, visible, warn
from roost.cli.figures import Column, Row, fitted, in_mb, wide
from roost.cli.fleet import (
    Fleet,
    Target,
    about_fleet,
    answers_of,
)
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """\b
A session outlives the connection of its client: what is for it waits, for a while, or a week if it is
durable. To end one is to lose what waits in it. The client is told if it is there; if it is not, it finds
out when it is back, and begins anew.
NAME is that of a session or a client, or its part before the ~ if only one has it.

\b
Exit code 1: not all brokers have answered.

\b
Examples:
  roost sessions
  roost sessions --away --json
  roost sessions --broker B2
  roost sessions end archive --broker B2
"""
EXIT_INCOMPLETE = 1
A_PAGE = 10_000
NAMED_MAX = 10
COLUMNS = (
    Column("broker", left=True),
    Column("client", left=True),
    Column("session", left=True, expendable=5),
    Column("user", left=True, expendable=3),
    Column("kind", left=True, expendable=2),
    Column("state", left=True),
    Column("waiting"),
    Column("held", expendable=1),
    Column("subs", expendable=4),
)

Session = Mapping[str, Any]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("sessions", epilog=EXAMPLES)(sessions)


@about_fleet
def sessions(
    fleet: Fleet,
    order: Annotated[
        Literal["end"] | None,
        typer.Argument(metavar="end", help="To end one.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one.", show_default=False)
    ] = None,
    away: Annotated[
        bool, typer.Option("--away", help="Only those whose client is not there.")
    ] = False,
    broker: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those at this broker.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the sessions of clients at brokers, there or away, and what waits for them; or end one."""
    if order is not None and name is None:
        raise UserError("end which one? expected `roost sessions end NAME`")
    if order is not None and away:
        raise UserError("--away goes with the list; expected `roost sessions end NAME`")
    found, problem = collected(fleet, broker)
    if order is not None and name is not None:
        end(fleet, found, name, problem, json_=json_)
        return
    shown = [session for _, session in found if not (away and session["attached"])]
    if json_:
        print_json({"sessions": shown})
    elif shown:
        show(wide(), shown)
    else:
        typer.echo("nobody is away" if away else "there are no sessions")
    if problem:
        warn(problem)
        raise typer.Exit(EXIT_INCOMPLETE)


def collected(fleet: Fleet, broker: str | None) -> tuple[list[tuple[Target, Session]], str]:
    """All sessions, each with where to ask about it; and which brokers have not answered."""
    found, names, problem = [], [], ""
    try:
        for target, answer in answers_of(fleet, f"/sessions?limit={A_PAGE}"):
            names.append(str(answer["broker"]))
            if broker in (None, names[-1]):
                found += [(target, each) for each in pages(fleet, target, answer)]
    except UserError as error:
        if not names:
            raise
        problem = str(error)  # the others are worth showing
    if broker is not None and broker not in names and not problem:
        raise UserError(f"there is no broker {broker!r}; expected {' or '.join(names)}")
    return found, problem


def pages(fleet: Fleet, target: Target, page: dict[str, Any]) -> Iterator[Session]:
    """From the first page on."""
    from roost.runtime.admin_client import ask

    while True:
        for session in page["sessions"]:
            yield {"broker": page["broker"], **session}
        if page["next"] is None:
            return
        path = f"/sessions?limit={A_PAGE}&after={quote(page['next'], safe='')}"
        page = ask(target.url, path, access=fleet.access)


# --- ending one -------------------------------------------------------------------------------------


def end(
    fleet: Fleet, found: Sequence[tuple[Target, Session]], name: str, problem: str, *, json_: bool
) -> None:
    """End the one that is called so; nothing if there are several."""
    from roost.runtime.admin_client import ask

    target, session = picked(found, name, problem)
    ended = ask(target.url, "/sessions/end", {"session": session["session"]}, fleet.access)
    was = {"broker": ended["broker"], **ended["ended"]}
    if json_:
        print_json({"ended": was})
        return
    typer.echo(f"{visible(was['client'])}: its session at {was['broker']} has ended{lost(was)}")


def picked(
    found: Sequence[tuple[Target, Session]], name: str, problem: str
) -> tuple[Target, Session]:
    """The one that is meant: by its own name, that of its client, or the beginning of that."""
    for name_of in (session_of, client_of, stem_of):
        meant = [each for each in found if name == name_of(each[1])]
        if len(meant) > 1:
            named = [f"{visible(each['session'])} at {each['broker']}" for _, each in meant]
            which = ", ".join(named[:NAMED_MAX] + ["..."][: len(named) > NAMED_MAX])
            raise UserError(
                f"{name!r} may be {which}; expected the name of one session, and --broker"
            )
        if meant:
            return meant[0]
    unknown = f"; {problem}" if problem else ""
    raise UserError(f"there is no session {name!r} at these brokers{unknown}")


def session_of(session: Session) -> str:
    return str(session["session"])


def client_of(session: Session) -> str:
    return str(session["client"])


def stem_of(session: Session) -> str:
    return client_of(session).partition("~")[0]


def lost(was: Session) -> str:
    waiting = was["waiting"] + was["spilled"]
    if not waiting:
        return ""
    return f", and with it {waiting:,} {'delivery' if waiting == 1 else 'deliveries'} that waited"


# --- for people -------------------------------------------------------------------------------------


def show(console: Console, found: Sequence[Session]) -> None:
    """A row for each."""
    rows = []
    for session in found:
        cells = (
            session["broker"],
            visible(session["client"]),
            visible(session["session"]),
            visible(session["principal"] or "-"),
            "durable" if session["durable"] else "plain",
            state(session),
            f"{session['waiting'] + session['spilled']:,}",
            in_mb(session["held_bytes"]),
            f"{session['subscriptions']:,}",
        )
        rows.append(Row(cells, None if session["attached"] else "dim"))
    console.print(fitted(COLUMNS, rows, console.width))


def state(session: Session) -> str:
    """`there`, or `away 3 h, 6 d left`."""
    if session["ending"]:
        return "ending"
    if session["attached"]:
        return "slow" if session["congested"] else "there"
    if session["away_s"] is None:
        return "away"
    return f"away {duration(session['away_s'])}, {duration(session['left_s'])} left"


def duration(seconds: float) -> str:
    """In the largest unit of which there are two."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
