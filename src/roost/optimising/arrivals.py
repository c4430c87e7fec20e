"""Clients that were sent to a broker: what was predicted of that, and since when they rest.

Whoever decides that a client moves tells the broker that it moves to. That broker records the outcome once it
has measured it, next to the prediction, and knows when the client moved last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

# The one that came first is forgotten first.
ARRIVALS_MAX = 10_000
# The move itself takes a few seconds, and loads are those of the last few.
SHOWN_AFTER_S = 30.0


class Arrival(Struct, frozen=True):
    """A client that was sent here."""

    at: float
    decision: str  # "" once its outcome is recorded
    predicted: Mapping[str, float]
    publishes_per_s: float


class Arrivals:
    """Those at one broker."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._arrivals: dict[str, Arrival] = {}

    def announced(self, client: str, arrival: Arrival) -> None:
        """A client is on its way here."""
        self._arrivals.pop(client, None)
        if len(self._arrivals) >= ARRIVALS_MAX:
            del self._arrivals[next(iter(self._arrivals))]
        self._arrivals[client] = arrival

    def since_s(self, client: str, now: float) -> float | None:
        """How long ago it moved here; None if it has not."""
        arrival = self._arrivals.get(client)
        return None if arrival is None else now - arrival.at

    def awaits_outcome(self, client: str) -> bool:
        """Whether it was sent here, and nothing has been recorded of it yet."""
        arrival = self._arrivals.get(client)
        return arrival is not None and bool(arrival.decision)

    def expected_per_s(self, now: float) -> float:
        """What those publish that have been announced so lately that the load does not show it yet."""
        found = 0.0
        for arrival in reversed(self._arrivals.values()):
            if now - arrival.at > SHOWN_AFTER_S:
                break
            found += arrival.publishes_per_s
        return found

    def record(self, client: str, measured: Mapping[str, float]) -> None:
        """What it is like, once, next to what was predicted; nothing if the client was not sent here."""
        if not self.awaits_outcome(client):
            return
        arrival = self._arrivals[client]
        self._arrivals[client] = replace(arrival, decision="", predicted={})
        self._around.decide(
            "outcome",
            client,
            self._around.broker,
            evidence={"decision": arrival.decision, "measured": measured},
            predicted=arrival.predicted,
        )
