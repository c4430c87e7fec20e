"""What can be set of a function that generates: read off its signature, checked where a text is converted.

A parameter is a keyword-only argument with a default; its annotation is the type that `msgspec` checks.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from roost.errors import UserError

KINDS = {int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True)
class Parameter:
    """Something that can be set: its type as `msgspec` checks it, and its default."""

    name: str
    type: Any
    default: int | float | str

    @property
    def kind(self) -> str:
        """What it takes, in words."""
        plain = get_args(self.type)[0] if get_origin(self.type) is Annotated else self.type
        if get_origin(plain) is Literal:
            return " or ".join(get_args(plain))
        return KINDS[plain]

    def __str__(self) -> str:
        return f"{self.name}={self.default if self.default != '' else repr('')}"

    def read(self, text: str) -> int | float | str:
        """The value that a text stands for; `ValueError` says what is wrong with it."""
        try:
            value: int | float | str = msgspec.convert(text, self.type, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("Expected a finite number")
        return value


def description_of(make: Callable[..., object]) -> str:
    """One line on what it makes."""
    return (inspect.getdoc(make) or "").partition("\n")[0]


def parameters_of(
    make: Callable[..., object], without: Collection[str] = ()
) -> Mapping[str, Parameter]:
    """What can be set of it, by name; `without` those that its caller sets itself."""
    found = {
        name: parameter
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in without
    }
    # Only theirs: the types of other arguments may be known to type checkers alone.
    written = SimpleNamespace(__annotations__={n: p.annotation for n, p in found.items()})
    types = get_type_hints(written, vars(inspect.getmodule(make)), include_extras=True)
    return MappingProxyType({n: Parameter(n, types[n], p.default) for n, p in found.items()})


def read_values(
    whose: str, parameters: Mapping[str, Parameter], texts: Mapping[str, str]
) -> dict[str, int | float | str]:
    """The values that texts stand for, by parameter; `whose` they are is what a message starts with."""
    there_are = (
        f"there are {', '.join(map(str, parameters.values()))}" if parameters else "it has none"
    )
    values = {}
    for name, text in texts.items():
        if name not in parameters:
            raise UserError(f"{whose}: unknown parameter {name!r}; {there_are}")
        try:
            values[name] = parameters[name].read(text)
        except ValueError as bad:
            raise UserError(
                f"{whose}: {name}={text!r} will not do ({bad}); it takes {parameters[name].kind};"
                f" {there_are}"
            ) from None
    return values
