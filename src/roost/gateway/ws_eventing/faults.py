"""Faults: what can be wrong with a request, and how each version of WS-Eventing says it.

What has happened has a word of ours (`bad filter`); the tables of `versions` say which fault that is. Where a
version has no fault for it, as that of 2011 for a message that is no request, SOAP's own is said. Those of
SOAP and WS-Addressing themselves are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from roost.gateway.ws_eventing.versions import (
    PREFIXES,
    Addressing,
    Code,
    Eventing,
    FaultKind,
    Soap,
)
from roost.gateway.ws_eventing.xml_tree import XML, Element, texted

# Faults of WS-Addressing, by what has happened.
OF_ADDRESSING = {
    "unknown action": "ActionNotSupported",
    "answer elsewhere": "OnlyAnonymousAddressSupported",
}
# Those of SOAP itself that have a code of their own.
NOT_UNDERSTOOD = "not understood"
OTHER_SOAP = "other SOAP"
OF_SOAP = {NOT_UNDERSTOOD: "MustUnderstand", OTHER_SOAP: "VersionMismatch"}


class FaultError(Exception):
    """A request that is answered by a fault: what has happened, in our word and in a sentence."""

    def __init__(self, what: str, reason: str, detail: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(reason)
        self.what = what
        self.reason = reason
        self.detail = detail  # elements with a text each


class Said(FaultKind, frozen=True):
    """A fault as it is said: its kind, the namespace of its name, and its action."""

    namespace: str = ""
    action: str = ""


def said_as(what: str, version: Eventing | None, addressing: Addressing) -> Said:
    """Which fault it is, in these versions."""
    if what in OF_ADDRESSING:
        return Said(OF_ADDRESSING[what], "sender", addressing.namespace, addressing.fault_action)
    if what in OF_SOAP or version is None:
        code: Code = "receiver" if what == "not now" else "sender"
        return Said("", code, "", addressing.soap_fault_action)
    kind = version.faults[what]
    if not kind.name:
        return Said("", kind.code, "", addressing.soap_fault_action)
    return Said(kind.name, kind.code, version.namespace, version.uri("fault"))


def fault_element(error: FaultError, said: Said, soap: Soap) -> Element:
    """What goes into the body of the answer."""
    code = OF_SOAP.get(error.what, soap.codes[said.code])
    detail = [texted(name, text) for name, text in error.detail]
    declared = {"s": soap.namespace}
    name = ""
    if said.name:
        prefix = PREFIXES[said.namespace]
        declared[prefix] = said.namespace
        name = f"{prefix}:{said.name}"
    fault = Element(soap.tag("Fault"), {}, [], declared)
    if soap.has_subcodes:
        value = Element(soap.tag("Code"), {}, [texted(soap.tag("Value"), f"s:{code}")])
        if name:
            value.parts.append(Element(soap.tag("Subcode"), {}, [texted(soap.tag("Value"), name)]))
        text = texted(soap.tag("Text"), error.reason)
        text.attributes[f"{{{XML}}}lang"] = "en"
        fault.parts += [value, Element(soap.tag("Reason"), {}, [text])]
        if detail:
            fault.parts.append(Element(soap.tag("Detail"), {}, [*detail]))
    else:
        fault.parts += [
            texted("faultcode", name or f"s:{code}"),
            texted("faultstring", error.reason),
        ]
        if detail:
            fault.parts.append(Element("detail", {}, [*detail]))
    return fault


def status_of(error: FaultError, said: Said, soap: Soap) -> int:
    """The status of HTTP that goes with it: SOAP 1.1 knows only one."""
    if error.what == "not now":
        return 503
    return 400 if soap.has_subcodes and said.code == "sender" else 500
