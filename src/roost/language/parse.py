"""Text to filters, subscriptions, advertisements and events.

The first character that is not blank tells the syntax: `[` opens the bracket syntax, `{` a JSON
object (an event), anything else the readable syntax. A text that cannot be read is a `ParseError`,
which says where and why.
"""

from __future__ import annotations

from roost.language import bracket, jsonevent, readable
from roost.language.cursor import Cursor
from roost.language.event import Event
from roost.language.filter import Advertisement, Filter, Subscription
from roost.language.terms import Clauses


def parse_filter(text: str) -> Filter:
    """One conjunction, in either syntax."""
    return Filter(_read_clauses(text, several=False)[0])


def parse_subscription(text: str) -> Subscription:
    """A disjunction of conjunctions, in either syntax."""
    return Subscription(map(Filter, _read_clauses(text, several=True)))


def parse_advertisement(text: str) -> Advertisement:
    """A disjunction of conjunctions, in either syntax."""
    return Advertisement(map(Filter, _read_clauses(text, several=True)))


def parse_event(text: str) -> Event:
    """An event in the bracket syntax or as a JSON object."""
    cursor = Cursor(text)
    if cursor.lexeme == "[":
        return Event.trusted(bracket.read_attributes(cursor))
    if cursor.lexeme == "{":
        return Event.trusted(jsonevent.read_attributes(text, cursor.offset))
    raise cursor.error("an event", """write [class,'STOCK'] or {"class": "STOCK"}""")


def _read_clauses(text: str, *, several: bool) -> Clauses:
    cursor = Cursor(text)
    if cursor.lexeme == "[":
        return bracket.read_clauses(cursor, several=several)
    if cursor.kind == "end":
        raise cursor.error("a filter", "the filter that matches every event is *")
    if cursor.lexeme == "{":
        raise cursor.error("a filter", "a JSON object is an event; write class = 'STOCK'")
    return readable.read_clauses(cursor, several=several)
