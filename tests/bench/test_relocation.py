"""The benchmark of relocation: its brokers, its figures, its table."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from roost.bench import relocation
from roost.bench.relocation import TRACE, answers_of, run, sizes_up_to, table
from roost.overlay.topologies import balanced_tree
from roost.relocation import Goal, choose_broker, literal
from tests.cli.support import make_roost


def test_what_is_measured_gives_the_same_answers() -> None:
    answers = answers_of(balanced_tree(63), np.random.default_rng(1))
    choice = choose_broker(answers, "B62", TRACE, Goal("load", 100))
    expected = literal.predictions(answers, {})
    assert choice.chosen.load_per_s == pytest.approx(
        min(messages for _, messages in expected.values()) * TRACE.per_s
    )
    assert 0 < sum(not answer.deliveries for answer in answers) < 63
    assert len({delay for delay, _ in expected.values()}) == 63


def test_sizes() -> None:
    assert sizes_up_to(10_000) == (15, 63, 255, 1_023, 10_000)
    assert sizes_up_to(63) == (15, 63)
    assert sizes_up_to(1) == (1,)


def test_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocation, "LITERAL_MAX", 15)
    result = run((7, 15, 31), seed=1, budget_s=0.001)
    assert result["bench"] == "relocation"
    names = ("decision_ms", "predictions_ms", "remembering_ms", "subscribers_ms", "peak_kb")
    assert set(result["results"]) == {
        *(f"{name}_at_{n}" for name in names for n in (7, 15, 31)),
        "literal_ms_at_7",
        "literal_ms_at_15",
        "chain_ms_at_31",
    }
    assert set(result["ratios"]) == {
        "literal_over_rerooting_at_7",
        "literal_over_rerooting_at_15",
        "time_a_broker_31_over_7",
        "chain_over_balanced",
    }
    assert all(value > 0 for value in (*result["results"].values(), *result["ratios"].values()))
    shown = table(result)
    assert shown.columns == ["brokers", "7", "15", "31"]
    assert all(len(row) == 4 for row in shown.rows)
    assert shown.rows[3][-1] == ""  # not measured
    assert sum("at 15 brokers" in note for note in shown.notes) == 1


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    roost = make_roost(capsys, monkeypatch)
    monkeypatch.setattr(relocation, "run", functools.partial(run, budget_s=0.001))
    ran = roost("bench", "relocation", "--brokers", 15, "--seed", 3, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    assert list(ran.json) == ["bench", "config", "results", "ratios"]
    assert ran.json["config"]["seed"] == 3
    for_people = roost("bench", "relocation", "--brokers", 15)
    assert "GRAPE's decision" in for_people.out
    assert roost("bench", "relocation", "--brokers", 0).code == 2
