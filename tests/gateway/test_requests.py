"""Requests in both versions of WS-Eventing and of SOAP: what they ask for, and which fault a mistake is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from roost.gateway.ws_eventing import answers
from roost.gateway.ws_eventing.envelope import open_envelope
from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.requests import (
    GetStatus,
    Publish,
    Renew,
    Subscribe,
    Unsubscribe,
    request_of,
)
from roost.gateway.ws_eventing.versions import EVENTING_2004, EVENTING_2011, Eventing, Soap
from roost.gateway.ws_eventing.xml_tree import XmlError, parse
from tests.gateway.kit import (
    SOAPS,
    TOPIC,
    asking,
    both,
    fault_of,
    message,
    prefixes,
    subscribe_body,
)

NOW = datetime(2026, 1, 31, tzinfo=UTC).timestamp()
SINK = "http://sink.example/s"


def request(soap: Soap, body: str, headers: str = "") -> object:
    return request_of(open_envelope(message(soap, body, headers)), NOW)


def fault(soap: Soap, body: str, headers: str = "") -> tuple[str, int, bytes]:
    """The fault that a message is answered by, its status, and the whole of it."""
    data = message(soap, body, headers)
    try:
        envelope = open_envelope(data)
    except FaultError as error:
        reply = answers.fault_without_envelope(error, soap)
    else:
        with pytest.raises(FaultError) as raised:
            request_of(envelope, NOW)
        reply = answers.fault(envelope, raised.value)
    return fault_of(reply.content), reply.status, reply.content


@both
def test_subscribe(version: Eventing, soap: Soap) -> None:
    e, wsa = prefixes(version)
    references = (
        f"<{wsa}:ReferenceParameters><x:Id xmlns:x='urn:x'>7</x:Id></{wsa}:ReferenceParameters>"
    )
    body = subscribe_body(
        version,
        SINK,
        filter_="a > 1 and b = 'x<y&z'",
        expires="PT1H",
        end_to="http://end.example/",
        references=references,
    )
    asked = request(soap, body, f"<{wsa}:Action>{version.uri('Subscribe')}</{wsa}:Action>")
    assert isinstance(asked, Subscribe)
    assert asked.notify.address == SINK
    (reference,) = asked.notify.references
    assert parse(reference.encode()).name == "{urn:x}Id"
    assert asked.end is not None
    assert asked.end.address == "http://end.example/"
    assert str(asked.interest) == "a > 1 and b = 'x<y&z'"
    assert asked.expires is not None
    assert asked.expires.at == NOW + 3600
    assert not asked.wrapped
    assert e  # the prefix that the body has


@both
def test_a_filter_by_topic(version: Eventing, soap: Soap) -> None:
    for topic, expected in (("a/b", "topic = 'a/b'"), ("a/*", "topic prefix 'a/'")):
        asked = request(soap, subscribe_body(version, SINK, filter_=topic, dialect=TOPIC))
        assert isinstance(asked, Subscribe)
        assert str(asked.interest) == expected


@both
def test_without_a_filter_everything_is_asked_for(version: Eventing, soap: Soap) -> None:
    asked = request(soap, subscribe_body(version, SINK))
    assert isinstance(asked, Subscribe)
    assert str(asked.interest) == "*"
    assert asked.expires is None


@both
def test_about_a_subscription(version: Eventing, soap: Soap) -> None:
    e, _ = prefixes(version)
    inside = f"<{e}:Expires>2026-02-01T00:00:00Z</{e}:Expires>"
    renew = request(soap, *asking(version, "Renew", "urn:uuid:1", inside))
    assert isinstance(renew, Renew)
    assert renew.expires is not None
    assert renew.expires.at == NOW + 86_400
    assert request(soap, *asking(version, "GetStatus", "urn:uuid:1")) == GetStatus("urn:uuid:1")
    assert request(soap, *asking(version, "Unsubscribe", "x")) == Unsubscribe("x")


@pytest.mark.parametrize("soap", SOAPS)
def test_notifications(soap: Soap) -> None:
    headers = "<wsa5:Action>urn:act</wsa5:Action><roost:Topic>t/1</roost:Topic>"
    asked = request(soap, "<Quote><n>1</n></Quote>", headers)
    assert isinstance(asked, Publish)
    assert asked.action == "urn:act"
    assert asked.event.attributes == {"class": "Quote", "n": 1, "topic": "t/1"}
    wrapped = request(soap, "<e11:Notify actionURI='urn:w'><Quote><n>2</n></Quote></e11:Notify>")
    assert isinstance(wrapped, Publish)
    assert (wrapped.action, wrapped.event.attributes["n"]) == ("urn:w", 2)


# What has happened -> the body, and the fault in each version; the plain one has no colon after "s".
def mistakes(version: Eventing) -> dict[str, tuple[str, str, str]]:
    e, wsa = prefixes(version)
    ours = "InvalidMessage" if version is EVENTING_2004 else ""
    is_2004 = version is EVENTING_2004
    no_sink = f"<{e}:Subscribe><{e}:Delivery/></{e}:Subscribe>"
    strange = (
        subscribe_body(version, SINK, delivery="Mode='urn:pull'")
        if is_2004
        else subscribe_body(version, SINK, more=f"<{e}:Format Name='urn:odd'/>")
    )
    xpath = f"<{e}:Filter>//a</{e}:Filter>"
    bare = subscribe_body(version, SINK, more=xpath)
    by_xpath = subscribe_body(version, SINK, filter_="//a", dialect=version.default_dialect)
    return {
        "delivery": (
            strange,
            "",
            "DeliveryModeRequestedUnavailable" if is_2004 else "DeliveryFormatRequestedUnavailable",
        ),
        "expiry": (subscribe_body(version, SINK, expires="soon"), "", "UnsupportedExpirationType"),
        "xpath by default": (bare, "", "FilteringRequestedUnavailable"),
        "xpath": (by_xpath, "", "FilteringRequestedUnavailable"),
        "filter": (
            subscribe_body(version, SINK, filter_="a >"),
            "",
            "InvalidMessage" if is_2004 else "CannotProcessFilter",
        ),
        "empty filter": (
            subscribe_body(version, SINK, filter_="a > 1 and a < 0"),
            "",
            "InvalidMessage" if is_2004 else "EmptyFilter",
        ),
        "no sink": (no_sink, "", "InvalidMessage" if is_2004 else "NoDeliveryMechanismEstablished"),
        "no delivery": (
            f"<{e}:Subscribe/>",
            "",
            "InvalidMessage" if is_2004 else "NoDeliveryMechanismEstablished",
        ),
        "end": (
            f"<{e}:Subscribe><{e}:EndTo/><{e}:Delivery><{e}:NotifyTo><{wsa}:Address>{SINK}"
            f"</{wsa}:Address></{e}:NotifyTo></{e}:Delivery></{e}:Subscribe>",
            "",
            "InvalidMessage" if is_2004 else "UnusableEPR",
        ),
        "no identifier": (*asking(version, "GetStatus"), ours),
    }


@both
def test_each_mistake_is_a_fault(version: Eventing, soap: Soap) -> None:
    for what, (body, headers, name) in mistakes(version).items():
        said, status, _ = fault(soap, body, headers)
        plain = f"s:{soap.codes['sender']}"
        assert said == (f"wse:{name}" if name else plain), what
        assert status == (400 if soap.has_subcodes else 500)


@both
def test_faults_say_what_would_be_right(version: Eventing, soap: Soap) -> None:
    body, headers, _ = mistakes(version)["xpath"]
    _, _, data = fault(soap, body, headers)
    assert data.count(b"SupportedDialect>urn:roost:event:") == 2
    body, headers, _ = mistakes(version)["delivery"]
    _, _, data = fault(soap, body, headers)
    assert version.supported_delivery.encode() in data


@both
def test_faults_of_addressing_and_of_soap(version: Eventing, soap: Soap) -> None:
    e, wsa = prefixes(version)
    body = subscribe_body(version, SINK)
    wrong = f"<{wsa}:Action>{version.uri('Renew')}</{wsa}:Action>"
    assert fault(soap, body, wrong)[0] == "wsa:ActionNotSupported"
    assert fault(soap, f"<{e}:Dance/>")[0] == "wsa:ActionNotSupported"
    elsewhere = f"<{wsa}:ReplyTo><{wsa}:Address>http://x/</{wsa}:Address></{wsa}:ReplyTo>"
    assert fault(soap, body, elsewhere)[0] == "wsa:OnlyAnonymousAddressSupported"
    must = "<x:Secret xmlns:x='urn:x' s:mustUnderstand='1'/>"
    assert fault(soap, body, must)[0] == "s:MustUnderstand"
    assert isinstance(request(soap, body, must.replace("'1'", "'0'")), Subscribe)
    assert fault(soap, "")[0] == f"s:{soap.codes['sender']}"


@both
def test_an_answer_is_in_the_versions_of_the_request(version: Eventing, soap: Soap) -> None:
    _, wsa = prefixes(version)
    headers = f"<{wsa}:MessageID>urn:m:1</{wsa}:MessageID>"
    envelope = open_envelope(message(soap, subscribe_body(version, SINK), headers))
    reply = answers.fault(envelope, FaultError("refused", "no & <never>"))
    root = parse(reply.content)
    assert root.namespace == soap.namespace
    said = {each.name: each.text for part in root.elements[:1] for each in part.elements}
    assert said[version.addressing.tag("RelatesTo")] == "urn:m:1"
    assert "no &amp; &lt;never&gt;" in reply.content.decode()


def test_devices_speak_2004_with_addressing_of_2005() -> None:
    soap = SOAPS[1]
    body = subscribe_body(EVENTING_2004, SINK).replace("wsa4:", "wsa5:")
    headers = f"<wsa5:Action>{EVENTING_2004.uri('Subscribe')}</wsa5:Action>"
    envelope = open_envelope(message(soap, body, headers))
    asked = request_of(envelope, NOW)
    assert isinstance(asked, Subscribe)
    assert asked.notify.address == SINK
    reply = answers.fault(envelope, FaultError("refused", "x"))
    assert b"http://www.w3.org/2005/08/addressing" in reply.content


@pytest.mark.parametrize(
    "data",
    [
        b"<a/>",
        f"<s:Envelope xmlns:s='{SOAPS[0].namespace}'/>".encode(),
    ],
)
def test_no_envelopes(data: bytes) -> None:
    with pytest.raises(XmlError):
        open_envelope(data)


@pytest.mark.parametrize("soap", SOAPS)
def test_another_soap(soap: Soap) -> None:
    with pytest.raises(FaultError) as raised:
        open_envelope(message(soap, "<a/>").replace(soap.namespace.encode(), b"urn:soap"))
    reply = answers.fault_without_envelope(raised.value, soap)
    assert fault_of(reply.content) == "s:VersionMismatch"


def test_every_fault_of_the_tables_is_one_of_its_version() -> None:
    """Those that never occur here: filters, EndTo and both kinds of expiry are supported."""
    assert {kind.name for kind in EVENTING_2004.faults.values()} == {
        "DeliveryModeRequestedUnavailable",
        "InvalidExpirationTime",
        "UnsupportedExpirationType",
        "FilteringRequestedUnavailable",
        "EventSourceUnableToProcess",
        "UnableToRenew",
        "InvalidMessage",
    }
    assert {kind.name for kind in EVENTING_2011.faults.values()} - {""} == {
        "DeliveryFormatRequestedUnavailable",
        "UnsupportedExpirationValue",
        "UnsupportedExpirationType",
        "FilteringRequestedUnavailable",
        "CannotProcessFilter",
        "EmptyFilter",
        "NoDeliveryMechanismEstablished",
        "UnusableEPR",
        "UnknownSubscription",
    }
    assert EVENTING_2004.faults.keys() == EVENTING_2011.faults.keys()
