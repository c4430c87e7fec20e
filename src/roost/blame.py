"""Code of users that we import and call: what goes wrong in it, as one message with file and line.

Whoever names a module, a router or a task of their own may have made any mistake in it, and any exception may
come of that. It is theirs: they want to know where, and a traceback through our insides says it worse.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from roost.errors import UserError


@contextmanager
def blaming(what: str, culprit: str | type, expected: str = "") -> Iterator[None]:
    """Whatever is raised inside becomes a UserError: `what`, where in the code of the culprit, and why.

    SystemExit too, as of a script without a guard that was meant to be run. `expected` stands behind it.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        tail = f"; {expected}" if expected else ""
        raise UserError(f"{what}: {in_words(error, culprit)}{tail}") from None


def in_words(error: BaseException, culprit: str | type) -> str:
    """An exception in one line, with the line of the culprit's package that it came from.

    The culprit is a module, by name, or a class. If none of its lines was reached, as when a class takes
    other arguments than it was given, it is where the class begins.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    module = culprit if isinstance(culprit, str) else culprit.__module__
    place = _place(error.__traceback__, module.partition(".")[0])
    if not place and isinstance(culprit, type):
        place = _beginning(culprit)
    if isinstance(error, ImportError | AttributeError) and not place:
        return str(error)  # nothing of theirs has run: it is the name that is wrong
    said = str(error).partition("\n")[0]
    return f"{place}{type(error).__name__}" + (f": {said}" if said else "")


def _place(trace: TracebackType | None, package: str) -> str:
    """The innermost line of the package: what it called on may be anybody's."""
    found = ""
    for frame, line in traceback.walk_tb(trace):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            found = f"{frame.f_code.co_filename}:{line}: "
    return found


def _beginning(kind: type) -> str:
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}: "
    except (OSError, TypeError):  # it was not written in a file
        return ""
