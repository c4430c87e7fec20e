"""A cluster that loses an executor half-way gives what it gives undisturbed: `local-cluster` is a master."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.parametrize("what", ["match", "stream", "sweep"])
def test_an_executor_is_lost_half_way(what: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.pipeline.lost_executor", what, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"]
    assert told["same"]
    assert told["rows"] > 1
