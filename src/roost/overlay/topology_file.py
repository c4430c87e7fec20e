"""Overlays from files: lists of edges, and GraphML.

Whatever is wrong is a `UserError` that starts with the file and the line, counted from 1; in GraphML,
whose parser keeps no lines, with the file and the element.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from roost.errors import UserError
from roost.overlay.trees import BROKERS_MAX, Link, Topology, first_fault

GRAPHML_ENDINGS = (".graphml", ".xml")
# What programs call the latency of an edge; the first that a file has counts.
LATENCY_NAMES = ("latency_ms", "latency", "weight")
NAME_LENGTH_MAX = 255
# They part the words of a workload: `partition cut B1,B2`, `# a remark`.
NOT_IN_NAMES = " ,#"


def read_topology(path: str | Path) -> Topology:
    """The tree in a file: GraphML if its name ends in .graphml or .xml, else a list of edges.

    A line of such a list is `B0 B1`, `B0 B1 LATENCY_MS`, or the name of a broker alone; # starts a remark.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}") from None
    draft = _Draft(str(path))
    if Path(path).suffix.lower() in GRAPHML_ENDINGS:
        _read_graphml(data, draft)
    else:
        _read_edges(data, draft)
    return draft.tree()


class _Draft:
    """A topology on its way in, with the place of everything in the file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.brokers: dict[str, str] = {}  # with the first place that names them
        self._links: list[tuple[Link, str]] = []

    def add_broker(self, name: str, where: str) -> None:
        if name in self.brokers:
            return
        if not name or not name.isprintable() or any(sign in name for sign in NOT_IN_NAMES):
            raise UserError(
                f"{where}: {name[:40]!r} cannot name a broker; expected signs that can be printed,"
                " without blanks, commas and #"
            )
        if len(name) > NAME_LENGTH_MAX:
            raise UserError(
                f"{where}: the name {name[:20]!r}... has {len(name):,} characters; at most"
                f" {NAME_LENGTH_MAX} are allowed"
            )
        if len(self.brokers) == BROKERS_MAX:
            raise UserError(f"{where}: more than {BROKERS_MAX:,} brokers")
        self.brokers[name] = where

    def add_link(self, a: str, b: str, latency: str | None, where: str) -> None:
        latency_ms = None if latency is None else _latency(latency, where)
        self._links.append((Link(a, b, latency_ms), where))

    def tree(self) -> Topology:
        """What was read, if it is a tree."""
        topology = Topology(tuple(self.brokers), tuple(link for link, _ in self._links))
        fault = first_fault(topology)
        if fault is None:
            return topology
        where = self.file
        if fault.link is not None:
            where = self._links[fault.link][1]
        elif fault.broker is not None:
            where = self.brokers[topology.brokers[fault.broker]]
        raise UserError(f"{where}: {fault.what}")


def _latency(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UserError(
            f"{where}: the latency is {text[:40]!r}; expected a number of ms, 0 or more"
        )
    return value


# --- lists of edges -------------------------------------------------------------------------------


def _read_edges(data: bytes, draft: _Draft) -> None:
    try:
        # Some programs start a file with a byte order mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        # Another decoder may have cut the mark off, so the place is that in what it saw.
        line = bad.object.count(b"\n", 0, bad.start) + 1
        raise UserError(f"{draft.file}:{line}: not UTF-8") from None
    for number, line_text in enumerate(text.split("\n"), 1):
        words = line_text.partition("#")[0].split()
        where = f"{draft.file}:{number}"
        if len(words) > 3:
            raise UserError(f"{where}: {len(words)} words; expected B0 B1 [LATENCY_MS]")
        for name in words[:2]:
            draft.add_broker(name, where)
        if len(words) >= 2:
            draft.add_link(words[0], words[1], words[2] if len(words) == 3 else None, where)


# --- GraphML --------------------------------------------------------------------------------------


def _read_graphml(data: bytes, draft: _Draft) -> None:
    root = _parsed(data, draft.file)
    if _tag(root) != "graphml":
        raise UserError(f"{draft.file}: <{_tag(root)}>: expected <graphml>")
    keys = _latency_keys(root)
    for node in _all(root, "node"):
        name = _attribute(node, "id", draft.file)
        where = f'{draft.file}: <node id="{name}">'
        if name in draft.brokers:
            raise UserError(f"{where}: there is such a node already")
        draft.add_broker(name, where)
    for edge in _all(root, "edge"):
        a, b = (_attribute(edge, end, draft.file) for end in ("source", "target"))
        where = f'{draft.file}: <edge source="{a}" target="{b}">'
        for name in (a, b):
            if name not in draft.brokers:
                raise UserError(f"{where}: there is no node {name}")
        draft.add_link(a, b, _latency_text(edge, keys), where)
    for _ in _all(root, "hyperedge"):
        raise UserError(f"{draft.file}: <hyperedge>: a link joins two brokers, not more")


def _parsed(data: bytes, file: str) -> Element:
    try:
        return ElementTree.fromstring(data)
    except ElementTree.ParseError as bad:
        reason = expat.ErrorString(bad.code)
        raise UserError(f"{file}:{bad.position[0]}: the XML does not parse: {reason}") from None
    except (LookupError, ValueError) as bad:  # the encoding that it declares is not to be had
        raise UserError(f"{file}:1: the XML does not parse: {bad}") from None


def _tag(element: Element) -> str:
    """The name of the element without the namespace, which some programs leave out."""
    return element.tag.rpartition("}")[2]


def _all(root: Element, tag: str) -> list[Element]:
    return [element for element in root.iter() if _tag(element) == tag]


def _attribute(element: Element, name: str, file: str) -> str:
    value = element.get(name)
    if value is None:
        raise UserError(f"{file}: <{_tag(element)}>: the attribute {name} is missing")
    return value


def _latency_keys(root: Element) -> dict[str, str | None]:
    """The keys under which edges may say their latency, best first, with their defaults."""
    found = []
    for key in _all(root, "key"):
        name = key.get("attr.name", "").lower()
        if name in LATENCY_NAMES and key.get("for", "all") in ("edge", "all"):
            default = next((child.text or "" for child in _all(key, "default")), None)
            found.append((LATENCY_NAMES.index(name), key.get("id", ""), default))
    return {id_: default for _, id_, default in sorted(found, key=lambda key: key[0])}


def _latency_text(edge: Element, keys: dict[str, str | None]) -> str | None:
    said = {data.get("key"): data.text or "" for data in _all(edge, "data")}
    for id_, default in keys.items():
        text = said.get(id_, default)
        if text is not None:
            return text
    return None
