"""Cases against a source tree, each in a process of its own, and what they say in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.edges.play import CASE_S
from tests.older import ROOT

# For a process that does not even notice that its time is over.
GRACE_S = 60.0


class Verdict(NamedTuple):
    word: str  # kept, broken, or "went wrong": then the case has shown nothing
    how: str
    took_s: float
    log: str  # what it has said besides

    def __str__(self) -> str:
        return f"{self.word}: {self.how}\n{self.log}"


def judge(name: str, tree: Path) -> Verdict:
    """The client and all brokers are those of the tree; the cases are ours."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, ROOT)))}
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.edges.play", name, str(tree)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its brokers can be ended with it
    )
    said = log = ""
    try:
        said, log = process.communicate(timeout=CASE_S + GRACE_S)
    except subprocess.TimeoutExpired:
        log = "it came to no end"
    finally:  # also if somebody has had enough of waiting
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    last = (said.splitlines() or [f"went wrong: exit code {process.returncode}"])[-1]
    word, _, how = last.partition(": ")
    return Verdict(word, how, time.monotonic() - begin, log)
