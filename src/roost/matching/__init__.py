"""Matching: which subscriptions does an event match?

`Matcher` is the contract, `Naive` the obvious implementation and `Index` the fast one; `Poset` knows which
subscriptions cover which, `OverlapIndex` which interests overlap a given one. Importing this package is
cheap: the last three are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roost.matching.contract import DuplicateIdError, Ids, Matcher, UnknownIdError
from roost.matching.naive import Naive

if TYPE_CHECKING:
    from roost.matching.index import Index
    from roost.matching.overlaps import OverlapIndex
    from roost.matching.poset import Poset

__all__ = [
    "DuplicateIdError",
    "Ids",
    "Index",
    "Matcher",
    "Naive",
    "OverlapIndex",
    "Poset",
    "UnknownIdError",
]


def __getattr__(name: str) -> Any:
    if name == "Index":
        from roost.matching.index import Index  # noqa: PLC0415 (see above)

        return Index
    if name == "OverlapIndex":
        from roost.matching.overlaps import OverlapIndex  # noqa: PLC0415

        return OverlapIndex
    if name == "Poset":
        from roost.matching.poset import Poset  # noqa: PLC0415

        return Poset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
