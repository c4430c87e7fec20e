"""One schema for many files of a table, or what is wrong with one of them.

All footers are looked at before Spark hears of the files: a column that the last of a thousand files lacks is
told at once, not after an hour. Columns are found by their names. Those of the declared schema have to be
everywhere; others (the attributes of publications, whatever a user adds, what traces of an earlier version do
not have) may be in some files only, and are null in the rest. Who can't do without them says so (`needs`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from roost.errors import UserError
from roost.pipeline.lake.files import Footer
from roost.pipeline.schemas import SCHEMAS, attributes_of, checked, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# The column that the names of the folders give.
RUN_COLUMN = "run"


def check_frame(frame: DataFrame, table: str, *, where: str = "") -> None:
    """Refuses a frame that can't be this table of a lake."""
    told = f"{where}: " if where else ""
    if table == "publications":
        attributes_of(frame, where=where)
    elif table in SCHEMAS:
        checked(frame, table, where=where)
    if RUN_COLUMN in (name.lower() for name in frame.columns):
        raise UserError(
            f"{told}the table {table!r} has a column {RUN_COLUMN!r}, which is what the lake calls the name"
            " of the run; expected another name"
        )


def common_schema(
    spark: SparkSession, table: str, footers: Sequence[Footer], needs: Collection[str] = ()
) -> StructType:
    """The schema that all files of a table can be read with, `run` included; each has what somebody needs."""
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 (Spark is slow to load)

    found: dict[str, DataType] = {}
    if table in SCHEMAS:
        found = {field.name: field.dataType for field in spark_schema(table)}
    first_in: dict[str, Path] = {}
    seen = set()
    for footer in footers:
        if footer.problem:
            raise UserError(
                f"{footer.path}: {footer.problem}; expected a Parquet file of the table {table!r}"
            )
        # Most files of a table are alike.
        shape = (footer.spark, tuple((field.name, field.type) for field in footer.schema))
        if shape in seen:
            continue
        seen.add(shape)
        types = types_of(footer, table)
        missing = [name for name in needs if name not in types]
        if missing:
            raise UserError(
                f"{footer.path}: the table {table!r} lacks {', '.join(map(repr, missing))}, which is needed"
                " here; expected a run that was recorded since there is such a column"
            )
        fields = [StructField(name, kind) for name, kind in types.items()]
        check_frame(spark.createDataFrame([], StructType(fields)), table, where=str(footer.path))
        for name, kind in types.items():
            there = found.setdefault(name, kind)
            if there.simpleString() != kind.simpleString():
                raise UserError(
                    f"{footer.path}: the column {name!r} of the table {table!r} is"
                    f" {kind.simpleString()}, but {there.simpleString()} in {first_in[name]}; expected the"
                    " same in all files that are read together"
                )
            first_in.setdefault(name, footer.path)
    _refuse_same_but_case(spark, table, first_in)
    fields = [StructField(name, kind) for name, kind in found.items()]
    return StructType([*fields, StructField(RUN_COLUMN, StringType())])


def types_of(footer: Footer, table: str) -> dict[str, DataType]:
    """The columns of a file in Spark's types."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    if footer.spark is not None:
        schema: StructType = StructType.fromJson(json.loads(footer.spark))
        return {field.name: field.dataType for field in schema}
    types = {}
    for field in footer.schema:
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        try:
            if plain == pa.timestamp("ns"):
                raise PySparkException("Spark counts microseconds")
            types[field.name] = from_arrow_type(plain)
        except PySparkException:
            raise UserError(
                f"{footer.path}: the column {field.name!r} of the table {table!r} is {field.type}, which"
                " Spark does not read; expected numbers, strings, booleans, times in microseconds, or lists"
                " or structs of such"
            ) from None
    return types


def _refuse_same_but_case(spark: SparkSession, table: str, first_in: Mapping[str, Path]) -> None:
    """Spark takes such columns for one, unless it is told not to."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    seen: dict[str, str] = {}
    for name, path in first_in.items():
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UserError(
                f"{path}: the column {name!r} of the table {table!r} differs from {other!r} in"
                f" {first_in[other]} only by case; expected --conf spark.sql.caseSensitive=true"
            )
