"""Events as rows and rows as events, and the options of the data source."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from roost.broker.messages import Publication
from roost.client.event import EventView
from roost.errors import UserError
from roost.language import Event
from roost.pipeline.source.options import local_path, reading, writing
from roost.pipeline.source.rows import (
    DEFAULT_SCHEMA,
    Numbered,
    check_sink_schema,
    check_source_schema,
    events_of,
    from_json,
    rows_of,
    spooled,
    to_json,
    unspooled,
)

VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8)
)
ATTRIBUTES = st.dictionaries(st.text(min_size=1, max_size=6), VALUES, max_size=5)


TYPES: tuple[DataType, ...] = (
    BooleanType(),
    ByteType(),
    IntegerType(),
    LongType(),
    DoubleType(),
    StringType(),
    BinaryType(),
    TimestampType(),
    ArrayType(IntegerType()),
)
KINDS = {kind.simpleString(): kind for kind in TYPES}


def columns(ddl: str) -> StructType:
    """Spark's own parser of these needs a session."""
    words = [column.split() for column in ddl.split(",")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in words])


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


@given(ATTRIBUTES)
def test_json_says_everything_but_nan(attributes: dict[str, Any]) -> None:
    try:
        event = Event(attributes)
    except UserError:
        return  # names and texts that the language does not allow
    text = to_json(event.attributes)
    assert isinstance(json.loads(text), dict)
    without = {name: value for name, value in attributes.items() if not is_nan(value)}
    assert from_json(text, "here") == Event(without)


@pytest.mark.parametrize(
    "text", ["{", "7", "null", '{"a":null}', '{"a":[1]}', '{"a":18446744073709551616}']
)
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="publication 4: no event in"):
        from_json(text, "publication 4")


def numbered(**attributes: Any) -> Numbered:
    publication = Publication("P", 3, Event(attributes), b"pay", "text/plain", published_at=1.5)
    return Numbered(9, EventView(publication))


def test_fixed_columns_and_attributes() -> None:
    schema = columns(
        "number bigint, publisher string, sequence bigint, time double, event string, payload binary,"
        " content_type string, symbol string, high double"
    )
    check_source_schema(schema)
    (row,) = rows_of([numbered(symbol="YHOO", high=7)], schema).to_pylist()
    assert row == {
        "number": 9,
        "publisher": "P",
        "sequence": 3,
        "time": 1.5,
        "event": '{"symbol":"YHOO","high":7}',
        "payload": b"pay",
        "content_type": "text/plain",
        "symbol": "YHOO",
        "high": 7.0,
    }


# What a value becomes in a column of each type.
FITTING = [
    ("boolean", [(True, True), (1, None), ("true", None)]),
    ("tinyint", [(127, 127), (128, None), (-128, -128), (3.0, 3), (3.5, None), (True, None)]),
    ("int", [(2**31 - 1, 2**31 - 1), (2**31, None), (math.inf, None), (math.nan, None)]),
    ("bigint", [(2**63 - 1, 2**63 - 1), ("7", None), (1e300, None)]),
    ("double", [(1, 1.0), (2.5, 2.5), (math.inf, math.inf), (False, None), ("1", None)]),
    ("string", [("a", "a"), (1, None)]),
]


@pytest.mark.parametrize(("kind", "cases"), FITTING)
def test_a_value_that_does_not_fit_is_null(kind: str, cases: list[tuple[Any, Any]]) -> None:
    schema = columns(f"x {kind}")
    events = [numbered(x=value) for value, _ in cases] + [numbered(y=1)]
    column = rows_of(events, schema).column("x").to_pylist()
    assert column == [expected for _, expected in cases] + [None]


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("time string", "'time' is string; the format 'roost' has it as timestamp"),
        ("x array<int>", "'x' is array<int>; an attribute is one of boolean"),
    ],
)
def test_columns_that_can_not_be_filled_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_source_schema(columns(ddl))


def test_the_time_is_an_instant() -> None:
    schema = columns("time timestamp")
    check_source_schema(schema)
    assert "time timestamp" in DEFAULT_SCHEMA
    times = [1.5, -1.0, math.nan, math.inf, 1e300]
    events = [
        Numbered(n, EventView(Publication("P", n, Event({}), published_at=time)))
        for n, time in enumerate(times)
    ]
    found = rows_of(events, schema).column("time").to_pylist()
    assert found == [
        datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        *[None] * 3,
    ]


def test_times_days_and_amounts_are_numbers_and_texts() -> None:
    at = datetime(2026, 1, 2, 0, 0, 0, 500_000, UTC)
    batch = pa.record_batch(
        {
            "at": pa.array([at, None], pa.timestamp("us", "Europe/Berlin")),
            "day": [at.date(), None],
            "local": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
            "n": pa.array([Decimal(7), None], pa.decimal128(9, 0)),
            "price": pa.array([Decimal("12.50"), None], pa.decimal128(9, 2)),
        }
    )
    types = (TimestampType(), DateType(), TimestampNTZType(), DecimalType(9, 0), DecimalType(9, 2))
    schema = StructType(list(map(StructField, batch.schema.names, types)))
    check_sink_schema(schema)
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    first, second = events_of(batch, kinds)
    assert repr(dict(first.attributes)) == repr(
        {
            "at": 1767312000.5,
            "day": "2026-01-02",
            "local": "2026-01-02 00:00:00.5",
            "n": 7,
            "price": 12.5,
        }
    )
    assert second.attributes == {}


OUTGOING = {"event": "string", "b": "string", "c": "double", "payload": "string"} | {
    "content_type": "string"
}


def test_rows_become_events() -> None:
    batch = pa.record_batch(
        {
            "event": ['{"a":1,"b":"x"}', None, '{"b":"y"}'],
            "b": pa.array([None, "z", "over"], pa.string()),
            "c": [math.nan, 2.5, None],
            "payload": pa.array(["text", None, ""]),
            "content_type": pa.array([None, "t", None]),
        }
    )
    assert [tuple(event) for event in events_of(batch, OUTGOING)] == [
        ({"a": 1, "b": "x"}, b"text", ""),
        ({"b": "z", "c": 2.5}, b"", "t"),
        ({"b": "over"}, b"", ""),
    ]


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("event bigint", "'event' is bigint; expected string"),
        ("payload double", "'payload' is double; expected binary or string"),
        ("x array<int>", "'x' is array<int>; expected boolean or"),
        ("payload timestamp", "'payload' is timestamp; expected binary or string"),
    ],
)
def test_rows_of_which_no_events_can_be_made_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sink_schema(columns(ddl))


@given(st.lists(st.tuples(ATTRIBUTES, st.binary(max_size=5), st.text(max_size=5)), max_size=5))
def test_a_spool_says_exactly_what_the_events_are(rows: list[tuple[Any, bytes, str]]) -> None:
    from roost.pipeline.source.rows import Outgoing

    try:
        batch = spooled(Outgoing(*row) for row in rows)
    except UnicodeEncodeError:
        return  # half a surrogate, which no event has
    again = [tuple(event) for event in unspooled(batch)]
    assert repr(again) == repr(rows)  # NaN is not itself


# --- options ----------------------------------------------------------------------------------------


def test_options_in_any_case() -> None:
    options = reading(
        {"URL": "roost://h", "name": "n", "maxeventsperbatch": "5", "FailOnDataLoss": "False"}
    )
    assert (options.place.url, options.name, options.events_a_batch) == ("roost://h", "n", 5)
    assert not options.fail_on_data_loss
    assert options.subscription == "*"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the option 'name' is missing"),
        ({"name": "n", "max": "1"}, "there is no option 'max' for the format 'roost'"),
        ({"name": "n", "partitions": "0"}, "'partitions' is '0'; expected a whole number from 1"),
        ({"name": "n", "timeout": "nan"}, "'timeout' is 'nan'; expected a number of seconds"),
        ({"name": "n", "acknowledge": "yes"}, "'acknowledge' is 'yes'; expected true or false"),
        ({"name": "n", "subscription": "x >"}, "the option 'subscription': .*expected a value"),
    ],
)
def test_bad_options_of_reading(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        reading(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the option 'name' is missing: the name of the outbox"),
        (
            {"name": "n"},
            "the option 'spool' is missing, and there is no option 'checkpointLocation'",
        ),
        ({"name": "n", "checkpointLocation": "hdfs://x/y"}, "'checkpointLocation' is 'hdfs://x/y'"),
        ({"name": "n", "spool": "s3://x"}, "'spool' is 's3://x'; expected a folder"),
    ],
)
def test_bad_options_of_a_stream_to_write(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        writing(options, stream=True)


def test_where_the_spool_is() -> None:
    at = {"name": "n", "checkpointLocation": "file:/tmp/a%20b"}
    assert writing(at, stream=True).spool == "/tmp/a b/roost-spool"
    assert writing(at | {"spool": "/s"}, stream=True).spool == "/s"
    assert writing({}, stream=False).spool == ""
    assert str(local_path("rel/ative", "x")) == "rel/ative"
    with pytest.raises(UserError, match="of 'name' and 'spool' there is only one"):
        writing({"name": "n"}, stream=False)
