"""The readable syntax: `class = 'STOCK' and (volume > 300000 or symbol in ('IBM', 'YHOO'))`.

`or` binds less than `and`. A subscription is a disjunction of conjunctions, so an `and` over an
`or` is distributed while it is read; the limits on filters and predicates apply to the result, and
are checked before it is built.
"""

from __future__ import annotations

from roost.language import hints
from roost.language.cursor import Cursor
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.literals import RESERVED
from roost.language.predicate import Operator, Predicate
from roost.language.terms import (
    Clauses,
    only_one,
    read_comparison,
    read_name,
    read_operator,
    too_many_filters,
    too_many_predicates,
)
from roost.language.values import Kind

NESTING_MAX = 64

_KINDS = {kind.value: kind for kind in Kind}


def read_clauses(cursor: Cursor, *, several: bool) -> Clauses:
    """All filters of the text; one only, unless `several` are allowed."""
    clauses = _disjunction(cursor, several, 0)
    if cursor.kind != "end":
        raise cursor.error(_following(several, 0), _joint_hint(cursor))
    return clauses


def _disjunction(cursor: Cursor, several: bool, depth: int) -> Clauses:
    clauses = _conjunction(cursor, several, depth)
    while cursor.at_word("or"):
        if not several:
            raise only_one(cursor)
        offset = cursor.offset
        cursor.advance()
        clauses += _conjunction(cursor, several, depth)
        if len(clauses) > FILTERS_MAX:
            raise too_many_filters(cursor.text, offset, len(clauses))
    return clauses


def _conjunction(cursor: Cursor, several: bool, depth: int) -> Clauses:
    clauses: Clauses = [[]]
    while True:
        if cursor.lexeme == "(":
            clauses = _distribute(
                cursor, clauses, cursor.offset, _group(cursor, several, depth + 1)
            )
        elif cursor.lexeme == "*":
            cursor.advance()
        else:
            _check_room(cursor, clauses)
            predicate = _predicate(cursor)
            for clause in clauses:
                clause.append(predicate)
        if not cursor.at_word("and"):
            return clauses
        cursor.advance()


def _check_room(cursor: Cursor, clauses: Clauses) -> None:
    for clause in clauses:
        if len(clause) == PREDICATES_MAX:
            raise too_many_predicates(cursor.text, cursor.offset, PREDICATES_MAX + 1)


def _group(cursor: Cursor, several: bool, depth: int) -> Clauses:
    if depth > NESTING_MAX:
        raise cursor.error(f"at most {NESTING_MAX} parentheses inside each other")
    cursor.advance()
    clauses = _disjunction(cursor, several, depth)
    if cursor.lexeme != ")":
        hint = "close the (" if cursor.kind == "end" else _joint_hint(cursor)
        raise cursor.error(_following(several, depth), hint)
    cursor.advance()
    return clauses


def _distribute(cursor: Cursor, left: Clauses, offset: int, right: Clauses) -> Clauses:
    """The conjunction of two disjunctions, as a disjunction again."""
    # The empty filter changes nothing. Without this a long row of `and *` would copy and copy.
    if left == [[]] or right == [[]]:
        return left if right == [[]] else right
    if len(left) * len(right) > FILTERS_MAX:
        raise too_many_filters(cursor.text, offset, len(left) * len(right))
    longest = max(map(len, left)) + max(map(len, right))
    if longest > PREDICATES_MAX:
        raise too_many_predicates(cursor.text, offset, longest)
    return [a + b for a in left for b in right]


def _predicate(cursor: Cursor) -> Predicate:
    if cursor.kind == "name" and cursor.lexeme.lower() in RESERVED:
        raise cursor.error("an attribute name", hints.for_attribute("name", cursor.lexeme))
    attribute = read_name(cursor)
    spelling = cursor.lexeme
    operator = read_operator(cursor, attribute)
    if operator is Operator.PRESENT:
        return Predicate(attribute, operator, _kind(cursor))
    return read_comparison(cursor, attribute, operator, spelling)


def _kind(cursor: Cursor) -> Kind | None:
    kind = _KINDS.get(cursor.lexeme.lower())
    if kind is not None:
        cursor.advance()
    elif cursor.kind in ("name", "string", "integer", "decimal") and not (
        cursor.at_word("and") or cursor.at_word("or")
    ):
        raise cursor.error(
            "number, string, bool or nothing", hints.for_kind(cursor.kind, cursor.lexeme)
        )
    return kind


def _following(several: bool, depth: int) -> str:
    """What may stand after a predicate."""
    end = "')'" if depth else "the end"
    return f"'and', 'or' or {end}" if several else f"'and' or {end}"


def _joint_hint(cursor: Cursor) -> str | None:
    before, after = cursor.text[cursor.offset - 1], cursor.text[cursor.end : cursor.end + 1]
    if cursor.touches_previous and cursor.kind == "name" and before in "'\"":
        return f"a {before} is missing before this, or one inside the string needs a backslash"
    if cursor.lexeme == "," and before.isdigit() and after.isdigit():
        return "write large numbers without commas"
    return hints.between_predicates(cursor.kind, cursor.lexeme)
