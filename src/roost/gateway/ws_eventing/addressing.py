"""Endpoints of WS-Addressing: an address, and what has to go along as headers of whatever is sent there."""

from __future__ import annotations

from msgspec import Struct

from roost.gateway.ws_eventing.versions import ADDRESSINGS, Addressing
from roost.gateway.ws_eventing.xml_tree import Element, Raw, parse, texted, write


class Endpoint(Struct, frozen=True):
    """Where messages go. The references are XML, each an element that declares all that it uses."""

    address: str
    references: tuple[str, ...] = ()


def endpoint_of(element: Element, scope: dict[str, str]) -> Endpoint | None:
    """What an endpoint reference says; None if it has no address. `scope` is declared around it."""
    around = {**scope, **element.declared}
    for addressing in ADDRESSINGS.values():
        address = element.child(addressing.tag("Address"))
        if address is not None and address.text:
            references = [
                str(write(Element(each.name, each.attributes, each.parts, inner | each.declared)))
                for kind in addressing.reference
                for part in element.elements
                if part.name == addressing.tag(kind)
                for inner in [around | part.declared]
                for each in part.elements
            ]
            return Endpoint(address.text, tuple(references))
    return None


def endpoint_element(name: str, endpoint: Endpoint, addressing: Addressing) -> Element:
    """An endpoint reference that says it."""
    element = Element(name, {}, [texted(addressing.tag("Address"), endpoint.address)])
    if endpoint.references:
        parameters = Element(addressing.tag("ReferenceParameters"))
        parameters.parts += map(Raw, endpoint.references)
        element.parts.append(parameters)
    return element


def headers_to(endpoint: Endpoint, addressing: Addressing) -> list[Element]:
    """The headers of whatever is sent there."""
    headers = [texted(addressing.tag("To"), endpoint.address)]
    for reference in endpoint.references:
        header = parse(reference.encode())
        if addressing.marks_parameters:
            header.attributes[addressing.tag("IsReferenceParameter")] = "true"
        headers.append(header)
    return headers
