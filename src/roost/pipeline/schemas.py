"""The tables of the pipeline: declared once, checked where a table comes in.

The trace tables are those of `roost.traces`, which brokers write. Around them:

`publications` have a number and a column an attribute, where a null (or NaN) is an attribute that the event
does not have; which attributes there are is up to the user. `subscriptions` have a number and a filter in
either syntax of the language. `parsed` is the same with the filters taken apart (see `parsing`), in
disjunctive form: any of its filters, each of which is all of its predicates. `matches` are pairs, `lists`
have one row a publication that matches anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from roost.errors import UserError
from roost.pipeline.arguments import arguments_checked
from roost.traces import SCHEMAS as TRACES
from roost.traces.schemas import LATER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PUBLICATION, SUBSCRIPTION = "publication", "subscription"

# A value of the language: just one of the four is not null. For `present` it is the name of the kind, if any.
VALUE = pa.struct(
    [
        ("flag", pa.bool_()),
        ("integer", pa.int64()),
        ("number", pa.float64()),
        ("text", pa.string()),
    ]
)
PREDICATE = pa.struct(
    [
        ("attribute", pa.string()),
        ("operator", pa.string()),
        ("values", pa.list_(VALUE)),  # several for `in`, none for a plain `present`
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    **TRACES,
    "publications": pa.schema([(PUBLICATION, pa.int64())]),
    "subscriptions": pa.schema([(SUBSCRIPTION, pa.int64()), ("filter", pa.string())]),
    "parsed": pa.schema([(SUBSCRIPTION, pa.int64()), ("filters", pa.list_(pa.list_(PREDICATE)))]),
    "matches": pa.schema([(PUBLICATION, pa.int64()), (SUBSCRIPTION, pa.int64())]),
    "lists": pa.schema([(PUBLICATION, pa.int64()), ("subscriptions", pa.list_(pa.int64()))]),
}

# Kinds of whole numbers that are made to be of 64 bits, as ids are.
NARROW_TYPES = ("tinyint", "smallint", "int")
# Kinds of column that can be an attribute, as Spark names them.
ATTRIBUTE_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string")


@arguments_checked
def spark_schema(table: str) -> StructType:
    """The schema of a table in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (Spark is slow to load)

    if table not in SCHEMAS:
        raise UserError(f"there is no table {table!r}; expected one of {', '.join(SCHEMAS)}")
    schema: StructType = from_arrow_schema(SCHEMAS[table])
    return schema


@arguments_checked
def checked(
    frame: DataFrame,
    table: str,
    *,
    where: str = "",
    or_text: str = "",
    needs: Collection[str] = (),
) -> DataFrame:
    """The frame, if it is such a table: a `UserError` names table, column and type otherwise.

    Columns may stand in any order, and there may be more of them; those that traces of an earlier version do
    not have may be missing, unless somebody `needs` them. `where` is what a message says it came from: a
    file, say. `or_text` is a column that may be one of texts.
    """
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    check_types(types, table, where=where, or_text=or_text, needs=needs)
    return frame


def check_types(
    found: Mapping[str, str],
    table: str,
    *,
    where: str = "",
    or_text: str = "",
    needs: Collection[str] = (),
) -> None:
    """What `checked` does, with the columns of a table and their types, as Spark names them."""
    later = LATER.get(table, {}).keys() - set(needs)
    told = f"{where}: " if where else ""
    for field in spark_schema(table):
        there = found.get(field.name)
        expected = field.dataType.simpleString()
        if there is None and field.name in later:
            continue
        if there is None:
            raise UserError(
                f"{told}the table {table!r} has no column {field.name!r} ({expected}); there are"
                f" {', '.join(map(repr, found)) or 'none'}"
            )
        if there == "string" and field.name == or_text:
            continue
        if there != expected:
            raise UserError(
                f"{told}the column {field.name!r} of the table {table!r} is {there};"
                f" expected {expected}"
            )


def with_long_ids(frame: DataFrame, name: str) -> DataFrame:
    """The frame with ids of 64 bits, if it has smaller ones."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    if kinds.get(name) in NARROW_TYPES:
        return frame.withColumn(name, F.col(name).cast("bigint"))
    return frame


def attributes_of(publications: DataFrame, *, where: str = "") -> list[str]:
    """The columns of checked publications that are attributes of the events."""
    checked(publications, "publications", where=where)
    told = f"{where}: " if where else ""
    names = []
    for field in publications.schema:
        if field.name == PUBLICATION:
            continue
        kind = field.dataType.simpleString()
        if kind not in ATTRIBUTE_TYPES:
            raise not_an_attribute(field.name, kind, told)
        names.append(field.name)
    return names


def not_an_attribute(name: str, kind: str, told: str = "") -> UserError:
    """A column of a type that no attribute has."""
    return UserError(
        f"{told}the column {name!r} of the table 'publications' is {kind}; an attribute is"
        f" one of {', '.join(ATTRIBUTE_TYPES)} (events are flat)"
    )
