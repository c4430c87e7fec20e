"""The walk-through of docs/PIPELINE.md, as it stands there: every command, and every line of Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.pipeline.walk_through import blocks_of

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "PIPELINE.md"


def test_the_walk_through_runs(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ROOST_LAKE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.walk_through", DOCUMENT],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    # Nothing but the progress of the sweep.
    assert re.fullmatch(r"(\d+ of 4 cells.*\n)+", done.stderr)
    assert "broadcast" in done.stdout


def test_it_has_commands_and_python() -> None:
    assert [language for language, _ in blocks_of(DOCUMENT)].count("python") >= 4
    assert {"console", "python"} == {language for language, _ in blocks_of(DOCUMENT)}
