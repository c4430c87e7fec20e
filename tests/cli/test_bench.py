"""`roost bench`: what is printed, and what is written. Nothing here depends on how fast it is."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from roost.bench import match, sim
from roost.cli import bench
from tests.cli.support import Roost

SMALL = ("bench", "match", "--workload", "stock", "--subscriptions", 60, "--events", 10)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "start_up_s", lambda: 0.5)
    monkeypatch.setattr(match, "resident_growth", lambda *_: None)
    monkeypatch.setattr(match, "run", functools.partial(match.run, budget_s=0.01))


def test_for_people(roost: Roost) -> None:
    ran = roost(*SMALL, "--churn", 500)
    assert (ran.code, ran.err) == (0, "")
    assert "Match: stock, 60 subscriptions" in ran.out
    for word in ("index", "scan", "naive", "events/s", "subscriptions replaced a second", "seed 7"):
        assert word in ran.out


def test_for_programs(roost: Roost) -> None:
    ran = roost(*SMALL, "--seed", 3, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    assert list(ran.json) == ["bench", "config", "results", "ratios"]
    assert ran.json["config"]["seed"] == 3
    assert all(isinstance(figure, int | float) for figure in ran.json["results"].values())


@pytest.mark.long
def test_without_a_command_all_run(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = (("bluedove", 40, 0), ("stock", 50, 0), ("stock", 60, 100))
    monkeypatch.setattr(bench, "MATCH_RUNS", runs)
    monkeypatch.setattr(bench, "EVENTS", 10)
    monkeypatch.setattr(bench, "POSET_SUBSCRIPTIONS", 70)
    monkeypatch.setattr(bench, "SIM_BROKERS", 3)
    monkeypatch.setattr(bench, "SIM_SUBSCRIBERS", 80)
    monkeypatch.setattr(sim, "RUNS", 1)
    monkeypatch.setattr(sim, "run", functools.partial(sim.run, grow=False, slice_hops=20))
    ran = roost("bench", "--json")
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    assert ran.json["bench"] == "all"
    assert [run["subscriptions"] for run in ran.json["config"]["runs"]] == [40, 50, 60, 70, 80]
    assert {name.rpartition("/")[0] for name in ran.json["ratios"]} == {
        "poset/stock/70",
        "sim/tree/80",
        *(f"match/{workload}/{n}" for workload, n, _ in runs),
    }


def test_the_poset(roost: Roost) -> None:
    ran = roost("bench", "poset", "--subscriptions", 200)
    assert (ran.code, ran.err) == (0, "")
    for word in (
        "Poset: stock, up to 200 subscriptions",
        "inserted/s",
        "covering subscription set",
    ):
        assert word in ran.out


def test_writing_replaces_the_own_section_only(roost: Roost, tmp_path: Path) -> None:
    path = tmp_path / "BENCHMARKS.md"
    path.write_text("# Ours\n\nAn introduction.\n", "utf-8")
    assert roost(*SMALL, "--write", path).code == 0
    other = ("bench", "match", "--subscriptions", 30, "--events", 10)
    assert roost(*other, "--write", path).code == 0
    whole = path.read_text("utf-8")
    ran = roost(*SMALL, "--seed", 8, "--write", path, "--json")
    assert list(ran.json) == ["bench", "config", "results", "ratios"]
    again = path.read_text("utf-8")
    assert again.startswith("# Ours\n\nAn introduction.\n")
    for key, changed in (("match/stock/60", True), ("match/bluedove/30", False)):
        opening, closing = f"<!-- bench: {key} -->", f"<!-- end of bench: {key} -->"
        before, after = (
            text.partition(opening)[2].partition(closing)[0] for text in (whole, again)
        )
        assert before
        assert after
        assert (before != after) == changed
    assert again.count("<!-- bench: ") == 2


def test_a_report_that_cannot_be_written_is_refused_first(roost: Roost, tmp_path: Path) -> None:
    ran = roost(*SMALL, "--write", tmp_path / "nowhere" / "x.md")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no folder" in ran.err
    assert roost("bench", "--write", tmp_path / "nowhere" / "x.md").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "--workload", "other"),
        ("match", "--subscriptions", "0"),
        ("match", "--subscriptions", "many"),
        ("match", "--events", "-1"),
        ("match", "--churn", "-1"),
        ("match", "--seed", "-1"),
        ("nothing",),
        ("--json", "match"),
    ],
)
def test_bad_arguments(roost: Roost, arguments: tuple[str, ...]) -> None:
    ran = roost("bench", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("error:") == 1
