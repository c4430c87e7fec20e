"""A text seen as tokens, one at a time, and the errors that point at one of them.

One regular expression finds a token and its kind in one match; no Python runs a character. What it
cannot make sense of becomes a token of the kind "bad", whose text the hints look at.
"""

from __future__ import annotations

import re

from roost.errors import type_of
from roost.language.errors import LanguageError, ParseError
from roost.language.literals import BARE_NAME, QUOTED, LiteralError, abbreviate, write_string

TEXT_LENGTH_MAX = 1 << 20

_tokens = re.compile(
    rf"""\s*(?:
      (?P<name>{BARE_NAME})
    | (?P<symbol>[,()\[\]*{{}}] | <[=>]? | >=? | != | =(?![=<>~]))
    | (?P<string>{QUOTED})
    | (?P<integer>[+-]?[0-9]+(?![\w.]))
    | (?P<decimal>[+-]?(?: (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [iI][nN][fF] )
                  (?![\w.]))
    | (?P<end>\Z)
    | (?P<bad>=[=<>~]+ | &\#?\w+; | &+ | \|+ | [+-]?\.?[0-9][\w.]* | [+-]\w+ | .)
    )""",
    re.VERBOSE | re.DOTALL,
).finditer


class Cursor:
    """The token at hand: its `kind` and its `lexeme` (a string still has its quotes)."""

    __slots__ = ("_match", "_next", "kind", "lexeme", "text")

    text: str
    kind: str
    lexeme: str

    def __init__(self, text: str) -> None:
        check_text(text)
        self.text = text
        # The last alternatives are "end" and any character, so the tokens leave no gap.
        self._next = _tokens(text).__next__
        self.advance()

    def advance(self) -> None:
        """Go on to the next token. Never called at the end: that is where all reading stops."""
        self._match = match = self._next()
        self.kind = match.lastgroup or "end"
        self.lexeme = match[match.lastindex or 0]

    def skip(self, symbol: str) -> bool:
        """Go on if the token is this symbol; whether it was."""
        if self.lexeme != symbol:
            return False
        self.advance()
        return True

    @property
    def offset(self) -> int:
        """Where the token starts."""
        return self._match.start(self.kind)

    @property
    def end(self) -> int:
        """Where the token ends."""
        return self._match.end()

    @property
    def touches_previous(self) -> bool:
        """Whether the token follows the one before it without a space."""
        return self.offset == self._match.start()

    def at_word(self, word: str) -> bool:
        """Whether the token is this word of the syntax, in whatever case."""
        return self.lexeme == word or self.lexeme.lower() == word

    def error(self, expected: str, hint: str | None = None) -> ParseError:
        """Something else than the token should stand here."""
        return ParseError(self.text, self.offset, describe(self.kind, self.lexeme), expected, hint)

    def refusal(self, error: LiteralError) -> ParseError:
        """The token's literal is refused."""
        return ParseError(
            self.text, self.offset + error.offset, error.found, error.expected, error.suggestion
        )


def check_text(text: str) -> None:
    """Refuse what is too long to look at, before looking at it."""
    if not isinstance(text, str):
        raise LanguageError(f"expected a text to parse, not {type_of(text)}")
    if len(text) > TEXT_LENGTH_MAX:
        raise ParseError(
            text,
            TEXT_LENGTH_MAX,
            f"a text of {len(text):,} characters",
            f"at most {TEXT_LENGTH_MAX:,} characters",
        )


def describe(kind: str, lexeme: str) -> str:
    """A token as a message names it."""
    shown = abbreviate(lexeme)
    match kind:
        case "end":
            return "the end of the text"
        case "name":
            return f"the word {shown}"
        case "string":
            return f"the string {shown}" if shown.isprintable() else "a string"
        case "integer" | "decimal":
            return f"the number {shown}"
        case "bad" if lexeme in ("'", '"'):
            return "a quote that is never closed"
    return write_string(shown, "'" if "'" not in shown else '"')
