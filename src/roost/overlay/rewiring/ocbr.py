"""OCBR (002 section 3, after Migliavacca and Cugola): link the two neighbours that talk most through here.

A broker counts messages by couples, previous hop and next hop. At each iteration it creates a link between
the two neighbours with the most traffic *forwarded* between them, and gives up its link to one of the two.
Which one, 002 does not say. Here it is the one with less *residual* traffic: what else crosses its link,
since that is what the change makes longer. Of this there are two readings, and both are here:

    plain    a broker rewires whenever something was forwarded; the overlay never comes to rest
    gated    only a pair whose residual traffic is less than the forwarded is a candidate: else more gets
             longer than shorter

A message that goes on to three sides counts in three couples: OCBR does not know that they are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roost.overlay.rewiring.counters import Kind
from roost.overlay.rewiring.theorem import Counts


class Traffic(NamedTuple):
    """Between a broker's neighbours, by position: row the one that is dropped (the mover)."""

    forwarded: Counts
    residual: Counts


def couples(neighbours: Sequence[str], kinds: Mapping[Kind, int]) -> Counts:
    """Messages between sides, either way; the last row and column are all other sides, L among them."""
    near = len(neighbours)
    position = {name: i for i, name in enumerate(neighbours)}
    found = np.zeros((near + 1, near + 1), np.int64)
    for (source, destinations), count in kinds.items():
        for destination in sorted(destinations):
            found[position.get(source, near), position.get(destination, near)] += count
    found = found + found.T
    np.fill_diagonal(found, 0)
    return found


def traffic(found: Counts, link: Counts) -> Traffic:
    """What is forwarded between each two neighbours, and what else crosses the link to the first.

    `link` has the messages over the link to each neighbour, both ways (`exact.Sums`).
    """
    near = len(found) - 1
    forwarded = np.ascontiguousarray(found[:near, :near])  # as `kernels` want it
    return Traffic(forwarded, link[:, None] - forwarded)
