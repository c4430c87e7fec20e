"""What is said: answers to requests, faults, notifications, and the end of a subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from msgspec import Struct

from roost.gateway.ws_eventing.addressing import Endpoint, endpoint_element, headers_to
from roost.gateway.ws_eventing.envelope import Envelope, raw, seal_envelope
from roost.gateway.ws_eventing.events import event_body
from roost.gateway.ws_eventing.expiry import date_text, duration_text
from roost.gateway.ws_eventing.faults import FaultError, fault_element, said_as, status_of
from roost.gateway.ws_eventing.records import Record
from roost.gateway.ws_eventing.requests import addressing_of, version_of
from roost.gateway.ws_eventing.versions import (
    ADDRESSINGS,
    EVENT,
    SOAP_12,
    SOAPS,
    Addressing,
    Eventing,
    Soap,
    eventing_called,
)
from roost.gateway.ws_eventing.xml_tree import XML, Element, Part, Raw, texted, write
from roost.language import Value

# Where the action of what was published through a gateway stands in its event, and what others have.
ACTION_HEADER = "soap.action"
EVENT_ACTION = f"{EVENT}:Event"


class Message(Struct, frozen=True, kw_only=True):
    """What is said, as HTTP has it."""

    media_type: str = ""
    content: bytes = b""
    action: str = ""


class Reply(Message, frozen=True, kw_only=True):
    """An answer to a request."""

    status: int


def accepted() -> Reply:
    """To a notification, once the broker has it."""
    return Reply(status=202)


def subscribed(envelope: Envelope, record: Record, now: float) -> Reply:
    """To Subscribe."""
    version = _version(envelope)
    manager = endpoint_element(
        version.tag("SubscriptionManager"), manager_of(record), addressing_of(envelope)
    )
    return _answer(envelope, "SubscribeResponse", [manager, _granted(version, record, now)])


def renewed(envelope: Envelope, record: Record, now: float) -> Reply:
    """To Renew."""
    return _answer(envelope, "RenewResponse", [_granted(_version(envelope), record, now)])


def status(envelope: Envelope, record: Record, now: float) -> Reply:
    """To GetStatus."""
    return _answer(envelope, "GetStatusResponse", [_granted(_version(envelope), record, now)])


def unsubscribed(envelope: Envelope) -> Reply:
    """To Unsubscribe."""
    says = _version(envelope).says_unsubscribed
    return _answer(envelope, "UnsubscribeResponse", [] if says else None)


def fault(envelope: Envelope, error: FaultError) -> Reply:
    """To a request that is not carried out."""
    addressing = addressing_of(envelope)
    said = said_as(error.what, version_of(envelope), addressing)
    element = fault_element(error, said, envelope.soap)
    return _sealed(envelope, said.action, element, status_of(error, said, envelope.soap))


def fault_without_envelope(error: FaultError, soap: Soap = SOAP_12, status_: int = 400) -> Reply:
    """To what could not be read."""
    addressing = next(iter(ADDRESSINGS.values()))
    element = fault_element(error, said_as(error.what, None, addressing), soap)
    content = seal_envelope(soap, (), element)
    return Reply(status=status_, media_type=soap.media_type, content=content)


def _version(envelope: Envelope) -> Eventing:
    version = version_of(envelope)
    assert version is not None
    return version


def _granted(version: Eventing, record: Record, now: float) -> Element:
    at = record.expires_at
    text = date_text(at) if record.expires_as_date else duration_text(at - now)
    return texted(version.tag(version.granted), text)


def _answer(envelope: Envelope, kind: str, parts: Sequence[Part] | None) -> Reply:
    """An answer with an element of WS-Eventing's in it, or with nothing."""
    version = _version(envelope)
    body = None if parts is None else Element(version.tag(kind), {}, [*parts])
    return _sealed(envelope, version.uri(kind), body, 200)


def _sealed(envelope: Envelope, action: str, body: Element | None, status_: int) -> Reply:
    addressing = addressing_of(envelope)
    headers = []
    if envelope.addressing is not None:
        headers.append(texted(addressing.tag("Action"), action))
        message = envelope.addressed("MessageID")
        if message:
            headers.append(texted(addressing.tag("RelatesTo"), message))
        headers.append(texted(addressing.tag("To"), addressing.anonymous))
    return Reply(
        status=status_,
        media_type=envelope.soap.media_type,
        content=seal_envelope(envelope.soap, headers, body),
        action=action,
    )


def manager_of(record: Record) -> Endpoint:
    """Where a subscription is managed: at the gateway, by its identifier."""
    version = eventing_called(record.version)
    return Endpoint(record.manager, (str(write(texted(version.identifier, record.urn))),))


class Notifier:
    """What goes to the endpoints of one subscription."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._version = eventing_called(record.version)
        self._soap = next(soap for soap in SOAPS.values() if soap.name == record.soap)
        self._addressing = next(a for a in ADDRESSINGS.values() if a.name == record.addressing)
        self._to_sink = raw(headers_to(record.notify, self._addressing))

    def notification(
        self,
        event_id: str,
        attributes: Mapping[str, Value],
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str],
    ) -> Message:
        """An event, for the sink."""
        body: Part = event_body(attributes, payload, content_type)
        action = published = headers.get(ACTION_HEADER) or EVENT_ACTION
        if self._record.wrapped:
            action = self._version.uri("WrappedSinkPortType/NotifyEvent")
            body = Element(self._version.tag("Notify"), {"actionURI": published}, [body])
        message = f"{EVENT}:{quote(event_id, safe='')}"
        return self._message(self._to_sink, action, message, body)

    def end(self, why: str, reason: str) -> tuple[Endpoint, Message] | None:
        """That it has ended, for whom that concerns; None if nobody wants to know."""
        version, endpoint = self._version, self._record.end
        if endpoint is None:
            return None
        body = Element(version.tag("SubscriptionEnd"))
        if version.names_manager_at_end:
            tag = version.tag("SubscriptionManager")
            body.parts.append(endpoint_element(tag, manager_of(self._record), self._addressing))
        text = texted(version.tag("Reason"), reason)
        text.attributes[f"{{{XML}}}lang"] = "en"
        body.parts += [texted(version.tag("Status"), version.uri(why)), text]
        to = raw(headers_to(endpoint, self._addressing))
        message = f"{self._record.urn}:end"
        return endpoint, self._message(to, version.uri("SubscriptionEnd"), message, body)

    def _message(self, to: Raw, action: str, message: str, body: Part) -> Message:
        addressing: Addressing = self._addressing
        headers: list[Part] = [
            texted(addressing.tag("Action"), action),
            texted(addressing.tag("MessageID"), message),
            to,
        ]
        content = seal_envelope(self._soap, headers, body)
        return Message(media_type=self._soap.media_type, content=content, action=action)
