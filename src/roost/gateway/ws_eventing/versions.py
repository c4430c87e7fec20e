"""The versions of SOAP, WS-Addressing and WS-Eventing that are spoken here, as tables.

A message says by its namespaces which of each it is in, and is answered in the same. What differs between
two versions stands in these tables; the code that reads and writes messages asks them, and knows no name.

| WS-Eventing | where it is spoken | comes with WS-Addressing of |
| --- | --- | --- |
| 2004, the submission | Axis2/Savan, devices (DPWS), WS-Management | August 2004; in DPWS 1.1, of 2005 |
| 2011, the Recommendation | CXF, Metro | August 2005 |
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Code = Literal["sender", "receiver"]


class Soap(Struct, frozen=True):
    """A version of SOAP."""

    name: str
    namespace: str
    media_type: str
    codes: dict[str, str]  # sender and receiver, in its words
    role: str  # the attribute that says whom a header is for
    roles: tuple[str, ...]  # values of it that mean us
    has_subcodes: bool  # else a fault's own name stands in place of whose fault it is

    def tag(self, local: str) -> str:
        return f"{{{self.namespace}}}{local}"


SOAP_11 = Soap(
    name="1.1",
    namespace="http://schemas.xmlsoap.org/soap/envelope/",
    media_type="text/xml",
    codes={"sender": "Client", "receiver": "Server"},
    role="actor",
    roles=("", "http://schemas.xmlsoap.org/soap/actor/next"),
    has_subcodes=False,
)
SOAP_12 = Soap(
    name="1.2",
    namespace="http://www.w3.org/2003/05/soap-envelope",
    media_type="application/soap+xml",
    codes={"sender": "Sender", "receiver": "Receiver"},
    role="role",
    roles=(
        "",
        "http://www.w3.org/2003/05/soap-envelope/role/next",
        "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver",
    ),
    has_subcodes=True,
)
SOAPS = {soap.namespace: soap for soap in (SOAP_11, SOAP_12)}


class Addressing(Struct, frozen=True):
    """A version of WS-Addressing."""

    name: str
    namespace: str
    anonymous: str  # the address that means: in the answer to this very request
    reference: tuple[str, ...]  # parts of an endpoint that go along as headers
    marks_parameters: bool  # whether such a header says that it is one
    soap_fault_action: str  # of faults that are SOAP's own

    def tag(self, local: str) -> str:
        return f"{{{self.namespace}}}{local}"

    @property
    def fault_action(self) -> str:
        return f"{self.namespace}/fault"


ADDRESSING_2004 = Addressing(
    name="2004",
    namespace="http://schemas.xmlsoap.org/ws/2004/08/addressing",
    anonymous="http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous",
    reference=("ReferenceProperties", "ReferenceParameters"),
    marks_parameters=False,
    soap_fault_action="http://schemas.xmlsoap.org/ws/2004/08/addressing/fault",
)
ADDRESSING_2005 = Addressing(
    name="2005",
    namespace="http://www.w3.org/2005/08/addressing",
    anonymous="http://www.w3.org/2005/08/addressing/anonymous",
    reference=("ReferenceParameters",),
    marks_parameters=True,
    soap_fault_action="http://www.w3.org/2005/08/addressing/soap/fault",
)
ADDRESSINGS = {each.namespace: each for each in (ADDRESSING_2004, ADDRESSING_2005)}


class FaultKind(Struct, frozen=True):
    """A fault of one version: its own name ("" for SOAP's plain one), and whose fault it is."""

    name: str
    code: Code = "sender"


class Eventing(Struct, frozen=True):
    """A version of WS-Eventing."""

    name: str
    namespace: str
    addressing: Addressing  # that of its age, if a message does not say
    identifier: str  # the element that says which subscription, in the manager's endpoint
    granted: str  # the element that says until when
    default_dialect: str  # of a filter that does not say: XPath
    deliveries: tuple[str, ...]  # how notifications may come; the first is the default
    wrapped: str  # that of them which puts events into an element of WS-Eventing's; "" is none
    supported_delivery: str  # the element of a fault that lists them
    zero_is_forever: bool  # what a duration of nothing asks for; else it is a mistake
    names_manager_at_end: bool  # whether SubscriptionEnd says which subscription manager
    says_unsubscribed: bool  # whether the answer to Unsubscribe has an element
    faults: dict[str, FaultKind]  # by what has happened, see `faults`

    def tag(self, local: str) -> str:
        return f"{{{self.namespace}}}{local}"

    def uri(self, word: str) -> str:
        """What the version calls an action, a reason to end, or a way of delivery."""
        return f"{self.namespace}/{word}"


_2004 = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
_2011 = "http://www.w3.org/2011/03/ws-evt"
# Namespaces of our own.
ROOST = "urn:roost:eventing"
EVENT = "urn:roost:event"

EVENTING_2004 = Eventing(
    name="2004",
    namespace=_2004,
    addressing=ADDRESSING_2004,
    identifier=f"{{{_2004}}}Identifier",
    granted="Expires",
    default_dialect="http://www.w3.org/TR/1999/REC-xpath-19991116",
    deliveries=(f"{_2004}/DeliveryModes/Push",),
    wrapped="",
    supported_delivery="SupportedDeliveryMode",
    zero_is_forever=False,
    names_manager_at_end=True,
    says_unsubscribed=False,
    faults={
        "delivery unavailable": FaultKind("DeliveryModeRequestedUnavailable"),
        "bad expiry": FaultKind("InvalidExpirationTime"),
        "unreadable expiry": FaultKind("UnsupportedExpirationType"),
        "dialect unavailable": FaultKind("FilteringRequestedUnavailable"),
        "bad filter": FaultKind("InvalidMessage"),
        "empty filter": FaultKind("InvalidMessage"),
        "nowhere to deliver": FaultKind("InvalidMessage"),
        "unusable address": FaultKind("InvalidMessage"),
        "unknown subscription": FaultKind("InvalidMessage"),
        "unknown to renew": FaultKind("UnableToRenew", "receiver"),
        "bad message": FaultKind("InvalidMessage"),
        "refused": FaultKind("EventSourceUnableToProcess", "receiver"),
        "not now": FaultKind("EventSourceUnableToProcess", "receiver"),
    },
)
EVENTING_2011 = Eventing(
    name="2011",
    namespace=_2011,
    addressing=ADDRESSING_2005,
    identifier=f"{{{ROOST}}}Identifier",
    granted="GrantedExpires",
    default_dialect=f"{_2011}/Dialects/XPath10",
    deliveries=(f"{_2011}/DeliveryFormats/Unwrap", f"{_2011}/DeliveryFormats/Wrap"),
    wrapped=f"{_2011}/DeliveryFormats/Wrap",
    supported_delivery="SupportedDeliveryFormat",
    zero_is_forever=True,
    names_manager_at_end=False,
    says_unsubscribed=True,
    faults={
        "delivery unavailable": FaultKind("DeliveryFormatRequestedUnavailable"),
        "bad expiry": FaultKind("UnsupportedExpirationValue"),
        "unreadable expiry": FaultKind("UnsupportedExpirationType"),
        "dialect unavailable": FaultKind("FilteringRequestedUnavailable"),
        "bad filter": FaultKind("CannotProcessFilter"),
        "empty filter": FaultKind("EmptyFilter"),
        "nowhere to deliver": FaultKind("NoDeliveryMechanismEstablished"),
        "unusable address": FaultKind("UnusableEPR"),
        "unknown subscription": FaultKind("UnknownSubscription"),
        "unknown to renew": FaultKind("UnknownSubscription"),
        "bad message": FaultKind(""),
        "refused": FaultKind(""),
        "not now": FaultKind("", "receiver"),
    },
)
EVENTINGS = {each.namespace: each for each in (EVENTING_2004, EVENTING_2011)}

# What our own messages call each namespace.
PREFIXES = {
    SOAP_11.namespace: "s",
    SOAP_12.namespace: "s",
    ADDRESSING_2004.namespace: "wsa",
    ADDRESSING_2005.namespace: "wsa",
    _2004: "wse",
    _2011: "wse",
    ROOST: "roost",
    EVENT: "event",
}


def eventing_called(name: str) -> Eventing:
    """The version of this name."""
    return next(each for each in EVENTINGS.values() if each.name == name)
