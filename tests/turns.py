"""`python -m tests.turns COMMIT`: a simulated hop, beside that of an earlier commit, to a percent.

Two versions on a core each differ by as much as the cores do at that moment (see `tests.beside`). Here both
have the same world and the same core, and take turns, a tenth of a second each: whatever disturbs one
disturbs the other, and each counts its own processor time. A version against itself gives 1.00.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.older import ROOT, source_at

TURNS = 120
# The world of `bench sim`. An earlier version may not know that ways can be left out of a trace.
CHILD = """
import gc, sys, tempfile, time
from pathlib import Path
from roost.bench.sim import world_of
from roost.simulation.generators import generate
from roost.simulation.pages import use_large_pages
from roost.traces import TraceWriter

sizes = {"brokers": "63", "subscribers": "2000", "zero_traffic": "0.25", "until_s": "1000000"}
with tempfile.TemporaryDirectory() as folder:
    try:
        trace = TraceWriter(Path(folder), "bench", ways=False)
    except TypeError:
        trace = TraceWriter(Path(folder), "bench")
    world = world_of(generate("tree", 7, sizes), trace)
    world.run(60.0)
    gc.collect()
    gc.freeze()
    use_large_pages()
    print("ready", flush=True)
    for _ in sys.stdin:
        hops, began = world.hops, time.process_time()
        while world.hops - hops < 3_000:
            world.run(world.clock.now + 0.5)
        print((world.hops - hops) / (time.process_time() - began), flush=True)
"""


class Version:
    """A world of one version, which runs when it is its turn."""

    def __init__(self, source: Path, core: int) -> None:
        self._process = subprocess.Popen(
            ["taskset", "-c", str(core), sys.executable, "-c", CHILD],
            cwd=tempfile.gettempdir(),
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"it ended with {self._process.wait()}")
        return line

    def until_ready(self) -> None:
        assert self._line() == "ready\n"

    def turn(self) -> float:
        """How many hops a second of its processor time."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._line())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.turns", description=__doc__)
    parser.add_argument("commit", help="to compare with")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    arguments = parser.parse_args()
    print(f"| core | {arguments.commit}, hops/s | now | ratio, median of {arguments.turns} |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        old = source_at(arguments.commit, Path(folder))
        for core in sorted(os.sched_getaffinity(0)):
            before, now = versions = Version(old, core), Version(ROOT / "src", core)
            for version in versions:
                version.until_ready()
                version.turn()  # the first is of cold caches
            pairs = []
            for number in range(arguments.turns):
                if number % 2:
                    pairs.append((before.turn(), now.turn()))
                else:
                    later = now.turn()
                    pairs.append((before.turn(), later))
            for version in versions:
                version.end()
            was, is_ = (statistics.median(rates) for rates in zip(*pairs, strict=True))
            ratio = statistics.median(late / early for early, late in pairs)
            print(f"| {core} | {was:,.0f} | {is_:,.0f} | {ratio:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
