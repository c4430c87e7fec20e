"""XML: what is written reads the same, and what is hostile is not read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.gateway.ws_eventing.xml_tree import Element, Part, XmlError, is_writable, parse, write

LETTERS = "abcXYZ"
TEXTS = st.text(max_size=12).filter(is_writable)
LOCALS = st.text(LETTERS, min_size=1, max_size=4)
NAMES = st.builds(
    lambda uri, local: f"{{{uri}}}{local}" if uri else local,
    st.sampled_from(["", "urn:a", "urn:b", "http://c/?x=1&y=2"]),
    LOCALS,
)
DECLARED = st.dictionaries(
    st.sampled_from(["", "p", "q", "ns", "ns1"]), st.sampled_from(["urn:a", "urn:b"]), max_size=2
)


def elements() -> st.SearchStrategy[Element]:
    leaf = st.builds(
        Element, NAMES, st.dictionaries(NAMES, TEXTS, max_size=3), st.just([]), DECLARED
    )
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            Element,
            NAMES,
            st.dictionaries(NAMES, TEXTS, max_size=3),
            st.lists(inner | TEXTS, max_size=3),
            DECLARED,
        ),
        max_leaves=8,
    )


def meaning(element: Element) -> tuple[object, ...]:
    """All but prefixes: with texts that stand next to each other as one."""
    parts: list[object] = []
    for part in element.parts:
        if isinstance(part, Element):
            parts.append(meaning(part))
        elif part:
            if parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
    return element.name, element.attributes, parts


@given(elements())
def test_what_is_written_reads_the_same(element: Element) -> None:
    assert meaning(parse(write(element).encode())) == meaning(element)


@given(elements())
def test_what_is_cut_out_means_the_same_elsewhere(element: Element) -> None:
    """Prefixes that are declared around it may stand in its texts."""
    outer = Element("outer", {}, [element], {"around": "urn:around"})
    (inner,) = parse(write(outer).encode()).elements
    alone = Element(inner.name, inner.attributes, inner.parts, outer.declared | inner.declared)
    read = parse(write(alone).encode())
    assert meaning(read) == meaning(element)
    assert read.declared["around"] == "urn:around"


@given(st.text())
def test_what_xml_can_not_write_is_replaced(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    (read,) = parse(write(Element("a", {}, [Element("b", {"c": text}, [text])])).encode()).elements
    if is_writable(text):
        assert (read.attributes["c"], "".join(map(str, read.parts))) == (text, text)


@given(st.binary() | st.text("<>&;/ab='\"! [-]?", max_size=40).map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(XmlError):
        write(parse(data))


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;">]>
<a>&lol2;</a>"""


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (LAUGHS, "there is a DOCTYPE"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "there is a DOCTYPE"),
        (b"<!DOCTYPE a><a/>", "there is a DOCTYPE"),
        (b"<a>" * 65 + b"</a>" * 65, "nested deeper than 64"),
        (b"<a>" + b"<b/>" * 10_000 + b"</a>", "more than 10,000"),
        (b"<a " + b" ".join(b"b%d=''" % n for n in range(10_001)) + b"/>", "more than 10,000"),
        (b"<a " + b" ".join(b"xmlns:b%d='u'" % n for n in range(257)) + b"/>", "more than 256"),
        (b"<a>&unknown;</a>", "line 1, column 4: undefined entity"),
        (b"<a>", "no element found"),
        (b"", "no element found"),
        (b"<p:a/>", "unbound prefix"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "encoding"),
        (b"<a>\xff</a>", "not well-formed"),
    ],
)
def test_hostile(data: bytes, what: str) -> None:
    with pytest.raises(XmlError, match=what):
        parse(data)


def test_declarations_that_hold_no_more_do_not_count() -> None:
    data = b"<a>" + b"<b xmlns:p='u' p:c=''/>" * 1_000 + b"</a>"
    assert len(parse(data).elements) == 1_000


def test_deep_enough() -> None:
    parts: list[Part] = []
    element = Element("a", {}, parts)
    for _ in range(63):
        element = Element("a", {}, [element])
    assert meaning(parse(write(element).encode())) == meaning(element)
