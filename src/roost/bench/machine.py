"""Where a figure was measured: the machine, the versions and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import roost


def machine() -> dict[str, str | int]:
    """What the figures depend on besides the code."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def commit() -> str:
    """The commit that runs, marked if the code differs from it; "unknown" outside of a checkout."""
    package = Path(roost.__file__)
    # Somebody else's repository may lie around an installed Roost; it does not track this file.
    if _git(package.parent, "ls-files", "--error-unmatch", package.name) is None:
        return "unknown"
    described = _git(package.parent, "describe", "--always", "--exclude=*", "--abbrev=12")
    # Only the code counts: a report that is being written is a change too.
    changed = _git(package.parent, "status", "--porcelain", "--", ".")
    return f"{described}-dirty" if changed else described or "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
