"""What a profile is: sums over recorded traffic that can be added up, and what follows from all of them.

A profile has two functions from DataFrames to DataFrames. `partial` turns rows of a trace, of any segments,
into rows of sums, few in comparison; `merged` turns such rows, of all segments, into the result. Since sums
can be added up in any order, what was done once need not be done again: see `keeping`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.pipeline.schemas import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Profile(Struct, frozen=True, kw_only=True):
    """How statistics are computed from a table of a trace."""

    name: str  # and that of the table that its sums are kept in
    what: str
    table: str
    needs: tuple[str, ...] = ()  # columns that older traces do not have
    config: dict[str, int | float] = {}  # what else decides the sums
    partial: Callable[[DataFrame], DataFrame]
    merged: Callable[[DataFrame], DataFrame]

    def sums(self, frame: DataFrame) -> DataFrame:
        """Of rows of its table; a `UserError` says which column is missing."""
        return self.partial(checked(frame, self.table, needs=self.needs))

    def of(self, frame: DataFrame) -> DataFrame:
        """The result for rows of its table, all at once."""
        return self.merged(self.sums(frame))
