"""Events that arrived one behind the other, as the bytes that they arrived as: a *bundle*.

Whoever reads columns needs no object an event (`columns_decoding`). Anybody else gets the events of a bundle
when its turn comes: the same that would have stood in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.client.arriving import Arrived, arrived_of

if TYPE_CHECKING:
    from roost.matching.kernels.heap import Cells


class Bundle:
    """Events for one subscription, which are known to be readable."""

    __slots__ = ("begins", "data", "ends", "maps")

    def __init__(self, data: bytes, begins: Cells, maps: Cells, ends: Cells) -> None:
        self.data = data
        # Of each event: where its publication begins, where the map of its attributes does, and the end.
        self.begins = begins
        self.maps = maps
        self.ends = ends

    def __len__(self) -> int:
        return len(self.maps)

    def events(self) -> list[Arrived]:
        """All of them, in order."""
        data = self.data
        spans = zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return [arrived_of(data[begin:end]) for begin, end in spans]

    def cut(self, count: int) -> Bundle:
        """The first so many of them, which it has no longer."""
        first = Bundle(self.data, self.begins[:count], self.maps[:count], self.ends[:count])
        self.begins, self.maps = self.begins[count:], self.maps[count:]
        self.ends = self.ends[count:]
        return first
