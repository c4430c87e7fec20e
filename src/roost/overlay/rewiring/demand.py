"""What is published and wanted where: all that a tree's traffic depends on, besides the tree.

Messages that the same clients want are of one *kind*, whoever publishes them. By topic a kind is a topic; by
content it is a set of matching subscriptions, and in the worst case each message is a kind of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[
    np.float64
]  # whole numbers, as floats: products of matrices are many times faster


class Demand(NamedTuple):
    """Rows are brokers, columns are kinds."""

    brokers: tuple[str, ...]
    published: Amounts  # messages
    wanted: Amounts  # clients that want them

    @property
    def messages(self) -> int:
        """All that are published."""
        return int(self.published.sum())

    @property
    def deliveries(self) -> int:
        """All that clients get."""
        return int((self.published.sum(0) * self.wanted.sum(0)).sum())

    @property
    def bound(self) -> int:
        """What no tree goes below: each message to all brokers that want it, but the one where it begins."""
        wanting = self.wanted > 0
        return int((self.published * (wanting.sum(0) - wanting)).sum())


def demand_of(
    brokers: Sequence[str], origin: NDArray[np.int64], wanted: NDArray[np.integer]
) -> Demand:
    """Of messages: where each is published (a position), and how many clients at each broker want it."""
    kinds, kind = np.unique(wanted, axis=0, return_inverse=True)
    published = np.zeros((len(brokers), len(kinds)))
    np.add.at(published, (origin, kind.reshape(-1)), 1.0)
    return Demand(tuple(brokers), published, np.ascontiguousarray(kinds.T, np.float64))
