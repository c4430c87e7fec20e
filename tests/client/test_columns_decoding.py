"""Columns from the bytes of events: the kernel makes what objects would, and is not passed over."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from roost.broker.messages import Publication
from roost.client import columns_decoding
from roost.client.columns import as_columns
from roost.client.columns_decoding import ColumnReader
from roost.language import Event, Value

KINDS: dict[str, st.SearchStrategy[Value]] = {
    "symbol": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "volume": st.integers(-(2**63), 2**63 - 1),
    "close": st.floats(allow_nan=False),
    "open": st.booleans(),
}
# Each attribute is of one kind, and may be missing; they come in any order.
events = st.lists(
    st.fixed_dictionaries({}, optional=KINDS).flatmap(
        lambda some: st.permutations(list(some.items())).map(dict)
    ),
    min_size=1,
    max_size=12,
).filter(any)


@given(events)
def test_attributes_of_one_kind_in_any_order(rows: list[dict[str, Value]]) -> None:
    parts = [Publication("P", number, Event(row)) for number, row in enumerate(rows, 1)]
    with mock.patch.object(columns_decoding, "as_columns", side_effect=AssertionError):
        batch = ColumnReader().read(parts)
    assert batch.equals(as_columns(rows))


def test_more_columns_than_there_is_room_for_at_first() -> None:
    rows: list[dict[str, Value]] = [{f"a{n}": n for n in range(60)}] * 2
    parts = [Publication("P", number, Event(row)) for number, row in enumerate(rows, 1)]
    with mock.patch.object(columns_decoding, "as_columns", side_effect=AssertionError):
        assert ColumnReader().read(parts).equals(as_columns(rows))
