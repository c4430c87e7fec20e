"""The generators by name, with their parameters: what a command can list and set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from roost.errors import UserError
from roost.simulation.generators.clusters import global_
from roost.simulation.generators.parameters import (
    Parameter,
    description_of,
    parameters_of,
    read_values,
)
from roost.simulation.generators.relocation import relocation
from roost.simulation.generators.thesis import local, tree
from roost.simulation.statements import Statement


@dataclass(frozen=True)
class Generator:
    """A function from a seed and parameters to a workload."""

    make: Callable[..., list[Statement]]

    @property
    def name(self) -> str:
        """What it is called. A word of Python's own has an underscore behind it there."""
        return self.make.__name__.rstrip("_")

    @property
    def description(self) -> str:
        """One line on what it makes."""
        return description_of(self.make)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What can be set besides the seed, by name."""
        return parameters_of(self.make)

    def statements(self, seed: int, values: Mapping[str, str]) -> list[Statement]:
        """The workload, with the values (as texts) that differ from the defaults."""
        if seed < 0:
            raise UserError(f"{self.name}: the seed is {seed}; expected 0 or more")
        return self.make(seed, **read_values(self.name, self.parameters, values))


ALL = [Generator(local), Generator(tree), Generator(relocation), Generator(global_)]
GENERATORS: Mapping[str, Generator] = {generator.name: generator for generator in ALL}


def generate(name: str, seed: int, values: Mapping[str, str]) -> list[Statement]:
    """The workload of that name; the same for the same seed and values."""
    if name not in GENERATORS:
        raise UserError(f"no generator is called {name!r}; there are {', '.join(GENERATORS)}")
    return GENERATORS[name].statements(seed, values)
