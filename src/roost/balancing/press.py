"""PRESS, the gathering side: which of the next publications go to which clients (001 section 4.1.1).

The offloading broker subscribes, just here, to all that the accepting broker is subscribed to, and looks at
the next N publications that it routes. Publication i sets bit i of every client that it was delivered to,
of the other's covering subscription set if that matches it, and of what comes here whoever moves: what
publishers here publish, and what goes on to another neighbour. After N publications, or T seconds, the bits
become a `Spectrum`, from which `offload` chooses.

Clients that ask for the same are one subscription (`groups`). A client with several subscriptions is the
unit that moves, so a bit is set if any of them matched. What a delivery weighs is measured, too: its bytes
on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from roost.balancing.cards import Spectrum, SubscriptionLoad
from roost.broker.messages import DATA, Delivery, Frame
from roost.language import parse_subscription
from roost.optimising.bitvector import BitVector
from roost.optimising.groups import groups_of
from roost.wire import size_of

if TYPE_CHECKING:
    from roost.broker.module import Surroundings, Visit

WATCH = "press"


class Press:
    """A sampling, from `begin` to `end`."""

    def __init__(self, around: Surroundings, samples: int) -> None:
        self._around = around
        self._samples = samples
        self._taken = 0
        self._watches = 0  # local subscriptions
        self._bits: dict[str, BitVector] = {}  # by client
        self._css = BitVector()
        self._kept = BitVector()
        self._bytes = 0
        self._delivered = 0

    def begin(self, css: Iterable[str]) -> None:
        """Subscribe, locally, to what the accepting broker is subscribed to."""
        for text in css:
            self._watches += 1
            name = f"{WATCH} {self._watches}"
            self._around.subscribe(name, parse_subscription(text), local=True)

    def routed(self, visit: Visit) -> bool:
        """A publication; whether it was the last that is wanted."""
        if self._taken >= self._samples:
            return True
        bit, self._taken = self._taken, self._taken + 1
        for client in visit.matches:
            bits = self._bits.get(client)
            if bits is None:
                bits = self._bits[client] = BitVector()
            bits.set(bit)
        if visit.from_client or visit.neighbours:
            self._kept.set(bit)
        if visit.matches:
            ids = next(iter(visit.matches.values()))
            delivery = Delivery(visit.publication, tuple(ids))
            self._bytes += size_of(Frame(DATA, 1, delivery, visit.hops)) * len(visit.matches)
            self._delivered += len(visit.matches)
        return False

    def heard(self) -> None:
        """The publication that was routed last is one that the accepting broker gets as well."""
        self._css.set(self._taken - 1)

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        for number in range(self._watches):
            self._around.unsubscribe(f"{WATCH} {number + 1}")
        self._watches = 0

    def end(self, input_rate: float, may_move: Callable[[str], bool]) -> Spectrum:
        """What was found; the local subscription is gone."""
        around = self._around
        self.cancel()
        clients = around.clients()
        movable = {client for client in around.movable() if may_move(client)}
        message_bytes = self._bytes / self._delivered if self._delivered else 0.0
        loads = []
        for members in groups_of(clients, lambda _: True).values():
            bits = BitVector()
            for client in members:  # they came at different times, and got the same since
                bits |= self._bits.get(client, BitVector())
            going = tuple(client for client in members if client in movable)
            if not going:
                self._kept |= bits
                continue
            interests = tuple(clients[members[0]].values())
            kept = len(members) - len(going)
            loads.append(SubscriptionLoad(going, interests, bits.to_bytes(), message_bytes, kept))
        return Spectrum(
            samples=self._taken,
            input_rate=input_rate,
            loads=tuple(loads),
            css_bits=self._css.to_bytes(),
            kept_bits=self._kept.to_bytes(),
        )
