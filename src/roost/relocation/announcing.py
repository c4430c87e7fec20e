"""Word of a client that is about to move goes ahead of it, along the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from roost.optimising.arrivals import Arrival, Arrivals
from roost.relocation.notes import Arriving, body_of

if TYPE_CHECKING:
    from roost.broker.module import Surroundings


def announce(arriving: Arriving, around: Surroundings, arrivals: Arrivals, now: float) -> None:
    """Tell the next broker of the path, or remember it if this is the last."""
    if arriving.path:
        onward = replace(arriving, path=arriving.path[1:])
        around.tell(arriving.path[0], body_of(onward), arriving.decision)
        return
    arrival = Arrival(now, arriving.decision, arriving.predicted, arriving.publishes_per_s)
    arrivals.announced(arriving.client, arrival)
