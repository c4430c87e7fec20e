"""Sweeps: grids, what is kept, what happens when processes die, and that it is the same however it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import stdev
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from roost.errors import UserError
from roost.pipeline.sweeps import tasks
from roost.pipeline.sweeps.folder import SweepFolder
from roost.pipeline.sweeps.grid import Axis, Cell, cells_of, read_axes, read_seeds
from roost.pipeline.sweeps.progress import Progress, Say
from roost.pipeline.sweeps.spark import SparkTasks
from roost.pipeline.sweeps.sweep import Outcome, open_sweep
from roost.pipeline.sweeps.table import Spread, groups
from roost.pipeline.sweeps.tasks import Task, load_task, reference_of, register, registered
from roost.pipeline.sweeps.workers import Executor, LocalWorkers
from tests.pipeline.sweeps import swept
from tests.pipeline.sweeps.swept import HERE

SIM = "roost.pipeline.sweeps.sim:SIM"
TINY = ("generator=tree", "brokers=3", "publishers=2", "subscribers=20,40", "until_s=8")
MACHINE = ("seconds", "worker", "code")  # what depends on where it was run, and when


def grid(reference: str, *axes: str, seeds: str = "3") -> list[Cell]:
    return cells_of(reference, load_task(reference), read_axes(axes), read_seeds(seeds))


def run(
    folder: Path,
    reference: str,
    cells: Sequence[Cell],
    execute: Executor | None = None,
    say: Say = lambda _: None,
    **how: bool,
) -> Outcome:
    with open_sweep(SweepFolder(folder), reference, cells, **how) as sweep:
        if sweep.missing:
            sweep.run(execute or LocalWorkers(2), say)
        return sweep.finish()


def table(outcome: Outcome) -> list[dict[str, Any]]:
    found = pq.read_table(outcome.table)
    rows: list[dict[str, Any]] = found.drop_columns(list(MACHINE)).to_pylist()
    return rows


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def times_run(marks: Path, seed: int) -> int:
    path = marks / f"seed-{seed}"
    return len(path.read_text().splitlines()) if path.exists() else 0


# --- grids ------------------------------------------------------------------------------------------


@given(
    st.integers(-50, 50),
    st.integers(0, 30),
    st.integers(1, 7),
    st.sampled_from(["", ".0", ".25"]),
)
def test_ranges_are_exact(first: int, length: int, step: int, tail: str) -> None:
    last = first + 1 + length
    (axis,) = read_axes([f"x={first}{tail}..{last}..{step}{tail}"])
    quarter = {"": 0, ".0": 0, ".25": 1}[tail]
    start = 4 * first + (quarter if first >= 0 else -quarter)
    expected = list(range(start, 4 * last + 1, 4 * step + quarter))
    assert [4 * float(text) for text in axis.values] == expected


def test_axes_are_lists_and_ranges() -> None:
    assert read_axes(["a=1,2,4..6", "b=x", "c=", "d=../x..y"]) == [
        Axis("a", ("1", "2", "4", "5", "6")),
        Axis("b", ("x",)),
        Axis("c", ("",)),
        Axis("d", ("../x..y",)),
    ]
    assert read_axes(["p=0.1..0.3..0.1"]) == [Axis("p", ("0.1", "0.2", "0.3"))]


def test_seeds_are_a_number_a_range_or_a_list() -> None:
    assert read_seeds("3") == (0, 1, 2)
    assert read_seeds("7-9") == (7, 8, 9)
    assert read_seeds("7-7") == (7,)
    assert read_seeds("9,2,5") == (9, 2, 5)


def test_a_grid_is_the_product_and_ids_are_those_of_the_cells() -> None:
    cells = grid(f"{HERE}:counts", "x=1,2,3", "y=a,b", seeds="2")
    expected = [({"x": x, "y": y}, seed) for x, y, seed in product((1, 2, 3), ("a", "b"), (0, 1))]
    assert [(cell.parameters, cell.seed) for cell in cells] == expected
    assert len({cell.id for cell in cells}) == len(cells)
    other = grid(f"{HERE}:counts", "y=b", "x=3", seeds="1-1")
    assert [cell.id for cell in other] == [cells[-1].id]
    assert grid(f"{HERE}:dies_once", "y=b", "x=3", seeds="1-1")[0].id != cells[-1].id


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["x"], "--set x: expected NAME=VALUE"),
        (["=1"], "--set =1: expected NAME=VALUE"),
        (["x=1,,2"], "--set x=1,,2: a value is missing"),
        (["x=1", "X=2"], "--set X=2: X is set twice"),
        (["Seed=1"], "--set Seed=1: Seed is a column of every result"),
        (["x=5..2"], "5..2 is an empty range; expected FIRST..LAST"),
        (["x=1..2..0"], "1..2..0 is an empty range"),
        (["x=1..1000000"], "1..1000000 has more than 100,000 values"),
        (["x=1..1000", "y=1..1000"], "the grid has 1,000,000 cells; expected at most 100,000"),
        (["x=2,02"], "the cell x=2 seed=0 is in the grid twice"),
    ],
)
def test_bad_axes_are_refused(axes: list[str], message: str) -> None:
    with pytest.raises(UserError) as refused:
        cells_of("task", Task(swept.counts), read_axes(axes), (0,))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected how many (10), a range (5-9) or a list (3,7)"),
        ("0", "no seed at all"),
        ("9-7", "an empty range"),
        ("-1", "expected how many"),
        ("1,1", "twice"),
        ("1,x", "expected how many"),
        ("1-99999999", "at most 100,000 seeds"),
        (f"1,{2**63}", "a seed is at most"),
    ],
)
def test_bad_seeds_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        read_seeds(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["brokers=3"], "sim: what is to be run? expected either generator=NAME (local, tree,"),
        (["generator=tree", "file=x"], "sim: what is to be run?"),
        (["generator=bush"], "no generator is called 'bush'; there are local, tree, relocation"),
        (["generator=tree", "speed=1"], "tree: unknown parameter 'speed'; there are brokers=63"),
        (["generator=tree", "brokers=3,x"], "tree: brokers='x' will not do"),
        (["generator=tree", "until=5"], "tree: unknown parameter 'until'"),
        (["generator=tree", "covering=maybe"], "setting covering: 'maybe' will not do"),
        (["generator=tree", "covering=on,true"], "covering=on seed=0 is in the grid twice"),
        (["generator=tree", "faults=some"], "faults='some' will not do; expected none or network"),
        (["generator=relocation", "brokers=5", "spread=4,9"], "spread=9: there are only 5 brokers"),
        (["generator=tree", "bars=no.csv"], "no.csv: No such file"),
        (["file=no.workload"], "no.workload: No such file or directory; expected a workload file"),
        (["file=good.workload", "until=0"], "until='0' will not do; expected seconds, more than 0"),
        (["file=good.workload", "brokers=1"], "sim: unknown parameter 'brokers'; there are until"),
        (["file=bad.workload"], "bad.workload:1: column 1"),
    ],
)
def test_bad_simulations_are_refused_before_any_is_run(
    axes: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.workload").write_text("0 broker add B0 1 1 1\n5 end\n")
    Path("bad.workload").write_text("rubbish\n")
    with pytest.raises(UserError) as refused:
        grid(SIM, *axes)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sin", "no task is called 'sin'; expected sim, or MODULE:FUNCTION; did you mean sim?"),
        ("no.such:thing", "No module named 'no'"),
        (f"{HERE}:nothing", "there is nothing of that name; expected a function"),
        (f"{HERE}:HERE", "it is a str; expected a function of parameters and a seed"),
        ("a b:c", "'a b:c' is not a task; expected MODULE:FUNCTION"),
    ],
)
def test_tasks_that_are_none_are_refused(name: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        load_task(reference_of(name))
    assert message in str(refused.value)


def test_tasks_are_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_registered", dict(registered()))
    register("counting", f"{HERE}:counts")
    assert reference_of("counting") == registered()["counting"] == f"{HERE}:counts"
    assert load_task(reference_of("counting")).description == "Figures of all kinds."
    assert reference_of("sim") == SIM


def test_a_file_with_another_content_is_another_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.workload"
    path.write_text("0 broker add B0 1 1 1\n5 end\n")
    before = grid(SIM, f"file={path}")
    assert grid(SIM, f"file={path}") == before
    path.write_text("0 broker add B0 1 1 1\n6 end\n")
    after = grid(SIM, f"file={path}")
    assert [cell.parameters for cell in after] == [cell.parameters for cell in before]
    assert not {cell.id for cell in after} & {cell.id for cell in before}


def test_long_simulations_cost_more() -> None:
    (short, long), (few, many) = (
        [cell.cost for cell in grid(SIM, "generator=relocation", *axes, seeds="1")]
        for axes in (("until_s=60,600",), ("spread=1,20",))
    )
    assert short < long
    assert few < many


# --- the same however it is run ---------------------------------------------------------------------


def test_simulations_are_the_same_in_processes_and_on_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    cells = grid(SIM, *TINY, seeds="2")
    one = table(run(tmp_path / "1", SIM, cells, LocalWorkers(1)))
    two = table(run(tmp_path / "2", SIM, cells, LocalWorkers(2)))
    sparks = table(run(tmp_path / "s", SIM, cells, SparkTasks(spark)))
    assert one == two == sparks
    assert [(row["subscribers"], row["seed"]) for row in one] == [
        (20, 0),
        (20, 1),
        (40, 0),
        (40, 1),
    ]
    assert all(row["delivered"] > 0 and row["violations"] == 0 and row["rested"] for row in one)
    assert one[0]["delivered"] != one[2]["delivered"]


def test_figures_are_typed_columns(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{HERE}:counts", grid(f"{HERE}:counts", "x=2,3", "y=a", seeds="1"))
    found = pq.read_table(outcome.table)
    assert {f.name: str(f.type) for f in found.schema} == {
        "cell": "string",
        "x": "int64",
        "y": "string",
        "seed": "int64",
        "status": "string",
        "whole": "int64",
        "share": "double",
        "odd": "bool",
        "word": "string",
        "nothing": "string",
        "endless": "string",
        "error": "string",
        "seconds": "double",
        "worker": "string",
        "tries": "int64",
        "code": "string",
    }
    assert found["whole"].to_pylist() == [4, 9]
    assert found["share"].to_pylist() == [0.25, 0.375]
    assert found["endless"].to_pylist() == [None, None]
    assert found["tries"].to_pylist() == [1, 1]
    assert (outcome.ran, outcome.slots) == (2, 2)
    assert 0 < outcome.cell_s <= outcome.wall_s * outcome.slots
    assert outcome.efficiency == outcome.cell_s / (2 * outcome.wall_s)


def test_combinations_over_their_seeds(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{HERE}:counts", grid(f"{HERE}:counts", "x=2,3", seeds="4"))
    two, three = groups(outcome.results)
    assert two.parameters == {"x": 2}
    assert two.figures["whole"] == Spread(5.5, stdev([4, 5, 6, 7]), 4.0, 7.0, 4)
    assert three.figures["odd"] == Spread(1.0, 0.0, 1.0, 1.0, 4)
    assert set(two.figures) == {"whole", "share", "odd"}
    assert (two.done, two.failed, two.violations) == (4, 0, 0)


class Unshared(SweepFolder):
    """A folder that no other process can reach."""

    def __reduce__(self) -> tuple[type[SweepFolder], tuple[Path]]:
        return SweepFolder, (self.path / "gone",)


def test_a_cluster_that_does_not_share_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    reference = f"{HERE}:counts"
    cells = grid(reference, "x=1,2", seeds="1")
    with open_sweep(Unshared(tmp_path / "sweep"), reference, cells) as sweep:
        sweep.run(SparkTasks(spark))
        outcome = sweep.finish()
    assert [row["whole"] for row in table(outcome)] == [1, 4]
    assert not (tmp_path / "sweep" / "gone").exists()


# --- what is kept -----------------------------------------------------------------------------------


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path, marks: Path) -> None:
    """A real SIGKILL, while the third of five cells runs; its process goes with it."""
    reference, folder = f"{HERE}:hangs", tmp_path / "sweep"
    os.mkfifo(marks / "pipe")
    words = ["sweep", reference, "--set", f"marks={marks}", "--seeds", "5", "--jobs", "1"]
    code = f"from roost.cli.main import main; main({[*words, '--out', str(folder)]!r})"
    with (
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process,
        (marks / "pipe").open() as pipe,  # which waits for the third cell to open it
    ):
        process.kill()
        process.wait()
        assert pipe.read() == ""  # the cell has ended too
    assert [times_run(marks, seed) for seed in range(5)] == [1, 1, 1, 0, 0]
    (marks / "go").touch()
    cells = grid(reference, f"marks={marks}", seeds="5")
    outcome = run(folder, reference, cells)
    assert outcome.ran == 3
    assert [times_run(marks, seed) for seed in range(5)] == [1, 1, 2, 1, 1]
    assert [row["value"] for row in table(outcome)] == [0, 1, 2, 3, 4]


def test_what_is_finished_is_not_run_again(tmp_path: Path, marks: Path) -> None:
    reference = f"{HERE}:fails"
    (marks / "mended").touch()
    cells = grid(reference, f"marks={marks}", seeds="4")
    run(tmp_path / "sweep", reference, cells[:3])
    with pytest.raises(UserError) as refused:
        run(tmp_path / "sweep", reference, cells)
    assert "a sweep of 3 cells in it, and 1 of the 4 cells asked for are none" in str(refused.value)
    outcome = run(tmp_path / "sweep", reference, cells, extend=True)
    assert (outcome.ran, len(outcome.results), len(table(outcome))) == (1, 4, 4)
    some = run(tmp_path / "sweep", reference, cells[2:])
    assert (some.ran, len(some.results), len(table(some))) == (0, 2, 4)
    assert [times_run(marks, seed) for seed in range(4)] == [1, 1, 1, 1]
    (damaged,) = (tmp_path / "sweep" / "_cells").glob(f"{cells[1].id}.json")
    damaged.write_bytes(damaged.read_bytes()[:20])
    assert run(tmp_path / "sweep", reference, cells).ran == 1
    assert run(tmp_path / "sweep", reference, cells, overwrite=True).ran == 4
    assert [times_run(marks, seed) for seed in range(4)] == [2, 3, 2, 2]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    cells = grid(f"{HERE}:counts", "x=1")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UserError, match="there are other files in it, and no sweep"):
        run(tmp_path, f"{HERE}:counts", cells)
    run(tmp_path / "new", f"{HERE}:counts", cells)
    with pytest.raises(UserError, match=r"there is a sweep of .*:counts in it, not of .*:fails"):
        run(tmp_path / "new", f"{HERE}:fails", grid(f"{HERE}:fails", "x=1"), extend=True)
    with (
        open_sweep(SweepFolder(tmp_path / "new"), f"{HERE}:counts", cells),
        pytest.raises(UserError, match="another process is at this sweep"),
    ):
        run(tmp_path / "new", f"{HERE}:counts", cells)
    with pytest.raises(UserError, match=r"mine.txt: (Not a directory|File exists)"):
        run(tmp_path / "mine.txt", f"{HERE}:counts", cells)


# --- processes that die, cells that fail ------------------------------------------------------------


def test_a_cell_whose_process_is_killed_is_run_again(tmp_path: Path, marks: Path) -> None:
    reference = f"{HERE}:dies_once"
    outcome = run(tmp_path / "sweep", reference, grid(reference, f"marks={marks}", seeds="4"))
    assert not outcome.failed
    assert [row["value"] for row in table(outcome)] == [0, 1, 2, 3]
    assert [row["tries"] for row in table(outcome)] == [1, 2, 1, 1]
    assert [times_run(marks, seed) for seed in range(4)] == [1, 2, 1, 1]


def test_a_cell_whose_process_is_always_killed_fails_alone(tmp_path: Path, marks: Path) -> None:
    reference = f"{HERE}:dies_always"
    outcome = run(tmp_path / "sweep", reference, grid(reference, f"marks={marks}", seeds="4"))
    (failed,) = outcome.failed
    assert failed.seed == 1
    assert failed.error == "its process was killed (SIGKILL), 3 times"
    assert failed.tries == 3
    assert [row["value"] for row in table(outcome)] == [0, None, 2, 3]
    assert [times_run(marks, seed) for seed in range(4)] == [1, 3, 1, 1]


def test_a_killed_process_on_spark(spark: SparkSession, tmp_path: Path, marks: Path) -> None:
    reference = f"{HERE}:dies_once"
    cells = grid(reference, f"marks={marks}", seeds="4")
    outcome = run(tmp_path / "sweep", reference, cells, SparkTasks(spark))
    assert not outcome.failed
    assert outcome.slots == 2
    assert [row["value"] for row in table(outcome)] == [0, 1, 2, 3]
    assert table(outcome)[1]["tries"] == times_run(marks, 1) == 2


def test_a_process_that_is_always_killed_on_spark(
    spark: SparkSession, tmp_path: Path, marks: Path
) -> None:
    """The job fails of it; the others are run nevertheless, and none of them is blamed."""
    reference = f"{HERE}:dies_always"
    cells = grid(reference, f"marks={marks}", seeds="6")
    outcome = run(tmp_path / "sweep", reference, cells, SparkTasks(spark))
    (failed,) = outcome.failed
    assert (failed.seed, failed.error) == (1, "its process died")
    assert failed.tries == times_run(marks, 1) == 6  # three times among others, three times alone
    assert [row["value"] for row in table(outcome)] == [0, None, 2, 3, 4, 5]


def test_a_cell_that_raises_is_recorded_and_run_again_later(
    spark: SparkSession, tmp_path: Path, marks: Path
) -> None:
    reference = f"{HERE}:fails"
    cells = grid(reference, f"marks={marks}", seeds="3")
    for execute in (LocalWorkers(1), SparkTasks(spark)):
        outcome = run(tmp_path / "sweep", reference, cells, execute)
        (failed,) = outcome.failed
        assert (failed.seed, failed.error) == (1, "ValueError: one is too many")
        assert 'raise ValueError("one is too many")' in (failed.traceback or "")
        assert [row["status"] for row in table(outcome)] == ["done", "failed", "done"]
        assert (outcome.groups[0].done, outcome.groups[0].failed) == (2, 1)
    assert [times_run(marks, seed) for seed in range(3)] == [1, 2, 1]
    (marks / "mended").touch()
    assert not run(tmp_path / "sweep", reference, cells).failed
    assert [times_run(marks, seed) for seed in range(3)] == [1, 3, 1]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("gives_a_list", "TypeError: the figure 'value' is a list; expected a number, a text,"),
        ("gives_a_parameter", "ValueError: the figure 'X' is called like a parameter"),
    ],
)
def test_rows_that_are_none_are_failures(task: str, message: str, tmp_path: Path) -> None:
    reference = f"{HERE}:{task}"
    outcome = run(tmp_path, reference, grid(reference, "x=1", seeds="1"))
    assert [(result.error or "").startswith(message) for result in outcome.failed] == [True]


def test_progress_is_seen_from_the_folder(spark: SparkSession, tmp_path: Path, marks: Path) -> None:
    reference = f"{HERE}:fails"
    cells = grid(reference, f"marks={marks}", seeds="4")
    run(tmp_path / "0", reference, cells[2:])
    for name, execute in (("0", LocalWorkers(2)), ("1", SparkTasks(spark))):
        said: list[Progress] = []
        run(tmp_path / name, reference, cells, execute, said.append, extend=True)
        assert {now.total for now in said} == {4}
        assert [now.done for now in said] == sorted(now.done for now in said)
        assert said[0].done >= (2 if name == "0" else 0)
        last = said[-1]
        assert (last.done, last.failed, last.running, last.left_s) == (4, 1, 0, 0.0)
