"""The envelope of SOAP: what came is taken apart, what goes is put together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from roost.gateway.ws_eventing.faults import NOT_UNDERSTOOD, OTHER_SOAP, FaultError
from roost.gateway.ws_eventing.versions import (
    ADDRESSINGS,
    EVENTINGS,
    PREFIXES,
    ROOST,
    SOAPS,
    Addressing,
    Soap,
)
from roost.gateway.ws_eventing.xml_tree import Element, Part, Raw, XmlError, parse, write

# Headers of these namespaces are known.
UNDERSTOOD = {*ADDRESSINGS, *EVENTINGS, ROOST}


class Envelope(Struct, frozen=True):
    """A message that came."""

    soap: Soap
    addressing: Addressing | None  # None if no header is WS-Addressing's
    headers: list[Element]
    body: Element | None  # the first element in it; None if there is none
    scope: dict[str, str]  # what is declared around the body's element

    def header(self, name: str) -> str:
        """The text of the first header of this name; "" if there is none."""
        return next((each.text for each in self.headers if each.name == name), "")

    def addressed(self, local: str) -> str:
        """The same for a header of WS-Addressing."""
        return self.header(self.addressing.tag(local)) if self.addressing else ""


def open_envelope(data: bytes) -> Envelope:
    """XmlError if it is no envelope; FaultError if it is of another SOAP, or not to be understood."""
    root = parse(data)
    soap = SOAPS.get(root.namespace)
    if root.local != "Envelope":
        raise XmlError(f"the root is {root.name[:200]}; expected an envelope of SOAP")
    if soap is None:
        raise FaultError(OTHER_SOAP, f"the root is {root.name[:200]}; expected SOAP 1.1 or 1.2")
    header, body = root.child(soap.tag("Header")), root.child(soap.tag("Body"))
    if body is None:
        raise XmlError("the envelope has no body")
    headers = header.elements if header is not None else []
    content = body.elements
    addressing = (ADDRESSINGS.get(each.namespace) for each in headers)
    envelope = Envelope(
        soap=soap,
        addressing=next(filter(None, addressing), None),
        headers=headers,
        body=content[0] if content else None,
        scope={**root.declared, **body.declared},
    )
    _check_understood(envelope)
    return envelope


def _check_understood(envelope: Envelope) -> None:
    soap = envelope.soap
    for header in envelope.headers:
        must = header.attributes.get(soap.tag("mustUnderstand"), "0") in ("1", "true")
        for_us = header.attributes.get(soap.tag(soap.role), "") in soap.roles
        if must and for_us and header.namespace not in UNDERSTOOD:
            what = f"the header {header.name[:200]} has to be understood, and is not"
            raise FaultError(NOT_UNDERSTOOD, what)


def seal_envelope(soap: Soap, headers: Sequence[Part], body: Part | None) -> bytes:
    """A message that goes. A `Raw` part is taken as it is."""
    root = Element(soap.tag("Envelope"), {}, [], {"s": soap.namespace})
    if headers:
        root.parts.append(Element(soap.tag("Header"), {}, [*headers]))
    root.parts.append(Element(soap.tag("Body"), {}, [] if body is None else [body]))
    return b'<?xml version="1.0" encoding="UTF-8"?>' + write(root, PREFIXES).encode()


def raw(elements: Sequence[Element]) -> Raw:
    """Elements as they will be written, for messages that have them in common."""
    return Raw("".join(write(element, PREFIXES) for element in elements))
