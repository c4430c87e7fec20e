"""What a sweep runs: a task, which is a function from parameters and a seed to a row of figures.

The contract, for whoever writes one (an experiment, or a user):

- `run(parameters, seed)` gives a flat mapping from names to numbers, texts, truths or None. It is pure: the
  same parameters and seed give the same row, in whichever process, and it draws from nothing but the seed.
- A figure called `violations` counts broken promises; a sweep that finds any ends with exit code 1, and
  `first_violation` may say in words what the first of them is.
- What it raises is the cell's failure, recorded with its message, and nobody else's.

A plain function of that kind is a task already: `package.module:function`. Its parameters may have any name,
and their texts are taken as numbers where they look like ones. A `Task` in its place says more: how texts
become parameters and which are refused, how long a cell takes compared with others, which files it reads and
which figures to show first. `register` gives a task a short name; it says only where the task is, so that
nothing is imported before it is needed, and so that other processes can find it too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from roost.blame import in_words
from roost.errors import UserError, type_of

Value = bool | int | float | str
Parameters = dict[str, Value]
Row = Mapping[str, Value | None]

VIOLATIONS, FIRST_VIOLATION = "violations", "first_violation"
# What can be broken, by the names under which a row that knows them has them. Programs read these.
BREACHES = (
    "lost",
    "doubled",
    "reordered",
    "unwanted",
    "routing_errors",
    "account_errors",
    "queue_errors",
)


def plain_value(text: str) -> Value:
    """A text as a number, if it looks like one."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text


def read_plainly(texts: Mapping[str, str]) -> Parameters:
    """Parameters of which nothing is known."""
    return {name: plain_value(text) for name, text in texts.items()}


def all_alike(_: Parameters) -> float:
    """The cost of a cell of which nothing is known."""
    return 1.0


def no_files(_: Parameters) -> Iterable[Path]:
    """The files of a cell that reads none."""
    return ()


@dataclass(frozen=True)
class Task:
    """A function to sweep, and what is known of it besides."""

    run: Callable[[Parameters, int], Row]
    # Texts to parameters; a `UserError` says what is wrong with them. What it gives is read back the same.
    read: Callable[[Mapping[str, str]], Parameters] = read_plainly
    # How long a cell takes, in any unit: long ones begin first.
    cost: Callable[[Parameters], float] = all_alike
    # What a cell reads: other contents make it another cell.
    files: Callable[[Parameters], Iterable[Path]] = no_files
    # Figures that people want to see first.
    show: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """One line on what it does."""
        return (getdoc(self.run) or "").partition("\n")[0]


_registered: dict[str, str] = {"sim": "roost.pipeline.sweeps.sim:SIM"}


def register(name: str, reference: str) -> None:
    """Makes a task (`module:attribute`) known by a short name."""
    _registered[name] = reference


def registered() -> Mapping[str, str]:
    """The short names, and where their tasks are."""
    return dict(_registered)


def reference_of(name: str) -> str:
    """Where a task is (`module:attribute`), by a short name or by just that."""
    if name in _registered:
        return _registered[name]
    if ":" in name:
        return name
    near = get_close_matches(name, _registered, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UserError(
        f"no task is called {name!r}; expected {', '.join(_registered)}, or MODULE:FUNCTION{hint}"
    )


def load_task(reference: str) -> Task:
    """The task that is there: a `Task`, or a plain function."""
    module, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UserError(f"{reference!r} is not a task; expected MODULE:FUNCTION")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as bad:
        # Not only the module itself may be missing, but also one that it imports.
        raise UserError(
            f"{reference}: {bad}; it is looked for in {', '.join(p or '.' for p in sys.path[:3])} ..."
        ) from None
    except (Exception, SystemExit) as bad:  # of theirs: it may be anything
        raise UserError(f"{reference} can't be imported: {in_words(bad, module)}") from None
    found = getattr(loaded, attribute, None)
    if isinstance(found, Task):
        return found
    if not callable(found):
        what = "there is nothing of that name" if found is None else f"it is {type_of(found)}"
        raise UserError(
            f"{reference}: {what}; expected a function of parameters and a seed, or a Task"
        )
    return Task(found)
