"""Recorded runs replayed in the simulator: a plan before and after, and what-ifs, each beside the other.

A replay is a cell of a sweep (`roost.pipeline.sweeps`): many run side by side, a sweep that is interrupted
goes on, and `roost sweep sim --file` runs the same files. What is measured is what plans predict (`effect`),
from the trace of the replay; all promises are checked as in every simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.plans.effect import Effect
from roost.pipeline.plans.plan import Plan
from roost.pipeline.plans.reading import SIMULATED, Tables, overlays_of
from roost.pipeline.plans.scene import Scene, scene_of, statements_of
from roost.pipeline.plans.what_if import what_if, with_step
from roost.pipeline.sweeps.folder import SweepFolder
from roost.pipeline.sweeps.grid import Axis, cells_of
from roost.pipeline.sweeps.sweep import open_sweep
from roost.pipeline.sweeps.tasks import Parameters, Row, Task
from roost.pipeline.sweeps.workers import LocalWorkers
from roost.simulation.run import end_of, run_workload, verdict
from roost.simulation.workload_file import read_workload, write_workload
from roost.simulation.world import World
from roost.traces import TraceWriter, read_table
from roost.traces.schemas import CONTENT

AS_IT_WAS, PLANNED = "as it was", "the plan"
RUN = "replay"


# --- scenes of a lake -----------------------------------------------------------------------------------


def read_scene(lake: Lake, run: str) -> Scene:
    """A recorded run as a scene. UserError if its events were not recorded."""
    info = lake.run(run)
    if CONTENT not in info.tables:
        raise UserError(
            f"{run}: its events were not recorded; expected `roost trace on --content`, or `roost sim run"
            " --trace DIR --content`"
        )

    def rows(table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in lake.files(table, run):
            found += read_table(path).to_pylist()
        return sorted(found, key=lambda row: float(row["time"]))

    configs = [part.config for part in info.parts if part.kind in (SIMULATED, "live")]
    tables = Tables(
        run,
        info.kind,
        (),
        (),
        rows("loads"),
        rows("links"),
        rows("interests"),
        overlays_of(configs),
    )
    return scene_of(tables, rows("deliveries"), rows(CONTENT), configs)


def workload_text(scene: Scene, *remarks: str) -> str:
    """The workload file of a scene."""
    statements, renamed = statements_of(scene)
    said = [f"recorded: {scene.name}", *remarks]
    if scene.unsure:
        said.append(
            f"{scene.unsure} events were published when somebody's interest may just have come or gone"
        )
    said += [f"{new} is {name}" for name, new in renamed.items()]
    return write_workload(statements, said)


def variants(scene: Scene, plan: Plan | None, supposed: Iterable[str]) -> dict[str, Scene]:
    """What is to be replayed, by its name: as it was, with the plan, and each what-if."""
    found = {AS_IT_WAS: scene}
    if plan is not None:
        changed = scene
        for step in plan.steps:
            if step.kind == "rewire" or step.client in scene.clients:
                changed = with_step(changed, step)
        found[PLANNED] = changed
    for words in supposed:
        found[words] = what_if(scene, words)
    return found


# --- a replay -------------------------------------------------------------------------------------------


def measured(tables: Mapping[str, pa.Table]) -> Effect:
    """What a trace says of what plans predict."""
    deliveries = tables["deliveries"].filter(pc.is_valid(tables["deliveries"]["source"]))
    begun = deliveries.filter(deliveries["from_client"])
    times = begun["time"].to_numpy()
    count = len(times)
    span = float(times.max() - times.min()) if count else 0.0
    if count < 2 or span <= 0:
        return Effect(0.0, 0.0, 0.0)
    seconds = span * count / (count - 1)
    local = deliveries["local_subscribers"].to_numpy()
    ages = deliveries["age_s"].to_numpy()
    delivered = int(local.sum())
    loads = tables["loads"]
    inside = pc.and_(
        pc.greater_equal(loads["time"], float(times.min())),
        pc.less_equal(loads["time"], float(times.max())),
    )
    busy: dict[str, list[tuple[float, float]]] = {}
    for row in (
        loads.filter(inside)
        .select(["broker", "input_utilisation", "output_utilisation"])
        .to_pylist()
    ):
        both = (row["input_utilisation"], row["output_utilisation"])
        busy.setdefault(row["broker"], []).append(both)
    means = {
        broker: max(fmean(each[0] for each in found), fmean(each[1] for each in found))
        for broker, found in busy.items()
    }
    busiest = max(means, key=lambda broker: means[broker], default="")
    return Effect(
        (deliveries.num_rows - count) / seconds,
        float((ages * local).sum() / delivered) if delivered else 0.0,
        means.get(busiest, 0.0),
        busiest,
    )


def replay_file(parameters: Parameters, seed: int) -> Row:
    """A workload file run to its end, with what plans predict measured from its trace."""
    workload = read_workload(Path(str(parameters["file"])))
    with TemporaryDirectory(prefix="roost-replay-") as folder:
        with TraceWriter(Path(folder), RUN) as trace:
            world = World(workload.settings, workload.statements, seed=seed, trace=trace)
            run_workload(world, workload, end_of(workload))
            checks, _ = verdict(world, workload)
        tables = {name: read_table(path) for name, path in trace.paths.items()}
    effect, decided = measured(tables), tables["decisions"]
    moves = sum(
        acted and kind in ("move", "rewire")
        for acted, kind in zip(*(decided[n].to_pylist() for n in ("acted", "kind")), strict=True)
    )
    return {
        "load_per_s": effect.load_per_s,
        "delay_s": effect.delay_s,
        "busiest": effect.busiest,
        "busiest_broker": effect.busiest_broker,
        "delivered": checks.delivered,
        "moves": moves,
        "violations": checks.broken,
        "first_violation": checks.violations[0] if checks.violations else None,
    }


REPLAY = Task(replay_file, files=lambda parameters: [Path(str(parameters["file"]))])
REFERENCE = "roost.pipeline.plans.replaying:REPLAY"


def replayed(scenes: Mapping[str, Scene], folder: Path, jobs: int = 1) -> dict[str, Row]:
    """Each of these, as cells of a sweep in that folder; by name. UserError says which one failed."""
    files: dict[str, str] = {}
    for number, (name, scene) in enumerate(scenes.items()):
        path = folder / f"{number}.workload"
        path.write_text(workload_text(scene, f"what if: {name}"))
        files[str(path)] = name
    cells = cells_of(REFERENCE, REPLAY, [Axis("file", tuple(files))], [0])
    with open_sweep(SweepFolder(folder / "sweep"), REFERENCE, cells) as sweep:
        sweep.run(LocalWorkers(jobs))
        outcome = sweep.finish()
    if outcome.failed:
        raise UserError(f"a replay has failed: {outcome.failed[0].error}")
    found = {files[str(result.parameters["file"])]: result.figures for result in outcome.results}
    return {name: found[name] for name in scenes}
