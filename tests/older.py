"""Roost as it was at some commit: its source, out of the history, to be run beside today's."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = Path("src/roost/matching/kernels")


class NoHistory(Exception):  # noqa: N818 (it says what is so)
    """This copy of the repository does not have that commit."""


def source_at(commit: str, folder: Path, *, serves: bool = True) -> Path:
    """What is to be in PYTHONPATH for it: the folder `src` of that commit, unpacked here, and its docs.

    Unless it `serves`, as brokers do, nothing has to be compiled for it.
    """
    try:
        found = subprocess.run(
            ["git", "archive", commit, "src", "docs", "README.md"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise NoHistory(f"there is no git to get {commit} with: {error}") from None
    if found.returncode:
        said = found.stderr.decode("utf-8", "replace").strip()
        raise NoHistory(f"{commit} is not in the history of this copy: {said}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    if not serves:
        return folder / "src"
    # The kernels of the index take minutes to compile on a busy machine. As long as they are the same, those
    # that are compiled already will do.
    same = ["git", "diff", "--quiet", commit, "--", str(KERNELS)]
    if subprocess.run(same, cwd=ROOT, check=False).returncode == 0:
        shutil.rmtree(folder / KERNELS)
        (folder / KERNELS).symlink_to(ROOT / KERNELS)
    warm_up(folder / "src")
    return folder / "src"


def warm_up(source: Path) -> None:
    """Compile what a broker runs: it is kept beside the source.

    Once here, rather than by all processes at the same time, which takes longer than clients wait for an
    advertisement to settle.
    """
    warm = "from roost.runtime import main, warming; import roost; warming.warm_up()"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    subprocess.run([sys.executable, "-c", warm], env=environment, check=True)
