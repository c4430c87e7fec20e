"""Events as rows, and rows as events.

A row of the source has the fixed columns of `FIXED` and, if the user gave a schema, attributes by name. An
attribute that an event lacks, or has as another kind of value, is null. Numbers are numbers: an integer
fits into a column of doubles, and 3.0 into one of integers.

As JSON an event has no NaN, which satisfies no predicate, and an infinity is a number that is too large
for a float, which is how whoever reads it gets an infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from roost.errors import UserError
from roost.language import Event, LanguageError, Value
from roost.pipeline.schemas import ATTRIBUTE_TYPES
from roost.pipeline.values import converter, language_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from roost.client.event import EventView

EVENT, PAYLOAD, CONTENT_TYPE = "event", "payload", "content_type"

# The columns of the source that are no attributes, as Spark names their types.
FIXED: Mapping[str, str] = {
    "publisher": "string",
    "sequence": "bigint",
    "number": "bigint",  # the offset: its number among all events of the durable subscription
    "time": "timestamp",  # when it was published, by the publisher's clock
    EVENT: "string",  # its attributes, as JSON
    PAYLOAD: "binary",
    CONTENT_TYPE: "string",
}
# What a schema may ask for instead: seconds since 1970.
OTHERWISE: Mapping[str, str] = {"time": "double"}
DEFAULT_SCHEMA = ", ".join(
    f"{name} {kind}" for name, kind in FIXED.items() if name not in (PAYLOAD, CONTENT_TYPE)
)
_RANGES = {kind: 1 << bits - 1 for kind, bits in (("tinyint", 8), ("smallint", 16), ("int", 32))}
_RANGES["bigint"] = 1 << 63
# The end of the year 9999.
_SECONDS_MAX = 253_402_300_800


class Numbered(NamedTuple):
    """An event that came, with its number."""

    number: int
    event: EventView


# --- JSON -------------------------------------------------------------------------------------------


def to_json(attributes: Mapping[str, Value]) -> str:
    """The attributes as a JSON object; see above for the numbers that JSON does not have."""
    if all(type(value) is not float or math.isfinite(value) for value in attributes.values()):
        return msgspec.json.encode(attributes).decode()
    parts = []
    for name, value in attributes.items():
        if type(value) is float and math.isnan(value):
            continue
        if type(value) is float and math.isinf(value):
            text = "1e999" if value > 0 else "-1e999"
        else:
            text = msgspec.json.encode(value).decode()
        parts.append(f"{msgspec.json.encode(name).decode()}:{text}")
    return "{" + ",".join(parts) + "}"


def from_json(text: str, where: str) -> Event:
    """The event that a JSON object says; a `UserError` that says where it stood if it says none."""
    try:
        try:
            attributes = msgspec.json.decode(text)
        except msgspec.ValidationError:
            attributes = json.loads(text)  # which reads numbers that are too large
        return Event(attributes)
    except (msgspec.DecodeError, ValueError, LanguageError) as bad:
        raise UserError(f"{where}: no event in {text[:200]!r}: {bad}") from None


# --- events to rows ---------------------------------------------------------------------------------


def check_source_schema(schema: StructType) -> None:
    """Refuses a schema whose columns can't be filled."""
    for field in schema:
        kind = field.dataType.simpleString()
        fixed = FIXED.get(field.name)
        if fixed is not None and kind not in (fixed, OTHERWISE.get(field.name)):
            raise UserError(
                f"the column {field.name!r} is {kind}; the format 'roost' has it as {fixed} (for an"
                f" attribute of that name, take it out of the column {EVENT!r})"
            )
        if fixed is None and kind not in ATTRIBUTE_TYPES:
            raise UserError(
                f"the column {field.name!r} is {kind}; an attribute is one of {', '.join(ATTRIBUTE_TYPES)}"
            )


def rows_of(events: Sequence[Numbered], schema: StructType) -> pa.RecordBatch:
    """The events in the columns of a checked schema."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 (Spark is slow to load)

    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = []
    for field, target in zip(schema, arrow, strict=True):
        name = field.name
        if name in FIXED:
            values = list(map(_FILLERS[name], events))
            if pa.types.is_timestamp(target.type):
                values = list(map(_instant, values))
        else:
            fit = _fitting(field.dataType.simpleString())
            values = [fit(entry.event.get(name)) for entry in events]
        columns.append(pa.array(values, target.type))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


_FILLERS: Mapping[str, Callable[[Numbered], Any]] = {
    "publisher": lambda entry: entry.event.publisher,
    "sequence": lambda entry: entry.event.sequence,
    "number": lambda entry: entry.number,
    "time": lambda entry: entry.event.published_at,
    EVENT: lambda entry: to_json(entry.event.attributes),
    PAYLOAD: lambda entry: entry.event.payload,
    CONTENT_TYPE: lambda entry: entry.event.content_type,
}


def _instant(seconds: float) -> int | None:
    """In microseconds; null for what the clock of a publisher can't have meant."""
    return round(seconds * 1e6) if abs(seconds) < _SECONDS_MAX else None


def _fitting(kind: str) -> Callable[[Value | None], Value | None]:
    """Makes of a value what fits into a column of such a kind, or None."""
    if kind == "string":
        return lambda value: value if type(value) is str else None
    if kind == "boolean":
        return lambda value: value if type(value) is bool else None
    if kind in ("float", "double"):
        return lambda value: float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]
    bound = _RANGES[kind]

    def whole(value: Value | None) -> int | None:
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if type(value) is int and -bound <= value < bound else None

    return whole


# --- rows to events ---------------------------------------------------------------------------------


class Outgoing(NamedTuple):
    """What a row says is to be published."""

    attributes: Mapping[str, Value]
    payload: bytes = b""
    content_type: str = ""


def check_sink_schema(schema: StructType) -> None:
    """Refuses a schema of which no events can be made."""
    allowed = {EVENT: ("string",), PAYLOAD: ("binary", "string"), CONTENT_TYPE: ("string",)}
    for field in schema:
        kind = field.dataType.simpleString()
        expected = allowed.get(field.name, ATTRIBUTE_TYPES)
        if kind not in expected and (field.name in allowed or language_type(kind) is None):
            raise UserError(
                f"the column {field.name!r} is {kind}; expected {' or '.join(expected)}"
            )


def events_of(batch: pa.RecordBatch, kinds: Mapping[str, str]) -> Iterator[Outgoing]:
    """The events of rows, checked; `kinds` are the types of columns, as Spark names them.

    The columns `event` (JSON), `payload` and `content_type` are what they are called; each other column is an
    attribute, which stands beside those of `event` and before one of the same name. A null or a NaN is an
    attribute that the event does not have. For types that the language does not have see `values`.
    """
    columns = {name: _values(batch.column(name), kinds[name]) for name in batch.schema.names}
    texts = columns.pop(EVENT, None)
    payloads = columns.pop(PAYLOAD, None)
    types = columns.pop(CONTENT_TYPE, None)
    for row in range(batch.num_rows):
        attributes: dict[str, Value] = {}
        if texts is not None and texts[row] is not None:
            attributes = from_json(texts[row], f"the column {EVENT!r}").attributes
        for name, values in columns.items():
            value = values[row]
            if value is not None and not (type(value) is float and math.isnan(value)):
                attributes[name] = value
        payload = payloads[row] if payloads is not None else None
        yield Outgoing(
            Event(attributes).attributes,
            payload.encode() if isinstance(payload, str) else bytes(payload or b""),
            (types[row] if types is not None else None) or "",
        )


def _values(column: pa.Array, kind: str) -> list[Any]:
    values: list[Any] = column.to_pylist()
    convert = converter(kind)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


# --- events in a spool ------------------------------------------------------------------------------

SPOOLED = pa.schema(
    [("event", pa.binary()), ("payload", pa.binary()), ("content_type", pa.string())]
)


def spooled(events: Iterable[Outgoing]) -> pa.RecordBatch:
    """Events to be published, as a table that says exactly what they are."""
    rows = [(msgspec.msgpack.encode(e.attributes), e.payload, e.content_type) for e in events]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SPOOLED, strict=True)], schema=SPOOLED
    )


def unspooled(batch: pa.RecordBatch) -> Iterator[Outgoing]:
    """The events of such a table."""
    for event, payload, kind in zip(*(c.to_pylist() for c in batch.columns), strict=True):
        yield Outgoing(msgspec.msgpack.decode(event), payload, kind)
