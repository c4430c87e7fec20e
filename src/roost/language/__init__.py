"""The content language: what events carry, and what filters say about them.

Everything here is pure: values in, answers out. `Filter.matches` is the meaning; `covers` and `overlaps`
compare filters; two syntaxes write them down. docs/LANGUAGE.md is the manual.
"""

from roost.language.errors import LanguageError, ParseError
from roost.language.event import Event
from roost.language.filter import Advertisement, Filter, Interest, Subscription, filters_of
from roost.language.parse import (
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
)
from roost.language.predicate import Constant, Operator, Predicate
from roost.language.printer import to_bracket, to_json, to_readable
from roost.language.relations import contradictions, covers, overlaps, simplify
from roost.language.values import Kind, Value, kind_of

__all__ = [
    "Advertisement",
    "Constant",
    "Event",
    "Filter",
    "Interest",
    "Kind",
    "LanguageError",
    "Operator",
    "ParseError",
    "Predicate",
    "Subscription",
    "Value",
    "contradictions",
    "covers",
    "filters_of",
    "kind_of",
    "overlaps",
    "parse_advertisement",
    "parse_event",
    "parse_filter",
    "parse_subscription",
    "simplify",
    "to_bracket",
    "to_json",
    "to_readable",
]
