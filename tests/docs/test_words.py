"""What people read calls the papers by their authors: a number such as 000 says nothing to anybody."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.experiments import EXPERIMENTS
from roost.experiments.page import page
from roost.experiments.report import Report
from roost.papers import CODE, PAPERS, cited
from tests.cli.support import Roost, make_roost
from tests.docs.blocks import ROOT
from tests.docs.commands import pages

# The one place that says which is which.
EXPLAINED = "PAPERS.md"


def alone(text: str) -> list[str]:
    """The lines in which a paper is a number."""
    return [line for line in text.splitlines() if CODE.search(line)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("000 section 5.1", "Cheung & Jacobsen, section 5.1"),
        ("(001 fig 5.3)", "(Cheung's thesis, fig 5.3)"),
        ("as 002's T, or 003: x", "as Di Nitto et al.'s T, or Amadoru et al.: x"),
        ("004.", "Li et al.."),
        ("004 IV.B", "Li et al., IV.B"),
        ("001 sec 4.2.3; 003 graph 1", "Cheung's thesis, sec 4.2.3; Amadoru et al., graph 1"),
    ],
)
def test_numbers_become_names(text: str, shown: str) -> None:
    assert alone(text)
    assert cited(text) == shown


@pytest.mark.parametrize(
    "text", ["10,000", "0.001", "2,001", "part-000", "000017", "1:002", "B/000", "005", "5.000 s"]
)
def test_other_numbers_stay(text: str) -> None:
    assert not alone(text)


# What they say of papers is shown by `cited` only.
CITED = ("papers.py", "experiments", "pipeline/workload/registry.py")


def sources() -> Iterator[Path]:
    ours = ROOT / "src" / "roost"
    for path in sorted(ours.rglob("*.py")):
        if not path.relative_to(ours).as_posix().startswith(CITED):
            yield path


def strings_of(path: Path) -> Iterator[str]:
    """The texts of a module that somebody may get to see: all but what documents it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        # A docstring is an expression that nobody uses.
        inner = [] if isinstance(node, ast.Expr) else ast.iter_child_nodes(node)
        for part in inner:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def test_what_programs_may_say() -> None:
    found = {str(path): alone("\n".join(strings_of(path))) for path in sources()}
    assert len(found) > 300
    assert {name: lines for name, lines in found.items() if lines} == {}


def documents() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    yield from (path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != EXPLAINED)


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: path.name)
def test_documents(path: Path) -> None:
    assert alone(path.read_text("utf-8")) == []


def test_the_page_of_papers_has_them_all() -> None:
    text = (ROOT / "docs" / EXPLAINED).read_text("utf-8")
    for code, paper in PAPERS.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| {code} "))
        assert paper.short in row
        assert paper.title in row
        assert str(paper.year) in row
        assert paper.authors.rpartition(" and ")[2] in row


@pytest.mark.parametrize(("name", "command"), list(pages()))
def test_pages_of_help(name: str, command: object) -> None:
    said = (getattr(command, part, None) or "" for part in ("help", "epilog", "short_help"))
    options = (getattr(option, "help", None) or "" for option in getattr(command, "params", ()))
    assert [line for text in (*said, *options) for line in alone(text)] == [], name


@pytest.mark.parametrize(
    "words",
    [
        ("sim", "generate"),
        ("experiment", "list"),
        ("pipeline", "workload"),
        ("broker", "--print-config"),
    ],
)
def test_what_commands_list(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    roost: Roost = make_roost(capsys, monkeypatch)
    ran = roost(*words)
    assert (ran.code, alone(ran.out)) == (0, [])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_pages_of_experiments(name: str) -> None:
    """Without any cell: claims, charts and findings are there all the same."""
    experiment = EXPERIMENTS[name]
    scale = next(iter(experiment.scales.values()))
    assert alone(page(Report(experiment, scale, (0,), []))) == []
