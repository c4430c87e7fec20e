"""What a rewiring is, and what of it a broker keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from roost.broker.hops import Link
from roost.broker.messages import Publication, Rewire

Role = Literal["middle", "mover", "anchor"]
ROLES: tuple[Role, ...] = ("middle", "mover", "anchor")
# So long may it take until the mover has switched.
PATIENCE_S = 10.0
TIMER = "rewire"
# Heard: the middle has lost its memory.
ALONE = "alone"
# Said about a link that is forced: the same.
FORGOTTEN = "forgotten"


class Plan(Struct, frozen=True):
    """A rewiring that this broker is part of, and how far it has come."""

    id: str
    brokers: tuple[str, ...]  # by role
    cause: str
    role: Role
    stage: str
    heard: tuple[str, ...] = ()  # what has been said, where the order is open
    urgency: str = ""  # of whoever wants it (`arbiter`); "": an operator, who waits for no rest

    def after(self, stage: str, *heard: str) -> Plan:
        return replace(self, stage=stage, heard=(*self.heard, *heard))


class Step(NamedTuple):
    """What is done about a message, and in which stages. At any other time it is stale."""

    stages: Collection[str]
    do: Callable[[Rewire], None]


# By who says it, and what.
Steps = Mapping[tuple[Role, str], Step]


def publications(link: Link) -> list[tuple[Publication, int]]:
    """Events that wait for a neighbour, with the links that they have passed."""
    outbox = link.channel.data.outbox
    return [(f.message, f.hops) for f in outbox if isinstance(f.message, Publication)]
