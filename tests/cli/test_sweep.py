"""`roost sweep`: what it prints, keeps and refuses, and its exit codes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roost.cli.sweep import report as sweep_report
from roost.cli.sweep.report import clock
from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.sweeps.progress import Progress
from tests.cli.support import Ran, Roost

TASKS = "tests.pipeline.sweeps.swept"
SMALL = ("--set", "brokers=3", "--set", "publishers=2", "--set", "until_s=8", "--set", "fanout=2")
TREE = ("sweep", "sim", "--generator", "tree", *SMALL)


def lines(ran: Ran) -> list[str]:
    return [" ".join(line.split()) for line in ran.out.splitlines()]


def test_tasks_are_listed(roost: Roost) -> None:
    ran = roost("sweep")
    assert (ran.code, ran.err) == (0, "")
    assert lines(ran)[0] == "sim"
    assert "MODULE:FUNCTION" in lines(ran)


def test_a_sweep_for_people_is_resumed(roost: Roost, tmp_path: Path) -> None:
    words = (*TREE, "--set", "subscribers=20,40", "--seeds", 2, "--out", tmp_path / "s")
    ran = roost(*words)
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == "4 of 4 cells"
    said = lines(ran)
    assert said[0].startswith("Sweep sim-")
    assert "generator=tree brokers=3 publishers=2 until_s=8.0 fanout=2" in said
    assert any("subscribers" in line and "delivered" in line for line in said)
    rows = [line for line in said if line.startswith(("│ 20 ", "│ 40 "))]
    assert [row.split(" │ ")[1] for row in rows] == ["2", "2"]
    assert all("±" in row for row in rows)
    assert "means over the seeds, ± 95 % of confidence" in said
    assert any(line.startswith("4 cells; ") and "efficiency" in line for line in said)
    assert said[-1] == f"Results: {tmp_path / 's' / 'part-0.parquet'}"
    assert max(map(len, ran.out.splitlines()[:-1])) <= 100
    again = roost(*words, "--show", "hops,delay_max_s", "--show", "speed")
    assert (again.code, "4 of 4 cells" in again.err) == (0, False)
    assert "warning: --show speed: no such figure; there are delivered, " in again.err
    assert "4 cells; 4 of them kept from before" in lines(again)
    assert any("hops" in line and "delay max s" in line for line in lines(again))
    other = roost(*TREE, "--set", "subscribers=20,41", "--seeds", 2, "--out", tmp_path / "s")
    assert (other.code, other.out) == (2, "")
    assert "2 of the 4 cells asked for are none of them (the first: generator=tree" in other.err
    assert "subscribers=41 seed=0); --extend adds them" in other.err


@pytest.mark.parametrize("command", [TREE, ("experiment", "run", "overlay-reference")])
def test_a_number_of_seeds_that_looks_like_a_seed(
    roost: Roost, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """It says how many that are, and how to say the one, before anything is run."""

    def ended(*_: object) -> None:
        raise UserError("so much for that")

    monkeypatch.setattr("roost.pipeline.sweeps.grid.cells_of", ended)
    monkeypatch.setattr("roost.experiments.running.run_experiment", ended)
    ran = roost(*command, "--seeds", 7777)
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "7,777 seeds, 0 to 7776; the one seed 7777 is --seeds 7777-7777",
        "error: so much for that",
    ]


def test_a_sweep_for_programs_in_a_lake(roost: Roost, tmp_path: Path) -> None:
    words = (*TREE, "--set", "subscribers=20,40", "--seeds", "3-4", "--json", "--jobs", 1)
    ran = roost(*words, "--lake", tmp_path, "--run", "trees")
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    whole = ran.json
    assert whole["run"] == "trees"
    summary = whole["summary"]
    assert (summary["cells"], summary["ran"], summary["failed"], summary["cores"]) == (4, 4, 0, 1)
    assert 0 < summary["efficiency"] <= 1
    assert [group["parameters"]["subscribers"] for group in whole["groups"]] == [20, 40]
    figures = whole["groups"][0]["figures"]["delivered"]
    assert (figures["n"], figures["min"] <= figures["mean"] <= figures["max"]) == (2, True)
    # Of two figures: 12.7 times their distance from the mean.
    assert figures["confidence_95"] == pytest.approx(
        12.706 * (figures["max"] - figures["mean"]), rel=1e-3
    )
    checks = whole["checks"]
    means = [2 * group["figures"]["delivered"]["mean"] for group in whole["groups"]]
    assert checks["delivered"] == sum(means)
    assert all(count == 0 for name, count in checks.items() if name != "delivered")
    assert whole["failures"] == whole["violations"] == []
    path = tmp_path / "sweeps" / "run=trees" / "part-0.parquet"
    assert whole["table"] == str(path)
    assert pq.ParquetFile(path).read()["seed"].to_pylist() == [3, 4, 3, 4]
    found = Lake(tmp_path).run("trees")
    assert (found.kind, found.tables) == ("sweep", ("sweeps",))
    assert found.parts[0].config["axes"]["subscribers"] == ["20", "40"]
    same = roost(*words, "--lake", tmp_path, "--run", "trees").json
    assert (same["summary"]["ran"], same["groups"]) == (0, whole["groups"])


def test_failures_exit_1_and_say_how_to_run_one(roost: Roost, tmp_path: Path) -> None:
    words = ("sweep", f"{TASKS}:fails", "--set", f"marks={tmp_path}")
    ran = roost(*words, "--seeds", 3)
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "3 of 3 cells, 1 failed"
    said = lines(ran)
    assert "1 cell failed" in said
    assert any(line.endswith(": ValueError: one is too many") for line in said)
    (told,) = [line for line in ran.out.splitlines() if "run it alone: " in line]
    alone = roost(*shlex.split(told.partition("run it alone: roost ")[2]))
    assert (alone.code, "1 of 1 cells, 1 failed" in alone.err) == (1, True)
    assert "Traceback" in alone.err
    assert alone.err.rstrip().endswith("ValueError: one is too many")
    assert not any(line.startswith("Results") for line in lines(alone))
    whole = roost(*words, "--seeds", 3, "--json")
    assert (whole.code, whole.json["summary"]["failed"]) == (1, 1)
    (failure,) = whole.json["failures"]
    assert (failure["seed"], failure["error"]) == (1, "ValueError: one is too many")
    assert failure["replay"] == told.partition("run it alone: ")[2]


def test_violations_exit_1(roost: Roost) -> None:
    words = ("sweep", f"{TASKS}:breaks_promises", "--seeds", 3, "--jobs", 1)
    ran = roost(*words)
    assert ran.code == 1
    assert "2 cells found violations" in lines(ran)
    assert sum("P1:3 never reached S1" in line for line in lines(ran)) == 2
    whole = roost(*words, "--json")
    assert (whole.code, whole.json["checks"]) == (1, {"delivered": 30, "lost": 3})
    assert [found["seed"] for found in whole.json["violations"]] == [1, 2]


def test_what_tasks_print_is_not_the_answer(roost: Roost) -> None:
    ran = roost("sweep", f"{TASKS}:counts", "--set", "x=1..3", "--json")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert [group["figures"]["whole"]["mean"] for group in ran.json["groups"]] == [1, 4, 9]


def test_a_task_in_the_current_folder(
    roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_task.py").write_text(
        "def run(p, seed):\n    return {'y': 2 * p['x'] + seed}\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = roost("sweep", "own_task:run", "--set", "x=1.5", "--seeds", "1-1", "--json")
    assert ran.json["groups"][0]["figures"]["y"]["mean"] == 4.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sin",), "no task is called 'sin'"),
        (("sim",), "sim: what is to be run?"),
        (("sim", "--generator", "tree", "--set", "speed=1"), "tree: unknown parameter 'speed'"),
        (("sim", "--generator", "tree", "--seeds", "x"), "--seeds x: expected how many"),
        (("sim", "--file", "no.workload"), "no.workload: No such file"),
        (("a:b", "--generator", "tree"), "--generator and --file are for the task sim"),
        (("sim", "--generator", "tree", "--out", "a", "--lake", "b"), "expected one of them"),
        (("sim", "--generator", "tree", "--lake", "b", "--run", "a/b"), "can't be called 'a/b'"),
        (("sim", "--generator", "tree", "--jobs", "0"), "greater than or equal to 1"),
        (("sim", "--generator", "tree", "--spark", "--jobs", "2"), "--jobs is for processes"),
        (("sim", "--generator", "tree", "--master", "x"), "'x' is not a Spark master"),
        (("sim", "--generator", "tree", "--conf", "x"), "--conf x: expected KEY=VALUE"),
    ],
)
def test_bad_arguments_are_refused(
    roost: Roost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = roost("sweep", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in " ".join(ran.err.split())


# --- progress ---------------------------------------------------------------------------------------


def test_lines_of_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        Progress(total=9, done=0, failed=0, running=2, elapsed_s=1, left_s=None),
        Progress(total=9, done=3, failed=1, running=2, elapsed_s=2, left_s=4000),
        Progress(total=9, done=9, failed=1, running=0, elapsed_s=9, left_s=0),
    ]
    expected = ["0 of 9 cells, 2 running", "3 of 9 cells, 1 failed, 2 running, 1 h 6 min to go"]
    with sweep_report.progress() as say:
        for now in told:
            say(now)
    assert capsys.readouterr().err.splitlines() == ["9 of 9 cells, 1 failed"]
    monkeypatch.setattr(sweep_report, "LINE_EVERY_S", 0)
    with sweep_report.progress() as say:
        for now in told:
            say(now)
    assert capsys.readouterr().err.splitlines() == [*expected, "9 of 9 cells, 1 failed"]


def test_times_to_go() -> None:
    assert [clock(s) for s in (0.4, 59.6, 3_599, 7_260)] == [
        "0 s",
        "1 min 0 s",
        "59 min 59 s",
        "2 h 1 min",
    ]
