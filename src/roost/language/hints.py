"""What a user probably meant, for the near misses that people make.

Every function takes the kind and the text of the token at which parsing stopped and returns one
sentence, or None where it has nothing to say. They are called only when a text is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from roost.language.literals import abbreviate, write_readable_name, write_string

_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u00b4`"
_STRAIGHT = "use straight quotes: 'STOCK'"
_PATTERNS = "for patterns there are prefix, suffix and contains: symbol prefix 'YH'"

# What other languages call our operators.
_FOREIGN = {
    "==": "for equality write =",
    "===": "for equality write =",
    ":": "for equality write =",
    "is": "for equality write =; to ask only that the attribute is there, write present",
    "equals": "for equality write =",
    "!": "for inequality write !=",
    "!==": "for inequality write !=",
    "ne": "for inequality write != (or neq)",
    "=>": "write >=",
    "=<": "write <=",
    "gt": "write >",
    "gte": "write >=",
    "ge": "write >=",
    "lt": "write <",
    "lte": "write <=",
    "le": "write <=",
    "&gt;": "the text is HTML-escaped: write >",
    "&lt;": "the text is HTML-escaped: write <",
    "like": _PATTERNS,
    "ilike": _PATTERNS,
    "matches": _PATTERNS,
    "regex": _PATTERNS,
    "=~": _PATTERNS,
    "~": _PATTERNS,
    "startswith": "write prefix",
    "endswith": "write suffix",
    "postfix": "write suffix",
    "includes": "write contains",
    "exists": "write present",
    "between": "write it as two predicates: volume >= 10 and volume <= 20",
    "not": "there is no 'not'; use !=, or turn the comparison round",
}
_NO_VALUE = frozenset(("null", "none", "nil", "undefined", "nan"))
_KINDS = {
    "int": "number",
    "integer": "number",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "numeric": "number",
    "str": "string",
    "text": "string",
    "boolean": "bool",
}


def for_attribute(kind: str, lexeme: str) -> str | None:
    """Where an attribute name was expected."""
    if lexeme.lower() in ("not", "!"):
        return _FOREIGN["not"]
    if kind == "name":
        return f'an attribute of that name is written "{lexeme}"'
    if kind == "string":
        return f'an attribute name takes double quotes: "{abbreviate(lexeme[1:-1])}"'
    if kind in ("integer", "decimal"):
        return 'a predicate starts with its attribute; quote a name that starts so: "2nd"'
    return for_quotes(lexeme)


def for_operator(kind: str, lexeme: str, attribute: str, spellings: Iterable[str]) -> str | None:
    """Where the operator on `attribute` was expected; `spellings` are those there are."""
    word = lexeme.lower()
    name = abbreviate(write_readable_name(attribute))
    if kind == "bad" or word in _FOREIGN:
        return _FOREIGN.get(word) or for_quotes(lexeme)
    if kind == "end" or word in ("and", "or", ")"):
        return f"to ask only that the attribute is there, write: {name} present"
    if kind in ("string", "integer", "decimal"):
        return f"an operator is missing: {name} = {abbreviate(lexeme)}"
    if kind == "name":
        near = _nearest(word, spellings)
        if near:
            return f"did you mean {'isPresent' if near == 'ispresent' else near}?"
        return f"an operator is missing: {name} = '{abbreviate(lexeme)}'"
    if lexeme == ",":
        return f"the bracket syntax has square brackets: [{name},eq,'STOCK']"
    return None


def for_value(kind: str, lexeme: str) -> str | None:
    """Where a value was expected."""
    if kind == "name":
        return _for_word(lexeme)
    if lexeme in ("'", '"'):
        return f"close the string with {lexeme}"
    if lexeme == "(":
        return "several values go with 'in': symbol in ('A', 'B')"
    if kind == "bad":
        if lexeme[0] in "+-.0123456789":
            return "a number looks like 300000, -2.5 or 1e6"
        return for_quotes(lexeme)
    return None


def for_string(kind: str, lexeme: str) -> str | None:
    """Where a string was expected, and perhaps another value stands."""
    if kind in ("integer", "decimal"):
        return f"quote it: '{abbreviate(lexeme)}'"
    return for_value(kind, lexeme)


def _for_word(word: str) -> str:
    if word.lower() in ("nan", "inf", "infinity"):
        if word.lower() == "nan":
            return "NaN compares with nothing, so no event would ever match"
        return "infinity is written inf"
    if word.lower() in _NO_VALUE:
        return "there is no null: leave the attribute out, or ask for it by 'present'"
    return f"a string needs quotes: {write_string(abbreviate(word), chr(39))}"


def for_kind(kind: str, lexeme: str) -> str | None:
    """After `present`, where a kind or the end of the predicate was expected."""
    word = lexeme.lower() if kind == "name" else kind
    near = _KINDS.get(word) or _nearest(word, _KINDS.values())
    return f"did you mean present {near}?" if near else None


def between_members(kind: str, lexeme: str) -> str | None:
    """Between the values of `in`, where a comma or the end was expected."""
    if kind == "end":
        return "close the ("
    return for_quotes(lexeme) or "put a comma between the values"


def between_predicates(kind: str, lexeme: str) -> str | None:
    """In the readable syntax, where `and`, `or` or the end was expected."""
    if lexeme in (",", ";", "&", "&&", "+", "."):
        return "join predicates by 'and'"
    if lexeme in ("|", "||"):
        return "join alternatives by 'or'"
    if lexeme == "[":
        return "the bracket syntax has to start with its first [; the two syntaxes do not mix"
    if lexeme == ")":
        return "there is no ( that it closes"
    if kind == "name":
        near = _nearest(lexeme.lower(), ("and", "or"))
        return f"did you mean '{near}'?" if near else "join predicates by 'and'"
    return for_quotes(lexeme)


def for_quotes(lexeme: str) -> str | None:
    """At typographic quotes and at a quote without its other half."""
    if lexeme in ("'", '"'):
        return f"close the string with {lexeme}"
    return _STRAIGHT if lexeme and lexeme[0] in _QUOTES else None


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is a misspelling of; a long one is none, and costs time."""
    near = get_close_matches(word, list(known), 1, 0.65) if len(word) <= 40 else []
    return near[0] if near else None
