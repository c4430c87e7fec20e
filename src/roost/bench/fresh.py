"""What only a fresh process can tell: how long the first match takes, and how memory grows."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from roost.bench.timing import elapsed_s
from roost.bench.workloads import workload_of
from roost.matching import Index

STARTS = 3
WARM_UP = 1_000

_FIRST_MATCH = """
from roost.language import parse_event, parse_filter
from roost.matching import Index
index = Index()
index.add(1, parse_filter("class = 'STOCK' and volume > 300000"))
assert index.match(parse_event("[class,'STOCK'],[volume,400000]")).tolist() == [1]
"""


def start_up_s() -> float:
    """From starting Python to the first answer, with warm caches."""
    run_child(_FIRST_MATCH)
    return min(elapsed_s(lambda: run_child(_FIRST_MATCH)) for _ in range(STARTS))


def resident_growth(workload: str, subscriptions: int, seed: int) -> int | None:
    """The bytes by which a process grows when its index is loaded from columns; None if unknown."""
    if not Path("/proc/self/statm").exists():
        return None
    arguments = f"{workload!r}, {subscriptions}, {seed}"
    return int(
        run_child(f"from roost.bench.fresh import measure_growth; measure_growth({arguments})")
    )


def measure_growth(workload: str, subscriptions: int, seed: int) -> None:
    """Runs in the child: prints the growth."""
    load = workload_of(workload, seed, subscriptions, 1)
    # A small index first, so that loading the kernels does not count. It stays, so that the other
    # does not grow into what it leaves.
    small, index = Index(), Index()
    for template in workload_of(workload, seed, WARM_UP, 1).templates:
        small.add_columns(*template)
    gc.collect()
    before = resident_bytes()
    for template in load.templates:
        index.add_columns(*template)
    gc.collect()
    print(resident_bytes() - before)
    assert (len(small), len(index)) == (WARM_UP, subscriptions)


def resident_bytes() -> int:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run_child(code: str) -> str:
    """What a fresh interpreter prints that runs this."""
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if child.returncode:
        raise RuntimeError(f"a child process failed:\n{child.stderr}")
    return child.stdout
