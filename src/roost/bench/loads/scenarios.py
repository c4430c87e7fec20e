"""The scenarios of the broker benchmark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from roost.bench.loads.base import Scenario
from roost.errors import UserError

# More than any server carries in the seconds of a run.
_PLENTY: Final = 100_000_000

SCENARIOS: Final = {
    each.name: each
    for each in (
        Scenario("one_to_one", _PLENTY),
        Scenario("one_to_ten", _PLENTY, subscribers=10),
        # 1,000 subscriptions on each of 10 connections; a quote matches one on each.
        Scenario("content", _PLENTY, subscribers=10, symbols=1_000, by_content=True),
        Scenario("durable", _PLENTY, durable=True),
        # So many messages a write, as from publishers that have no more to say at a time.
        Scenario("write_1", _PLENTY, per_write=1),
        Scenario("write_8", _PLENTY, per_write=8),
        Scenario("write_32", _PLENTY, per_write=32),
        Scenario("latency", 50_000, rate=10_000.0),
        Scenario("same_rate", 50_000, rate=10_000.0),
    )
}


def scenario(name: str, **changes: Any) -> Scenario:
    """The scenario of this name, with changes."""
    if name not in SCENARIOS:
        raise UserError(f"there is no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    return replace(SCENARIOS[name], **changes)
