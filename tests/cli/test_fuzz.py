"""`roost fuzz frames`: what it shows and how it exits. What it does is tested in `tests/runtime`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from roost.cli import fuzz
from roost.runtime import frame_fuzz_run
from roost.runtime.frame_fuzz_run import Report

WELL = Report(
    seed=7,
    rounds=3,
    frames=20_801,
    connections=576,
    refused=460,
    reasons=126,
    exchanged=145,
    memory_before_bytes=218_000_000,
    memory_after_bytes=230_000_000,
    serves=True,
    wall_s=5.2,
)
UNWELL = Report(
    seed=7,
    frames=100,
    lost=3,
    hangs=1,
    violations=["3 well-behaved events have not arrived in 10 s"],
    failed_seed=9,
    failed_stream=17,
)


def invoke(monkeypatch: pytest.MonkeyPatch, report: Report, *arguments: str) -> tuple[int, str]:
    async def run(*_: Any, **__: Any) -> Report:
        return report

    monkeypatch.setattr(frame_fuzz_run, "run", run)
    app = typer.Typer()
    fuzz.register(app)
    result = CliRunner().invoke(app, ["fuzz", "frames", *arguments])
    return result.exit_code, result.output


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = invoke(monkeypatch, WELL)
    assert code == 0
    for text in ("20,801", "218 MB, 230 MB", "no violations", "20,801 frames in 5 s"):
        assert text in out
    assert "replay" not in out


def test_a_violation_is_shown_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, out = invoke(monkeypatch, UNWELL)
    assert code == fuzz.EXIT_VIOLATIONS
    assert "3 well-behaved events have not arrived" in out
    assert "replay: roost fuzz frames --seed 9 --count 1 --stream 17" in out
    assert "not judged" in out  # the memory


@pytest.mark.parametrize("report", [WELL, UNWELL])
def test_json(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    code, out = invoke(monkeypatch, report, "--json")
    said = json.loads(out)
    assert code == bool(report.violations)
    assert said["frames"] == report.frames
    assert said["replay"] == report.replay
    assert said["violations"] == report.violations
