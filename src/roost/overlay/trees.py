"""What an overlay of brokers is, and what its shape tells: faults, roles, centre, diameter.

All that asks for a tree takes `check_tree` for granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from roost.errors import UserError

BROKERS_MAX = 100_000
NAMES_SHOWN = 5
PATH_SHOWN = 12

Role = Literal["head", "edge"]


class Link(Struct, frozen=True):
    """Two brokers that are neighbours, whichever comes first."""

    a: str
    b: str
    latency_ms: float | None = None  # one way; without one, the settings of the run say


class Topology(Struct, frozen=True):
    """Brokers and the links between them."""

    brokers: tuple[str, ...]
    links: tuple[Link, ...]


class Fault(NamedTuple):
    """Why a topology is no tree, and the place in it, so that a reader of files can say the line."""

    what: str
    broker: int | None = None
    link: int | None = None


class Rooted(NamedTuple):
    """A tree seen from one of its brokers."""

    order: list[str]  # parents before their children, a subtree in one piece
    parent: dict[str, str]  # of all but the root
    children: dict[str, list[str]]
    depth: dict[str, int]

    @property
    def root(self) -> str:
        """The broker that it is seen from."""
        return self.order[0]


# --- is it a tree? --------------------------------------------------------------------------------


def check_tree(topology: Topology) -> None:
    """Refuses an overlay that is no tree, by a `UserError`."""
    fault = first_fault(topology)
    if fault is not None:
        raise UserError(fault.what)


def first_fault(topology: Topology) -> Fault | None:
    """Why the overlay is no tree, or None if it is one."""
    if not topology.brokers:
        return Fault("there is no broker")
    joined: dict[str, list[str]] = {}
    for number, broker in enumerate(topology.brokers):
        if broker in joined:
            return Fault(f"the broker {broker} is there twice", broker=number)
        joined[broker] = []
    part = {broker: broker for broker in topology.brokers}
    for number, link in enumerate(topology.links):
        what = _wrong_with(link, joined, part)
        if what is not None:
            return Fault(what, link=number)
        joined[link.a].append(link.b)
        joined[link.b].append(link.a)
        part[_part_of(link.b, part)] = _part_of(link.a, part)
    return _falls_apart(topology.brokers, part)


def _wrong_with(
    link: Link, joined: Mapping[str, Sequence[str]], part: dict[str, str]
) -> str | None:
    """What the link does to the forest that the links before it make."""
    for broker in (link.a, link.b):
        if broker not in joined:
            return f"the link {link.a} - {link.b}: there is no broker {broker}"
    if link.a == link.b:
        return f"{link.a} is linked to itself"
    if _part_of(link.a, part) != _part_of(link.b, part):
        return None
    if link.b in joined[link.a]:
        return f"{link.a} and {link.b} are linked already"
    path = _path_to(link.a, _walk(joined, link.b))
    return f"the link {link.a} - {link.b} closes a cycle: {_path_text([*path, link.a])}"


def _part_of(broker: str, part: dict[str, str]) -> str:
    """The broker that stands for the connected part; on the way the paths to it get shorter."""
    while part[broker] != broker:
        part[broker] = part[part[broker]]
        broker = part[broker]
    return broker


def _falls_apart(brokers: Sequence[str], part: dict[str, str]) -> Fault | None:
    parts: dict[str, list[int]] = {}
    for number, broker in enumerate(brokers):
        parts.setdefault(_part_of(broker, part), []).append(number)
    if len(parts) == 1:
        return None
    first, second, *_ = parts.values()
    one, other = (names_text([brokers[number] for number in some]) for some in (first, second))
    return Fault(
        f"the overlay falls into {len(parts):,} parts: no link leads from {one} to {other}",
        broker=second[0],
    )


def names_text(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" (and {more:,} more)" if more > 0 else "")


def _path_text(path: Sequence[str]) -> str:
    if len(path) <= PATH_SHOWN:
        return " - ".join(path)
    half = PATH_SHOWN // 2
    return (
        f"{' - '.join(path[:half])} - ... - {' - '.join(path[-half:])} ({len(path) - 1:,} brokers)"
    )


# --- what the shape tells -------------------------------------------------------------------------


def neighbours(topology: Topology) -> dict[str, list[str]]:
    """The neighbours of each broker, in the order of the links."""
    found: dict[str, list[str]] = {broker: [] for broker in topology.brokers}
    for link in topology.links:
        found[link.a].append(link.b)
        found[link.b].append(link.a)
    return found


def roles(topology: Topology) -> dict[str, Role | None]:
    """Cluster-head or edge-broker, by the number of neighbours (001 section 3.2).

    With one or two brokers nobody has a role, and a broker without neighbours never has one.
    """
    few = len(topology.brokers) <= 2
    return {
        broker: None if few or not near else "head" if len(near) > 1 else "edge"
        for broker, near in neighbours(topology).items()
    }


def diameter(topology: Topology) -> int:
    """The links on the longest path of a tree."""
    return len(_longest_path(topology)) - 1


def centre(topology: Topology) -> str:
    """The broker whose farthest other is nearest; of two such, the one that is listed first."""
    path = _longest_path(topology)
    middle = {path[(len(path) - 1) // 2], path[len(path) // 2]}
    return next(broker for broker in topology.brokers if broker in middle)


def rooted(topology: Topology, root: str) -> Rooted:
    """A tree, seen from `root`; children stand in the order of the brokers."""
    position = {broker: number for number, broker in enumerate(topology.brokers)}
    parent = _walk(neighbours(topology), root)
    children: dict[str, list[str]] = {broker: [] for broker in topology.brokers}
    for broker in sorted(parent, key=position.__getitem__):
        if broker != root:
            children[parent[broker]].append(broker)
    del parent[root]
    order, depth, waiting = [], {root: 0}, [root]
    while waiting:
        broker = waiting.pop()
        order.append(broker)
        depth.update((child, depth[broker] + 1) for child in children[broker])
        waiting += reversed(children[broker])
    return Rooted(order, parent, children, depth)


def _longest_path(topology: Topology) -> list[str]:
    near = neighbours(topology)
    # In a tree, whatever is farthest from anywhere is one end of a longest path.
    [*_, end] = _walk(near, topology.brokers[0])
    there = _walk(near, end)
    [*_, other_end] = there
    return _path_to(other_end, there)


def _walk(near: Mapping[str, Sequence[str]], start: str) -> dict[str, str]:
    """All that can be reached, nearest first, each with the one before it (the start: itself)."""
    before = {start: start}
    reached = [start]
    for broker in reached:
        for other in near[broker]:
            if other not in before:
                before[other] = broker
                reached.append(other)
    return before


def _path_to(broker: str, before: Mapping[str, str]) -> list[str]:
    """From `broker` back to where the walk started."""
    path = [broker]
    while before[path[-1]] != path[-1]:
        path.append(before[path[-1]])
    return path
