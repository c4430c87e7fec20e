"""What drivers need of a machine that others connect to: a broker, or one of your own (`station`).

Drivers run any of them, live and simulated: they connect it to whom it dials by name, tell it what arrives,
do what it wants done, keep its store, and show how it fares. Such a machine stands on a node; what it does
there, drivers do not know.

**Costs.** What handling takes is measured in a live machine, and has to be said of a simulated one. So a
machine comes with a model of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Protocol

from msgspec import Struct

from roost.broker.commands import Command
from roost.broker.config import BrokerConfig
from roost.broker.events import LoadIndices
from roost.broker.hops import Link, Session
from roost.broker.identity import Identity
from roost.broker.machine import Machine
from roost.broker.messages import Ack, Frame, Message
from roost.broker.node import Node


class Costs(Struct, frozen=True, kw_only=True):
    """What a message takes a simulated processor, in seconds times MHz: 1.0 is a second at 1 MHz.

    What is not said here takes no time, and waits its turn all the same.
    """

    publication_s_mhz: float = 0.0  # a publication, ...
    # ... and for each entry of the table that it is matched against. The thesis' figures imply this: 120
    # subscriptions at 100 MHz are matched in 0.02 s (001 section 5.1).
    entry_s_mhz: float = 1 / 60
    messages_s_mhz: Mapping[type[Message], float] = {}  # other messages, by their type


class Traffic(Protocol):
    """The publications that have passed."""

    routed: int
    duplicates: int  # that came a second time
    last_route: tuple[int, int]  # to how many neighbours, and clients here, the last one went


class Server(Machine, Protocol):
    """A machine on a node."""

    costs: Costs
    config: BrokerConfig
    node: Node
    identity: Identity
    links: dict[str, Link]
    sessions: dict[str, Session]

    @property
    def traffic(self) -> Traffic: ...

    @property
    def table(self) -> Sized:
        """What publications are matched against. The same object as long as the machine lives."""

    @property
    def load(self) -> LoadIndices | None:
        """The last sample of the load indices."""

    def take(self, connection: int, frame: Frame, now: float) -> list[Command] | None:
        """The short way for a neighbour's publication; None: it was not that simple, `handle` it."""

    def take_ack(self, connection: int, ack: Ack) -> bool:
        """The short way for a client's acknowledgement; False: it was not that simple, `handle` it."""

    def figures(self) -> Mapping[str, Any]:
        """For operators: what only this kind of machine can say of itself."""

    def unfinished(self) -> Sequence[str]:
        """What it still has to do, in words, besides what waits in channels; at rest there is nothing."""
