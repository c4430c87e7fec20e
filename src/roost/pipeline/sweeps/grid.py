"""The grid of a sweep: every combination of the axes' values, with every seed, is a cell.

An axis is `name=value,value,...`, where `2..8` stands for 2, 3, ... 8 and `0.1..0.5..0.1` for steps of 0.1.
Seeds are a number of them (`10`: from 0 to 9), a range (`5-9`) or a list (`3,7`).

A cell's id is a hash of all that decides its result: the task, the parameters, the seed, and what is in the
files that it reads. So the same cell has the same id in any grid and on any machine, and a result is found
again under it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.sweeps.tasks import Parameters, Task

CELLS_MAX = 100_000
SEED_MAX = 2**63 - 1
ID_DIGITS = 16
# Columns that every table of results has, or gets in a lake, so that no parameter or figure can; for Spark
# names that differ only by case are the same.
FIXED = ("cell", "seed", "status", "error", "seconds", "worker", "tries", "code", "run")

_span = re.compile(r"(?P<first>[^.].*?)\.\.(?P<last>.+?)(\.\.(?P<step>.+))?").fullmatch
_seeds = re.compile(r"(?P<first>[0-9]+)-(?P<last>[0-9]+)").fullmatch


class Axis(NamedTuple):
    """A parameter, and the texts of its values."""

    name: str
    values: tuple[str, ...]


class Cell(Struct, frozen=True):
    """One run: its parameters, its seed, and what it costs compared with others."""

    id: str
    parameters: Parameters
    seed: int
    cost: float = 1.0

    def __str__(self) -> str:
        return " ".join([*(f"{k}={v}" for k, v in self.parameters.items()), f"seed={self.seed}"])


# --- axes and seeds ---------------------------------------------------------------------------------


def read_axes(texts: Iterable[str]) -> list[Axis]:
    """The axes that `--set` gives, each once."""
    axes: dict[str, Axis] = {}
    for text in texts:
        axis = read_axis(text)
        if axis.name.lower() in axes:
            raise UserError(
                f"--set {text}: {axis.name} is set twice; expected all its values in one list"
            )
        axes[axis.name.lower()] = axis
    return list(axes.values())


def read_axis(text: str) -> Axis:
    """An axis from NAME=VALUE,VALUE,..."""
    name, equals, listed = text.partition("=")
    if not equals or not name:
        raise UserError(f"--set {text}: expected NAME=VALUE,VALUE,... or NAME=FIRST..LAST")
    if name.lower() in FIXED:
        raise UserError(f"--set {text}: {name} is a column of every result; expected another name")
    words = listed.split(",")
    if len(words) > 1 and "" in words:
        raise UserError(f"--set {text}: a value is missing; expected {name}=VALUE,VALUE,...")
    return Axis(name, tuple(value for word in words for value in _values(text, word)))


def _values(text: str, word: str) -> Iterator[str]:
    """What a word of a list stands for: itself, or all numbers of a range."""
    found = _span(word)
    if found is None:
        yield word
        return
    try:
        first, last = Decimal(found["first"]), Decimal(found["last"])
        step = Decimal(found["step"] or 1)
    except InvalidOperation:
        yield word  # a path, say
        return
    numbers = (first, last, step)
    if not all(number.is_finite() for number in numbers) or step <= 0 or last < first:
        raise UserError(
            f"--set {text}: {word} is an empty range; expected FIRST..LAST or FIRST..LAST..STEP"
            " with a LAST from FIRST on and a STEP above 0"
        )
    if (last - first) / step >= CELLS_MAX:
        raise UserError(f"--set {text}: {word} has more than {CELLS_MAX:,} values")
    for n in range(int((last - first) / step) + 1):
        yield f"{first + n * step:f}"


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds from `10`, `5-9` or `3,7`."""
    expected = "expected how many (10), a range (5-9) or a list (3,7)"
    span = _seeds(text)
    if span is not None:
        first, last = int(span["first"]), int(span["last"])
        if last < first:
            raise UserError(f"--seeds {text}: an empty range; {expected}")
    elif re.fullmatch("[0-9]+", text):
        first, last = 0, int(text) - 1
        if last < 0:
            raise UserError(f"--seeds {text}: no seed at all; {expected}")
    elif re.fullmatch("[0-9]+(,[0-9]+)+", text):
        seeds = tuple(int(word) for word in text.split(","))
        if len(set(seeds)) < len(seeds):
            raise UserError(f"--seeds {text}: one of them is there twice")
        if max(seeds) > SEED_MAX:
            raise UserError(f"--seeds {text}: a seed is at most {SEED_MAX}")
        return seeds
    else:
        raise UserError(f"--seeds {text}: {expected}")
    if last > SEED_MAX or last - first >= CELLS_MAX:
        raise UserError(f"--seeds {text}: at most {CELLS_MAX:,} seeds, none above {SEED_MAX}")
    return tuple(range(first, last + 1))


# --- cells ------------------------------------------------------------------------------------------


def cells_of(reference: str, task: Task, axes: Sequence[Axis], seeds: Sequence[int]) -> list[Cell]:
    """All cells, the seeds of a combination together; refuses a grid before any of it is run."""
    number = prod(len(axis.values) for axis in axes) * len(seeds)
    if number > CELLS_MAX:
        raise UserError(f"the grid has {number:,} cells; expected at most {CELLS_MAX:,}")
    contents = _Contents()
    cells: dict[str, Cell] = {}
    for values in product(*(axis.values for axis in axes)):
        texts = dict(zip((axis.name for axis in axes), values, strict=True))
        parameters = task.read(texts)
        read = {str(path): contents.of(path) for path in task.files(parameters)}
        cost = task.cost(parameters)
        for seed in seeds:
            cell = Cell(cell_id(reference, parameters, seed, read), parameters, seed, cost)
            if cell.id in cells:
                raise UserError(f"the cell {cell} is in the grid twice; expected different values")
            cells[cell.id] = cell
    return list(cells.values())


def cell_id(reference: str, parameters: Parameters, seed: int, contents: dict[str, str]) -> str:
    """What a cell goes by."""
    whole = json.dumps([reference, parameters, seed, contents], sort_keys=True)
    return sha256(whole.encode()).hexdigest()[:ID_DIGITS]


class _Contents:
    """Hashes of files, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        if path not in self._known:
            try:
                self._known[path] = sha256(path.read_bytes()).hexdigest()
            except OSError as bad:
                raise UserError(f"{path}: {bad.strerror or bad}") from None
        return self._known[path]
