"""Printing, as all commands do it: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from roost.language import Event, Subscription, Value

WIDTH_WITHOUT_TERMINAL = 100


def people() -> Console:
    """Standard output for people. Brackets are text here, never Rich's markup."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def print_json(whole: object) -> None:
    """The one JSON object of a command with --json."""
    typer.echo(json.dumps(whole, ensure_ascii=False, allow_nan=False))


def visible(text: str) -> str:
    """A name that a stranger has chosen, so that it can't steer the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def json_value(value: Value | None) -> Any:
    """A value as JSON has it; NaN and the infinities, which it does not have, as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def warn(message: str) -> None:
    """One warning, on standard error."""
    print(f"warning: {message}", file=sys.stderr)


# So many are rarely meant: rather the one seed of that number.
MANY_SEEDS = 1_000


def say_many_seeds(count: int, first: int, for_one: str) -> None:
    """Somebody has asked for very many seeds, perhaps without wanting to; `for_one` says just one."""
    if count >= MANY_SEEDS:
        print(
            f"{count:,} seeds, {first} to {first + count - 1}; the one seed {count} is {for_one}",
            file=sys.stderr,
        )


def filter_argument(name: str, text: str) -> Subscription:
    """A filter from the command line; an error says which argument it was."""
    from roost.language import ParseError, parse_subscription

    try:
        return parse_subscription(text)
    except ParseError as error:
        raise UserError(f"{name}: {error}") from None


def event_argument(name: str, text: str) -> Event:
    """An event from the command line; an error says which argument it was."""
    from roost.language import ParseError, parse_event

    try:
        return parse_event(text)
    except ParseError as error:
        raise UserError(f"{name}: {error}") from None
