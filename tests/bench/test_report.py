"""A benchmark writes its own section of a report, and nothing else."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from roost.bench.report import HEADING, Result, Table, markdown, with_section, write
from roost.errors import UserError

DAY = datetime.date(2026, 3, 14)
RESULT: Result = {
    "bench": "match",
    "config": {
        "commit": "abc123",
        "seed": 7,
        "machine": {"cpu": "Abacus", "cores": 2, "python": "3", "numpy": "2", "numba": "0"},
    },
    "results": {},
    "ratios": {},
}


def table(key: str, figure: str) -> Table:
    return Table(key, f"Title of {key}", ["what", "figure"], [["speed", figure]], ["A note."])


def test_a_section_says_where_it_was_measured() -> None:
    assert markdown(table("match/a|b", "1"), "Here.") == (
        "## Title of match/a|b\n\nHere.\n\n"
        "| what | figure |\n| --- | ---: |\n| speed | 1 |\n\n- A note.\n"
    )
    assert "x\\|y" in markdown(table("k", "x|y"), "Here.")


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "BENCHMARKS.md"
    write(path, table("match/stock", "1"), RESULT, DAY)
    text = path.read_text("utf-8")
    assert text.startswith(HEADING)
    assert "Commit abc123, 2026-03-14, Abacus (2 cores), Python 3" in text
    assert "| speed | 1 |" in text


def test_only_the_own_section_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "BENCHMARKS.md"
    path.write_text("# Mine\n\nBefore.\n", "utf-8")
    write(path, table("match/stock/10", "1"), RESULT, DAY)
    write(path, table("match/stock/100", "2"), RESULT, DAY)
    path.write_text(path.read_text("utf-8") + "\nAfter.\n", "utf-8")
    before = path.read_text("utf-8")
    write(path, table("match/stock/10", "one"), RESULT, DAY)
    after = path.read_text("utf-8")
    assert after == before.replace("| speed | 1 |", "| speed | one |")
    write(path, table("match/stock/10", "one"), RESULT, DAY)
    assert path.read_text("utf-8") == after


def test_a_section_without_end_is_not_guessed_at() -> None:
    with pytest.raises(UserError, match="end of bench: k"):
        with_section("<!-- bench: k -->\nold\n", "k", "new\n")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        write(tmp_path / "nowhere" / "x.md", table("k", "1"), RESULT, DAY)
    (tmp_path / "latin.md").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        write(tmp_path / "latin.md", table("k", "1"), RESULT, DAY)
