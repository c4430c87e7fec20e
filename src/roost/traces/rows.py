"""Rows of trace tables that both drivers write the same way."""

from __future__ import annotations

from typing import Any

import msgspec

from roost.broker.commands import Decision


def decision_row(time: float, broker: str, decision: Decision) -> tuple[Any, ...]:
    """A row of `decisions`."""
    return (
        time,
        broker,
        decision.module,
        decision.kind,
        decision.subject,
        decision.choice,
        decision.acted,
        msgspec.json.encode(decision.evidence).decode(),
        msgspec.json.encode(decision.predicted).decode(),
        decision.cause,
    )
