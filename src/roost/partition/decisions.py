"""What a dispatcher decides or wishes for, as a record with its evidence: for `roost decisions`."""

from __future__ import annotations

from collections.abc import Mapping

from roost.broker.commands import Decision
from roost.partition.attributes import DimensionStep
from roost.partition.matcher import NAME
from roost.partition.pulse import Pulse


def wished(dispatcher: str, pulse: Pulse, held: int, busy: Mapping[str, float]) -> Decision:
    """A matcher more, or one less: it asks, and others act."""
    return Decision(
        module=NAME,
        kind="elasticity",
        subject=pulse.spare if pulse.wish == "fewer" else "",
        choice=f"{pulse.wish} matchers",
        acted=False,
        evidence={"held": held, "busy": busy, "response_s": pulse.times_s},
        predicted={},
        cause=f"{dispatcher}: look",
    )


def reshaped(dispatcher: str, step: DimensionStep) -> Decision:
    """A dimension comes, or goes; predicted is the share of all subscriptions that is searched."""
    return Decision(
        module=NAME,
        kind="dimensions",
        subject=step.dimension.attribute,
        choice=f"{step.what}: {step.dimension.attribute or 'everywhere'}",
        acted=True,
        evidence={"searched": step.before},
        predicted={"searched": step.searched},
        cause=f"{dispatcher}: choose",
    )
