"""What both nodes of a pair have to be told, and who of them may go on without the other: settled beforehand.

See `twin` for why it has to be.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Leave: TypeAlias = Literal["yes", "ask", "no"]


class TwinSettings(Struct, frozen=True, kw_only=True):
    """What both of a pair have to be told."""

    broker: str
    node: str  # of the store
    first: bool  # it leads, if neither has ever led
    alone: bool = False
    witness: str = ""
    takeover_s: float = 1.5
    address: str = ""  # where clients find it, when it is the broker


def leave_to_go_on(settings: TwinSettings, *, leads: bool) -> Leave:
    """Whether a member may go on without the other, from which nothing is heard."""
    if not settings.alone:
        return "no" if leads else "yes"
    if settings.witness:
        return "ask"
    return "yes" if leads else "no"
