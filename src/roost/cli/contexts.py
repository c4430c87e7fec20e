"""Contexts: where the brokers of a federation are, and who asks them, under a name.

Commands that ask brokers or call them (`fleet`, `publish`) take from a context what the command line does not
say. Which one: the option --context, the variable ROOST_CONTEXT, else the one in use (`roost context use`).

**A context is taken whole.** Whoever says where (--admin, --state, --url) takes nothing from it, so that the
token of one federation is never sent to another; and what it lacks is an error, never some other broker.
Its login may be replaced by that of somebody else, who then brings a token of his own.

They stand in one file, `roost/contexts.toml` in the folder of a user's settings (XDG_CONFIG_HOME, else
~/.config), which its owner alone may read: there may be tokens in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from msgspec import Struct
from msgspec.structs import asdict

from roost.cli.console import warn
from roost.errors import UserError

HEADER = "# Written by `roost context`, which keeps no comments.\n"
VARIABLE = "ROOST_CONTEXT"

ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="What `roost context add` has noted; else ROOST_CONTEXT, or the one in use.",
    ),
]


class Context(Struct, frozen=True, kw_only=True):
    """A federation, and how to be let in, in the table [contexts.NAME]."""

    admin: tuple[str, ...] = ()  # where its brokers have their [admin] ports
    url: str = ""  # where clients connect
    user: str = ""
    token: str = ""
    token_file: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        """Without the token."""
        return f"Context(admin={self.admin!r}, url={self.url!r}, user={self.user!r})"

    @property
    def has_login(self) -> bool:
        return bool(self.user or self.token or self.token_file)

    def secret(self) -> str:
        """The token, wherever it is; "" if there is none."""
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as bad:
            why = getattr(bad, "strerror", None) or bad
            raise UserError(f"{self.token_file}: {why}; expected a token, alone in it") from None


class Book(Struct, kw_only=True):
    """All of them, and which is in use; "" if none is."""

    contexts: dict[str, Context] = {}
    current: str = ""


class Chosen(NamedTuple):
    """A context that a command goes by."""

    name: str
    context: Context
    named: bool  # for this command, rather than in use for all


class Reach(NamedTuple):
    """Where to connect, and as whom; None is what the environment says."""

    url: str | None
    user: str | None
    token: str | None
    authority: Path | None
    certificate: Path | None
    key: Path | None


# --- which one --------------------------------------------------------------------------------------


def chosen(name: str | None) -> Chosen | None:
    """The context that is named by the option, by ROOST_CONTEXT, or in use; None if none is."""
    asked = name if name is not None else os.environ.get(VARIABLE, "")
    if name is None and not asked and not contexts_file().exists():
        return None
    book = read_book()
    wanted = asked or book.current
    if name == "" or (wanted and wanted not in book.contexts):
        said = "--context" if name is not None else VARIABLE if asked else "the one in use"
        raise UserError(f"{said}: {unknown(wanted, book)}")
    return Chosen(wanted, book.contexts[wanted], bool(asked)) if wanted else None


def login(user: str | None, token: str | None, context: Context) -> tuple[str, str]:
    """Who asks, and what proves it. Somebody else than the context's user has a token of his own."""
    others = os.environ.get("ROOST_USER", ""), os.environ.get("ROOST_TOKEN", "")
    if not context.has_login or (user and user != context.user):
        return user or others[0], token or others[1]
    return context.user or others[0], token or context.secret()


def reach(
    url: str | None,
    user: str | None,
    token: str | None,
    authority: Path | None,
    certificate: Path | None,
    key: Path | None,
    name: str | None,
) -> Reach:
    """What the options of a client say, and for the rest the context."""
    if url is not None and name is not None:
        raise UserError("--url and --context say different brokers; expected one of them")
    given = Reach(url, user, token, authority, certificate, key)
    found = chosen(name) if url is None else None
    if found is None or (not found.named and "ROOST_URL" in os.environ):
        return given
    context = found.context
    if not context.url:
        raise lacks(found.name, "url", "roosts://b0.example:7411")
    who, secret = login(user, token, context)
    return Reach(
        context.url,
        who or None,
        secret or None,
        authority or path_of(context.authority),
        certificate or path_of(context.certificate),
        key or path_of(context.key),
    )


def path_of(text: str) -> Path | None:
    return Path(text) if text else None


def lacks(name: str, option: str, example: str) -> UserError:
    what = f"the context {name} says no --{option}; expected one"
    return UserError(f"{what}: roost context add {name} --{option} {example} --force")


def unknown(name: str, book: Book) -> str:
    """Why there is no such context, and what there is."""
    from roost.runtime.toml_file import instead

    there = (
        instead(name, sorted(book.contexts))
        if book.contexts
        else "there are none; `roost context add` makes one"
    )
    return f"there is no context {name!r}; {there}"


# --- the file ---------------------------------------------------------------------------------------


def contexts_file(environment: Mapping[str, str] | None = None) -> Path:
    """Where they are kept. A path that is not from the root counts as none, as the standard has it."""
    said = (os.environ if environment is None else environment).get("XDG_CONFIG_HOME", "")
    folder = Path(said) if os.path.isabs(said) else Path.home() / ".config"
    return folder / "roost" / "contexts.toml"


def read_book(file: Path | None = None) -> Book:
    """What the file says; UserError with the line of what is wrong. No file: no contexts."""
    from roost.runtime.toml_file import read_table, read_toml

    path = file or contexts_file()
    if not path.exists():
        return Book()
    toml = read_toml(path, "contexts, as `roost context add` writes them")
    for name in toml.tree:
        if name not in ("current", "contexts"):
            toml.refuse(
                (name,), f"{name!r} is unknown; expected current and tables [contexts.NAME]"
            )
    tables = toml.tree.get("contexts", {})
    if not isinstance(tables, dict):
        toml.refuse(("contexts",), "contexts is no table; expected tables [contexts.NAME]")
    current = toml.tree.get("current", "")
    if not isinstance(current, str):
        toml.refuse(("current",), "current is no text; expected the name of a context, in quotes")
    contexts = {name: read_table(toml, ("contexts", name), Context, None) for name in tables}
    if any(context.token for context in contexts.values()) and others_may_read(path):
        warn(f"{path}: there are tokens in it, and others can read it; chmod 600 it")
    return Book(contexts=contexts, current=current)


def others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def book_text(book: Book) -> str:
    """The text that is read back as this book."""
    from roost.runtime.toml_file import toml_key, toml_value

    blank = asdict(Context())
    lines = [HEADER]
    if book.current:
        lines.append(f"current = {toml_value(book.current)}\n")
    for name, context in sorted(book.contexts.items()):
        lines.append(f"\n[contexts.{toml_key(name)}]\n")
        for key, value in asdict(context).items():
            if value != blank[key]:
                lines.append(f"{key} = {toml_value(value)}\n")
    return "".join(lines)


@contextmanager
def changed_contexts() -> Iterator[Book]:
    """The book, to be changed: it is written when the block ends without an error."""
    from roost.runtime.private_file import locked, write_private

    path = contexts_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as bad:
        raise UserError(f"{path.parent}: {bad.strerror or bad}") from None
    with locked(path):
        book = read_book(path)
        yield book
        write_private(path, book_text(book).encode())
