"""Bulk match: which of many subscriptions does each of many publications match?

    matches = match(publications, subscriptions)

The tables are those of `schemas`, the filters mean what they mean in a broker. There are three plans, and
`auto` takes the quickest that fits: `broadcast` gives every worker the whole index, `partitioned` divides
the subscriptions among tasks, `join` is plain Spark SQL, as a comparison. Importing this package is cheap:
Spark is loaded when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roost.pipeline.matching.choosing import Choice, Estimate, Statistics, choose
    from roost.pipeline.matching.planning import Prepared, explain_match, match, prepare_match

__all__ = [
    "Choice",
    "Estimate",
    "Prepared",
    "Statistics",
    "choose",
    "explain_match",
    "match",
    "prepare_match",
]

_CHOOSING = ("Choice", "Estimate", "Statistics", "choose")


def __getattr__(name: str) -> Any:
    if name in _CHOOSING:
        from roost.pipeline.matching import choosing  # noqa: PLC0415 (see above)

        return getattr(choosing, name)
    if name in __all__:
        from roost.pipeline.matching import planning  # noqa: PLC0415

        return getattr(planning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
