"""Many subscriptions at once, from columns of constants.

Subscriptions that come from a table differ in their constants and not in their form. For the common forms
(equality with a string, bounds on numbers) everything is computed a column at a time; a form with any other
operator is spelled out into filters and added one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.errors import UserError
from roost.language import Filter, Operator, Predicate
from roost.language.predicate import ORDER_OPERATORS
from roost.language.values import EXACT_INT, check_name
from roost.language.valueset import finite
from roost.matching.contract import Ids
from roost.matching.store import Store

# (attribute, operator, one constant a subscription)
PredicateColumn = tuple[str, Operator | str, Any]


def add_columns(
    store: Store, keys: Ids, columns: Sequence[PredicateColumn]
) -> NDArray[np.bool_] | None:
    """Store one filter a key; which of them no event can match. None if the form is not a common one."""
    texts: dict[str, pa.DictionaryArray] = {}
    lows: dict[str, NDArray[np.float64]] = {}
    highs: dict[str, NDArray[np.float64]] = {}
    for name, op, constants in columns:
        operator, values = operator_of(op), constant_array(name, constants, len(keys))
        if operator is Operator.EQ and pa.types.is_string(values.type):
            if name in texts or name in lows:
                return None
            texts[name] = values.dictionary_encode()
            for word in texts[name].dictionary.to_pylist():
                # Refuses what no predicate may hold, before anything is named.
                Predicate(name, Operator.EQ, word)
        elif operator in ORDER_OPERATORS and _plain_numbers(values) and name not in texts:
            low = lows.setdefault(name, np.full(len(keys), -np.inf))
            high = highs.setdefault(name, np.full(len(keys), np.inf))
            _narrow(operator, values.to_numpy(zero_copy_only=False).astype(np.float64), low, high)
        else:
            return None
    never = np.zeros(len(keys), np.bool_)
    for name, low in lows.items():
        never |= low > highs[name]
    _store(store, keys, texts, lows, highs, np.flatnonzero(~never))
    return never


def spelled_out(n: int, columns: Sequence[PredicateColumn]) -> list[Filter]:
    """The same subscriptions as filters."""
    lists = [
        (name, operator_of(op), constant_array(name, c, n).to_pylist()) for name, op, c in columns
    ]
    return [Filter(Predicate(name, op, values[i]) for name, op, values in lists) for i in range(n)]


def operator_of(op: Operator | str) -> Operator:
    """The operator, if it is one."""
    try:
        return Operator(op)
    except ValueError:
        known = " ".join(operator.value for operator in Operator)
        raise UserError(f"{op!r} is not an operator; expected one of {known}") from None


def constant_array(name: str, constants: Any, n: int) -> pa.Array:
    """The constants of a predicate as an Arrow array of `n` values without nulls."""
    check_name(name, "predicate")
    try:
        values = constants if isinstance(constants, pa.Array) else pa.array(constants)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as bad:
        raise UserError(f"the constants for {name!r} are not a column of one type: {bad}") from None
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if len(values) != n:
        raise UserError(f"{n} ids but {len(values)} constants for {name!r}")
    if values.null_count:
        raise UserError(f"the constants for {name!r} have {values.null_count} nulls")
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values


def _plain_numbers(values: pa.Array) -> bool:
    """Whether all are numbers that floats hold exactly, with room for the next one."""
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return False
    numbers = values.to_numpy(zero_copy_only=False)
    return bool(np.all((numbers > -EXACT_INT) & (numbers < EXACT_INT)))


def _narrow(
    op: Operator, bounds: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    match op:
        case Operator.GT:
            np.maximum(low, np.nextafter(bounds, np.inf), out=low)
        case Operator.GE:
            np.maximum(low, bounds, out=low)
        case Operator.LT:
            np.minimum(high, np.nextafter(bounds, -np.inf), out=high)
        case Operator.LE:
            np.minimum(high, bounds, out=high)
        case Operator.EQ | Operator.NE | Operator.IN | Operator.PRESENT:
            raise AssertionError(f"{op} is no bound")
        case Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS:
            raise AssertionError(f"{op} is for strings")
        case _:
            assert_never(op)


def _store(
    store: Store,
    keys: Ids,
    texts: dict[str, pa.DictionaryArray],
    lows: dict[str, NDArray[np.float64]],
    highs: dict[str, NDArray[np.float64]],
    rows: NDArray[np.int64],
) -> None:
    if not len(rows):
        return
    keys = keys[rows]
    tokens = np.empty((len(rows), len(texts)), np.int64)
    for column, (name, values) in enumerate(texts.items()):
        # Only words that some stored row uses are named, so that no token is without a group.
        codes = values.indices.to_numpy()[rows]
        attribute = store.attribute(name)
        named = np.zeros(len(values.dictionary), np.int64)
        for code in np.unique(codes).tolist():
            word = values.dictionary[code].as_py()
            known = attribute.equal.get(word)
            named[code] = store.token(attribute, finite((word,))) if known is None else known
        tokens[:, column] = named[codes]
    slots = {store.attribute(name).slot: name for name in lows}
    one_sided = None
    if len(slots) == 1:
        name = next(iter(lows))
        low, high = lows[name][rows], highs[name][rows]
        if np.all(high == np.inf):
            one_sided = (1, low)
        elif np.all(low == -np.inf):
            one_sided = (-1, -high)
    if not slots:
        store.add_sorted_rows(keys, tokens, (), 0, np.zeros(len(rows)))
    elif one_sided is not None:
        store.add_sorted_rows(keys, tokens, tuple(slots), *one_sided)
    else:
        order = tuple(sorted(slots))
        low_rows = np.column_stack([lows[slots[slot]][rows] for slot in order])
        high_rows = np.column_stack([highs[slots[slot]][rows] for slot in order])
        store.add_box_rows(keys, tokens, order, low_rows, high_rows)
