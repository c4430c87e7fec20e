"""What can be wrong with content that a person or a program hands to Roost."""

from __future__ import annotations

from dataclasses import dataclass

from roost.errors import UserError


class LanguageError(UserError, ValueError):
    """A value, predicate, filter or event that the content language does not admit."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a text; lines and columns count from 1, as editors do."""

    line: int
    column: int
    offset: int


class ParseError(LanguageError):
    """A text that is not a filter, subscription or event.

    It always says where (`place`), what stood there (`found`) and what would have been right
    (`expected`), and for a near miss what was probably meant (`suggestion`).
    """

    # A long line is shown as a window around the culprit, not whole.
    _window = 60

    def __init__(
        self, text: str, offset: int, found: str, expected: str, suggestion: str | None = None
    ) -> None:
        self.place = place_of(text, offset)
        self.found = found
        self.expected = expected
        self.suggestion = suggestion
        self.excerpt = self._excerpt(text, offset)
        hint = f"\nhint: {suggestion}" if suggestion else ""
        super().__init__(
            f"line {self.place.line}, column {self.place.column}: "
            f"found {found}, expected {expected}\n{self.excerpt}{hint}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle would call __init__ with the message alone.
        return _restored, (self.args, self.__dict__)

    def _excerpt(self, text: str, offset: int) -> str:
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        end = len(text) if end < 0 else end
        left = max(start, offset - self._window)
        right = min(end, offset + self._window)
        prefix = "..." if left > start else ""
        suffix = "..." if right < end else ""
        shown = "".join(
            c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[left:right]
        )
        return f"  {prefix}{shown}{suffix}\n  {' ' * (len(prefix) + offset - left)}^"


def _restored(args: tuple[object, ...], fields: dict[str, object]) -> ParseError:
    error = ParseError.__new__(ParseError, *args)
    error.__dict__.update(fields)
    return error


def place_of(text: str, offset: int) -> Place:
    """The line and column of `offset` in `text`."""
    before = text.count("\n", 0, offset)
    return Place(before + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1, offset)
