"""Requests: what the body of a message asks for.

A body of WS-Eventing's own is one of its requests; any other is a notification, by which somebody publishes.
All that can be wrong with a message by itself is found here, and is a `FaultError`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roost.gateway.ws_eventing.addressing import Endpoint, endpoint_of
from roost.gateway.ws_eventing.envelope import Envelope
from roost.gateway.ws_eventing.events import Published, published_of
from roost.gateway.ws_eventing.expiry import Wanted, wanted_of
from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.filters import EVERYTHING, TOPIC, interest_of
from roost.gateway.ws_eventing.versions import (
    ADDRESSING_2005,
    EVENTINGS,
    ROOST,
    Addressing,
    Eventing,
)
from roost.gateway.ws_eventing.xml_tree import Element
from roost.language import Subscription

NOWHERE = "http://www.w3.org/2005/08/addressing/none"


class Subscribe(Struct, frozen=True):
    """Notify this endpoint of what this filter matches."""

    notify: Endpoint
    end: Endpoint | None
    interest: Subscription
    expires: Wanted | None
    wrapped: bool


class Renew(Struct, frozen=True):
    """Keep a subscription until then."""

    identifier: str
    expires: Wanted | None


class GetStatus(Struct, frozen=True):
    """Until when is it?"""

    identifier: str


class Unsubscribe(Struct, frozen=True):
    """End it."""

    identifier: str


class Publish(Struct, frozen=True):
    """Tell everybody whom it concerns."""

    event: Published
    action: str


Request: TypeAlias = Subscribe | Renew | GetStatus | Unsubscribe | Publish


def version_of(envelope: Envelope) -> Eventing | None:
    """The version of WS-Eventing that a message is in; None if its body is not of any."""
    return EVENTINGS.get(envelope.body.namespace) if envelope.body is not None else None


def addressing_of(envelope: Envelope) -> Addressing:
    """The version of WS-Addressing to answer in: the message's own, or else that of its age."""
    version = version_of(envelope)
    by_age = version.addressing if version else ADDRESSING_2005
    return envelope.addressing or by_age


def request_of(envelope: Envelope, now: float) -> Request:
    """What a message asks for; FaultError if it is not a request."""
    body, version = envelope.body, version_of(envelope)
    if body is None:
        raise FaultError("bad message", "the body is empty; expected a request or an event")
    if version is None:
        return _publish(envelope, body, envelope.scope, envelope.addressed("Action"))
    if body.name == version.tag("Notify") and version.wrapped:
        return _wrapped(envelope, body)
    kind = body.local
    action = envelope.addressed("Action")
    if kind not in ("Subscribe", "Renew", "GetStatus", "Unsubscribe"):
        what = f"the body is {kind[:80]}"
        raise FaultError("unknown action", f"{what}; expected a request to an event source")
    if action and action != version.uri(kind):
        what = f"the action is {action[:200]!r}, and the body {kind}"
        raise FaultError("unknown action", f"{what}; expected {version.uri(kind)}")
    _check_reply(envelope)
    if kind == "Subscribe":
        return _subscribe(envelope, body, version, now)
    identifier = envelope.header(version.identifier)
    if not identifier:
        what = f"the header {version.identifier} is missing"
        raise FaultError("bad message", f"{what}; expected it as the answer to Subscribe had it")
    if kind == "Renew":
        return Renew(identifier, _expires(body, version, now))
    return GetStatus(identifier) if kind == "GetStatus" else Unsubscribe(identifier)


def _check_reply(envelope: Envelope) -> None:
    """Answers go back the way the request came."""
    addressing = envelope.addressing
    if addressing is None:
        return
    for header in envelope.headers:
        if header.name in (addressing.tag("ReplyTo"), addressing.tag("FaultTo")):
            endpoint = endpoint_of(header, {})
            if endpoint and endpoint.address not in (addressing.anonymous, NOWHERE):
                what = f"{header.local} is {endpoint.address[:200]!r}"
                raise FaultError("answer elsewhere", f"{what}; expected {addressing.anonymous}")


def _subscribe(envelope: Envelope, body: Element, version: Eventing, now: float) -> Subscribe:
    scope = envelope.scope | body.declared
    delivery = body.child(version.tag("Delivery"))
    if delivery is None:
        raise FaultError("nowhere to deliver", "there is no Delivery; expected one with NotifyTo")
    wrapped = _is_wrapped(body, delivery, version)
    sink = delivery.child(version.tag("NotifyTo"))
    notify = endpoint_of(sink, scope | delivery.declared) if sink is not None else None
    if notify is None:
        what = "there is no NotifyTo with an address"
        raise FaultError("nowhere to deliver", f"{what}; expected where notifications go")
    ending = body.child(version.tag("EndTo"))
    end = endpoint_of(ending, scope) if ending is not None else None
    if ending is not None and end is None:
        raise FaultError("unusable address", "EndTo has no address; expected one")
    filter_ = body.child(version.tag("Filter"))
    interest = EVERYTHING
    if filter_ is not None:
        dialect = filter_.attributes.get("Dialect", version.default_dialect)
        interest = interest_of(version, dialect, filter_.text)
    expires = _expires(body, version, now)
    return Subscribe(notify, end, interest, expires, wrapped)


def _is_wrapped(body: Element, delivery: Element, version: Eventing) -> bool:
    """How notifications are to come, which one version calls a mode and the other a format."""
    format_ = body.child(version.tag("Format"))
    wanted = delivery.attributes.get("Mode", "")
    if version.wrapped:
        wanted = format_.attributes.get("Name", "") if format_ is not None else ""
    wanted = wanted or version.deliveries[0]
    if wanted not in version.deliveries:
        raise FaultError(
            "delivery unavailable",
            f"notifications are wanted by {wanted[:200]!r}; expected {' or '.join(version.deliveries)}",
            [(version.tag(version.supported_delivery), each) for each in version.deliveries],
        )
    return wanted == version.wrapped


def _expires(body: Element, version: Eventing, now: float) -> Wanted | None:
    element = body.child(version.tag("Expires"))
    if element is None:
        return None
    best_effort = element.attributes.get("BestEffort", "") in ("true", "1")
    wanted = wanted_of(element.text, now, best_effort=best_effort)
    if wanted is None:
        what = f"Expires is {element.text[:80]!r}"
        raise FaultError("unreadable expiry", f"{what}; expected a duration or a date with a time")
    return wanted


def _wrapped(envelope: Envelope, body: Element) -> Publish:
    inside = body.elements
    if not inside:
        raise FaultError("bad message", "there is nothing in Notify; expected an event")
    scope = envelope.scope | body.declared
    return _publish(envelope, inside[0], scope, body.attributes.get("actionURI", ""))


def _publish(envelope: Envelope, element: Element, scope: dict[str, str], action: str) -> Publish:
    event = published_of(element, scope)
    topic = envelope.header(f"{{{ROOST}}}Topic")
    if topic:
        event = replace(event, attributes=event.attributes | {TOPIC: topic})
    return Publish(event, action)
