"""What a user writes: an optimiser that sends clients on when there are too many, a router with a rule."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from roost.broker.events import LoadIndices
from roost.broker.hops import Hop
from roost.broker.module import Module, Surroundings
from roost.broker.router import Flooding
from roost.language import Event


class Crowd(Module):
    """No more clients here than the limit; the others go to the first neighbour."""

    name = "crowd"

    class Config(Struct, frozen=True, forbid_unknown_fields=True):
        limit: int = 10

    def started(self, around: Surroundings, now: float) -> None:  # noqa: ARG002
        self.around = around

    def sampled(self, load: LoadIndices, now: float) -> None:  # noqa: ARG002
        around = self.around
        clients = list(around.clients())
        there = around.address_of(around.neighbours[0])
        for client in clients[self.config.limit :]:
            if there is None or around.broker != "B0":
                return
            evidence: dict[str, Any] = {"clients": len(clients)}
            cause = around.propose(
                "evening out",
                "move",
                client,
                there,
                subjects=[client],
                evidence=evidence,
                predicted={},
            )
            if cause is not None:  # None while it is only observing, or if somebody objects
                around.redirect(client, there, cause)


class Classed(Flooding):
    """Subscriptions go everywhere; an event has to have a class."""

    def objection_to(self, hop: Hop, event: Event) -> str:  # noqa: ARG002
        return "" if "class" in event.attributes else "an event without a class"
