"""`roost users`: who may do what at brokers with security on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import filter_argument, people, print_json
from roost.errors import UserError

if TYPE_CHECKING:
    from datetime import date

    from roost.broker.permissions import Permission
    from roost.language import Subscription
    from roost.runtime.security import Known

EXIT_NOT_ALLOWED = 1

EXAMPLES = """\b
A user publishes and subscribes to what its two filters cover: * is everything, no filter nothing.
Its token is printed once, alone on standard output; the file keeps a digest. Brokers read the file
again when it changes.

\b
Examples:
  roost users add ticker --publish "class = 'STOCK'" --file users.toml > ticker.token
  roost users add desk --subscribe "class = 'STOCK' and volume > 1000" --expires 2030-12-31
  roost users add B1 --link --certificate B1.example
  roost users add prometheus --monitor > prometheus.token
  roost users check desk --subscribe "class = 'STOCK'"
  roost users list
  roost users renew desk --expires 2031-12-31 > desk.token
  roost users remove desk
"""

File = Annotated[
    Path, typer.Option("--file", metavar="FILE", dir_okay=False, help="The users file.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Expires = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="The last day it may log in (UTC), such as 2030-12-31."),
]
DEFAULT_FILE = Path("users.toml")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    users = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Who may do what at brokers with security on.",
        epilog=EXAMPLES,
    )
    users.command("add", epilog=EXAMPLES)(add)
    users.command("list", epilog=EXAMPLES)(list_)
    users.command("check", epilog=EXAMPLES)(check)
    users.command("renew", epilog=EXAMPLES)(renew)
    users.command("remove", epilog=EXAMPLES)(remove)
    app.add_typer(users, name="users")


def add(
    name: NameArgument,
    publish: Annotated[
        str, typer.Option(metavar="FILTER", help="It may publish what this covers.")
    ] = "",
    subscribe: Annotated[
        str, typer.Option(metavar="FILTER", help="It may subscribe to what this covers.")
    ] = "",
    link: Annotated[bool, typer.Option("--link", help="It is a broker of the federation.")] = False,
    administer: Annotated[
        bool, typer.Option("--administer", help="It may see and change how a broker runs.")
    ] = False,
    monitor: Annotated[
        bool, typer.Option("--monitor", help="It may see how a broker runs, and change nothing.")
    ] = False,
    expires: Expires = None,
    certificate: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A certificate with this name (CN or SAN) will do too."),
    ] = None,
    file: File = DEFAULT_FILE,
    json_: Json = False,
) -> None:
    """Add a user, and print its token."""
    from roost.runtime import security

    if objection := security.objection_to_principal(name):
        raise UserError(objection)
    for option, text in (("--publish", publish), ("--subscribe", subscribe)):
        if text:
            filter_argument(option, text)
    last = day(expires)
    token = security.new_token()
    user = security.User(
        token_digest=security.digest_token(token),
        publish=publish,
        subscribe=subscribe,
        link=link,
        administer=administer,
        monitor=monitor,
        expires=last,
        certificates=tuple(certificate or ()),
    )
    with security.changed_users(file) as users:
        if name in users:
            raise UserError(
                f"{file}: {name!r} is a user already; `roost users renew` renews a token"
            )
        users[name] = user
    show_token(name, token, json_)


def renew(
    name: NameArgument, expires: Expires = None, file: File = DEFAULT_FILE, json_: Json = False
) -> None:
    """Give a user a new token, and print it; the old one is worth nothing from then on."""
    from msgspec.structs import replace

    from roost.runtime import security

    last = day(expires)
    token = security.new_token()
    digest = security.digest_token(token)
    with security.changed_users(file) as users:
        old = users.get(name)
        if old is None:
            raise unknown(file, name, users)
        users[name] = replace(old, token_digest=digest, token_hash="", expires=last or old.expires)
    show_token(name, token, json_)


def remove(name: NameArgument, file: File = DEFAULT_FILE) -> None:
    """Remove a user."""
    from roost.runtime import security

    with security.changed_users(file) as users:
        if name not in users:
            raise unknown(file, name, users)
        del users[name]
    typer.echo(f"removed {name}")


def list_(file: File = DEFAULT_FILE, json_: Json = False) -> None:
    """List the users, and what they may do."""
    import time

    from roost.runtime.security import objection_to_day, read_users

    known, now = read_users(file), time.time()
    rows = [
        {**facts(name, each), "expired": bool(objection_to_day(each, now))}
        for name, each in sorted(known.items())
    ]
    if json_:
        print_json({"users": rows})
    else:
        show_users(rows)


def check(
    name: NameArgument,
    publish: Annotated[
        str, typer.Option(metavar="FILTER", help="Whether it may publish all of this.")
    ] = "",
    subscribe: Annotated[
        str, typer.Option(metavar="FILTER", help="Whether it may subscribe to this.")
    ] = "",
    file: File = DEFAULT_FILE,
    json_: Json = False,
) -> None:
    """Say whether a user may publish or subscribe to something, and why. Exit code 1: it may not."""
    import time

    from roost.runtime.security import objection_to_day, read_users

    asked = [
        (what, filter_argument(f"--{what}", text))
        for what, text in (("publish", publish), ("subscribe", subscribe))
        if text
    ]
    if not asked:
        raise UserError("nothing to check; expected --publish FILTER or --subscribe FILTER")
    known = read_users(file)
    if name not in known:
        raise unknown(file, name, known)
    expired = objection_to_day(known[name], time.time())
    answers = [answer(known[name].permission, *each, expired) for each in asked]
    allowed = all(each["allowed"] for each in answers)
    if json_:
        print_json({"principal": name, "allowed": allowed, "answers": answers})
    else:
        for each in answers:
            typer.echo(f"{'yes' if each['allowed'] else 'no'}: {each['reason']}")
            if each["example"] is not None:
                verb = "publish" if each["asked"] == "publish" else "be sent"
                typer.echo(f"  it may not {verb} {each['example']}")
    if not allowed:
        raise typer.Exit(EXIT_NOT_ALLOWED)


# --- what is said ---------------------------------------------------------------------------------


def answer(permission: Permission, what: str, asked: Subscription, expired: str) -> dict[str, Any]:
    """Whether all of it is allowed, why, and an event of it that is not."""
    from roost.language import Advertisement
    from roost.language.explain import counterexample

    if what == "publish":
        granted, objection = (
            permission.publish,
            permission.objection_to_advertisement(Advertisement(asked.filters)),
        )
    else:
        granted, objection = permission.subscribe, permission.objection_to_subscription(asked)
    example = counterexample(granted, asked) if objection and granted is not None else None
    objection = objection or expired
    verb = "publish" if what == "publish" else "subscribe to"
    why = f"{permission.principal!r} may {verb} what {str(granted)!r} covers, and it covers this"
    return {
        "asked": what,
        "filter": str(asked),
        "allowed": not objection,
        "reason": objection or why,
        "example": None if example is None else str(example),
    }


def facts(name: str, known: Known) -> dict[str, Any]:
    """A user, for programs. Nobody needs the digest."""
    user = known.user
    return {
        "principal": name,
        "publish": user.publish or None,
        "subscribe": user.subscribe or None,
        "link": user.link,
        "administer": user.administer,
        "monitor": user.monitor,
        "expires": None if user.expires is None else user.expires.isoformat(),
        "certificates": list(user.certificates),
        "token": bool(user.token_digest or user.token_hash),
    }


def show_users(rows: list[dict[str, Any]]) -> None:
    """A table for people."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in ("user", "may publish", "may subscribe to", "is", "expires", "certificates"):
        table.add_column(title, overflow="fold")
    for row in rows:
        roles = ("broker" if row["link"] else "", role_of(row))
        expires = row["expires"] or "never"
        cells = (
            row["principal"],
            row["publish"] or "nothing",
            row["subscribe"] or "nothing",
            ", ".join(filter(None, roles)),
            f"{expires} (expired)" if row["expired"] else expires,
            ", ".join(row["certificates"]),
        )
        table.add_row(*map(Text, cells))
    people().print(table)


def role_of(row: dict[str, Any]) -> str:
    """What an operator may: an administrator monitors, too."""
    return "administrator" if row["administer"] else "monitor" if row["monitor"] else ""


def show_token(name: str, token: str, json_: bool) -> None:
    """Alone on standard output, so that it can be sent to a file."""
    if json_:
        print_json({"principal": name, "token": token})
        return
    print(f"the token of {name}, which is shown only now:", file=sys.stderr)
    typer.echo(token)


def day(text: str | None) -> date | None:
    """The argument of --expires."""
    from datetime import UTC, date, datetime

    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"--expires: {text!r} is no date; expected one such as 2030-12-31"
        ) from None
    if found < datetime.now(UTC).date():
        raise UserError(f"--expires: {text} is over; expected a day to come")
    return found


def unknown(file: Path, name: str, users: dict[str, Any]) -> UserError:
    from roost.runtime.toml_file import instead

    there = instead(name, sorted(users)) if users else "there are none"
    return UserError(f"{file}: there is no user {name!r}; {there}")
