"""`roost topology draw`: in the terminal, to a file, and for programs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.support import Roost


def test_a_tree_in_the_terminal(roost: Roost) -> None:
    ran = roost("topology", "draw", "star:3")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "B0\n├── B1\n└── B2\n\n3 brokers (1 cluster-head, 2 edge-brokers), diameter 2\n"
    )


def test_a_picture_in_a_file(roost: Roost, tmp_path: Path) -> None:
    out = tmp_path / "overlay.svg"
    ran = roost("topology", "draw", "peer:3x4", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"wrote {out}: 15 brokers (3 cluster-heads, 12 edge-brokers)")
    root = ElementTree.parse(out).getroot()
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "peer:3x4"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_names_its_picture(roost: Roost, tmp_path: Path) -> None:
    edges, out = tmp_path / "sites.txt", tmp_path / "sites.svg"
    edges.write_text("a b 2.5\n")
    assert roost("topology", "draw", edges, "--out", out).code == 0
    assert ">sites.txt<" in out.read_text("utf-8")


def test_for_programs(roost: Roost, tmp_path: Path) -> None:
    edges = tmp_path / "sites.txt"
    edges.write_text("a b 2.5\nb c\n")
    ran = roost("topology", "draw", edges, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    assert ran.json == {
        "brokers": ["a", "b", "c"],
        "links": [
            {"a": "a", "b": "b", "latency_ms": 2.5},
            {"a": "b", "b": "c", "latency_ms": None},
        ],
        "roles": {"a": "edge", "b": "head", "c": "edge"},
        "centre": "b",
        "diameter": 2,
    }


def test_a_picture_and_facts_at_once(roost: Roost, tmp_path: Path) -> None:
    out = tmp_path / "overlay.svg"
    ran = roost("topology", "draw", "chain:2", "--out", out, "--json")
    assert ran.json["roles"] == {"B0": None, "B1": None}
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring:5",), "error: 'ring:5' is neither a topology nor a file; the forms are:\n"),
        (("chain:0",), "error: chain:0: 0 brokers; expected 1 to 100,000\n"),
        (("chain:3", "--out", "x.png"), "error: x.png: the picture is SVG; expected a file that"),
        (("chain:3", "--out", "none/x.svg"), "error: none/x.svg: No such file or directory\n"),
    ],
)
def test_bad_input(
    roost: Roost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = roost("topology", "draw", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)


def test_a_bad_file_says_the_line(roost: Roost, tmp_path: Path) -> None:
    edges = tmp_path / "sites.txt"
    edges.write_text("a b\nb c\nc a\n")
    ran = roost("topology", "draw", edges)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {edges}:3: the link c - a closes a cycle: c - b - a - c\n"


def test_help_lists_the_forms(roost: Roost) -> None:
    out = roost("topology", "draw", "--help").out
    for form in ("chain:5", "star:5", "tree:63:3", "random:20:7", "scale-free:100:7", "peer:3x4"):
        assert form in out
