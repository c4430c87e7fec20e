"""Word of a client that is about to move goes ahead of it, along the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from roost.relocation.notes import Arriving, body_of

if TYPE_CHECKING:
    from roost.broker.module import Surroundings


def announce(arriving: Arriving, around: Surroundings) -> None:
    """Tell the next broker of the path, or all modules here if this is the last."""
    if arriving.path:
        onward = replace(arriving, path=arriving.path[1:])
        around.tell(arriving.path[0], body_of(onward), arriving.decision)
        return
    around.expect(arriving.client, arriving.decision, arriving.predicted, arriving.publishes_per_s)
