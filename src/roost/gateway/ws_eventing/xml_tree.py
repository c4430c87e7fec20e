"""XML as a small tree: read by expat within bounds, and written again.

A message comes from strangers. So a DOCTYPE ends the reading before anything in it is looked at (with it go
entities, bombs of them, and files of this machine), and the depth and the number of elements are bounded.
How long a text may be is for whoever receives it to say.

Names are written `{namespace}local`. Declarations of prefixes are kept where they stood, because a text may
refer to them (`xsi:type="xs:int"`): what is cut out of a document and written elsewhere means the same there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.parsers import expat

XML = "http://www.w3.org/XML/1998/namespace"
SEPARATOR = " "  # expat refuses a namespace that has it in its name
# Declarations that may hold at a time: each element that is written looks through them.
DECLARED_MAX = 256

# XML 1.0 has no way to write these.
_illegal = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_in_text = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_in_value = str.maketrans(
    {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


class XmlError(ValueError):
    """What was sent is no XML that is taken here."""


class Raw(str):
    """XML that is written as it is: it was written before, and declares all that it uses."""

    __slots__ = ()


Part: TypeAlias = "Element | str"


@dataclass(slots=True)
class Element:
    """An element: its name, its attributes, and what is in it, in order."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)  # prefix -> namespace; "" is the default

    @property
    def elements(self) -> list[Element]:
        """The elements in it."""
        return [part for part in self.parts if isinstance(part, Element)]

    @property
    def text(self) -> str:
        """The text in it, without that of elements, and without blanks around it."""
        return "".join(part for part in self.parts if isinstance(part, str)).strip()

    @property
    def local(self) -> str:
        """Its name without the namespace."""
        return self.name.rpartition("}")[2]

    @property
    def namespace(self) -> str:
        """The namespace of its name; "" if it has none."""
        return self.name[1:].rpartition("}")[0]

    def child(self, name: str) -> Element | None:
        """The first element of this name in it."""
        return next((each for each in self.elements if each.name == name), None)


def texted(name: str, text: str) -> Element:
    """An element with nothing but a text in it."""
    return Element(name, {}, [text])


# --- reading ----------------------------------------------------------------------------------------


def parse(data: bytes, *, depth_max: int = 64, nodes_max: int = 10_000) -> Element:
    """The root element; XmlError if there is none, or more than is taken.

    Elements and attributes are counted together. Comments and processing instructions are left out.
    """
    builder = _Builder(depth_max, nodes_max)
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.StartNamespaceDeclHandler = builder.namespace
    parser.EndNamespaceDeclHandler = builder.end_of_namespace
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as bad:
        where = f"line {bad.lineno}, column {bad.offset + 1}"
        raise XmlError(f"{where}: {expat.ErrorString(bad.code)}") from None
    except (LookupError, UnicodeError):
        raise XmlError("the encoding is not known; expected UTF-8") from None
    assert builder.root is not None
    return builder.root


class _Builder:
    def __init__(self, depth_max: int, nodes_max: int) -> None:
        self.root: Element | None = None
        self._depth_max, self._nodes_max = depth_max, nodes_max
        self._nodes = self._declarations = 0
        self._open: list[Element] = []
        self._declared: dict[str, str] = {}

    def doctype(self, *_: object) -> None:
        raise XmlError("there is a DOCTYPE; expected none")

    def namespace(self, prefix: str | None, uri: str | None) -> None:
        self._declared[prefix or ""] = uri or ""
        self._declarations += 1
        if self._declarations > DECLARED_MAX:
            raise XmlError(f"more than {DECLARED_MAX} namespaces are declared; expected fewer")

    def end_of_namespace(self, _: str | None) -> None:
        self._declarations -= 1

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._nodes += 1 + len(attributes)
        if self._nodes > self._nodes_max:
            what = f"more than {self._nodes_max:,} elements and attributes"
            raise XmlError(f"{what}; expected fewer")
        if len(self._open) >= self._depth_max:
            raise XmlError(f"elements are nested deeper than {self._depth_max}; expected fewer")
        clark = {_clark(key): value for key, value in attributes.items()} if attributes else {}
        element = Element(_clark(name), clark, [], self._declared)
        self._declared = {}
        if self._open:
            self._open[-1].parts.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        self._open[-1].parts.append(text)


def _clark(name: str) -> str:
    uri, _, local = name.rpartition(SEPARATOR)
    return f"{{{uri}}}{local}" if uri else local


# --- writing ----------------------------------------------------------------------------------------


def write(element: Element, prefixes: Mapping[str, str] | None = None) -> Raw:
    """The element as XML; `prefixes` says which one a namespace gets that has none yet."""
    out: list[str] = []
    _write(element, {"": "", "xml": XML}, prefixes or {}, out)
    return Raw("".join(out))


def _write(
    element: Element, around: dict[str, str], wished: Mapping[str, str], out: list[str]
) -> None:
    scope = _Scope(around, element, wished)
    tag = scope.qualified(element.name, of_element=True)
    pairs = [(scope.qualified(name), value) for name, value in element.attributes.items()]
    out.append(f"<{tag}")
    for prefix, uri in scope.new.items():
        out.append(f' xmlns{":" if prefix else ""}{prefix}="{_value(uri)}"')
    for name, value in pairs:
        out.append(f' {name}="{_value(value)}"')
    if not element.parts:
        out.append("/>")
        return
    out.append(">")
    for part in element.parts:
        if isinstance(part, Element):
            _write(part, scope.all, wished, out)
        else:
            out.append(part if isinstance(part, Raw) else _text(part))
    out.append(f"</{tag}>")


class _Scope:
    """Which prefixes stand for what inside of an element, and which of them it has to declare."""

    def __init__(self, around: dict[str, str], element: Element, wished: Mapping[str, str]) -> None:
        self._wished = wished
        declared = element.declared
        self.new = {p: uri for p, uri in declared.items() if around.get(p) != uri and p != "xml"}
        self.all = {**around, **self.new} if self.new else around

    def qualified(self, name: str, *, of_element: bool = False) -> str:
        uri, _, local = name.rpartition("}")
        uri = uri[1:]
        if not uri:
            if of_element and self.all[""]:
                self._declare("", "")
            return local
        for prefix, known in self.all.items():
            if known == uri and (prefix or of_element):
                return f"{prefix}:{local}" if prefix else local
        prefix = self._wished.get(uri, "ns")
        number = 0
        while prefix in self.all:
            number += 1
            prefix = f"{self._wished.get(uri, 'ns')}{number}"
        self._declare(prefix, uri)
        return f"{prefix}:{local}"

    def _declare(self, prefix: str, uri: str) -> None:
        self.new = {**self.new, prefix: uri}
        self.all = {**self.all, prefix: uri}


def _text(text: str) -> str:
    return _illegal.sub("\ufffd", text).translate(_in_text)


def _value(text: str) -> str:
    return _illegal.sub("\ufffd", text).translate(_in_value)


def is_writable(text: str) -> bool:
    """Whether a text has only what XML can write."""
    return not _illegal.search(text)
