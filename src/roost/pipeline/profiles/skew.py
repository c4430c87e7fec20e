"""Skew by dimension: what BlueDove should divide its matchers by (004 sections III.A and VI).

For each attribute that anybody asks for: of events as they come (`sample`), in how large a share of all
subscriptions has one to be searched for, if segments are along that attribute alone? One along which all ask
for the same, or everything, leaves 1; one whose values and wishes spread leaves little. The dimensions to
choose are those that together leave least. Both are what a dispatcher computes on-line
(`partition.attributes`), from a sample that stands for all that was recorded.

    column       what
    attribute
    low, high    where its values lie
    searched     the share that is searched along it alone
    largest      ... by the events for which that is largest: how uneven it is
    chosen       its place among those to divide by; null if it is none of them
    together     what is searched with it and those chosen before
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from roost.language import Event, Interest
from roost.partition import choose_dimensions
from roost.partition.attributes import asked, extent_of, searched_shares

SCHEMA = pa.schema(
    [
        ("attribute", pa.string()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("searched", pa.float64()),
        ("largest", pa.float64()),
        ("chosen", pa.int32()),
        ("together", pa.float64()),
    ]
)
DIMENSIONS, MATCHERS = 4, 20


def skew_by_dimension(
    subscriptions: Sequence[Interest],
    events: Sequence[Event],
    *,
    most: int = DIMENSIONS,
    matchers: int = MATCHERS,
) -> pa.Table:
    """A row an attribute, those to divide by first, then those that leave least."""
    choice = choose_dimensions(subscriptions, events, most=most, matchers=matchers)
    places = {name: (place, share) for place, (name, share) in enumerate(choice.steps, 1)}
    rows = []
    for name in asked(subscriptions):
        extent = extent_of(name, subscriptions, events)
        shares = searched_shares(extent, subscriptions, events, matchers)
        place, together = places.get(name, (None, None))
        rows.append(
            {
                "attribute": name,
                "low": extent.low,
                "high": extent.high,
                "searched": float(shares.mean()) if len(shares) else 1.0,
                "largest": float(shares.max(initial=0.0)),
                "chosen": place,
                "together": together,
            }
        )
    rows.sort(key=lambda row: (row["chosen"] or len(rows) + 1, row["searched"], row["attribute"]))
    return pa.Table.from_pylist(rows, SCHEMA)
