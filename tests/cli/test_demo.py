"""`roost demo`, and the help of every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from roost.broker.story import Chapter
from roost.cli import demo
from roost.cli import demo_federation as federation
from roost.cli import demo_live as live
from roost.cli import demo_pipeline as pipeline
from roost.language import contradictions
from roost.matching import Naive
from roost.simulation.fuzz import Scenario, fuzz
from roost.simulation.run import Checks
from roost.simulation.statements import CrashBroker
from roost.simulation.world import World
from tests.cli.support import Roost

TRY_NEXT = [line for line in demo.NEXT.splitlines() if "covers" in line or "topology" in line]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SPEED_SUBSCRIPTIONS", 100)
    monkeypatch.setattr(demo, "SPEED_EVENTS", 10)
    monkeypatch.setattr(demo, "SPEED_BUDGET_S", 0.01)
    monkeypatch.setattr(live, "EVENTS", 200)
    monkeypatch.setattr(live, "KILLS", 1)
    monkeypatch.setattr(live, "CHAOS_EVENTS", 2_000)
    # tests/pipeline/test_demo.py runs it, where there is a session.
    monkeypatch.setattr(pipeline, "show_pipeline", lambda _: None)


@pytest.fixture
def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what comes before them."""
    monkeypatch.setattr(live, "show_federation", lambda _: None)
    monkeypatch.setattr(live, "show_chaos", lambda _: None)
    monkeypatch.setattr(pipeline, "show_pipeline", lambda _: None)


@pytest.mark.usefixtures("hurried")
def test_the_demo_shows_everything(roost: Roost) -> None:
    ran = roost("demo")
    assert (ran.code, ran.err) == (0, "")
    for words in (
        "12 subscriptions",
        "10 events, and who gets them",
        "Why swing gets event 0",
        "Why yahoo-dip does not get event 4",
        "30.62 is not less than 30.5",
        "How fast",
        "    subscribe sub2/1 a > 9    sub2 -> B3 -> B2\n",  # and no farther: sub1's covers it
        "    subscribe sub2/1 a > 9    B2 -> B1\n    unsubscribe sub1/1        B2 -> B1\n",
        "    publish P:3 [a,3]         P -> B1\n",
        f"random scenario {federation.SEED}",
        "  checked         lost 0, doubled 0, reordered 0, unwanted 0,",
        "seven brokers are up and linked",
        "and got 100, each once and in order",
        "kill -9 of B0",
        "durable subscribers: 0 lost, 0 doubled, 0 out of order",
        "What to try next",
        "roost match --subscriptions subscriptions.ndjson --events events.ndjson",
        f"roost sim fuzz --first {federation.SEED} --seeds 1",
    ):
        assert words in ran.out
    assert max(map(len, ran.out.splitlines())) <= 110


@pytest.mark.usefixtures("hurried", "without_processes")
def test_a_narrow_window_is_no_trouble(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert roost("demo").code == 0


def test_the_sample_is_worth_showing() -> None:
    subscriptions, events = demo.sample()
    naive = Naive()
    for position, subscription in enumerate(subscriptions.values()):
        assert not any(map(contradictions, subscription.filters))
        naive.add(position, subscription)
    matched = [set(naive.match(event).tolist()) for event in events]
    assert set().union(*matched) == set(range(len(subscriptions))), "everyone gets something"
    assert set() in matched, "not everything is wanted"
    ids = list(subscriptions)
    assert ids.index(demo.MATCH[0]) in matched[demo.MATCH[1]]
    assert ids.index(demo.NEAR_MISS[0]) not in matched[demo.NEAR_MISS[1]]


def test_the_figure_is_told_in_steps() -> None:
    steps = federation.steps_of(demo.text(federation.FIGURE))
    assert [(step.title[:2], step.at) for step in steps] == [(f"{n}:", n) for n in range(1, 7)]


def test_whoever_says_the_same_in_turn_shares_a_row() -> None:
    said = [
        ("P", "B1", "x"),
        ("B1", "B2", "x"),
        ("B1", "B3", "x"),
        ("B1", "B2", "y"),
        ("P", "B1", "x"),
    ]
    chapters = [Chapter(0.0, who, to, "publish", "", text, "") for who, to, text in said]
    assert federation.account(chapters) == [
        ("publish x", "P -> B1 -> B2, B1 -> B3"),
        ("publish y", "B1 -> B2"),
        ("publish x", "P -> B1"),
    ]


def test_the_scenario_is_worth_showing() -> None:
    statements = Scenario(federation.SEED).statements
    crashes = [s for s in statements if isinstance(s, CrashBroker)]
    assert crashes
    assert all(s.keep_store for s in crashes), "a lost store would make promises void"
    assert f"{len(crashes)} crashes" in federation.happenings(statements)
    assert federation.inventory(statements)[0].endswith(" brokers")


@pytest.mark.usefixtures("hurried", "without_processes")
def test_what_checkers_find_is_shown(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int) -> tuple[Scenario, World, Checks]:
        scenario, world, checks = fuzz(seed)
        return scenario, world, replace(checks, lost=1, violations=("P1:1 never reached S1",))

    monkeypatch.setattr("roost.simulation.fuzz.fuzz", broken)
    ran = roost("demo")
    assert "  checked         lost 1, doubled 0" in ran.out
    assert "P1:1 never reached S1" in ran.out


def test_the_files_can_be_saved_and_matched(roost: Roost, tmp_path: Path) -> None:
    assert roost("demo", "--save", tmp_path).code == 0
    subscriptions, events = (tmp_path / name for name in demo.FILES)
    ran = roost("match", "--subscriptions", subscriptions, "--events", events)
    assert ran.code == 0
    assert len(ran.ndjson) == 10
    ran = roost("demo", "--save", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {subscriptions} is there already; choose another folder\n"
    ran = roost("demo", "--save", tmp_path / "nowhere")
    assert ran == (2, "", f"error: {tmp_path / 'nowhere'}: No such file or directory\n")


@pytest.mark.parametrize("line", TRY_NEXT)
def test_what_to_try_next_works(roost: Roost, line: str) -> None:
    import shlex

    assert roost(*shlex.split(line)[1:]).code == 0


@pytest.mark.parametrize("command", ["demo", "match", "explain", "covers", "bench", "bench match"])
def test_every_help_has_an_example(roost: Roost, command: str) -> None:
    ran = roost(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Examples:" in ran.out
    assert f"roost {command}" in ran.out.partition("Examples:")[2]


def test_the_demo_as_a_process() -> None:
    command = [sys.executable, "-m", "roost", "demo", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert "roost demo --save ." in ran.stdout
