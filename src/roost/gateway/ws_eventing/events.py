"""Events as XML, and XML as events.

**An element of a publisher's own** becomes an event whose attributes can be filtered by: `class` is its
local name; attributes of XML and elements with a text are attributes, those further inside with dots between
the names. The element itself is the payload, and is what sinks get.

    <q:Quote xmlns:q="urn:x"><symbol>YHOO</symbol><price><low>30.25</low></price></q:Quote>
    {"class": "Quote", "symbol": "YHOO", "price.low": 30.25}

Of a name that occurs more than once the first counts. A text is what `xsi:type` says; without that `true`
and `false` are bools, what JSON would read as a number is a number, and all else is a string. (So is `007`.)

**An event of Roost's own** is an `event:Event` with all of its attributes, their types and its payload. It
can be published again, and is the same event then.
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.versions import EVENT, PREFIXES
from roost.gateway.ws_eventing.xml_tree import Element, Raw, XmlError, is_writable, parse, write
from roost.language import Value
from roost.language.values import INT_MAX, INT_MIN, NAME_LENGTH_MAX, STRING_LENGTH_MAX

XML_TYPES = ("application/xml", "text/xml")
XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
SIGNED = ("long", "int", "short", "byte", "integer", "positiveInteger", "negativeInteger")
UNSIGNED = ("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte", "nonNegativeInteger")
INTEGERS = frozenset((*SIGNED, *UNSIGNED, "nonPositiveInteger"))
FLOATS = frozenset(("decimal", "double", "float"))
BOOLS = {"true": True, "1": True, "false": False, "0": False}

_number = re.compile(r"-?(?:0|[1-9]\d*)(?P<rest>\.\d+)?(?P<exponent>[eE][+-]?\d+)?", re.ASCII)
_integer = re.compile(r"[+-]?\d{1,19}", re.ASCII).fullmatch


class Published(Struct, frozen=True):
    """What a notification publishes."""

    attributes: dict[str, Value]
    payload: bytes = b""
    content_type: str = ""


# --- from XML ---------------------------------------------------------------------------------------


def published_of(element: Element, scope: dict[str, str]) -> Published:
    """The event that an element says; FaultError if it is none. `scope` is declared around it."""
    if element.name == f"{{{EVENT}}}Event":
        return _own(element)
    attributes: dict[str, Value] = {}
    _gather(element, "", attributes)
    attributes.setdefault("class", element.local)
    whole = Element(element.name, element.attributes, element.parts, scope | element.declared)
    return Published(attributes, write(whole).encode(), XML_TYPES[0])


def _gather(element: Element, before: str, found: dict[str, Value]) -> None:
    for name, text in element.attributes.items():
        if not name.startswith("{"):
            _note(before + name, _inferred(text), found)
    for part in element.elements:
        name = before + part.local
        has_more = bool(part.elements) or not all(key.startswith("{") for key in part.attributes)
        is_nil = part.attributes.get(f"{XSI}nil") in ("true", "1")
        if not part.elements and not is_nil and (part.text or not has_more):
            _note(name, _value(part), found)
        if has_more:
            _gather(part, f"{name}.", found)


def _note(name: str, value: Value, found: dict[str, Value]) -> None:
    """What is too long to be filtered by is in the payload only."""
    if len(name) <= NAME_LENGTH_MAX and len(str(value)) <= STRING_LENGTH_MAX:
        found.setdefault(name, value)


def _value(element: Element) -> Value:
    text = element.text
    kind = element.attributes.get(f"{XSI}type", "").rpartition(":")[2]
    if not kind:
        return _inferred(text)
    value = typed(kind, text)
    return text if value is None else value


def typed(kind: str, text: str) -> Value | None:
    """The value of a type of XML Schema, by its local name; None if the text is not of it."""
    if kind == "boolean":
        return BOOLS.get(text)
    if kind in INTEGERS:
        number = int(text) if _integer(text) else None
        return number if number is not None and INT_MIN <= number <= INT_MAX else None
    if kind in FLOATS:
        try:
            # XML Schema's words for what is no number are Python's, too.
            return float(text) if "_" not in text else None
        except ValueError:
            return None
    return text


def _inferred(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    found = _number.fullmatch(text) if len(text) < 64 else None
    if not found:
        return text
    if not found["rest"] and not found["exponent"] and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else text


def _own(element: Element) -> Published:
    attributes: dict[str, Value] = {}
    payload, content_type = b"", ""
    for part in element.elements:
        # A text as it stands, blanks and all.
        text = "".join(each for each in part.parts if isinstance(each, str))
        if part.name == f"{{{EVENT}}}Attribute":
            name, text = _decoded(part, part.attributes.get("name", ""), text)
            kind = part.attributes.get("type", "string")
            value = typed(kind, text if kind == "string" else text.strip())
            if value is None or name in attributes:
                what = "is there twice" if name in attributes else f"has the value {text[:80]!r}"
                raise FaultError("bad message", f"the attribute {name[:80]!r} {what}")
            attributes[name] = value
        elif part.name == f"{{{EVENT}}}Payload":
            payload, content_type = _bytes(text), part.attributes.get("contentType", "")
    return Published(attributes, payload, content_type)


def _decoded(part: Element, name: str, text: str) -> tuple[str, str]:
    if part.attributes.get("encoding") != "base64":
        return name, text
    try:
        return _bytes(name).decode(), _bytes(text).decode()
    except UnicodeDecodeError:
        raise FaultError("bad message", "an attribute is no text in UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise FaultError("bad message", "a part of the event is not in base64") from None


# --- to XML -----------------------------------------------------------------------------------------


def event_body(attributes: Mapping[str, Value], payload: bytes, content_type: str) -> Raw:
    """What a sink gets of an event: the XML that was published, or all of it in our own."""
    if content_type in XML_TYPES:
        published = _checked(payload)
        if published is not None:
            return published
    return write(event_element(attributes, payload, content_type), PREFIXES)


@lru_cache(maxsize=64)
def _checked(payload: bytes) -> Raw | None:
    """A payload that says it is XML, written anew if it is: its publisher need not have told the truth.

    The same event goes to several sinks, so it is remembered for a while.
    """
    try:
        return write(parse(payload))
    except XmlError:
        return None


def event_element(attributes: Mapping[str, Value], payload: bytes, content_type: str) -> Element:
    """An event of Roost's own."""
    element = Element(f"{{{EVENT}}}Event")
    for name, value in attributes.items():
        kind, text = _written(value)
        said = {"name": name, "type": kind}
        if not (is_writable(name) and is_writable(text)):
            said |= {"name": b64encode(name.encode()).decode(), "encoding": "base64"}
            text = b64encode(text.encode()).decode()
        element.parts.append(Element(f"{{{EVENT}}}Attribute", said, [text] if text else []))
    if payload or content_type:
        said = {"contentType": content_type} if content_type else {}
        text = b64encode(payload).decode()
        element.parts.append(Element(f"{{{EVENT}}}Payload", said, [text] if text else []))
    return element


def _written(value: Value) -> tuple[str, str]:
    """The type of a value in XML Schema, and its text."""
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return "integer", str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "double", "NaN"
        return "double", repr(value).replace("inf", "INF")
    return "string", value
