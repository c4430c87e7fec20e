"""Roost as strangers get it: built, and installed from the wheel into an environment that has nothing else.

The build tool comes with `script/bootstrap`. What Roost depends on comes from wherever pip gets its packages;
a machine from which pip reaches none can't try this, and says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
UNREACHABLE = re.compile(
    r"Failed to establish a new connection|Name or service not known|Temporary failure in name resolution"
    r"|Max retries exceeded|Network is unreachable|Connection refused|ProxyError|[Tt]imed out"
)


def built(folder: Path) -> Path:
    """The wheel, made from the sdist, so that both are known to be whole."""
    _hatchling(ROOT, "sdist", folder)
    (sdist,) = folder.glob("roost-*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    _hatchling(unpacked(folder), "wheel", folder)
    (wheel,) = folder.glob("roost-*.whl")
    return wheel


def unpacked(folder: Path) -> Path:
    """What is in the sdist that was made there."""
    (sdist,) = folder.glob("roost-*.tar.gz")
    return folder / sdist.name.removesuffix(".tar.gz")


def _hatchling(tree: Path, target: str, folder: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory"]
    made = subprocess.run(
        [*build, str(folder)], cwd=tree, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr


class Environment:
    """A virtual environment, without pip: what is in it was asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = folder / "bin" / "python"
        # Nothing of the tree that is tested is to be found by the environment's Python.
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ROOST_"))
        }
        make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(make, check=True, capture_output=True)

    def install(self, *what: str, constraints: Path) -> None:
        """Has pip install that; skips the test if pip reaches nothing to install from."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        pip += ["--python", str(self._python), "install", "--progress-bar", "off"]
        pip += ["--retries", "1", "--timeout", "30", "--only-binary", ":all:"]
        done = subprocess.run(
            [*pip, "--constraint", str(constraints), *what],
            capture_output=True,
            text=True,
            check=False,
            env=self._variables,
        )
        said = done.stdout + done.stderr
        if done.returncode and UNREACHABLE.search(said):
            pytest.skip(f"pip reaches no packages: {said.splitlines()[-1]}")
        assert done.returncode == 0, said

    @property
    def megabytes(self) -> float:
        """Of all files in it."""
        files = (path for path in self._folder.rglob("*") if not path.is_symlink())
        return sum(path.stat().st_size for path in files if path.is_file()) / 1e6

    def start(self, *words: str, at: Path | None = None) -> subprocess.Popen[str]:
        """One of its programs (`roost`, `python`), elsewhere than in the tree that is tested."""
        program, *arguments = words
        return subprocess.Popen(
            [str(self._folder / "bin" / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=at or self._folder,
            env=self._variables,
        )

    def run(self, *words: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The same, until it ends."""
        with self.start(*words, at=at) as process:
            out, err = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, err)
