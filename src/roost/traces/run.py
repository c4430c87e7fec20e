"""What a run was: its name, and the row of the table `runs` for each that writes into it.

A run is a folder of every table, `TABLE/run=NAME`, and may have several writers: the brokers of a live
federation, or the steps of a pipeline. Each writes files of its own, called its *part*, and says on its own
what it was made of, so that none has to wait for another. Nothing here tells the time: where time is virtual,
the same seed gives the same bytes.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

import roost
from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.traces.schemas import SCHEMAS

NAME_MAX = 200
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_MAX}}}")
# Spark and Hive take this one for no name at all.
_NO_NAME = "__HIVE_DEFAULT_PARTITION__"
_SEED_MAX = 2**63 - 1
_PART_MAX = 80

LIBRARIES = ("numpy", "numba", "pyarrow")
# Noted only where it took part.
LOADED_LIBRARIES = ("pyspark",)


class About(Struct, frozen=True):
    """What a part of a run was made of."""

    kind: str
    seed: int | None = None
    config: Mapping[str, Any] = {}
    began: float | None = None  # in seconds since the epoch; None where time is virtual


UNKNOWN = About("unknown")


def check_run_name(name: str) -> None:
    """A `UserError` if a run can't have this name: it is that of a folder, and a value for Spark."""
    if not _NAME.fullmatch(name) or name == _NO_NAME:
        raise UserError(
            f"a run can't be called {abbreviate(name)!r}; expected letters, digits, '_', '.' and '-',"
            f" up to {NAME_MAX}"
        )


def safe_name(text: str) -> str:
    """A text as part of a file's name: as it is if that will do, and never the same for two texts."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_PART_MAX]
    return safe if safe == text else f"{safe}-{sha256(text.encode()).hexdigest()[:8]}"


def part_path(folder: Path, table: str, run: str, part: str) -> Path:
    """Where a part of a run has its rows of a table."""
    return folder / table / f"run={run}" / f"part-{safe_name(part)}.parquet"


def hidden(path: Path) -> Path:
    """Where a file is until it is whole: readers of tables pass over names that begin with a dot."""
    return path.with_name(f".{path.name}.writing")


def versions() -> dict[str, str]:
    """Of all that may change what a run gives."""
    loaded = [name for name in LOADED_LIBRARIES if name in sys.modules]
    return {
        "roost": roost.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in (*LIBRARIES, *loaded)},
    }


def about_row(part: str, about: About) -> pa.Table:
    """The row of `runs`."""
    if about.seed is not None and abs(about.seed) > _SEED_MAX:
        raise UserError(
            f"the seed {about.seed} can't be noted in the table 'runs'; expected one up to {_SEED_MAX}"
        )
    row = {
        "part": part,
        "kind": about.kind,
        "seed": about.seed,
        "config": msgspec.json.encode(about.config).decode(),
        "versions": msgspec.json.encode(versions()).decode(),
        "began": about.began,
    }
    return pa.Table.from_pylist([row], SCHEMAS["runs"])


def write_row(path: Path, row: pa.Table) -> None:
    """Writes the row of `runs`, or replaces it, in one step. OSError if that can't be done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_anew(hidden(path)) as file:
        pq.write_table(row, file, compression="zstd")
    hidden(path).replace(path)


def open_anew(path: Path) -> BinaryIO:
    """A file that was not there: what was left in its place, a link say, is removed, not followed."""
    path.unlink(missing_ok=True)
    return path.open("xb")
