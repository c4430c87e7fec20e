"""Events as XML: Roost's own there and back, and what others send as events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.gateway.ws_eventing.events import (
    Published,
    event_body,
    event_element,
    published_of,
)
from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.xml_tree import parse, write
from roost.language import Event
from tests.language.strategies import events

XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xs="urn:xs"'


def published(text: str, scope: dict[str, str] | None = None) -> Published:
    return published_of(parse(text.encode()), scope or {})


@given(events(), st.binary(max_size=20), st.sampled_from(["", "text/plain", "application/xml"]))
def test_our_own_there_and_back(event: Event, payload: bytes, content_type: str) -> None:
    element = event_element(event.attributes, payload, content_type)
    read = published_of(parse(write(element).encode()), {})
    # By its text, in which NaN is as good as itself.
    assert str(Event(read.attributes)) == str(event)
    assert (read.payload, read.content_type) == (payload, content_type)


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("<Quote/>", {"class": "Quote"}),
        (
            "<q:Quote xmlns:q='urn:q'><q:price>30.5</q:price></q:Quote>",
            {"class": "Quote", "price": 30.5},
        ),
        (
            "<a n='7'><b>x</b><c><d>true</d><d>false</d></c></a>",
            {"class": "a", "n": 7, "b": "x", "c.d": True},
        ),
        (
            "<a><b unit='kg'>5</b><e unit='s'/></a>",
            {"class": "a", "b": 5, "b.unit": "kg", "e.unit": "s"},
        ),
        ("<a><b/><c> 1 </c></a>", {"class": "a", "b": "", "c": 1}),
        (
            "<a><b>007</b><c>1e3</c><d>-0.5</d><e>+5</e></a>",
            {"class": "a", "b": "007", "c": 1000.0, "d": -0.5, "e": "+5"},
        ),
        ("<a><class>other</class></a>", {"class": "other"}),
        (
            "<a><b>9223372036854775808</b><c>1e999</c></a>",
            {"class": "a", "b": 2.0**63, "c": "1e999"},
        ),
        (
            f"<a {XSI}><b xsi:type='xs:string'>1</b><c xsi:type='xs:double'>1</c><d xsi:nil='true'/></a>",
            {"class": "a", "b": "1", "c": 1.0},
        ),
        (
            f"<a {XSI}><b xsi:type='xs:boolean'>1</b><c xsi:type='xs:int'>x</c></a>",
            {"class": "a", "b": True, "c": "x"},
        ),
        (f"<a><b>{'x' * 70_000}</b></a>", {"class": "a"}),
    ],
)
def test_what_others_send(text: str, attributes: dict[str, Any]) -> None:
    read = published(text)
    assert read.attributes == attributes
    assert {name: type(value) for name, value in read.attributes.items()} == {
        name: type(value) for name, value in attributes.items()
    }
    assert read.content_type == "application/xml"
    # And that is what sinks get.
    again = parse(event_body(read.attributes, read.payload, read.content_type).encode())
    assert again == parse(read.payload)


def test_prefixes_of_the_envelope_go_along() -> None:
    read = published("<a t='p:x'/>", {"p": "urn:p"})
    assert parse(read.payload).declared == {"p": "urn:p"}


@pytest.mark.parametrize("payload", [b"", b"<a>", b"<!DOCTYPE a><a/>", b"no XML", b"</s:Body>"])
def test_who_calls_something_xml_need_not_tell_the_truth(payload: bytes) -> None:
    body = parse(event_body({"n": 1}, payload, "application/xml").encode())
    assert body.name == "{urn:roost:event}Event"
    assert published_of(body, {}).payload == payload


@pytest.mark.parametrize(
    "inside",
    [
        "<e:Attribute name='n' type='integer'>x</e:Attribute>",
        "<e:Attribute name='n' type='boolean'>yes</e:Attribute>",
        "<e:Attribute name='n'>1</e:Attribute><e:Attribute name='n'>2</e:Attribute>",
        "<e:Attribute name='!' encoding='base64'>eA==</e:Attribute>",
        "<e:Attribute name='eA==' encoding='base64'>/w==</e:Attribute>",
        "<e:Payload>!</e:Payload>",
    ],
)
def test_no_events(inside: str) -> None:
    with pytest.raises(FaultError):
        published(f"<e:Event xmlns:e='urn:roost:event'>{inside}</e:Event>")
