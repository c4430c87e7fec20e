"""A case that is kept, one that is broken and one that goes wrong are three things."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.edges.kit import STOCK, BrokenPromise, Case, Stage, all_of
from tests.edges.play import CASES, play
from tests.older import NoHistory, source_at


async def kept(stage: Stage) -> str:
    assert stage.folder.is_dir()
    return "10 of 10"


async def broken(_: Stage) -> str:
    return all_of([1, 2, 4], range(1, 5))


async def wrong(stage: Stage) -> str:
    await stage.broker("B0", limits={"no_such_limit": 1})
    return STOCK


@pytest.mark.parametrize(
    ("story", "verdict"),
    [
        (kept, "kept: 10 of 10"),
        (broken, "broken: LOST 1 of 4"),
        (wrong, "went wrong: RuntimeError: B0 does not start; it said:\n.*no_such_limit"),
    ],
)
def test_verdicts(story: object, verdict: str) -> None:
    said = asyncio.run(play(Case("a-case", story, "")))  # type: ignore[arg-type]
    assert re.match(verdict, said, re.DOTALL)


def test_what_has_come() -> None:
    assert all_of([3, 1, 4, 2], range(1, 3), range(3, 5)) == "all 4 came"
    for came in ([1, 1, 2], [2, 1]):
        with pytest.raises(BrokenPromise, match="DOUBLED or out of order"):
            all_of(came, range(1, 3))


def test_every_case_says_what_is_promised() -> None:
    assert all(case.promise.endswith(".") for case in CASES.values())


def test_a_commit_that_is_not_there(tmp_path: Path) -> None:
    """As in a copy without history: what it takes to say so is not mistaken for a broken promise."""
    with pytest.raises(NoHistory, match=r"is not in the history of this copy|there is no git"):
        source_at("0" * 40, tmp_path)
