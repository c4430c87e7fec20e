"""The benchmark of moves: small, with real brokers, and what it makes of what went wrong."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from roost.bench import moves
from roost.bench.moves import Moved, Played
from roost.bench.report import Result
from roost.cli import bench
from roost.errors import UserError


def test_ten_moves_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "REST_S", 0.05)
    steps: list[str] = []
    result = moves.run(10, 7, steps.append, brokers=3, publishers=2, rate=100.0)
    figures = result["results"]
    assert steps == [
        "3 brokers start",
        *(f"move {number}" for number in range(1, 11)),
        "all must arrive",
    ]
    assert figures["moves_finished"] == figures["moves_migrated"] == 10
    assert figures["moves_abandoned"] == 0
    assert figures["moves_over_1"] + figures["moves_over_2"] == 10
    assert figures["published"] > 10
    assert moves.is_clean(result)
    assert 0 < figures["pause_p50_ms"] <= figures["pause_p99_ms"] <= figures["pause_max_ms"]
    assert figures["pause_max_ms"] < figures["move_max_ms"]
    table = moves.table(result)
    assert [row[:2] for row in table.rows][-1] == ["all", "10"]
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "0 lost, 0 doubled, 0 reordered" in table.notes[-1]


def result_of(**wrong: int) -> Result:
    counts = {"lost": 0, "doubled": 0, "reordered": 0, **wrong}
    found = [Moved(1, 0.020, 0.002), Moved(3, 0.040, 0.010), Moved(3, 10.0, None)]
    played = Played(moves=found, migrated=1, seconds=2.0, published=100, received=500, **counts)
    config = {"brokers": 5, "publishers": 4, "subscribers": 5, "rate_per_s": 200.0}
    return {"bench": "moves", "config": config, **moves._figures(played)}  # type: ignore[typeddict-item]


def test_the_figures() -> None:
    result = result_of()
    figures = result["results"]
    assert figures["moves_finished"] == 2
    assert figures["moves_abandoned"] == 1
    assert figures["pause_max_ms"] == figures["pause_p50_ms_over_3"] == 10.0
    assert figures["events_per_s"] == 50.0
    assert result["ratios"] == {"pause_over_3_links_to_1": 5.0}
    assert [row[0] for row in moves.table(result).rows] == ["1 link", "3 links", "all"]


@pytest.mark.parametrize("what", ["lost", "doubled", "reordered"])
def test_what_is_wrong_is_told(what: str) -> None:
    assert moves.is_clean(result_of())
    result = result_of(**{what: 3})
    assert not moves.is_clean(result)
    assert f"3 {what}" in moves.table(result).notes[-1]


def test_there_must_be_somewhere_to_go() -> None:
    with pytest.raises(UserError, match="expected 2 or more"):
        moves.run(1, 7, brokers=1)


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
def test_the_exit_code(lost: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    result = result_of(lost=lost)
    monkeypatch.setattr(moves, "run", lambda *_, **__: result)
    app = typer.Typer()
    bench.register(app)
    ran = CliRunner().invoke(app, ["bench", "moves", "--json"])
    assert ran.exit_code == code
    assert json.loads(ran.stdout) == result
