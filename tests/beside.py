"""`python -m tests.beside COMMIT -- bench sim --no-growth`: a benchmark, beside that of an earlier commit.

A shared machine is a third faster in one minute than in the next, so that two versions that are measured one
after the other differ by more than what is looked for. Here both run at the same moment, each on a core of
its own, and change cores from pair to pair; what counts is the ratio within a pair, and the median of those.
A benchmark with clients has them on the same core: rates are lower, ratios are what they are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.older import ROOT, source_at

PAIRS = 6


def begin(source: Path, core: int, words: list[str]) -> subprocess.Popen[bytes]:
    command = ["taskset", "-c", str(core), sys.executable, "-m", "roost", *words, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.Popen(
        command, cwd=tempfile.gettempdir(), env=environment, stdout=subprocess.PIPE
    )


def pair(old: Path, new: Path, cores: tuple[int, int], words: list[str]) -> dict[str, float]:
    """How many times the old figure each new one is."""
    began = begin(old, cores[0], words), begin(new, cores[1], words)
    before, now = (json.loads(process.communicate()[0])["results"] for process in began)
    return {
        name: now[name] / value
        for name, value in before.items()
        if isinstance(value, int | float) and value and now.get(name)
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.beside", description=__doc__)
    parser.add_argument("commit", help="to compare with")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N")
    parser.add_argument("bench", nargs="+", help="what to run, behind --: bench sim --no-growth")
    arguments = parser.parse_args()
    a, b, *_ = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        old, new = source_at(arguments.commit, Path(folder)), ROOT / "src"
        pairs = []
        for number in range(arguments.pairs):
            pairs.append(pair(old, new, (b, a) if number % 2 else (a, b), arguments.bench))
            print(f"pair {number + 1} of {arguments.pairs}", file=sys.stderr, flush=True)
    print(f"| now / {arguments.commit} | median | of each pair |\n| --- | --- | --- |")
    for name in pairs[0]:
        ratios = [found[name] for found in pairs if name in found]
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"| {name} | {statistics.median(ratios):.3f} | {each} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
