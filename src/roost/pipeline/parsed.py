"""Filters as Arrow columns, the column `filters` of the table `parsed`, and back.

Taken apart, filters are flat: all predicates one after the other, with offsets that say which belong to a
filter, and which filters to a subscription. Objects would cost a hundred times as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import (
    Constant,
    Filter,
    Interest,
    Kind,
    LanguageError,
    Operator,
    Predicate,
    Subscription,
    Value,
    filters_of,
)
from roost.pipeline.schemas import PREDICATE, SCHEMAS, VALUE

_FILTERS = SCHEMAS["parsed"].field("filters").type

Offsets = Sequence[int] | NDArray[np.int64]


def to_arrow(interests: Iterable[Interest]) -> pa.ListArray:
    """The column `filters` of these."""
    attributes: list[str] = []
    operators: list[str] = []
    constants: list[Value] = []
    of_interests, of_filters, of_predicates = [0], [0], [0]
    for interest in interests:
        for filter_ in filters_of(interest):
            for predicate in filter_.predicates:
                attributes.append(predicate.attribute)
                operators.append(predicate.operator.value)
                constant = predicate.constant
                if isinstance(constant, tuple):
                    constants.extend(constant)
                elif isinstance(constant, Kind):
                    constants.append(constant.value)
                elif constant is not None:
                    constants.append(constant)
                of_predicates.append(len(constants))
            of_filters.append(len(attributes))
        of_interests.append(len(of_filters) - 1)
    kinds = zip(_KINDS, VALUE, strict=True)
    return column_of(
        pa.array(attributes, pa.string()),
        pa.array(operators, pa.string()),
        [_only(constants, kind, field.type) for kind, field in kinds],
        of_predicates,
        of_filters,
        of_interests,
    )


def column_of(
    attributes: pa.Array,
    operators: pa.Array,
    values: Sequence[pa.Array],
    of_predicates: Offsets,
    of_filters: Offsets,
    of_interests: Offsets,
) -> pa.ListArray:
    """The column `filters` of flat columns and offsets; `values` has an array a field of VALUE."""
    constants = _lists(
        of_predicates,
        pa.StructArray.from_arrays(values, fields=list(VALUE)),
        PREDICATE.field("values").type,
    )
    predicates = pa.StructArray.from_arrays(
        [attributes, operators, constants], fields=list(PREDICATE)
    )
    return _lists(of_interests, _lists(of_filters, predicates, _FILTERS.value_type), _FILTERS)


# Of the fields of VALUE. A bool is an int in Python, so kinds are compared and not asked for.
_KINDS = (bool, int, float, str)


def _only(constants: Sequence[Value], kind: type, arrow: pa.DataType) -> pa.Array:
    """The constants of one kind, with nulls for the others."""
    return pa.array([c if type(c) is kind else None for c in constants], arrow)


def _lists(offsets: Offsets, values: pa.Array, kind: pa.ListType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def from_arrow(ids: Sequence[int], filters: pa.ListArray) -> list[Subscription]:
    """The subscriptions again. A `UserError` names the one that the language does not admit."""
    predicates = filters.values.values
    values = predicates.field("values")
    columns = [values.values.field(field.name).to_pylist() for field in VALUE]
    constants = [
        next((v for v in row if v is not None), None) for row in zip(*columns, strict=True)
    ]
    of_interests, of_filters = filters.offsets.to_pylist(), filters.values.offsets.to_pylist()
    of_predicates = values.offsets.to_pylist()
    attributes = predicates.field("attribute").to_pylist()
    operators = predicates.field("operator").to_pylist()

    def predicate(p: int) -> Predicate:
        members = constants[of_predicates[p] : of_predicates[p + 1]]
        return _predicate(attributes[p], operators[p], members)

    def subscription(row: int) -> Subscription:
        return Subscription(
            Filter(predicate(p) for p in range(of_filters[f], of_filters[f + 1]))
            for f in range(of_interests[row], of_interests[row + 1])
        )

    found = []
    for row, id_ in enumerate(ids):
        try:
            found.append(subscription(row))
        except LanguageError as error:
            raise UserError(f"subscription {id_}: {error}") from None
    return found


def _predicate(attribute: str, operator: str, values: list[Value | None]) -> Predicate:
    try:
        op = Operator(operator)
    except ValueError:
        raise LanguageError(f"{operator!r} is not an operator") from None
    if None in values:
        raise LanguageError(f"predicate on {attribute!r}: a value is null")
    given = tuple(value for value in values if value is not None)
    constant: Constant = given if op is Operator.IN else None
    if op is Operator.PRESENT and given:
        constant = _kind(attribute, given[0])
    elif op not in (Operator.IN, Operator.PRESENT):
        if len(given) != 1:
            raise LanguageError(f"predicate on {attribute!r}: {len(given)} values; expected one")
        constant = given[0]
    return Predicate(attribute, op, constant)


def _kind(attribute: str, name: Value) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise LanguageError(f"predicate on {attribute!r}: {name!r} is not a kind") from None
