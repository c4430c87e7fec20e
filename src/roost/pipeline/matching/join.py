"""The plan `join`: plain Spark SQL, as a data engineer would write it. The others are compared with it.

Every filter is a row of constants, a column for the first use of an operator on an attribute, one for the
second, and so on. A publication matches where every constant is null or compares. A subscription of several
filters is several rows, and its matches are made distinct afterwards.

Spark compares values of one type. So a constant is translated for the type of the column that it is compared
with, once and exactly: `> 2.5` on a column of integers is `>= 3`, and `< 9007199254740993` on one of doubles
is `<= 9007199254740992.0`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)

from roost.language import Filter, Kind, Operator, Predicate, Value, kind_of
from roost.language.values import INT_MAX, INT_MIN, STRING_LENGTH_MAX, Number
from roost.matching.batch import too_long
from roost.matching.demand import float_above, float_below
from roost.pipeline.matching.inputs import Inputs
from roost.pipeline.matching.loading import check_distinct, unpack
from roost.pipeline.matching.statistics import collect_packed
from roost.pipeline.matching.tasks import LISTS
from roost.pipeline.parsed import from_arrow
from roost.pipeline.parsing import marked
from roost.pipeline.schemas import SUBSCRIPTION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Up to here every executor gets the whole table of constants.
BROADCAST_MAX = 64 << 20
ROW = "row"

_DOWNWARDS = (Operator.LT, Operator.LE)


class Use(NamedTuple):
    """What a column of constants is for: the nth use of an operator on an attribute."""

    attribute: str
    operator: Operator
    nth: int


class Typed(NamedTuple):
    """How a type of column is compared: the kind of its values, and the types of SQL and Arrow for them."""

    kind: Kind
    sql: str
    arrow: pa.DataType


_INTEGERS = Typed(Kind.NUMBER, "bigint", pa.int64())
_DOUBLES = Typed(Kind.NUMBER, "double", pa.float64())
_STRINGS = Typed(Kind.STRING, "string", pa.string())
_BOOLS = Typed(Kind.BOOL, "boolean", pa.bool_())
_TYPES = {"boolean": _BOOLS, "float": _DOUBLES, "double": _DOUBLES, "string": _STRINGS}

Row = dict[Use, Any]


def join_matches(inputs: Inputs) -> DataFrame:
    """The matches, by a join of the publications with the filters."""
    fields = inputs.publications.schema
    types = {
        name: _TYPES.get(fields[f"c{at}"].dataType.simpleString(), _INTEGERS)
        for name, at in inputs.attributes.items()
    }
    ids, rows = _rows(inputs, types)
    uses = sorted(
        {use for row in rows for use in row}, key=lambda u: (u.attribute, u.operator.value, u.nth)
    )
    table = _table(ids, rows, uses, types)
    filters = inputs.session.createDataFrame(table)
    if table.nbytes < BROADCAST_MAX:
        filters = F.broadcast(filters)
    publications = _cleaned(inputs, {use.attribute for use in uses}, types)
    conditions = [
        _condition(use, f"k{n}", table.column(f"k{n}").null_count > 0, inputs)
        for n, use in enumerate(uses)
    ]
    joined = publications.join(filters, reduce(and_, conditions, F.lit(True)), "inner")
    if len(set(ids)) < len(ids):
        joined = joined.dropDuplicates([ROW, SUBSCRIPTION])
    return _formed(joined, inputs)


def _rows(inputs: Inputs, types: dict[str, Typed]) -> tuple[list[int], list[Row]]:
    """The constants of all filters that can match anything, and whose they are."""
    batches = list(unpack(collect_packed(inputs.subscriptions)))
    check_distinct(batches)
    ids, rows = [], []
    for batch in batches:
        own = batch.column(0).to_pylist()
        for id_, subscription in zip(own, from_arrow(own, batch.column(1)), strict=True):
            for filter_ in subscription.filters:
                inputs.check_spoken_of(p.attribute for p in filter_.predicates)
                row = constants_of(filter_, types)
                if row is not None:
                    ids.append(id_)
                    rows.append(row)
    return ids, rows


def constants_of(filter_: Filter, types: dict[str, Typed]) -> Row | None:
    """The constants of a filter, for columns of these types; None if no publication can match it."""
    row: Row = {}
    used: Counter[tuple[str, Operator]] = Counter()
    for predicate in filter_.predicates:
        typed = types.get(predicate.attribute)
        said = None if typed is None else translated(predicate, typed)
        if said is None:
            return None
        operator, constant = said
        row[Use(predicate.attribute, operator, used[predicate.attribute, operator])] = constant
        used[predicate.attribute, operator] += 1
    return row


def translated(predicate: Predicate, typed: Typed) -> tuple[Operator, Any] | None:
    """The same for values of one type only: operator and constant; None if it holds for none of them."""
    operator, constant = predicate.operator, predicate.constant
    if operator is Operator.PRESENT:
        return (operator, True) if constant in (None, typed.kind) else None
    if isinstance(constant, tuple):
        found = [_compared(Operator.EQ, member, typed) for member in constant]
        members = [one[1] for one in found if one is not None]
        return (operator, members) if members else None
    assert constant is not None and not isinstance(constant, Kind)
    return _compared(operator, constant, typed)


def _compared(operator: Operator, constant: Value, typed: Typed) -> tuple[Operator, Any] | None:
    if kind_of(constant) is not typed.kind:
        return None
    if isinstance(constant, bool | str):
        return operator, constant
    return (
        _on_integers(operator, constant) if typed is _INTEGERS else _on_doubles(operator, constant)
    )


def _on_integers(operator: Operator, x: Number) -> tuple[Operator, Any] | None:
    if isinstance(x, int) or (x.is_integer() and INT_MIN <= x <= INT_MAX):
        return operator, int(x)
    if operator in (Operator.EQ, Operator.NE):
        return None if operator is Operator.EQ else (Operator.PRESENT, True)
    if operator in _DOWNWARDS:
        if x < INT_MIN:
            return None
        return (Operator.PRESENT, True) if x > INT_MAX else (Operator.LE, math.floor(x))
    if x > INT_MAX:
        return None
    return (Operator.PRESENT, True) if x < INT_MIN else (Operator.GE, math.ceil(x))


def _on_doubles(operator: Operator, x: Number) -> tuple[Operator, Any] | None:
    if float(x) == x:
        return operator, float(x)
    if operator in (Operator.EQ, Operator.NE):
        return None if operator is Operator.EQ else (Operator.PRESENT, True)
    if operator in _DOWNWARDS:
        return Operator.LE, float_below(x)
    return Operator.GE, float_above(x)


def _table(
    ids: Sequence[int], rows: Sequence[Row], uses: Sequence[Use], types: dict[str, Typed]
) -> pa.Table:
    columns = {SUBSCRIPTION: pa.array(ids, pa.int64())}
    for n, use in enumerate(uses):
        columns[f"k{n}"] = pa.array([row.get(use) for row in rows], _constant_type(use, types))
    return pa.table(columns)


def _constant_type(use: Use, types: dict[str, Typed]) -> pa.DataType:
    if use.operator is Operator.PRESENT:
        return pa.bool_()
    kind = types[use.attribute].arrow
    return pa.list_(kind) if use.operator is Operator.IN else kind


def _cleaned(inputs: Inputs, names: Iterable[str], types: dict[str, Typed]) -> DataFrame:
    """The publications with what is needed: attributes of few types, null where there is none."""
    attributes = []
    for name in sorted(names):
        column = F.col(f"c{inputs.attributes[name]}").cast(types[name].sql)
        if types[name] is _DOUBLES:
            column = F.nanvl(column, F.lit(None).cast("double"))
        elif types[name] is _STRINGS:
            column = F.when(
                F.length(column) > STRING_LENGTH_MAX,
                F.raise_error(F.lit(marked(too_long(name)))),
            ).otherwise(column)
        attributes.append(column.alias(f"a{inputs.attributes[name]}"))
    return inputs.publications.select(
        F.monotonically_increasing_id().alias(ROW),
        "c0",
        *(F.col(f"c{at}") for at, _ in inputs.keep),
        *attributes,
    )


def _condition(use: Use, constant: str, has_nulls: bool, inputs: Inputs) -> Column:
    holds = _holds(use.operator, F.col(f"a{inputs.attributes[use.attribute]}"), F.col(constant))
    return F.col(constant).isNull() | holds if has_nulls else holds


def _holds(operator: Operator, value: Column, constant: Column) -> Column:
    match operator:
        case Operator.EQ:
            return value == constant
        case Operator.NE:
            return value != constant
        case Operator.LT:
            return value < constant
        case Operator.LE:
            return value <= constant
        case Operator.GT:
            return value > constant
        case Operator.GE:
            return value >= constant
        case Operator.IN:
            return F.array_contains(constant, value)
        case Operator.PREFIX:
            return value.startswith(constant)
        case Operator.SUFFIX:
            return value.endswith(constant)
        case Operator.CONTAINS:
            return value.contains(constant)
        case Operator.PRESENT:
            return value.isNotNull()
        case _:
            assert_never(operator)


def _formed(joined: DataFrame, inputs: Inputs) -> DataFrame:
    kept = [f"c{at}" for at, _ in inputs.keep]
    if inputs.form != LISTS:
        return joined.select("c0", SUBSCRIPTION, *kept).toDF(*inputs.schema.names)
    lists = joined.groupBy(ROW).agg(
        F.first("c0").alias("c0"),
        F.collect_list(SUBSCRIPTION).alias("subscriptions"),
        *(F.first(name).alias(name) for name in kept),
    )
    return lists.select("c0", "subscriptions", *kept).toDF(*inputs.schema.names)
