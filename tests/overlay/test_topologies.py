"""Overlays: the generators make trees, files are read as they stand, and errors say where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import UserError
from roost.overlay import topology_file, trees
from roost.overlay.topologies import (
    Link,
    Topology,
    balanced_tree,
    centre,
    chain,
    check_tree,
    diameter,
    parse_topology,
    peer_clusters,
    random_tree,
    read_topology,
    roles,
    scale_free_tree,
    star,
)
from roost.overlay.trees import neighbours

SIZES = st.integers(1, 200)
SEEDS = st.integers(0, 2**32)
LATENCIES = st.none() | st.floats(0, 1e6, allow_nan=False)


def pairs(topology: Topology) -> list[tuple[str, str]]:
    return [(link.a, link.b) for link in topology.links]


def degrees(topology: Topology) -> Counter[str]:
    return Counter(end for pair in pairs(topology) for end in pair)


def assert_tree(topology: Topology, n: int) -> None:
    assert topology.brokers == tuple(f"B{i}" for i in range(n))
    assert len(topology.links) == n - 1
    assert all(link.latency_ms is None for link in topology.links)
    check_tree(topology)


# --- generators -----------------------------------------------------------------------------------


@given(SIZES, SEEDS, st.integers(1, 9))
def test_generated_topologies_are_trees(n: int, seed: int, fanout: int) -> None:
    for topology in (
        chain(n),
        star(n),
        balanced_tree(n, fanout),
        random_tree(n, seed),
        scale_free_tree(n, seed),
    ):
        assert_tree(topology, n)
    assert random_tree(n, seed) == random_tree(n, seed)
    assert scale_free_tree(n, seed) == scale_free_tree(n, seed)


def test_shapes() -> None:
    assert pairs(chain(4)) == [("B0", "B1"), ("B1", "B2"), ("B2", "B3")]
    assert pairs(star(4)) == [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
    assert pairs(balanced_tree(6, 2)) == [
        ("B0", "B1"),
        ("B0", "B2"),
        ("B1", "B3"),
        ("B1", "B4"),
        ("B2", "B5"),
    ]
    assert (diameter(chain(9)), diameter(star(9)), diameter(chain(1))) == (8, 2, 0)
    assert (centre(chain(9)), centre(chain(4)), centre(star(9))) == ("B4", "B1", "B0")


@given(st.integers(1, 60), SEEDS)
def test_the_centre_is_half_the_diameter_away_from_everyone(n: int, seed: int) -> None:
    topology = random_tree(n, seed)
    depths = trees.rooted(topology, centre(topology)).depth.values()
    assert max(depths) == (diameter(topology) + 1) // 2
    assert diameter(topology) == max(
        max(trees.rooted(topology, broker).depth.values()) for broker in topology.brokers
    )


def test_random_trees_are_evenly_drawn() -> None:
    counts = Counter(frozenset(pairs(random_tree(4, seed))) for seed in range(3200))
    assert len(counts) == 16  # 4 ** 2, as Cayley has it
    assert all(140 < count < 260 for count in counts.values())


@pytest.mark.parametrize("seed", range(5))
def test_scale_free_degrees_are_skewed(seed: int) -> None:
    scale_free = sorted(degrees(scale_free_tree(2000, seed)).values())
    even = sorted(degrees(random_tree(2000, seed)).values())
    assert scale_free[-1] > 25 > 3 * even[-1] / 2
    # Two thirds are leaves: a share of 4 / (k (k + 1) (k + 2)) has k neighbours.
    assert scale_free.count(1) == pytest.approx(2000 * 2 / 3, rel=0.08)
    assert scale_free.count(2) == pytest.approx(2000 / 6, rel=0.2)


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from(["chain", "star", "balanced"]))
def test_clusters_have_their_roles(clusters: int, edges: int, shape: str) -> None:
    if clusters * edges == 1:
        return
    topology = parse_topology(f"peer:{clusters}x{edges}:{shape}")
    assert_tree(topology, clusters * (1 + edges))
    heads = [broker for broker, role in roles(topology).items() if role == "head"]
    assert heads == [f"B{i}" for i in range(clusters)]
    near = neighbours(topology)
    for head in heads:
        assert sum(broker not in heads for broker in near[head]) == edges


def test_heads_take_the_shape_that_is_asked_for() -> None:
    assert pairs(peer_clusters(3, 1))[:2] == [("B0", "B1"), ("B1", "B2")]
    assert pairs(peer_clusters(3, 1, "star"))[:2] == [("B0", "B1"), ("B0", "B2")]
    assert pairs(peer_clusters(5, 1, "balanced", fanout=3))[3] == ("B1", "B4")
    assert pairs(peer_clusters(2, 2))[1:] == [
        ("B0", "B2"),
        ("B0", "B3"),
        ("B1", "B4"),
        ("B1", "B5"),
    ]


def test_one_or_two_brokers_have_no_role() -> None:
    assert roles(chain(1)) == {"B0": None}
    assert roles(chain(2)) == {"B0": None, "B1": None}
    assert roles(chain(3)) == {"B0": "edge", "B1": "head", "B2": "edge"}
    assert roles(Topology(("A", "B", "C"), (Link("A", "B"),)))["C"] is None


# --- what is no tree ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "links", "message"),
    [
        ("", "", "there is no broker"),
        ("A B A", "AB", "the broker A is there twice"),
        ("A B", "AC", "the link A - C: there is no broker C"),
        ("A B", "AB BB", "B is linked to itself"),
        ("A B", "AB BA", "B and A are linked already"),
        ("A B C D", "AB BC CD DB", "the link D - B closes a cycle: D - C - B - D"),
        (
            "A B C D E F",
            "AB CD",
            "the overlay falls into 4 parts: no link leads from A, B to C, D",
        ),
    ],
)
def test_what_is_no_tree(brokers: str, links: str, message: str) -> None:
    topology = Topology(tuple(brokers.split()), tuple(Link(*pair) for pair in links.split()))
    with pytest.raises(UserError) as refused:
        check_tree(topology)
    assert str(refused.value) == message


def test_long_lists_are_cut() -> None:
    ring = Topology(chain(100).brokers, (*chain(100).links, Link("B0", "B99")))
    with pytest.raises(UserError, match=r"cycle: B0 - B1 - .* - \.\.\. - .*B0 \(100 brokers\)$"):
        check_tree(ring)
    with pytest.raises(UserError, match=r"from B0, B1, B2, B3, B4 \(and 45 more\) to B50, B51"):
        check_tree(Topology(chain(100).brokers, chain(50).links + chain(100).links[50:]))


# --- files ----------------------------------------------------------------------------------------


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Trees with odd names and some latencies."""
    shape = random_tree(draw(st.integers(1, 30)), draw(SEEDS))
    signs = st.characters(categories=("L", "N", "P", "S"), exclude_characters="#,")
    count = len(shape.brokers)
    names = draw(
        st.lists(
            st.text(signs, min_size=1, max_size=9), min_size=count, max_size=count, unique=True
        )
    )
    new = dict(zip(shape.brokers, names, strict=True))
    return Topology(
        tuple(names),
        tuple(Link(new[link.a], new[link.b], draw(LATENCIES)) for link in shape.links),
    )


def edge_list(topology: Topology) -> str:
    lines = ["# brokers", *topology.brokers, ""]
    for link in topology.links:
        latency = "" if link.latency_ms is None else f" {link.latency_ms!r}"
        lines.append(f"{link.a}\t{link.b}{latency}  # a link")
    return "\r\n".join(lines)


def graphml(topology: Topology) -> bytes:
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    ElementTree.SubElement(
        root, "key", {"id": "d0", "for": "edge", "attr.name": "Latency", "attr.type": "double"}
    )
    graph = ElementTree.SubElement(root, "graph", edgedefault="directed")
    for broker in topology.brokers:
        ElementTree.SubElement(graph, "node", id=broker)
    for link in topology.links:
        edge = ElementTree.SubElement(graph, "edge", source=link.a, target=link.b)
        if link.latency_ms is not None:
            ElementTree.SubElement(edge, "data", key="d0").text = repr(link.latency_ms)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


@given(topologies())
def test_files_round_trip(tmp_path_factory: pytest.TempPathFactory, topology: Topology) -> None:
    folder = tmp_path_factory.mktemp("files")
    edges, xml = folder / "edges.txt", folder / "edges.GraphML"
    edges.write_bytes(edge_list(topology).encode())
    xml.write_bytes(graphml(topology))
    assert read_topology(edges) == topology
    assert read_topology(str(xml)) == topology
    assert parse_topology(str(edges)) == topology


def test_a_list_names_brokers_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "edges"
    file.write_bytes(b"\xef\xbb\xbfB1 B0\nB1 B2 2.5\n")
    assert read_topology(file) == Topology(
        ("B1", "B0", "B2"), (Link("B1", "B0"), Link("B1", "B2", 2.5))
    )


GRAPH = '<graph><node id="a"/><node id="b"/><edge source="a" target="b">{}</edge></graph>'


@pytest.mark.parametrize(
    ("keys", "data", "latency"),
    [
        ('<key id="w" for="edge" attr.name="weight"/>', '<data key="w"> 3 </data>', 3.0),
        ('<key id="w" for="edge" attr.name="weight"><default>4</default></key>', "", 4.0),
        ('<key id="w" for="node" attr.name="weight"/>', '<data key="w">3</data>', None),
        ('<key id="w" for="edge" attr.name="colour"/>', '<data key="w">red</data>', None),
        (
            '<key id="w" attr.name="weight"/><key id="l" attr.name="latency_ms"/>',
            '<data key="w">1</data><data key="l">2</data>',
            2.0,
        ),
    ],
)
def test_latencies_of_graphml(tmp_path: Path, keys: str, data: str, latency: float | None) -> None:
    file = tmp_path / "g.xml"
    file.write_text(f"<graphml>{keys}{GRAPH.format(data)}</graphml>")
    assert read_topology(file).links == (Link("a", "b", latency),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "F: there is no broker"),
        (b"# nobody\n\n", "F: there is no broker"),
        (b"B0 B1\nB1 B1\n", "F:2: B1 is linked to itself"),
        (b"B0 B1\n\nB1 B0\n", "F:3: B1 and B0 are linked already"),
        (b"A B\nB C\n# x\nC A 5\n", "F:4: the link C - A closes a cycle: C - B - A - C"),
        (b"A B\nC D\nD E\n", "F:2: the overlay falls into 2 parts: no link leads from A, B to C"),
        (b"A B\nC\n", "F:2: the overlay falls into 2 parts: no link leads from A, B to C"),
        (b"A B\nA C 5 ms\n", "F:2: 4 words; expected B0 B1 [LATENCY_MS]"),
        (b"A B fast\n", "F:1: the latency is 'fast'; expected a number of ms, 0 or more"),
        (b"A B -1\n", "F:1: the latency is '-1'; "),
        (b"A B nan\n", "F:1: the latency is 'nan'; "),
        (b"A B inf\n", "F:1: the latency is 'inf'; "),
        (b"A B\nA C,D\n", "F:2: 'C,D' cannot name a broker; expected signs that can be printed"),
        (b"A \x1b[2J\n", "F:1: '\\x1b[2J' cannot name a broker"),
        (b"A B\nB " + b"x" * 256, "F:2: the name 'xxxxxxxxxxxxxxxxxxxx'... has 256 characters;"),
        (b"A B\nB \xff\n", "F:2: not UTF-8"),
        (b"\xef\xbb\xbfA B\n\xff\n", "F:2: not UTF-8"),
    ],
)
def test_errors_of_lists(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "edges.txt"
    file.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_topology(file)
    assert str(refused.value).replace(str(file), "F").startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<graphml>\n<graph>\n</graphml>", "F:3: the XML does not parse: mismatched tag"),
        (b"", "F:1: the XML does not parse: no element found"),
        (b"<graphml>\n\xff</graphml>", "F:2: the XML does not parse: not well-formed"),
        (b'<?xml version="1.0" encoding="x-none"?><graphml/>', "F:1: the XML does not parse: "),
        (b"<svg/>", "F: <svg>: expected <graphml>"),
        (b"<graphml><graph/></graphml>", "F: there is no broker"),
        (b"<graphml><node/></graphml>", "F: <node>: the attribute id is missing"),
        (b'<graphml><node id="a b"/></graphml>', "F: <node id=\"a b\">: 'a b' cannot name a"),
        (b'<graphml><node id="a"/><node id="a"/></graphml>', 'F: <node id="a">: there is such a'),
        (
            b'<graphml><node id="a"/><edge source="a" target="b"/></graphml>',
            'F: <edge source="a" target="b">: there is no node b',
        ),
        (
            b'<graphml><node id="a"/><edge source="a"/></graphml>',
            "F: <edge>: the attribute target is missing",
        ),
        (
            b'<graphml><node id="a"/><edge source="a" target="a"/></graphml>',
            'F: <edge source="a" target="a">: a is linked to itself',
        ),
        (
            b'<graphml><node id="a"/><node id="b"/><edge source="a" target="b"/>'
            b'<edge source="b" target="a"/></graphml>',
            'F: <edge source="b" target="a">: b and a are linked already',
        ),
        (
            b'<graphml><node id="a"/><node id="b"/><node id="c"/><edge source="a" target="b"/>'
            b'<edge source="b" target="c"/><edge source="a" target="c"/></graphml>',
            'F: <edge source="a" target="c">: the link a - c closes a cycle: a - b - c - a',
        ),
        (
            b'<graphml><node id="a"/><node id="b"/></graphml>',
            'F: <node id="b">: the overlay falls into 2 parts: no link leads from a to b',
        ),
        (
            b'<graphml><key id="w" attr.name="weight"/><node id="a"/><node id="b"/>'
            b'<edge source="a" target="b"><data key="w"/></edge></graphml>',
            'F: <edge source="a" target="b">: the latency is \'\'; expected a number of ms',
        ),
        (b'<graphml><node id="a"/><hyperedge/></graphml>', "F: <hyperedge>: a link joins two"),
    ],
)
def test_errors_of_graphml(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "g.graphml"
    file.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_topology(file)
    assert str(refused.value).replace(str(file), "F").startswith(message)


def test_too_many_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_file, "BROKERS_MAX", 3)
    file = tmp_path / "edges.txt"
    file.write_text("A B\nB C\nC D\nD E\n")
    with pytest.raises(UserError, match=r"edges\.txt:3: more than 3 brokers$"):
        read_topology(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.txt: No such file"):
        read_topology(tmp_path / "none.txt")
    with pytest.raises(UserError, match="directory"):
        parse_topology(str(tmp_path))


# --- from the command line ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "topology"),
    [
        ("chain:5", chain(5)),
        ("star:5", star(5)),
        ("tree:63", balanced_tree(63, 2)),
        ("tree:63:3", balanced_tree(63, 3)),
        ("random:20:7", random_tree(20, 7)),
        ("scale-free:100:0", scale_free_tree(100, 0)),
        ("peer:3x4", peer_clusters(3, 4)),
        ("peer:3x4:balanced", peer_clusters(3, 4, "balanced")),
    ],
)
def test_specs(text: str, topology: Topology) -> None:
    assert parse_topology(text) == topology


@pytest.mark.parametrize(
    "text",
    [
        "",
        "chain",
        "ring:5",
        "chain:",
        "chain:-1",
        "chain:5:1",
        "chain:٣",
        "chain:" + "9" * 5000,
        "random:20",
        "peer:3",
        "peer:3x",
        "missing.txt",
        "x" * 5000,
    ],
)
def test_errors_of_specs_list_the_forms(text: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_topology(text)
    for form in ("chain:5", "star:5", "tree:63:3", "random:20:", "scale-free:", "peer:3x4", "file"):
        assert form in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chain:0", "chain:0: 0 brokers; expected 1 to 100,000"),
        ("star:100001", "star:100001: 100,001 brokers; expected 1 to 100,000"),
        ("random:999999999999:1", "random:999999999999:1: 999,999,999,999 brokers; "),
        ("scale-free:0:1", "scale-free:0:1: 0 brokers; "),
        ("tree:5:0", "tree:5:0: a fan-out of 0; expected 1 or more"),
        ("peer:1x1", "peer:1x1: 1 clusters of 1 edge-brokers; expected "),
        ("peer:0x5", "peer:0x5: 0 clusters of 5 edge-brokers; expected "),
        ("peer:1000x100", "peer:1000x100: 101,000 brokers; expected "),
        ("peer:3x4:ring", "peer:3x4:ring: heads in the shape 'ring'; expected chain, star, bal"),
    ],
)
def test_numbers_that_will_not_do(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_topology(text)
    assert str(refused.value).startswith(message)
