"""`python -m tests.edges`: the table of all cases, or of some, against a source tree.

The exit code is 0 if all promises are kept, and 1 if not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.edges import BROKEN
from tests.edges.judge import judge
from tests.edges.play import CASES
from tests.older import ROOT, source_at


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.edges", description=__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--tree", type=Path, default=ROOT / "src", help="what is in PYTHONPATH")
    where.add_argument("--commit", help=f"the tree of a commit, such as {BROKEN}")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all, if none is named")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"there is no case {min(unknown)!r}; expected one of {', '.join(CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        tree = arguments.tree
        if arguments.commit:
            tree = source_at(arguments.commit, Path(folder))
        return table(tree.resolve(), arguments.cases or list(CASES))


def table(tree: Path, names: list[str]) -> int:
    print("| case | verdict | seconds |\n| --- | --- | --- |")
    kept = 0
    for name in names:
        verdict = judge(name, tree)
        print(f"| {name} | {verdict.word}: {verdict.how} | {verdict.took_s:.0f} |", flush=True)
        if verdict.word == "went wrong":
            print(verdict.log, file=sys.stderr)
        kept += verdict.word == "kept"
    return 0 if kept == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
