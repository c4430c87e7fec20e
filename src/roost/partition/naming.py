"""A service as its parts: names, what each is, and who is linked with whom. For drivers that start one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from roost.errors import UserError
from roost.partition.dimensions import Dimension
from roost.partition.settings import parse_dimensions

DISPATCHER = "roost.partition.dispatcher:Dispatcher"
MATCHER = "roost.partition.matcher:Matcher"

_is_name = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch


class ServicePlan(Struct, frozen=True):
    """All of it."""

    names: tuple[str, ...]  # dispatchers first
    machines: dict[str, str]  # as `machine` in their settings says it
    links: tuple[tuple[str, str], ...]  # the second dials


class SpacePlan(Struct, frozen=True):
    """An application's part of a service: see `seat`."""

    name: str
    dispatchers: int
    matchers: int  # of its own; 0: those that serve all such spaces
    dimensions: Sequence[Dimension]


def plan_service(
    dispatchers: int,
    matchers: int,
    dimensions: Sequence[Dimension],
    words: str = "",
    *,
    choose_s: float = 0.0,
) -> ServicePlan:
    """So many of both, all linked with each other; `words` are more settings of dispatchers.

    Without dimensions it has to choose some, once in `choose_s`.
    """
    space = SpacePlan("", dispatchers, matchers, dimensions)
    return plan_spaces([space], 0, words, choose_s=choose_s)


def plan_spaces(
    spaces: Sequence[SpacePlan], matchers: int, words: str = "", *, choose_s: float = 0.0
) -> ServicePlan:
    """These spaces, and so many matchers that serve those without any of their own."""
    shared = [space for space in spaces if not space.matchers]
    if shared:
        _check("matchers", matchers)
    fronts: dict[str, str] = {}
    backs: dict[str, str] = {}
    links: dict[tuple[str, str], None] = {}
    common = [f"M{number}" for number in range(matchers)] if shared else []
    for space in spaces:
        _check("dispatchers", space.dispatchers)
        if space.matchers:
            _check("matchers", space.matchers)
        if not space.dimensions and not choose_s:
            raise UserError("no dimensions; expected at least one, as NAME:LOW:HIGH")
        dot = f"{space.name}." if space.name else ""
        its_fronts = [f"{dot}D{number}" for number in range(space.dispatchers)]
        its_backs = [f"{dot}M{number}" for number in range(space.matchers)] or common
        machine = [DISPATCHER, _dispatchers([space])]
        machine += _words("dimensions", _written(space.dimensions))
        machine += _words("choose_s", f"{choose_s:g}" if choose_s else "")
        machine += [f"matchers={','.join(its_backs)}", *words.split()]
        fronts |= dict.fromkeys(its_fronts, " ".join(machine))
        serves = [space] if space.matchers else shared
        backs |= dict.fromkeys(its_backs, f"{MATCHER} {_dispatchers(serves)}")
        links |= dict.fromkeys(combinations((*its_fronts, *its_backs), 2))
    if len(fronts) != sum(space.dispatchers for space in spaces):
        raise UserError("two spaces have one name; expected a name each")
    return ServicePlan((*fronts, *backs), fronts | backs, tuple(links))


def parse_space(text: str, dimensions: Sequence[str], dispatchers: int) -> SpacePlan:
    """From NAME, NAME:DISPATCHERS or NAME:DISPATCHERS:MATCHERS, and dimensions, its own as SPACE/NAME:..."""
    name, *counts = text.split(":")
    if not _is_name(name) or len(counts) > 2 or not all(count.isdecimal() for count in counts):
        raise UserError(f"space {text!r}; expected NAME, or NAME:DISPATCHERS[:MATCHERS]")
    own = [d.removeprefix(f"{name}/") for d in dimensions if d.startswith(f"{name}/")]
    own = own or [d for d in dimensions if "/" not in d]
    numbers = [int(count) for count in counts]
    return SpacePlan(
        name,
        numbers[0] if numbers else dispatchers,
        numbers[1] if len(numbers) > 1 else 0,
        parse_dimensions(",".join(own)) if own else [],
    )


def _check(what: str, count: int) -> None:
    if count < 1:
        raise UserError(f"{count} {what}; expected at least one")


def _dispatchers(some: Sequence[SpacePlan]) -> str:
    """Of these spaces, as settings have them."""
    names = []
    for space in some:
        before = f"{space.name}/{space.name}." if space.name else ""
        names += [f"{before}D{number}" for number in range(space.dispatchers)]
    return f"dispatchers={','.join(names)}"


def _written(dimensions: Sequence[Dimension]) -> str:
    return ",".join(f"{d.attribute}:{d.low:g}:{d.high:g}" for d in dimensions)


def _words(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value else []
