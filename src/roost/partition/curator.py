"""The dimensions of a service in the hands of a dispatcher: which are worth it, of what it sees.

It keeps a sample of the events that its clients publish, and has their subscriptions. Once in `choose_s` the
first dispatcher that is there judges by these (`attributes.next_step`) and takes the next step (`reshaping`),
if the table rests. Others see other clients: what one dispatcher sees is taken for what all do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from roost.errors import UserError
from roost.language import Event, Interest
from roost.partition.attributes import DimensionStep, next_step
from roost.partition.dimensions import Dimension
from roost.partition.reshaping import come, go
from roost.partition.segments import SegmentTable
from roost.partition.settings import parse_dimensions

# Of each, at most so many, and nothing is chosen by fewer than these.
SAMPLE = 200
SAMPLE_MIN = 8
# Of events that come together, so many.
AT_ONCE = 4


class Curator:
    """Of one dispatcher. `most`: dimensions that there may be, of those that are chosen."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: deque[Event] = deque(maxlen=SAMPLE)

    def note(self, events: Sequence[Event]) -> None:
        """Some that were published."""
        self._events.extend(events[:: max(1, -(-len(events) // AT_ONCE))])

    def step(self, table: SegmentTable, subscriptions: Sequence[Interest]) -> DimensionStep | None:
        """What is to be done now."""
        if not table.settled or min(len(subscriptions), len(self._events)) < SAMPLE_MIN:
            return None
        return next_step(
            subscriptions,
            list(self._events),
            most=self._most,
            matchers=len(table.matchers()),
            present=[table.dimensions[place] for place in table.live],
        )


def operators_step(arguments: Mapping[str, Any]) -> DimensionStep:
    """One that somebody asks for: nothing has been measured."""
    if set(arguments) == {"come"}:
        (dimension, *others) = parse_dimensions(str(arguments["come"]))
        if dimension.attribute and not others:
            return DimensionStep("come", dimension, math.nan, math.nan)
    if set(arguments) == {"go"}:
        return DimensionStep("go", Dimension(str(arguments["go"])), math.nan, math.nan)
    raise UserError("which dimension? expected come=NAME:LOW:HIGH or go=NAME")


def stepped(
    table: SegmentTable, step: DimensionStep, matchers: Sequence[str], *, writer: str
) -> SegmentTable:
    """The table after a step; `matchers` are those that can take a part."""
    if step.what == "come":
        return come(table, step.dimension, matchers, writer=writer)
    return go(table, step.dimension.attribute, writer=writer)
