"""Experiments as a whole: cells, claims, the page, what is kept; and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from statistics import fmean

import msgspec
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from roost.cli import experiment as command
from roost.errors import UserError
from roost.experiments import EXPERIMENTS, find_experiment
from roost.experiments.frame import (
    Claim,
    Experiment,
    Results,
    at_least,
    at_most,
    reduction,
)
from roost.experiments.page import page
from roost.experiments.relocation.clustered_cells import less
from roost.experiments.relocation.weights import against
from roost.experiments.report import Report
from roost.experiments.running import grid_cells, run_experiment, scale_of, show_experiment
from roost.pictures.charts import Series
from roost.pipeline.sweeps.tasks import BREACHES, Value
from tests.experiments.kit import TINY, here, result
from tests.pictures.test_charts import chart

SHAPE = {"experiment", "scale", "seeds", "claims", "checks"}
CLAIM = {"id", "what", "paper", "ours", "unit", "holds"}


def small(name: str = "relocation-random") -> Experiment:
    return replace(EXPERIMENTS[name], scales={TINY.name: TINY})


def of_two_variants(**more: Sequence[Value]) -> Experiment:
    """With fewer cells."""
    grids = EXPERIMENTS["relocation-random"].grids
    axes = {"variant": ["baseline", "load100"], **more}
    return replace(small(), grids=lambda scale, given: [{**g, **axes} for g in grids(scale, given)])


# --- the frame ------------------------------------------------------------------------------------


def test_results_are_asked_for_by_parameters() -> None:
    results = Results(
        [
            result({"x": x, "kind": kind}, seed, y=x * factor + seed)
            for x in (1, 2)
            for kind, factor in (("a", 10), ("b", 5))
            for seed in (0, 1)
        ]
    )
    assert results.where(kind="a", x=2).mean("y") == 20.5
    assert results.parameter("x") == [1, 2]
    assert reduction(results.where(kind="a"), results.where(kind="b"), "y") == pytest.approx(
        100 * (1 - 8 / 15.5)
    )
    assert results.where(kind="c").mean("y") != results.where(kind="c").mean("y")  # NaN


def test_figures_with_numbers_in_their_names_are_a_line() -> None:
    results = Results([result({}, seed, y_at_10=1 + seed, y_at_5=3, y_at_end=9) for seed in (0, 1)])
    assert results.line("y", "y_at_") == Series("y", ((5.0, 3.0), (10.0, 1.5)))


def test_a_claim_without_a_figure_does_not_hold() -> None:
    for claim in (at_least("1", "x", nan, 0), at_most("1", "x", nan, 0)):
        assert claim.ours is None
        assert not claim.holds
    assert at_least("1", "x", 5, 5).holds
    assert not at_most("1", "x", 5.01, 5).holds


def test_steps_against_a_fall() -> None:
    assert against([3.0, 2.0, 2.0, 1.0]) == 0.0
    assert against([2.0, 1.0, 1.1]) == pytest.approx(10.0)


def test_reductions_are_those_of_the_same_spread() -> None:
    cells = [
        result({"spread": x, "variant": v}, 0, delay_ms=d)
        for x, v, d in ((1, "baseline", 10), (1, "pop", 4), (2, "baseline", 10), (2, "pop", 9))
    ]
    assert less(Results(cells), "pop", 1, "delay_ms") == pytest.approx(60.0)


def test_claims_have_intervals_where_they_are_means_over_seeds() -> None:
    def claims(results: Results) -> list[Claim]:
        values = results.values("y")
        return [
            at_least("1", "a mean", results.mean("y"), 0),
            at_least("1", "a share of the seeds", 100 * (fmean(y > 10 for y in values)), 0),
            at_most("1", "how far they are apart", max(values) - min(values), 9),
        ]

    experiment = replace(small(), claims=claims, charts=lambda _: [])
    cells = [result({}, seed, y=y) for seed, y in enumerate((10.0, 12.0, 11.0))]
    report = Report(experiment, TINY, (0, 1, 2), cells)
    mean, share, apart = report.claims
    assert mean.interval == pytest.approx((8.516, 13.484), abs=0.001)
    assert (share.interval, apart.interval) == (None, None)
    assert "8.52 to 13.5" in page(report)
    assert report.as_dict()["claims"][0]["interval"] == mean.interval
    assert Report(experiment, TINY, (0,), cells[:1]).claims[0].interval is None


# --- the page --------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else_and_says_what_failed() -> None:
    claim = at_most("000 fig 9", "<b>", 7.5, 5, paper=3)
    experiment = replace(
        small(),
        claims=lambda _: [claim],
        charts=lambda _: [chart(Series("one", ((1, 2.0),)))],
        findings=lambda _: ["A & B"],
    )
    failed = msgspec.structs.replace(result({}, 1), status="failed", error="Boom: x")
    report = Report(experiment, TINY, (0, 1), [result({}, 0, delivered=5, lost=2), failed])
    html = page(report)
    assert "&lt;b&gt;" in html
    assert "A &amp; B" in html
    assert 'class="no"' in html
    assert "2 lost" in html
    assert "1 of 2 cells failed" in html
    assert "<script" not in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert not report.holds


# --- running --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_cells_and_survives_having_no_figures(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for scale in experiment.scales.values():
        cells = grid_cells(experiment, scale, range(2), {})
        assert len({cell.id for cell in cells}) == len(cells)
    nothing = Report(experiment, TINY, (0,), [])
    assert not any(claim.holds for claim in nothing.claims)
    assert page(nothing)


def test_an_experiment_runs_is_kept_goes_on_and_is_shown_again(tmp_path: Path) -> None:
    experiment = of_two_variants()
    report = run_experiment(experiment, TINY, [3], tmp_path, here)
    assert report.cells == 8  # four spreads, two variants
    assert not report.failed
    assert report.checks["delivered"] > 0
    assert not any(report.checks[name] for name in BREACHES)
    whole = json.loads((tmp_path / "claims.json").read_bytes())
    assert SHAPE <= whole.keys()
    assert all(CLAIM <= claim.keys() for claim in whole["claims"])
    assert len(pq.read_table(tmp_path / "cells")) == 8
    charts = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert len(charts) == len(report.charts)
    first = (tmp_path / "index.html").read_text()
    (tmp_path / "index.html").unlink()
    again = show_experiment(tmp_path, lambda _: experiment)
    assert again.as_dict() == report.as_dict()
    assert (tmp_path / "index.html").read_text() == first

    # What it says of the runs is what they were, though the scale be another one by now.
    changed = replace(
        experiment, scales={TINY.name: msgspec.structs.replace(TINY, what="9 brokers")}
    )
    show_experiment(tmp_path, lambda _: changed)
    assert (tmp_path / "index.html").read_text() == first

    def nothing_is_missing(_: object) -> None:
        raise AssertionError("all cells are there")

    assert run_experiment(experiment, TINY, [3], tmp_path, nothing_is_missing).cells == 8
    # Cells of the scale as it was are kept, and not mixed with those of another.
    fewer = msgspec.structs.replace(TINY, settings={**TINY.settings, "publishers": 1})
    run_experiment(experiment, fewer, [3], tmp_path, here)
    assert len(pq.read_table(tmp_path / "cells")) == 16
    assert show_experiment(tmp_path, lambda _: experiment).cells == 8
    with pytest.raises(UserError, match="relocation-random at scale tiny"):
        run_experiment(small("relocation-weights"), TINY, [3], tmp_path, here)


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected the folder of an experiment"):
        show_experiment(tmp_path, find_experiment)
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        show_experiment(tmp_path, find_experiment)


def test_bad_names_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean relocation-random"):
        find_experiment("relocation-randm")
    with pytest.raises(UserError, match="no scale is called 'huge'; expected small or paper"):
        scale_of(EXPERIMENTS["relocation-random"], "huge")
    with pytest.raises(UserError, match="relocation-random takes no latencies"):
        grid_cells(small(), TINY, [0], {"latencies": "x.csv"})


# --- the command ----------------------------------------------------------------------------------


def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    command.register(made)
    return made


def test_the_command_lists_runs_and_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = of_two_variants(spread=[2])
    monkeypatch.setitem(EXPERIMENTS, only.name, only)
    runner = CliRunner()
    listed = runner.invoke(app(), ["experiment", "list"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in EXPERIMENTS)
    out = tmp_path / "out"
    words = ["experiment", "run", only.name, "--scale", "tiny", "--seeds", "1", "--jobs", "1"]
    ran = runner.invoke(app(), [*words, "--out", str(out), "--json"])
    assert ran.exit_code == 1  # POP was not run, so that nothing can be claimed of it
    whole = json.loads(ran.stdout)
    assert SHAPE <= whole.keys()
    assert whole["checks"]["lost"] == 0
    shown = runner.invoke(app(), ["experiment", "show", str(out)])
    assert shown.exit_code == 1
    assert "index.html" in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "relocation"], "no experiment is called 'relocation'"),
        (["run", "relocation-random", "--scale", "big"], "no scale is called 'big'"),
        (["run", "relocation-random", "--seeds", "none"], "--seeds none"),
        (["run", "relocation-random", "--spark", "--jobs", "2"], "--jobs is for processes"),
        (["run", "relocation-clustered", "--latencies", "gone.csv"], "no such file of latencies"),
        (["show", "nowhere"], "expected the folder of an experiment"),
    ],
)
def test_bad_input_is_one_message(words: list[str], message: str) -> None:
    told = CliRunner().invoke(app(), ["experiment", *words])
    assert isinstance(told.exception, UserError)
    assert message in str(told.exception)
    assert "\n" not in str(told.exception)
