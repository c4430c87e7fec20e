"""Events that stand for all that were published: those whose hashes are the least.

The hash is of publisher and number, so the sample has nothing to do with what is in an event, or when it
came; and the least of all are the least of the least of each part, so that it can be made part by part.

    column                      what
    publisher, sequence, event  as recorded (`events`, for which content has to be)
    hash
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import UserError
from roost.pipeline.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE = 1_000
COLUMNS = ("publisher", "sequence", "event", "hash")


def event_sample(count: int = SAMPLE) -> Profile:
    """The profile: so many events."""
    if count < 1:
        raise UserError(f"a sample of {count} events; expected at least one")

    def least(rows: DataFrame) -> DataFrame:
        # A publication that came again after a restart of its broker may be there twice.
        order = ("hash", "publisher", "sequence")
        low = rows.orderBy(*order).limit(2 * count).dropDuplicates(["publisher", "sequence"])
        return low.orderBy(*order).limit(count)

    def partial(events: DataFrame) -> DataFrame:
        return least(events.selectExpr(*COLUMNS[:3], "xxhash64(publisher, sequence) as hash"))

    return Profile(
        name=f"sample-{count}",
        what=f"{count:,} events that stand for all",
        table="events",
        config={"count": count},
        partial=partial,
        merged=least,
    )
