"""Clients that a module of another broker has sent here: what was predicted, and since when they rest.

Whoever decides that a client moves tells its like at the broker that it moves to, and that one says so here.
From then on all modules count it: the load will not show it for a while, and a client that has just moved is
left alone. Whose decision it was records the outcome, once it has measured it, next to the prediction.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

# The one that came first is forgotten first.
NEWCOMERS_MAX = 10_000
# The move itself takes a few seconds, and loads are those of the last few.
SHOWN_AFTER_S = 30.0


class Newcomer(Struct, frozen=True):
    """A client that was sent here."""

    module: str
    at: float
    decision: str  # "" once its outcome is recorded
    predicted: Mapping[str, float]
    publishes_per_s: float


class Newcomers:
    """Those at one broker."""

    def __init__(self) -> None:
        self._newcomers: dict[str, Newcomer] = {}

    def expect(self, client: str, newcomer: Newcomer) -> None:
        """A client is on its way here."""
        self._newcomers.pop(client, None)
        if len(self._newcomers) >= NEWCOMERS_MAX:
            del self._newcomers[next(iter(self._newcomers))]
        self._newcomers[client] = newcomer

    def since_s(self, client: str, now: float) -> float | None:
        """How long ago it was sent here; None if it was not."""
        newcomer = self._newcomers.get(client)
        return None if newcomer is None else now - newcomer.at

    def expected_per_s(self, now: float) -> float:
        """What those publish that were sent so lately that the load does not show it yet."""
        found = 0.0
        for newcomer in reversed(self._newcomers.values()):
            if now - newcomer.at > SHOWN_AFTER_S:
                break
            found += newcomer.publishes_per_s
        return found

    def awaits_outcome(self, client: str, module: str) -> bool:
        """Whether this module has sent it here, and nothing has been recorded of it yet."""
        newcomer = self._newcomers.get(client)
        return newcomer is not None and bool(newcomer.decision) and newcomer.module == module

    def end_of_wait(self, client: str, module: str) -> Newcomer | None:
        """Its outcome is known: what was predicted of it, once."""
        if not self.awaits_outcome(client, module):
            return None
        newcomer = self._newcomers[client]
        self._newcomers[client] = replace(newcomer, decision="", predicted={})
        return newcomer
