"""The papers' bracket syntax.

A predicate is `[volume,>,300000]`, a filter is predicates with commas between them, a disjunction
is filters with `or` between them, an event is `[class,'STOCK'],[open,30.25]`. The filter without
predicates is `[*]`, the event without attributes `[]`.
"""

from __future__ import annotations

from roost.language import hints
from roost.language.cursor import Cursor
from roost.language.errors import ParseError
from roost.language.event import ATTRIBUTES_MAX
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.literals import abbreviate
from roost.language.predicate import Operator, Predicate
from roost.language.terms import (
    OPERATORS,
    Clauses,
    only_one,
    read_comparison,
    read_name,
    read_operator,
    read_value,
    too_many_filters,
    too_many_predicates,
)
from roost.language.values import STRING_LENGTH_MAX, Kind, Value, kind_of

_THREE = "a predicate has three elements: [class,eq,'STOCK']; an event's attributes have two"
_WITNESS = "isPresent takes an example of the kind, or *: [volume,isPresent,0]"
_TWO = "an event's attribute has two elements: [class,'STOCK']"


def read_clauses(cursor: Cursor, *, several: bool) -> Clauses:
    """All filters of the text; one only, unless `several` are allowed."""
    clauses: Clauses = [[]]
    while True:
        _term(cursor, clauses[-1])
        if cursor.skip(","):
            continue
        if cursor.kind == "end":
            return clauses
        if not cursor.at_word("or"):
            expected = "',', 'or' or the end" if several else "',' or the end"
            raise cursor.error(expected, _joint_hint(cursor, "predicates"))
        if not several:
            raise only_one(cursor)
        if len(clauses) == FILTERS_MAX:
            raise too_many_filters(cursor.text, cursor.offset, FILTERS_MAX + 1)
        clauses.append([])
        cursor.advance()


def _term(cursor: Cursor, clause: list[Predicate]) -> None:
    if len(clause) == PREDICATES_MAX:
        raise too_many_predicates(cursor.text, cursor.offset, PREDICATES_MAX + 1)
    if not cursor.skip("["):
        raise _not_open(cursor)
    if cursor.lexeme == "]":
        raise cursor.error("a predicate", "the filter that matches every event is [*]")
    if not cursor.skip("*"):
        clause.append(_predicate(cursor))
    if not cursor.skip("]"):
        raise _not_closed(cursor, _THREE)


def _predicate(cursor: Cursor) -> Predicate:
    attribute = read_name(cursor)
    if not cursor.skip(","):
        raise cursor.error("','", _THREE)
    spelling = cursor.lexeme
    operator = read_operator(cursor, attribute, _THREE)
    if operator is Operator.PRESENT:
        if not cursor.skip(","):
            raise cursor.error("','", _WITNESS)
        return Predicate(attribute, operator, _kind(cursor))
    if not cursor.skip(","):
        raise cursor.error("','", _THREE)
    return read_comparison(cursor, attribute, operator, spelling)


def _kind(cursor: Cursor) -> Kind | None:
    """The kind of which a witness stands at the cursor."""
    if cursor.lexeme == "*":
        cursor.advance()
        return None
    return kind_of(read_value(cursor, expected="an example of the kind (0, '' or false) or *"))


def read_attributes(cursor: Cursor) -> dict[str, Value]:
    """An event's attributes."""
    attributes: dict[str, Value] = {}
    while True:
        if len(attributes) == ATTRIBUTES_MAX:
            raise too_many_attributes(cursor.text, cursor.offset)
        if not cursor.skip("["):
            raise _not_open(cursor)
        if not attributes and cursor.skip("]"):
            if cursor.kind != "end":
                raise cursor.error("the end", "[] is the event without attributes")
            return attributes
        _attribute(cursor, attributes)
        if cursor.skip(","):
            continue
        if cursor.kind != "end":
            raise cursor.error("',' or the end", _joint_hint(cursor, "attributes"))
        return attributes


def _attribute(cursor: Cursor, attributes: dict[str, Value]) -> None:
    offset = cursor.offset
    name = read_name(cursor)
    if name in attributes:
        raise doubled_attribute(cursor.text, offset, name)
    if not cursor.skip(","):
        raise cursor.error("','", _TWO)
    if cursor.kind != "string" and cursor.lexeme.lower() in OPERATORS:
        raise cursor.error("a value", f"{_TWO}; with an operator it is a filter")
    attributes[name] = read_value(cursor, STRING_LENGTH_MAX, nan=True)
    if not cursor.skip("]"):
        raise _not_closed(cursor, _TWO)


def too_many_attributes(text: str, offset: int) -> ParseError:
    """An event has more attributes than are allowed."""
    return ParseError(
        text,
        offset,
        f"attribute number {ATTRIBUTES_MAX + 1:,}",
        f"at most {ATTRIBUTES_MAX:,} attributes",
    )


def doubled_attribute(text: str, offset: int, name: str) -> ParseError:
    """An event names an attribute twice."""
    return ParseError(
        text, offset, f"a second {abbreviate(name)!r}", "each attribute of an event once"
    )


def _not_open(cursor: Cursor) -> ParseError:
    return cursor.error("'['", "the two syntaxes do not mix" if cursor.kind == "name" else None)


def _not_closed(cursor: Cursor, elements: str) -> ParseError:
    if cursor.kind == "end" or cursor.lexeme == "[":
        return cursor.error("']'", "close the [")
    hint = elements if cursor.lexeme == "," else hints.for_quotes(cursor.lexeme)
    return cursor.error("']'", hint)


def _joint_hint(cursor: Cursor, what: str) -> str | None:
    if cursor.kind in ("name", "bad") or cursor.lexeme == "[":
        return f"put a comma between {what}"
    return None
