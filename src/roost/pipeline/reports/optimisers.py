"""One recorded workload with each optimiser alone, and with all of them together: a table.

The run is replayed (`plans.replaying`) with everybody where it was, and the optimisers of brokers acting on
it, each for the same goal. What is counted is over the whole replay, with the time in which they learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from roost.pipeline.plans.replaying import replayed
from roost.pipeline.plans.scene import Scene
from roost.pipeline.sweeps.tasks import Row

NONE, TOGETHER = "none", "together"
# A publisher is decided for so often in a run, at least, if it has enough to say.
DECISIONS = 4
TRACES, TRACES_MIN = 100, 10


def with_optimisers(scene: Scene) -> dict[str, Scene]:
    """What is to be replayed, by what it is called."""
    counts = [sum(e.publisher == name for e in scene.events) for name in scene.publishers]
    traces = max(TRACES_MIN, min(TRACES, int(median(counts)) // DECISIONS))
    settings = {**scene.settings, "traces": str(traces)}

    def made(optimiser: str, *modules: str) -> Scene:
        return replace(scene, settings={**settings, "optimiser": optimiser}, modules=modules)

    return {
        NONE: made("none"),
        "pop": made("pop"),
        "grape": made("grape-load100"),
        "overlay": made("none", "overlay"),
        "balancing": made("none", "balancing"),
        TOGETHER: made("grape-load100", "overlay", "balancing"),
    }


def compared(scene: Scene, folder: Path, jobs: int = 1) -> Mapping[str, Row]:
    """What came of each, by what it is called; the folder is for the files of the replays."""
    return replayed(with_optimisers(scene), folder, jobs)
