"""An event: a flat set of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, final

from roost.errors import type_of
from roost.language.errors import LanguageError
from roost.language.literals import write_name, write_value
from roost.language.values import Value, check_name, check_value, kind_of

ATTRIBUTES_MAX = 1_024


@final
class Event:
    """What is published: attribute name -> bool, int, float or string.

    `Event(mapping)` checks names and values. `Event.trusted(dict)` does not, for callers that have
    already checked (a decoder that enforced the same limits).
    """

    __slots__ = ("attributes",)

    attributes: dict[str, Value]

    def __init__(self, attributes: Mapping[str, Value]) -> None:
        if not isinstance(attributes, Mapping):
            raise LanguageError(f"event: expected attributes by name, not {type_of(attributes)}")
        if len(attributes) > ATTRIBUTES_MAX:
            raise LanguageError(
                f"event: {len(attributes):,} attributes; at most {ATTRIBUTES_MAX:,} are allowed"
            )
        self.attributes = {
            check_name(name, "event"): check_value(value, f"event attribute {str(name)[:40]!r}")
            for name, value in attributes.items()
        }

    @classmethod
    def trusted(cls, attributes: dict[str, Value]) -> Self:
        """An event around `attributes` as they are, unchecked and not copied."""
        event = cls.__new__(cls)
        event.attributes = attributes
        return event

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Event)
            and self.attributes == other.attributes
            and all(kind_of(v) is kind_of(other.attributes[n]) for n, v in self.attributes.items())
        )

    def __hash__(self) -> int:
        return hash(frozenset(self.attributes.items()))

    def __str__(self) -> str:
        """The bracket form, which `parse_event` reads back."""
        pairs = (f"[{write_name(n)},{write_value(v)}]" for n, v in self.attributes.items())
        return ",".join(pairs) or "[]"

    def __repr__(self) -> str:
        return f"Event({self.attributes!r})"
