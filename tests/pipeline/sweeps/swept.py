"""Tasks for the tests of sweeps; other processes import them from here."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from roost.pipeline.sweeps.tasks import Parameters, Row

HERE = "tests.pipeline.sweeps.swept"


def mark(parameters: Parameters, seed: int) -> int:
    """Notes that the cell was begun; gives how often that was."""
    with Path(str(parameters["marks"]), f"seed-{seed}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len(Path(str(parameters["marks"]), f"seed-{seed}").read_text().splitlines())


def counts(parameters: Parameters, seed: int) -> Row:
    """Figures of all kinds."""
    x = parameters["x"]
    assert isinstance(x, int)
    print("this is not for standard output")
    return {
        "whole": x * x + seed,
        "share": np.float64(x / 8),
        "odd": bool(x % 2),
        "word": f"x{x}",
        "nothing": None,
        "endless": float("inf"),
    }


def dies_once(parameters: Parameters, seed: int) -> Row:
    """Seed 1 is killed when it is first run."""
    if mark(parameters, seed) == 1 and seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": seed}


def dies_always(parameters: Parameters, seed: int) -> Row:
    """Seed 1 is killed whenever it is run."""
    mark(parameters, seed)
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": seed}


def fails(parameters: Parameters, seed: int) -> Row:
    """Seed 1 raises, unless there is a file `mended`."""
    mark(parameters, seed)
    if seed == 1 and not Path(str(parameters["marks"]), "mended").exists():
        raise ValueError("one is too many")
    return {"value": seed}


def hangs(parameters: Parameters, seed: int) -> Row:
    """Seed 2 says on a pipe that it has begun, and then waits for its end, unless there is a file `go`."""
    mark(parameters, seed)
    folder = Path(str(parameters["marks"]))
    if seed == 2 and not (folder / "go").exists():
        with (folder / "pipe").open("w"):
            signal.pause()
    return {"value": seed}


def breaks_promises(_: Parameters, seed: int) -> Row:
    """Seed 1 finds violations."""
    return {
        "delivered": 10,
        "lost": seed,
        "violations": seed,
        "first_violation": "P1:3 never reached S1" if seed else None,
    }


def gives_a_list(_: Parameters, seed: int) -> Row:
    return {"value": [seed]}  # type: ignore[dict-item]


def gives_a_parameter(_: Parameters, seed: int) -> Row:
    return {"X": seed}
