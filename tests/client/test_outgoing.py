"""Events are checked before they get a number: a glance sees what a careful look would."""

from __future__ import annotations

import enum
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker.messages import Publication
from roost.client.advertising import shape_of
from roost.client.outgoing import KNOWN_MAX, Checked, Outgoing, event_of
from roost.language import Event, LanguageError, Value
from roost.wire import DEFAULT_LIMITS, publication_bytes
from tests.language.strategies import names, values

attributes = st.dictionaries(st.one_of(names(), st.just("class")), values(nan=True), max_size=5)


def check(outgoing: Outgoing, said: Any, payload: Any = b"", **more: Any) -> Event:
    raw, shape, carried, content_type, headers = outgoing.check(
        said, payload, more.get("content_type", ""), more.get("headers")
    )
    event = event_of(raw)
    assert shape == shape_of(event.attributes)
    publication = Publication("P", 1, event, carried, content_type, headers)
    assert len(publication_bytes(publication)) <= DEFAULT_LIMITS.publication_bytes_max
    assert carried == bytes(payload)
    return event


@given(attributes, attributes)
def test_the_second_time_is_as_the_first(first: dict[str, Value], second: dict[str, Value]) -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    for said in (first, first, second, dict(zip(first, second.values(), strict=False))):
        event = check(outgoing, said)
        assert list(event.attributes) == list(said)
        assert repr(event) == repr(Event(said))  # also NaN, which equals nothing


def test_so_many_kinds_of_events_are_known_at_a_glance_and_no_more() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    for number in range(3 * KNOWN_MAX):
        check(outgoing, {f"a{number}": 1})
        assert len(outgoing._known) <= KNOWN_MAX
    assert len(outgoing._known) == KNOWN_MAX


@pytest.mark.parametrize(
    "bad",
    [None, 2**63, -(2**63) - 1, [1], {"b": 1}, "\ud800", "x" * 65_537, 1j, b"bytes"],
)
def test_what_no_event_can_hold_is_found_at_a_glance_too(bad: Any) -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    check(outgoing, {"a": 1, "b": "fine"})
    for name in ("a", "b"):
        with pytest.raises(LanguageError):
            check(outgoing, {"a": 1, "b": "fine", name: bad})


@pytest.mark.parametrize("bad", [{"": 1}, {7: 1}, {"x" * 257: 1}, [("a", 1)], "a", None])
def test_bad_names(bad: Any) -> None:
    with pytest.raises(LanguageError):
        check(Outgoing(DEFAULT_LIMITS), bad)


class Word(str):
    """A string that is not quite one."""

    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


def test_names_and_headers_become_plain_strings() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    for _ in range(2):
        event = check(outgoing, {Word("a"): 1, Colour.RED: True}, headers={Word("h"): Word("v")})
        assert {type(name) for name in event.attributes} == {str}
        assert event == Event({"a": 1, "red": True})


def test_of_many_the_one_that_is_wrong_is_named() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    with pytest.raises(LanguageError, match=r"event 3 of those to be published: .*'a'.*null"):
        outgoing.check_many([{"a": 1}, {"a": 2}, {"a": None}])  # type: ignore[dict-item]


def test_the_event_is_a_copy() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    said: dict[str, Value] = {"a": 1}
    first, second = check(outgoing, said), check(outgoing, said)
    said["a"] = 2
    assert first == second == Event({"a": 1})


def test_payloads() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    most = DEFAULT_LIMITS.payload_bytes_max
    check(outgoing, {"a": 1}, bytearray(b"x" * most))
    with pytest.raises(LanguageError, match=r"has 524,289 bytes; at most 524,288"):
        check(outgoing, {"a": 1}, b"x" * (most + 1))
    with pytest.raises(LanguageError, match=r"is a str; expected bytes \(encode the text first\)"):
        check(outgoing, {"a": 1}, "text")
    with pytest.raises(LanguageError, match="is an int; expected bytes"):
        check(outgoing, {"a": 1}, 7)


def test_headers_and_content_types() -> None:
    outgoing = Outgoing(DEFAULT_LIMITS)
    check(outgoing, {"a": 1}, headers={"x" * 4_096: "y" * 4_096})
    bad: list[tuple[dict[str, Any], str]] = [
        ({"headers": {"x" * 4_097: ""}}, "a header has 4,097 characters"),
        ({"headers": {"h": "y" * 4_097}}, "header 'h' has 4,097"),
        ({"headers": {"h": 7}}, "header 'h' is an int; expected a string"),
        ({"headers": {"h": "\ud800"}}, "surrogate"),
        ({"headers": ["h"]}, "headers are a list"),
        ({"headers": {str(i): "" for i in range(65)}}, "65 headers; at most 64"),
        ({"content_type": "x" * 1_025}, "the content type has 1,025"),
        ({"content_type": 7}, "the content type is an int"),
    ]
    for more, expected in bad:
        with pytest.raises(LanguageError, match=expected):
            check(outgoing, {"a": 1}, **more)


def test_what_is_too_large_together() -> None:
    """Each part is within its bounds."""
    outgoing = Outgoing(DEFAULT_LIMITS)
    texts: dict[str, Value] = {f"a{i}": "ä" * 60_000 for i in range(10)}
    with pytest.raises(LanguageError, match=r"event: 1,200,\d+ bytes; at most"):
        check(outgoing, texts)
    headers = {str(i): "ä" * 4_000 for i in range(60)}
    check(outgoing, {"a": 1}, headers=headers)
    long_names = {text + name: "" for name, text in headers.items()}
    for large in (headers, headers, long_names):
        with pytest.raises(LanguageError, match="at most"):
            check(outgoing, {"a": 1}, b"x" * 520_000, headers=large)


_CLASSES = st.sampled_from(["STOCK", "", "x" * 300])
_COLUMNS: dict[str, Any] = {
    "n": st.sampled_from([0, -1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1]),
    "x": st.sampled_from([0.5, -0.0, math.inf, -math.inf, math.nan]),
    "s": st.sampled_from(["", "ä", "\ud800", "x" * 70_000]),
    "b": st.booleans(),
    "class": _CLASSES | st.just(7),
    "": st.just(1),
}


@given(
    st.lists(st.sampled_from(sorted(_COLUMNS)), unique=True, max_size=4),
    st.lists(st.integers(0, 2**32), min_size=1, max_size=8),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_many_that_are_alike_are_checked_as_each_is(
    names: list[str], choices: list[int], data: st.DataObject
) -> None:
    """By column or one by one, known or not: the same of each, or the same complaint."""
    rows = [{name: data.draw(_COLUMNS[name]) for name in names} for _ in range(3)]
    events = [rows[choice % 3] for choice in choices]
    outgoing, each = Outgoing(DEFAULT_LIMITS), Outgoing(DEFAULT_LIMITS)
    expected: list[Checked] = []
    complaint = ""
    for number, event in enumerate(events, 1):
        try:
            expected.append(each.check(event, b"", "", None))
        except LanguageError as error:
            complaint = f"event {number} of those to be published: {error}"
            break
    for row in rows:
        with suppress(LanguageError):
            outgoing.check(row, b"", "", None)
    if complaint:
        with pytest.raises(LanguageError) as found:
            outgoing.check_many(events)
        assert str(found.value) == complaint
    else:
        assert outgoing.check_many(events) == expected
