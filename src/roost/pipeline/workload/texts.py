"""Filters as text, a column at a time.

Between its constants a filter is the same text for all subscriptions of a form, so a column of filters is a
handful of columns joined: Arrow writes numbers and joins texts several million times a second. Numbers are
written as short as they can be read back (12.0 as 12, which is the same constant).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roost.pipeline.workload.blocks import Column, Integers

Part: TypeAlias = str | Column


def joined(*parts: Part, rows: int | None = None) -> pa.Array:
    """The parts side by side: texts that are the same in every row, and columns of texts or numbers.

    Without any column it takes `rows` to know how many there are.
    """
    whole = pc.binary_join_element_wise(*(_text(part) for part in parts), "")
    return whole if isinstance(whole, pa.Array) else pa.repeat(whole, rows)


def _text(part: Part) -> str | pa.Array:
    if isinstance(part, str):
        return part
    column = part if isinstance(part, pa.Array) else pa.array(part)
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def chosen(words: pa.Array, codes: Integers) -> pa.Array:
    """A word a code."""
    return words.take(pa.array(codes))


def interleaved(size: int, groups: Iterable[tuple[Integers, pa.Array]]) -> pa.Array:
    """One column from groups that take in all rows: the numbers of their rows, and what stands there."""
    places, columns = zip(*groups, strict=True)
    order = np.empty(size, np.int64)
    order[np.concatenate(places)] = np.arange(size)
    return pa.concat_arrays(columns).take(pa.array(order))
