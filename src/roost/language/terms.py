"""What both syntaxes have in common: attribute names, operators, values and finished predicates."""

from __future__ import annotations

import math

from roost.language import hints
from roost.language.cursor import Cursor
from roost.language.errors import ParseError
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.literals import (
    LiteralError,
    check_name,
    read_float,
    read_integer,
    read_string,
)
from roost.language.predicate import (
    MEMBERS_MAX,
    ORDER_OPERATORS,
    STRING_OPERATORS,
    Operator,
    Predicate,
)
from roost.language.values import CONSTANT_LENGTH_MAX, NAME_LENGTH_MAX, Value, is_nan

# The filters of a disjunction while they are read, each a list of predicates.
Clauses = list[list[Predicate]]

# The operators by all their spellings: the readable ones, then the papers'. Lower case.
OPERATORS: dict[str, Operator] = {op.value: op for op in Operator} | {
    "eq": Operator.EQ,
    "neq": Operator.NE,
    "<>": Operator.NE,
    "ispresent": Operator.PRESENT,
    "str-prefix": Operator.PREFIX,
    "str-suffix": Operator.SUFFIX,
    "str-contains": Operator.CONTAINS,
    # As PADRES writes them; the first four take a string and nothing else.
    "str-lt": Operator.LT,
    "str-le": Operator.LE,
    "str-gt": Operator.GT,
    "str-ge": Operator.GE,
    "str-postfix": Operator.SUFFIX,
}
_ORDER_OF_STRINGS = frozenset(("str-lt", "str-le", "str-gt", "str-ge"))
_OPERATOR_NAMES = " ".join(op.value for op in Operator)
_WORDS: dict[str, Value] = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


def read_name(cursor: Cursor) -> str:
    """An attribute name, bare or in double quotes."""
    name = cursor.lexeme
    if cursor.kind != "name" or len(name) > NAME_LENGTH_MAX:
        name = _read_unusual_name(cursor)
    cursor.advance()
    return name


def _read_unusual_name(cursor: Cursor) -> str:
    name = lexeme = cursor.lexeme
    try:
        if cursor.kind == "string" and lexeme[0] == '"':
            name = read_string(lexeme, len(lexeme))
        elif cursor.kind != "name":
            raise cursor.error("an attribute name", hints.for_attribute(cursor.kind, lexeme))
        check_name(name)
    except LiteralError as error:
        raise cursor.refusal(error) from None
    return name


def read_operator(cursor: Cursor, attribute: str, hint: str | None = None) -> Operator:
    """The operator on an attribute, in any spelling; `hint` is for what is not even near one."""
    lexeme = cursor.lexeme
    operator = OPERATORS.get(lexeme) or OPERATORS.get(lexeme.lower())
    if operator is None:
        if hint is None or cursor.kind in ("name", "bad"):
            hint = hints.for_operator(cursor.kind, lexeme, attribute, OPERATORS)
        raise cursor.error(f"an operator ({_OPERATOR_NAMES})", hint)
    cursor.advance()
    return operator


def read_value(
    cursor: Cursor,
    length_max: int = CONSTANT_LENGTH_MAX,
    *,
    nan: bool = False,
    expected: str = "a value",
) -> Value:
    """A string, a number, true or false; NaN only where it means something (in an event)."""
    kind, lexeme = cursor.kind, cursor.lexeme
    value: Value | None = None
    try:
        if kind == "string":
            value = read_string(lexeme, length_max)
        elif kind == "integer":
            value = read_integer(lexeme)
        elif kind == "decimal":
            value = read_float(lexeme)
        elif kind == "name":
            value = _WORDS.get(lexeme.lower())
    except LiteralError as error:
        raise cursor.refusal(error) from None
    if value is None or (is_nan(value) and not nan):
        raise cursor.error(expected, hints.for_value(kind, lexeme))
    cursor.advance()
    return value


def read_members(cursor: Cursor) -> tuple[Value, ...]:
    """The values of `in`, between parentheses."""
    if cursor.lexeme != "(":
        raise cursor.error("( and the values of 'in'", "symbol in ('A', 'B')")
    members: list[Value] = []
    while True:
        cursor.advance()
        if len(members) == MEMBERS_MAX:
            raise cursor.error(f"at most {MEMBERS_MAX:,} values")
        members.append(read_value(cursor, expected="a value of 'in'"))
        if cursor.lexeme == ")":
            cursor.advance()
            return tuple(members)
        if cursor.lexeme != ",":
            raise cursor.error("',' or ')'", hints.between_members(cursor.kind, cursor.lexeme))


def read_comparison(cursor: Cursor, attribute: str, operator: Operator, spelling: str) -> Predicate:
    """The predicate with the value that stands after any operator but `present`."""
    if operator is Operator.IN:
        return Predicate(attribute, operator, read_members(cursor))
    if cursor.lexeme == "*":
        if operator is not Operator.EQ:
            raise cursor.error("a value", "only = takes *, and then it means present")
        cursor.advance()
        return Predicate(attribute, Operator.PRESENT)
    if cursor.kind != "string":
        _check_operand(cursor, operator, spelling.lower())
    return Predicate(attribute, operator, read_value(cursor))


def _check_operand(cursor: Cursor, operator: Operator, spelling: str) -> None:
    """Refuse a literal that is a value but not one that this operator takes."""
    kind, lexeme = cursor.kind, cursor.lexeme
    if spelling in _ORDER_OF_STRINGS:
        raise cursor.error(f"a string after {spelling}", hints.for_string(kind, lexeme))
    if operator in STRING_OPERATORS:
        raise cursor.error(f"a string after {operator.value}", hints.for_string(kind, lexeme))
    if operator in ORDER_OPERATORS and lexeme.lower() in ("true", "false"):
        raise cursor.error(
            f"a number or a string after {operator.value}", "bools have no order: use = or !="
        )


def too_many_predicates(text: str, offset: int, predicates: int) -> ParseError:
    """A conjunction has more predicates than are allowed."""
    return ParseError(
        text, offset, f"{predicates:,} predicates in a filter", f"at most {PREDICATES_MAX}"
    )


def only_one(cursor: Cursor) -> ParseError:
    """A second filter stands at the cursor's `or` where there must be one."""
    return cursor.error(
        "one filter", "a filter has no 'or'; subscriptions and advertisements may have it"
    )


def too_many_filters(text: str, offset: int, filters: int) -> ParseError:
    """A disjunction has more filters than are allowed."""
    return ParseError(text, offset, f"{filters:,} filters", f"at most {FILTERS_MAX}")
