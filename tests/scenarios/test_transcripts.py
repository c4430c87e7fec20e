"""Every transcript says what happens. ROOST_REWRITE=1 writes them anew: read the difference."""

from __future__ import annotations

import os
from difflib import unified_diff
from importlib import resources
from pathlib import Path

import pytest

from roost.simulation.workload_file import Workload, parse_workload, read_workload, write_workload
from tests.scenarios.transcript import VERDICT, steps_of, transcribe

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))
FIGURE = resources.files("roost") / "data" / "figure-2.2.workload"
REWRITE = os.environ.get("ROOST_REWRITE") == "1"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    old = path.read_text("utf-8")
    new = transcribe(old, path.name)
    if REWRITE:
        path.write_text(new, "utf-8")
    elif old != new:
        difference = unified_diff(
            old.splitlines(), new.splitlines(), f"{path.name}, as it is", "as it happens now", n=6
        )
        pytest.fail(
            "\n".join(
                [*difference, "", "If that is right: ROOST_REWRITE=1 pytest tests/scenarios"]
            ),
            pytrace=False,
        )


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_every_checker_is_content(path: Path) -> None:
    verdicts = [v for v in path.read_text("utf-8").splitlines() if v.startswith(VERDICT)]
    assert len(verdicts) == 1
    assert verdicts[0].startswith(f"{VERDICT} clean: ")


def test_what_it_said_before_does_not_matter() -> None:
    text = TRANSCRIPTS[0].read_text("utf-8")
    bare = "\n".join(
        line
        for step in steps_of(text)
        for line in ([f"---- {step.title}"] if step.title else []) + step.lines
    )
    assert transcribe(bare, "bare") == transcribe(text, "as it is")


def test_the_workload_that_is_shipped_is_the_transcript() -> None:
    text = (HERE / "figure-2.2.txt").read_text("utf-8")
    shown = parse_workload("\n".join(x for s in steps_of(text) for x in s.lines), "shown", None)
    with resources.as_file(FIGURE) as path:
        shipped = read_workload(path)

    def said(workload: Workload) -> list[str]:
        return write_workload(workload.statements).splitlines()

    assert said(shipped) == said(shown)
    assert shipped.settings == shown.settings
