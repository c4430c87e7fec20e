"""Overlays of brokers to run a simulation on: made by rule, drawn at random, or read from a file.

The same arguments make the same overlay. Brokers that are made here are called B0, B1, and so on.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Literal, NamedTuple, get_args

from roost.errors import UserError
from roost.overlay.topology_file import read_topology
from roost.overlay.trees import (
    BROKERS_MAX,
    Link,
    Role,
    Topology,
    centre,
    check_tree,
    diameter,
    roles,
)

__all__ = [
    "BROKERS_MAX",
    "Link",
    "Role",
    "Shape",
    "Topology",
    "balanced_tree",
    "centre",
    "chain",
    "check_tree",
    "diameter",
    "parse_topology",
    "peer_clusters",
    "random_tree",
    "read_topology",
    "roles",
    "scale_free_tree",
    "star",
]

Shape = Literal["chain", "star", "balanced"]

# --- by rule --------------------------------------------------------------------------------------


def chain(n: int) -> Topology:
    """One after the other."""
    return balanced_tree(n, 1)


def star(n: int) -> Topology:
    """All around B0."""
    return balanced_tree(n, max(1, n - 1))


def balanced_tree(n: int, fanout: int = 2) -> Topology:
    """Rank by rank below B0: the parent of broker i is broker (i - 1) // fanout."""
    if fanout < 1:
        raise UserError(f"a fan-out of {fanout}; expected 1 or more")
    return _topology(n, ((i, (i - 1) // fanout) for i in range(1, n)))


def peer_clusters(
    clusters: int, edges: int, shape: Shape = "chain", *, fanout: int = 2
) -> Topology:
    """Cluster-heads that form a tree, each with its own edge-brokers (001 section 3.2).

    The heads are B0, B1, ...; behind the last of them come the edge-brokers of B0, those of B1, and so on.
    `fanout` is that of balanced heads.
    """
    if clusters < 1 or edges < 1 or clusters * edges == 1:
        raise UserError(
            f"{clusters} clusters of {edges} edge-brokers; expected a cluster or more, each with an"
            " edge-broker or more, and a single one with two: a head has more than one neighbour"
        )
    fanouts = {"chain": 1, "star": clusters, "balanced": fanout}
    if shape not in fanouts:
        raise UserError(f"heads in the shape {shape!r}; expected {', '.join(get_args(Shape))}")
    # Together they may be too many where the heads alone are not.
    _check_count(clusters * (1 + edges))
    heads = balanced_tree(clusters, fanouts[shape])
    leaves = [(clusters + i, i // edges) for i in range(clusters * edges)]
    whole = _topology(clusters * (1 + edges), leaves)
    return Topology(whole.brokers, heads.links + whole.links)


# --- at random ------------------------------------------------------------------------------------


def random_tree(n: int, seed: int) -> Topology:
    """Each of the n ** (n - 2) trees as likely as any other: the tree of a random Prüfer sequence."""
    _check_count(n)
    random = Random(seed)
    sequence = [random.randrange(n) for _ in range(n - 2)]
    missing = [1] * n  # how many links each still lacks
    for i in sequence:
        missing[i] += 1
    leaves = [i for i in range(n) if missing[i] == 1]
    links = []
    for i in sequence:
        links.append((heapq.heappop(leaves), i))
        missing[i] -= 1
        if missing[i] == 1:
            heapq.heappush(leaves, i)
    if n > 1:
        links.append((heapq.heappop(leaves), heapq.heappop(leaves)))
    return _topology(n, links)


def scale_free_tree(n: int, seed: int) -> Topology:
    """Few brokers with many neighbours, many with one: each new broker joins one that is there, and
    those with more neighbours are likelier in proportion (Barabási and Albert, with m = 1)."""
    _check_count(n)
    random = Random(seed)
    # Everyone once a link, so that an even choice among these is the choice in proportion.
    ends: list[int] = []
    links = []
    for i in range(1, n):
        other = random.choice(ends) if ends else 0
        links.append((i, other))
        ends += (i, other)
    return _topology(n, links)


def _check_count(n: int) -> None:
    if not 1 <= n <= BROKERS_MAX:
        raise UserError(f"{n:,} brokers; expected 1 to {BROKERS_MAX:,}")


def _topology(n: int, links: Iterable[tuple[int, int]]) -> Topology:
    """Brokers 0 to n - 1; of a link the lower number comes first."""
    _check_count(n)
    names = tuple(f"B{i}" for i in range(n))
    return Topology(names, tuple(Link(names[min(pair)], names[max(pair)]) for pair in links))


# --- from the command line ------------------------------------------------------------------------


class _Form(NamedTuple):
    """A way to ask for a topology; the groups of the pattern are the arguments of `make`."""

    usage: str
    pattern: re.Pattern[str]
    make: Callable[..., Topology]


def _form(usage: str, pattern: str, make: Callable[..., Topology]) -> _Form:
    # More digits than these are no number of brokers, and Python refuses to read very many.
    return _Form(usage, re.compile(pattern.replace("N", "([0-9]{1,18})")), make)


_FORMS = {
    "chain": _form("chain:5", "N", chain),
    "star": _form("star:5", "N", star),
    "tree": _form("tree:63 or tree:63:3 (the fan-out)", "N(?::N)?", balanced_tree),
    "random": _form("random:20:7 (the seed)", "N:N", random_tree),
    "scale-free": _form("scale-free:100:7 (the seed)", "N:N", scale_free_tree),
    "peer": _form(
        "peer:3x4 (3 clusters of 4 edge-brokers) or peer:3x4:star (also chain, balanced)",
        "NxN(?::([a-z]+))?",
        peer_clusters,
    ),
}


def parse_topology(text: str, *others: str) -> Topology:
    """The topology that a short text asks for: `chain:5` and the like, or the path of a file.

    `others` are what else would have been understood where it came from, for whoever is told of all forms.
    """
    name, colon, rest = text.partition(":")
    form = _FORMS.get(name) if colon else None
    if form is None:
        # Path.exists would raise for a name that is too long.
        if not os.path.exists(text):
            raise UserError(f"{text!r} is neither a topology nor a file; {_forms_text(others)}")
        return read_topology(text)
    match = form.pattern.fullmatch(rest)
    if match is None:
        raise UserError(f"{text!r} does not read as {form.usage}; {_forms_text(others)}")
    arguments = [int(word) if word.isdecimal() else word for word in match.groups() if word]
    try:
        return form.make(*arguments)
    except UserError as error:
        raise UserError(f"{text}: {error}") from None


def _forms_text(others: Sequence[str]) -> str:
    files = "a file of edges (B0 B1 [LATENCY_MS] a line), or GraphML"
    return "\n  ".join(
        ["the forms are:", *(form.usage for form in _FORMS.values()), *others, files]
    )
