"""Filters of a Subscribe request: a topic, or Roost's own language; each under its dialect.

A topic is a text that publishers give their events, their attribute `topic`. `quotes/tech` is that one;
`quotes/*` are all that begin so.
"""

from __future__ import annotations

from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.versions import EVENT, Eventing
from roost.language import (
    Filter,
    LanguageError,
    Operator,
    Predicate,
    Subscription,
    parse_subscription,
)

TOPIC = "topic"  # the attribute
TOPIC_DIALECT = f"{EVENT}:topic"
FILTER_DIALECT = f"{EVENT}:filter"
DIALECTS = (TOPIC_DIALECT, FILTER_DIALECT)

EVERYTHING = Subscription([Filter()])


def interest_of(version: Eventing, dialect: str, text: str) -> Subscription:
    """What a filter asks for; FaultError if the dialect is not ours, or the text not of it."""
    if dialect not in DIALECTS:
        raise FaultError(
            "dialect unavailable",
            f"the dialect of the filter is {dialect!r}; expected {' or '.join(DIALECTS)}",
            [(version.tag("SupportedDialect"), each) for each in DIALECTS],
        )
    if not text:
        raise FaultError("bad filter", "the filter is empty; expected a text")
    try:
        interest = _topic(text) if dialect == TOPIC_DIALECT else parse_subscription(text)
    except LanguageError as bad:
        raise FaultError("bad filter", f"the filter does not read: {bad}") from None
    if not interest:
        raise FaultError("empty filter", "no event can match the filter")
    return interest


def _topic(text: str) -> Subscription:
    if text.endswith("*"):
        return Subscription([Filter([Predicate(TOPIC, Operator.PREFIX, text[:-1])])])
    return Subscription([Filter([Predicate(TOPIC, Operator.EQ, text)])])
