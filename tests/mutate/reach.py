"""Which tests execute a line, for a commit: measured once, and carried over to the commits behind.

Measuring takes as long as all the tests, and half as long again. So what is known of one commit is kept
(`.cache/mutate/reach/COMMIT.json`), and for another one only the tests of files that have changed are run;
lines of sources are found again by comparing the texts. What runs in processes of its own is not seen: those
tests execute no line that others don't.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "mutate"
# Those that reach brokers, the wire, clients, relocation and the store. The others take long and add little;
# random scenarios are run for survivors (see `judging`).
TESTS = (
    *("broker", "wire", "client", "relocation", "scenarios", "runtime", "simulation"),
    *("chunks", "entry", "testing", "test_public.py"),
)
LEFT_OUT = {"tests/simulation/test_planted_bugs.py"}

# file -> line -> tests
Lines = dict[str, dict[int, set[str]]]


def git(*arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


class Reach:
    """What each line is executed by, and how long each test takes."""

    def __init__(self, took: dict[str, float], lines: Lines) -> None:
        self.took = took
        self._lines = lines

    def tests_of(self, file: str, first: int, last: int) -> set[str]:
        """The tests that execute any of these lines."""
        lines = self._lines.get(file, {})
        return set().union(*(lines.get(line, ()) for line in range(first, last + 1)))

    def tests_of_file(self, file: str) -> set[str]:
        """Those that execute any line of it, and those of its package, which may read what it declares."""
        found = set().union(*self._lines.get(file, {}).values())
        folder = f"tests/{file.split('/')[2]}/"
        return found | {test for test in self.took if test.startswith(folder)}

    def add(self, part: dict[str, Any]) -> None:
        """Take in what a process has recorded."""
        tests = list(part["took"])
        self.took.update(part["took"])
        for file, by_line in part["lines"].items():
            lines = self._lines.setdefault(file, {})
            for line, numbers in by_line.items():
                lines.setdefault(int(line), set()).update(tests[number] for number in numbers)

    def as_json(self) -> dict[str, Any]:
        number = {test: number for number, test in enumerate(self.took)}
        lines = {
            file: {line: sorted(number[t] for t in tests) for line, tests in by_line.items()}
            for file, by_line in self._lines.items()
        }
        return {"took": self.took, "lines": lines}

    def carried_over(self, old: str, new: str, changed: set[str]) -> Reach:
        """The same for another commit, without the tests of the files that have changed."""
        took = {t: s for t, s in self.took.items() if t.partition("::")[0] not in changed}
        lines: Lines = {}
        sources = set(git("diff", "--name-only", "--no-renames", old, new, "--", "src").split())
        for file, by_line in self._lines.items():
            kept = {line: {t for t in tests if t in took} for line, tests in by_line.items()}
            there = file not in sources or git("ls-tree", new, file)
            if there:
                lines[file] = moved(kept, old, new, file) if file in sources else kept
        return Reach(took, lines)


def moved(by_line: dict[int, set[str]], old: str, new: str, file: str) -> dict[int, set[str]]:
    """Lines where they are now; a new one belongs to the tests of what was there, and of the line before."""
    before, after = (git("show", f"{commit}:{file}").splitlines() for commit in (old, new))
    result: dict[int, set[str]] = {}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, first, stop, new_first, new_stop in matcher.get_opcodes():
        if tag == "equal":
            for line in range(first, stop):
                if line + 1 in by_line:
                    result[line + 1 - first + new_first] = by_line[line + 1]
        else:
            around = [by_line[n] for n in range(max(first, 1), stop + 1) if n in by_line]
            for line in range(new_first, new_stop):
                result[line + 1] = set().union(*around)
    return result


def tree_of(commit: str, number: int) -> Path:
    """A copy of the repository as of a commit, to do with as one likes; those of others go."""
    trees = CACHE / "trees"
    tree = trees / commit / str(number)
    for other in trees.glob("*"):
        if other.name != commit:
            shutil.rmtree(other)
    tree.mkdir(parents=True, exist_ok=True)
    # Also over one that is there: a run that was killed has left its mutant in it.
    with subprocess.Popen(("git", "archive", commit), cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(("tar", "x", "-C", str(tree)), stdin=archive.stdout, check=True)
    return tree


def environment(tree: Path, **more: str) -> dict[str, str]:
    """For processes that run what is in a tree, and not what is installed."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": f"{tree / 'src'}:{tree}", **more}


def compile_all(tree: Path) -> None:
    """Have bytecode of sources and tests in a tree: those that judge there write none (see `judging`)."""
    command = (sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0")
    subprocess.run(
        (*command, *(f"tests/{test}" for test in TESTS)),
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.DEVNULL,
        check=False,
    )


def reach_of(commit: str, jobs: int) -> Reach:
    """What is known of a commit; what isn't is measured."""
    kept = CACHE / "reach" / f"{commit}.json"
    reach = Reach({}, {})
    if kept.exists():
        reach.add(json.loads(kept.read_text()))
        return reach
    there = set(git("ls-tree", "-r", "--name-only", commit, *(f"tests/{t}" for t in TESTS)).split())
    run = {file for file in there if Path(file).name.startswith("test_")} - LEFT_OUT
    older = max(kept.parent.glob("*.json"), key=lambda file: file.stat().st_mtime, default=None)
    if older is not None:
        reach.add(json.loads(older.read_text()))
        changed = git("diff", "--name-only", "--no-renames", older.stem, commit, "--", "tests")
        reach = reach.carried_over(older.stem, commit, set(changed.split()))
        known = {test.partition("::")[0] for test in reach.took}
        run = {file for file in run if file in changed.split() or file not in known}
    if run:
        record(reach, tree_of(commit, 0), sorted(run), jobs)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(reach.as_json()))
    return reach


def record(reach: Reach, tree: Path, files: Iterable[str], jobs: int) -> None:
    """Run tests, and add what they execute."""
    folder = CACHE / "parts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = (sys.executable, "-m", "pytest", "-p", "tests.mutate.plugin", "-n", str(jobs), *files)
    print(" ".join(command[1:]), file=sys.stderr)
    # Some may fail: they judge nothing then.
    subprocess.run(
        command,
        cwd=tree,
        env=environment(tree, MUTATE_RECORD=str(folder)),
        stdout=sys.stderr,
        check=False,
    )
    for part in folder.glob("*.json"):
        reach.add(json.loads(part.read_text()))
