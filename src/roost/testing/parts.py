"""The parts of the simulator, for whoever drives them by hand: they look at what they are handed.

Inside the simulator these are called for every message, by one another, and trust what comes. A person's slip
would show far from the line that was wrong, or not at all: here it is a TypeError that names the argument, as
everywhere in the library. What is expected is what the annotations say, so that it is said once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from roost.client.arguments import wrong
from roost.simulation import fuzz, oracle, world

NUMBERS: dict[Any, tuple[type, str]] = {
    float: (Real, "a number"),
    int: (Integral, "a whole number"),
}


def looking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, for arguments of the types that it declares; TypeError for others."""
    signature = inspect.signature(method)
    hints = {name: plain(hint) for name, hint in get_type_hints(method).items()}

    @functools.wraps(method)
    def looks(*arguments: Any, **named: Any) -> Any:
        for name, value in signature.bind(*arguments, **named).arguments.items():
            hint = hints.get(name, Any)
            if not fits(value, hint):
                raise wrong(name, value, expected(hint))
        return method(*arguments, **named)

    return looks


def fits(value: object, hint: Any) -> bool:
    """Whether a value is what an annotation says, by the outermost type of it.

    >>> fits(1, float), fits(True, float), fits("1", float), fits(None, float | None), fits([1], list[str])
    (True, False, False, True, True)
    """
    if hint is Any:
        return True
    if is_union(hint):
        return any(fits(value, part) for part in get_args(hint))
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint][0]) and not isinstance(value, bool)
    return isinstance(value, get_origin(hint) or hint)


def expected(hint: Any) -> str:
    """An annotation in words.

    >>> expected(float | None), expected(Callable[[str], bool]), expected(Party), expected(set[str])
    ('a number or None', 'a function', 'a Party', 'a set')
    """
    if is_union(hint):
        return " or ".join(expected(part) for part in get_args(hint))
    if hint in NUMBERS:
        return NUMBERS[hint][1]
    kind = get_origin(hint) or hint
    words = {Callable: "a function", NoneType: "None", bool: "True or False", str: "a string"}
    if (word := words.get(kind)) is not None:
        return word
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def plain(hint: Any) -> Any:
    """An annotation without the names that types have been given: an address is a string."""
    return plain(hint.__supertype__) if isinstance(hint, NewType) else hint


def is_union(hint: Any) -> bool:
    """`X | Y`, however it is written."""
    return get_origin(hint) in (Union, UnionType)


class Looking:
    """What derives from it looks at the arguments of all public methods that it has inherited."""

    def __init_subclass__(cls) -> None:
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                setattr(cls, name, looking(method))


class Oracle(Looking, oracle.Oracle):
    """Hears what clients do and what arrives, and says what is lost, doubled or out of order."""


class Party(Looking, oracle.Party):
    """A client, as the oracle knows it."""


class Scenario(Looking, fuzz.Scenario):
    """The federation that a seed makes, with all that happens in it: `text()` is its workload."""


class World(Looking, world.World):
    """One run in virtual time. `seed` decides all that the workload leaves open."""
