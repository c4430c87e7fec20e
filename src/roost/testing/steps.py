"""The steps of a simulation one by one, for whoever drives a world by hand instead of by `simulate`.

They are those of `roost.simulation`, which the simulator itself calls all the time; here arguments are looked
at before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roost.client.arguments import (
    check_callable,
    check_flag,
    check_kind,
    check_seconds,
    check_text,
)
from roost.simulation import run as steps
from roost.simulation import workload_file
from roost.simulation.run import Checks
from roost.simulation.workload_file import Workload
from roost.simulation.world import World


def read_workload(path: str | Path) -> Workload:
    """The workload of a file; paths in it are relative to where it stands."""
    check_kind("path", path, (str, Path), "the path of a workload")
    return workload_file.read_workload(Path(path))


def parse_workload(text: str, name: str, folder: Path | None) -> Workload:
    """The workload that a text says; `name` is what messages call it.

    Paths in it are relative to `folder`, or kept as they are without one.
    """
    check_text("text", text, optional=False)
    check_text("name", name, optional=False)
    check_kind("folder", folder, (Path, type(None)), "a path or None")
    return workload_file.parse_workload(text, name, folder)


def run(world: World, until: float, progress: Callable[[float], None] | None = None) -> None:
    """Let time pass up to `until`, in seconds, telling `progress` now and then how much."""
    _check_world(world)
    check_seconds("until", until, optional=False)
    check_callable("progress", progress)
    steps.run(world, until, progress or (lambda _: None))


def rest(world: World) -> bool:
    """Publish no more, decide no more, and let everything arrive. Whether it did."""
    _check_world(world)
    return steps.rest(world)


def check(world: World, *, rested: bool, must_rest: bool = False) -> Checks:
    """What all checkers say now. With `must_rest`, that it did not come to rest is wrong too."""
    _check_world(world)
    check_flag("rested", rested)
    check_flag("must_rest", must_rest)
    return steps.check(world, rested=rested, must_rest=must_rest)


def _check_world(world: World) -> None:
    check_kind("world", world, (World,), "a World")
