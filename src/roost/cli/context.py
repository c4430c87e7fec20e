"""`roost context`: where federations are, and who asks them, noted once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import people, print_json
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.cli.contexts import Context

EXAMPLES = """\b
Commands that ask brokers (status, top, drain, ...) or call them (publish, subscribe) go by the context that
--context or ROOST_CONTEXT names, else by the one in use; unless --admin, --state or --url say where. The
file, ~/.config/roost/contexts.toml, is its owner's alone; a token is better kept in a file of its own.

\b
Examples:
  roost context add prod --admin https://b0.example:7412 --admin https://b1.example:7412 --authority ca.pem
  roost context add desk --url roosts://b0.example --user alice --token-file alice.token --ca ca.pem
  roost context use prod
  roost status
  ROOST_CONTEXT=desk roost subscribe "class = 'STOCK'"
  roost context list
  roost context use --none
  roost context remove desk
"""

NAME_LENGTH_MAX = 100
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    context = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Where federations are, and who asks them, noted once.",
        epilog=EXAMPLES,
    )
    context.command("add", epilog=EXAMPLES)(add)
    context.command("list", epilog=EXAMPLES)(list_)
    context.command("use", epilog=EXAMPLES)(use)
    context.command("remove", epilog=EXAMPLES)(remove)
    app.add_typer(context, name="context")


def add(
    name: NameArgument,
    admin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where a broker has its [admin] port. May be repeated."),
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="Where clients connect.")] = "",
    user: Annotated[str, typer.Option(help="Who asks, where security is on.")] = "",
    token: Annotated[str, typer.Option(help="Its token, to be kept with the context ...")] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="... or where it is, to be read when asked.")
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option("--authority", "--ca", metavar="FILE", help="Whom to trust, in PEM."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Our certificate, in PEM ...")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="... and its key.")] = None,
    force: Annotated[bool, typer.Option("--force", help="In place of one of that name.")] = False,
) -> None:
    """Note where a federation is. The first one is in use at once."""
    from roost.cli.contexts import Context, changed_contexts

    if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable() or name != name.strip():
        raise UserError(f"{name!r} is no name of a context; expected visible characters")
    if not admin and not url:
        raise UserError("nothing says where it is; expected --admin URL or --url URL, or both")
    if token and token_file is not None:
        raise UserError("--token and --token-file say the same; expected one of them")
    check_addresses(admin or [], url)
    context = Context(
        admin=tuple(admin or ()),
        url=url,
        user=user,
        token=token,
        token_file=noted("--token-file", token_file),
        authority=noted("--authority", authority),
        certificate=noted("--certificate", certificate),
        key=noted("--key", key),
    )
    with changed_contexts() as book:
        if name in book.contexts and not force:
            raise UserError(f"there is a context {name} already; --force replaces it")
        if not book.contexts:
            book.current = name
        book.contexts[name] = context
        in_use = book.current == name
    typer.echo(f"noted {name}, which is in use" if in_use else f"noted {name}")


def check_addresses(admin: list[str], url: str) -> None:
    """UserError for what could never be asked, now rather than later."""
    from roost.client.url import target_of
    from roost.runtime.admin_client import NO_ACCESS, token_in_clear

    for each in admin:
        token_in_clear(each, NO_ACCESS)
    if url:
        target_of(url)


def noted(option: str, file: Path | None) -> str:
    """A file as it will be found from anywhere."""
    if file is None:
        return ""
    if not file.is_file():
        raise UserError(f"{option} {file}: there is no such file")
    return os.path.abspath(file)


def list_(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show all of them, and which one is in use. Tokens are not shown."""
    from roost.cli.contexts import chosen, contexts_file, read_book

    book = read_book()
    by = chosen(None)
    rows = [
        facts(name, context, in_use=by is not None and by.name == name)
        for name, context in sorted(book.contexts.items())
    ]
    if json_:
        print_json({"file": str(contexts_file()), "contexts": rows})
    elif not rows:
        typer.echo("no contexts; `roost context add` makes one")
    else:
        show(rows)


def facts(name: str, context: Context, *, in_use: bool) -> dict[str, Any]:
    """One for programs. Nobody needs the token."""
    return {
        "context": name,
        "in_use": in_use,
        "admin": list(context.admin),
        "url": context.url or None,
        "user": context.user or None,
        "token": bool(context.token or context.token_file),
        "authority": context.authority or None,
    }


def show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in ("", "context", "for operators", "for clients", "user", "token", "authority"):
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = (
            "*" if row["in_use"] else "",
            row["context"],
            "\n".join(row["admin"]),
            row["url"] or "",
            row["user"] or "",
            "yes" if row["token"] else "",
            row["authority"] or "",
        )
        table.add_row(*map(Text, cells))
    people().print(table)


def use(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The context.")] = None,
    none: Annotated[bool, typer.Option("--none", help="None of them.")] = False,
) -> None:
    """Have commands go by this one from now on."""
    from roost.cli.contexts import changed_contexts, unknown

    if (name is None) != none:
        raise UserError("expected the name of a context, or --none")
    with changed_contexts() as book:
        if name is not None and name not in book.contexts:
            raise UserError(unknown(name, book))
        book.current = name or ""
    typer.echo(f"{name} is in use" if name else "no context is in use")


def remove(name: NameArgument) -> None:
    """Forget one."""
    from roost.cli.contexts import changed_contexts, unknown

    with changed_contexts() as book:
        if name not in book.contexts:
            raise UserError(unknown(name, book))
        del book.contexts[name]
        if book.current == name:
            book.current = ""
    typer.echo(f"{name} is forgotten")
