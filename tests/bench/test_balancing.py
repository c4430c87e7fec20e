"""The benchmark of load balancing: its brokers, its figures, its table."""

from __future__ import annotations

import functools

import pytest

from roost.balancing import Action, choose
from roost.balancing.offload.literal import choose_literally
from roost.bench import balancing
from roost.bench.balancing import CONFIG, brokers_of, run, sizes_up_to, spectrum_of, table
from tests.cli.support import make_roost


@pytest.fixture(autouse=True)
def small_market(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time is making the quotes."""
    monkeypatch.setattr(balancing, "PUBLISHERS", 4)


@pytest.mark.parametrize("action", list(Action))
def test_what_is_measured_gives_the_same_answers(action: Action) -> None:
    spectrum = spectrum_of(60, 1)
    own, other = brokers_of(spectrum)
    ours = choose(action, own, other, spectrum, CONFIG)
    printed = choose_literally(action, own, other, spectrum, CONFIG)
    assert [(c.subscription, c.subscribers) for c in ours.cards] == [
        (c.subscription, c.subscribers) for c in printed.cards
    ]
    assert ours.clients


def test_sizes() -> None:
    assert sizes_up_to(10_000) == (300, 1_000, 3_000, 10_000)
    assert sizes_up_to(300) == (300,)


def test_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "LITERAL_MAX", 20)
    result = run((20, 40, 80), seed=1, budget_s=0.001)
    assert result["bench"] == "balancing"
    per_action = {
        f"{action}_{what}" for action in Action for what in ("ms", "again_ms", "clients", "cards")
    }
    names = {"distinct", "covering_ms", *per_action}
    assert set(result["results"]) == {
        *(f"{name}_at_{n}" for name in names for n in (20, 40, 80)),
        *(f"literal_{action}_ms_at_20" for action in Action),
    }
    assert set(result["ratios"]) == {
        *(f"literal_over_{action}_at_20" for action in Action),
        *(f"{action}_a_subscription_80_over_40" for action in Action),
    }
    shown = table(result)
    assert shown.columns == ["subscriptions", "20", "40", "80"]
    assert all(len(row) == 4 for row in shown.rows)
    assert sum("at 20 subscriptions" in note for note in shown.notes) == 3


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    roost = make_roost(capsys, monkeypatch)
    monkeypatch.setattr(balancing, "run", functools.partial(run, budget_s=0.001))
    ran = roost("bench", "balancing", "--subscriptions", 30, "--seed", 3, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    assert list(ran.json) == ["bench", "config", "results", "ratios"]
    assert ran.json["config"]["seed"] == 3
    assert roost("bench", "balancing", "--subscriptions", 0).code == 2
