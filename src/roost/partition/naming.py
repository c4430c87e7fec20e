"""A service as its parts: names, what each is, and who is linked with whom. For drivers that start one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from roost.errors import UserError
from roost.partition.dimensions import Dimension

DISPATCHER = "roost.partition.dispatcher:Dispatcher"
MATCHER = "roost.partition.matcher:Matcher"


class ServicePlan(Struct, frozen=True):
    """All of it."""

    names: tuple[str, ...]  # dispatchers first
    machines: dict[str, str]  # as `machine` in their settings says it
    links: tuple[tuple[str, str], ...]  # the second dials


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
    for what, count in (("dispatchers", dispatchers), ("matchers", matchers)):
        if count < 1:
            raise UserError(f"{count} {what}; expected at least one")
    if not dimensions and not choose_s:
        raise UserError("no dimensions; expected at least one, as NAME:LOW:HIGH")
    fronts = [f"D{number}" for number in range(dispatchers)]
    backs = [f"M{number}" for number in range(matchers)]
    all_fronts = f"dispatchers={','.join(fronts)}"
    lines = ",".join(f"{d.attribute}:{d.low:g}:{d.high:g}" for d in dimensions)
    said = [f"dimensions={lines}"] if lines else []
    said += [f"choose_s={choose_s:g}"] if choose_s else []
    front = " ".join([DISPATCHER, all_fronts, *said, f"matchers={','.join(backs)}", *words.split()])
    machines = dict.fromkeys(fronts, front)
    machines |= dict.fromkeys(backs, f"{MATCHER} {all_fronts}")
    names = (*fronts, *backs)
    return ServicePlan(names, machines, tuple(combinations(names, 2)))
