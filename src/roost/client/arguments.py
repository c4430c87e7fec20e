"""Arguments of the library, looked at where they are handed in.

What the wire can't carry would come to light at the broker, which ends the session, far from the line that
was wrong. So each argument of a wrong type is a TypeError on the spot, and each of a wrong value a
ValueError, that name it and say what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any

from roost.errors import type_of
from roost.language import (
    Advertisement,
    Filter,
    Subscription,
    parse_advertisement,
    parse_subscription,
)


def wrong(name: str, value: object, expected: str) -> TypeError:
    """An argument is of a wrong type."""
    return TypeError(f"{name} is {type_of(value)}; expected {expected}")


def check_text(name: str, value: object, *, optional: bool = True) -> None:
    """A string, or None."""
    if not isinstance(value, str) and not (optional and value is None):
        raise wrong(name, value, "a string" + (" or None" if optional else ""))


def check_flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(name, value, "True or False")


def check_whole(name: str, value: object, least: int) -> None:
    """A whole number from `least` on."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise wrong(name, value, "a whole number")
    if value < least:
        raise ValueError(f"{name} is {value}; expected {least} or more")


def check_seconds(name: str, value: object, *, optional: bool = True) -> None:
    """So many seconds from 0 on, or None."""
    if value is None and optional:
        return
    if not isinstance(value, Real) or isinstance(value, bool):
        raise wrong(name, value, "a number of seconds" + (" or None" if optional else ""))
    if not float(value) >= 0:  # nor is NaN
        raise ValueError(f"{name} is {value}; expected 0 or more")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """One of a few words."""
    if value not in choices:
        words = ", ".join(map(repr, choices))
        if not isinstance(value, str):
            raise wrong(name, value, f"one of {words}")
        raise ValueError(f"{name} is {value!r}; expected one of {words}")


def check_kind(name: str, value: object, kinds: tuple[type, ...], expected: str) -> None:
    """Of one of these types."""
    if not isinstance(value, kinds):
        raise wrong(name, value, expected)


def check_callable(name: str, value: Callable[..., Any] | None) -> None:
    """A function, or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function or None")


def interest_of(filter_: str | Filter | Subscription) -> Subscription:
    """What is asked for."""
    if isinstance(filter_, str):
        return parse_subscription(filter_)
    if isinstance(filter_, Filter):
        return Subscription([filter_])
    check_kind("filter", filter_, (Subscription,), "a text, a Filter or a Subscription")
    return filter_


def advertisement_of(name: str, filter_: str | Filter | Advertisement) -> Advertisement:
    """What is to be published."""
    if isinstance(filter_, str):
        return parse_advertisement(filter_)
    if isinstance(filter_, Filter):
        return Advertisement([filter_])
    check_kind(name, filter_, (Advertisement,), "a text, a Filter or an Advertisement")
    return filter_
