"""README and CONTRIBUTING: figures are those of the benchmarks, the picture is ours, counts are right."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from roost.bench.demo.report import Report
from roost.pictures.before_after import SMALLEST
from tests.bench.test_demo import figures as figures_of
from tests.docs.blocks import ROOT, blocks_of

README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
# What a page shows of a line of code, before it has to be pushed aside.
COLUMNS = 98
COUNTS = {"One": 1, "Three": 3, "Four": 4, "Seven": 7}


def section(text: str, title: str) -> str:
    _, there, below = text.partition(f"\n## {title}\n")
    assert there, title
    return below.partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The rows of the first table, without its heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_what_is_measured_is_what_the_benchmarks_say() -> None:
    measured = (ROOT / "docs" / "BENCHMARKS.md").read_text("utf-8")
    found = rows(section(README, "What is measured"))
    assert len(found) == 8
    for what, figure, _ in found:
        assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,])", measured), (what, figure)


def test_the_picture_is_of_the_demo() -> None:
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", README)
    root = ElementTree.parse(ROOT / name).getroot()
    words = [element.text or "" for element in root.iter() if element.text]
    assert words[0].strip() == "" or "federation" in words[0]
    assert "before" in words
    assert "after" in words
    assert any(
        word.endswith("0 lost, 0 doubled, 0 reordered. Computed by Spark from the brokers' traces.")
        for word in words
    )


def test_the_picture_says_what_the_demo_says_today() -> None:
    """In the words of its table; a share has no change in per cent of per cent."""
    figures = {"before": figures_of(100.0, 0.010), "after": figures_of(50.0, 0.007)}
    drawn = (ROOT / "docs" / "before-after.svg").read_text("utf-8")
    for line in Report(figures, {}).lines:
        label = f"{line.what} ({line.unit})" if line.unit else line.what
        _, there, below = drawn.partition(f">{label}<")
        assert there, label
        *_, change = re.findall(r">([^<\n]*)</text>", below)[:3]
        assert bool(change) == (line.unit != "%"), label


def test_code_is_seen_to_its_end() -> None:
    lines = [line for block in blocks_of(ROOT / "README.md") for line in block.text.splitlines()]
    assert len(lines) > 100
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_words_of_the_picture_can_be_read() -> None:
    """A page shows it at three quarters of its size."""
    drawn = (ROOT / "docs" / "before-after.svg").read_text("utf-8")
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', drawn)]
    assert len(sizes) > 90
    assert min(sizes) >= SMALLEST


def test_every_kind_of_user_has_a_door() -> None:
    assert len(rows(section(README, "Whose door is which"))) == 5


@pytest.mark.parametrize("title", ["An operator of the content language", "A message"])
def test_so_many_files(title: str) -> None:
    text = section(CONTRIBUTING, title)
    said = COUNTS[text.split()[0]]
    assert len(rows(text)) == said
    linked = re.findall(r"^\| \[([^\]]+)\]", text, re.M)
    assert len(linked) == said
