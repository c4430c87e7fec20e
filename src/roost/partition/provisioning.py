"""Who provides matchers: as many as dispatchers wish for, one at a time (004 section IV.E).

A provisioner looks at what dispatchers say of themselves (`figures`), and says what is to be done next; who
does it, and with what, is a driver's business (processes in `runtime.provisioning`, hosts in
`simulation.provisioning`).

    state      until                                            then
    at rest    a dispatcher wishes for more                     start a matcher: starting
               all dispatchers wish for fewer                   have one leave: leaving
    starting   all dispatchers have it in a table that rests    at rest
               it has had `joins_s`                             end it: at rest
    leaving    no dispatcher has it in its table                end it: at rest

Wishes are looked at, not sent: one that is not heard, or heard twice, does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from roost.errors import UserError

Figures: TypeAlias = Mapping[str, Any]


class Step(Struct, frozen=True):
    """What is to be done: a matcher is to start, to be asked to leave, or to end."""

    what: Literal["start", "leave", "end"]
    matcher: str
    why: str


class Bounds(Struct, frozen=True, kw_only=True):
    """How few and how many there may be."""

    matchers_min: int = 1
    matchers_max: int = 16
    joins_s: float = 60.0  # who has not joined after so long never will

    def check(self) -> None:
        if not 1 <= self.matchers_min <= self.matchers_max:
            raise UserError(
                f"{self.matchers_min} to {self.matchers_max} matchers;"
                " expected at least one, and the most not below the fewest"
            )


class Provisioner:
    """Of one service. Names are M and a number, and nobody gets one that another has had."""

    def __init__(self, bounds: Bounds) -> None:
        bounds.check()
        self._bounds = bounds
        self._starting: tuple[str, float] | None = None  # who, and since when
        self._leaving = ""
        self._named = -1  # the highest number so far

    def look(self, dispatchers: Mapping[str, Figures], now: float) -> Step | None:
        """What is to be done now, by what the dispatchers that answer say of themselves."""
        tables = [figures["matchers"] for figures in dispatchers.values()]
        if not tables or not all(figures["settled"] for figures in dispatchers.values()):
            return None
        if self._starting is not None:
            name, since = self._starting
            return self._joined(name, all(name in table for table in tables), now - since)
        if self._leaving:
            return self._left(any(self._leaving in table for table in tables))
        return self._wished(dispatchers, sorted({name for table in tables for name in table}), now)

    def _joined(self, name: str, all_have: bool, age_s: float) -> Step | None:
        if not all_have and age_s < self._bounds.joins_s:
            return None
        self._starting = None
        return None if all_have else Step("end", name, "it has not joined")

    def _left(self, is_needed: bool) -> Step | None:
        if is_needed:
            return None
        gone, self._leaving = self._leaving, ""
        return Step("end", gone, "nobody needs it any more")

    def _wished(
        self, dispatchers: Mapping[str, Figures], there: list[str], now: float
    ) -> Step | None:
        bounds = self._bounds
        wishing = [name for name, figures in dispatchers.items() if figures["wish"] == "more"]
        if wishing and len(there) < bounds.matchers_max:
            self._named = 1 + max([self._named, *map(_number, there)])
            self._starting = (f"M{self._named}", now)
            return Step("start", self._starting[0], f"{' and '.join(wishing)}: saturated")
        spares = [f["spare"] for f in dispatchers.values() if f["wish"] == "fewer"]
        is_agreed = len(spares) == len(dispatchers)
        if is_agreed and len(there) > bounds.matchers_min and spares[0] in there:
            self._leaving = spares[0]
            return Step("leave", self._leaving, "all dispatchers say that one could go")
        return None


def _number(name: str) -> int:
    digits = name.removeprefix("M")
    return int(digits) if digits.isdecimal() else -1
