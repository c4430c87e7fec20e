"""Who is where: brokers, links and clients, in one order, so that equal placements are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct


class Placement(Struct, frozen=True):
    """Who is where."""

    links: tuple[
        tuple[str, str], ...
    ]  # each in the order of its two names, and all of them in order
    clients: Mapping[str, str]  # client -> broker
    brokers: tuple[str, ...]

    def digest(self, clients: Iterable[str]) -> str:
        """Of the overlay and of where these clients are: what a plan for them depends on."""
        where = {client: self.clients.get(client, "") for client in sorted(set(clients))}
        known = [list(self.brokers), [list(link) for link in self.links], where]
        return sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()


def in_order(a: str, b: str) -> tuple[str, str]:
    """A link as placements have it."""
    return (a, b) if a < b else (b, a)


def placement_of(
    brokers: Iterable[str], links: Iterable[tuple[str, str]], clients: Mapping[str, str]
) -> Placement:
    """In the order that makes equal placements equal."""
    return Placement(
        tuple(sorted({in_order(a, b) for a, b in links})),
        dict(sorted(clients.items())),
        tuple(sorted(brokers)),
    )
