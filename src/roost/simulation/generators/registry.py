"""The generators by name, with their parameters: what a command can list and set."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from roost.errors import UserError
from roost.simulation.generators.relocation import relocation
from roost.simulation.generators.thesis import local, tree
from roost.simulation.statements import Statement

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


@dataclass(frozen=True)
class Generator:
    """A function from a seed and parameters to a workload."""

    make: Callable[..., list[Statement]]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.make.__name__

    @property
    def description(self) -> str:
        """One line on what it makes."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What can be set besides the seed, by name."""
        types = get_type_hints(self.make, include_extras=True)
        return MappingProxyType(
            {
                name: Parameter(name, types[name], parameter.default)
                for name, parameter in inspect.signature(self.make).parameters.items()
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            }
        )

    def statements(self, seed: int, values: Mapping[str, str]) -> list[Statement]:
        """The workload, with the values (as texts) that differ from the defaults."""
        if seed < 0:
            raise UserError(f"{self.name}: the seed is {seed}; expected 0 or more")
        return self.make(seed, **{name: self._read(name, text) for name, text in values.items()})

    def _read(self, name: str, text: str) -> int | float | str:
        if name not in self.parameters:
            raise UserError(f"{self.name}: unknown parameter {name!r}; {self._there_are()}")
        parameter = self.parameters[name]
        try:
            return parameter.read(text)
        except ValueError as bad:
            raise UserError(
                f"{self.name}: {name}={text!r} will not do ({bad}); it takes {parameter.kind};"
                f" {self._there_are()}"
            ) from None

    def _there_are(self) -> str:
        return f"there are {', '.join(map(str, self.parameters.values()))}"


GENERATORS: Mapping[str, Generator] = {
    make.__name__: Generator(make) for make in (local, tree, relocation)
}


def generate(name: str, seed: int, values: Mapping[str, str]) -> list[Statement]:
    """The workload of that name; the same for the same seed and values."""
    if name not in GENERATORS:
        raise UserError(f"no generator is called {name!r}; there are {', '.join(GENERATORS)}")
    return GENERATORS[name].statements(seed, values)
