"""One case against the source tree that is in PYTHONPATH: `python -m tests.edges.play CASE TREE`.

It says its verdict in the last line: kept, broken, or that the case itself went wrong, and how.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import traceback
from pathlib import Path

import roost
from tests.edges import (
    acknowledged,
    calls,
    data,
    documents,
    healing,
    limits,
    names,
    strangers,
    telling,
)
from tests.edges.kit import CASES, BrokenPromise, Case, Stage

__all__ = ["CASES", "STORIES", "play"]

STORIES = (
    acknowledged,
    names,
    strangers,
    healing,
    limits,
    telling,
    calls,
    data,
    documents,
)  # whose cases are in CASES by now
CASE_S = 240.0


async def play(case: Case) -> str:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            async with asyncio.timeout(CASE_S):
                return f"kept: {await case.play(stage)}"
        except BrokenPromise as broken:
            return f"broken: {broken}"
        except Exception as error:
            traceback.print_exc()
            for broker in stage.brokers:
                print(f"--- {broker.name} said:\n{broker.said()}", file=sys.stderr)
            return f"went wrong: {type(error).__name__}: {error}"
        finally:
            await stage.clear()


def main(name: str, tree: str) -> None:
    found = Path(roost.__file__).parents[1]
    if not found.samefile(tree):
        print(f"went wrong: roost comes from {found}")
        return
    verdict = asyncio.run(play(CASES[name]))
    print(" ".join(verdict.split()))


if __name__ == "__main__":
    main(*sys.argv[1:])
