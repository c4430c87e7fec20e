"""Running an experiment, and keeping it: a folder with the cells, the claims and the page.

    FOLDER/experiment.json      which experiment it is, and how large
    FOLDER/cells/               the sweep of its cells; `part-0.parquet` is all of them as a table
    FOLDER/claims.json          what `--json` prints
    FOLDER/index.html           the page
    FOLDER/figures/*.svg        its charts
    FOLDER/*.html               more pages, of experiments that have some

The same experiment can go on in its folder, also with more seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.experiments.frame import Experiment, Scale
from roost.experiments.page import for_people, page
from roost.experiments.report import Report
from roost.pictures.charts import draw
from roost.pipeline.sweeps.folder import SweepFolder
from roost.pipeline.sweeps.grid import Axis, Cell, cells_of
from roost.pipeline.sweeps.sweep import Sweep, open_sweep
from roost.pipeline.sweeps.tasks import load_task

ABOUT, CELLS, CLAIMS, PAGE, FIGURES = (
    "experiment.json",
    "cells",
    "claims.json",
    "index.html",
    "figures",
)


class About(Struct, frozen=True):
    """What a folder holds."""

    experiment: str
    scale: str
    seeds: tuple[int, ...]
    given: dict[str, str] = {}
    # As it was when the cells were run: a scale may be another one in another version of the code, and a
    # folder may have cells of both.
    what: str = ""
    cells: tuple[str, ...] = ()


def scale_of(experiment: Experiment, name: str) -> Scale:
    """The scale of that name."""
    if name not in experiment.scales:
        raise UserError(f"no scale is called {name!r}; expected {' or '.join(experiment.scales)}")
    return experiment.scales[name]


def grid_cells(
    experiment: Experiment, scale: Scale, seeds: Sequence[int], given: Mapping[str, str]
) -> list[Cell]:
    """All cells, each once though it be in several grids."""
    for name in given:
        if name not in experiment.takes:
            raise UserError(f"{experiment.name} takes no {name}")
    task = load_task(experiment.task)
    cells: dict[str, Cell] = {}
    for grid in experiment.grids(scale, given):
        axes = [Axis(name, tuple(map(str, values))) for name, values in grid.items()]
        cells |= {cell.id: cell for cell in cells_of(experiment.task, task, axes, seeds)}
    return list(cells.values())


def run_experiment(
    experiment: Experiment,
    scale: Scale,
    seeds: Sequence[int],
    folder: Path,
    carry_out: Callable[[Sweep], None],
    given: Mapping[str, str] | None = None,
) -> Report:
    """Runs what is missing of an experiment in its folder, and writes what came of it there.

    `carry_out` runs the missing cells of a sweep.
    """
    given = dict(given or {})
    cells = grid_cells(experiment, scale, seeds, given)
    about = About(
        experiment.name,
        scale.name,
        tuple(seeds),
        given,
        scale.what,
        tuple(cell.id for cell in cells),
    )
    before = read_about(folder) if (folder / ABOUT).exists() else about
    same = (about.experiment, about.scale, about.given)
    if (before.experiment, before.scale, before.given) != same:
        raise UserError(
            f"{folder}: there is {before.experiment} at scale {before.scale} in it, with"
            f" {before.given or 'nothing given'}; expected the same, or another folder"
        )
    with open_sweep(SweepFolder(folder / CELLS), experiment.task, cells, extend=True) as sweep:
        (folder / ABOUT).write_bytes(msgspec.json.encode(about))
        if sweep.missing:
            carry_out(sweep)
        outcome = sweep.finish()
    report = Report(experiment, scale, seeds, outcome.results)
    write(report, folder)
    return report


def show_experiment(folder: Path, find: Callable[[str], Experiment]) -> Report:
    """What came of the experiment of a folder, from the figures that are kept there."""
    about = read_about(folder)
    experiment = find(about.experiment)
    cells = SweepFolder(folder / CELLS)
    manifest = cells.manifest()
    if manifest is None:
        raise UserError(f"{folder}: no cell of it was run; expected the folder of an experiment")
    kept = set(about.cells) or {cell.id for cell in manifest.cells if cell.seed in about.seeds}
    asked = [cell for cell in manifest.cells if cell.id in kept]
    scale = scale_of(experiment, about.scale)
    scale = msgspec.structs.replace(scale, what=about.what or scale.what)
    report = Report(experiment, scale, about.seeds, cells.results(asked))
    write(report, folder)
    return report


def read_about(folder: Path) -> About:
    """What the folder of an experiment holds."""
    path = folder / ABOUT
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except OSError as bad:
        raise UserError(
            f"{path}: {bad.strerror or bad}; expected the folder of an experiment"
        ) from None
    except msgspec.MsgspecError as bad:
        raise UserError(f"{path}: damaged ({bad}); expected what an experiment wrote") from None


def write(report: Report, folder: Path) -> None:
    """The page, the charts and the claims."""
    figures = folder / FIGURES
    figures.mkdir(parents=True, exist_ok=True)
    for chart in report.charts:
        name = re.sub(r"[^a-z0-9]+", "-", f"{chart.id} {chart.title}".lower()).strip("-")
        (figures / f"{name}.svg").write_text(draw(for_people(chart)), "utf-8")
    for name, text in report.pages.items():
        (folder / name).write_text(text, "utf-8")
    (folder / PAGE).write_text(page(report), "utf-8")
    (folder / CLAIMS).write_bytes(msgspec.json.encode(report.as_dict()))
