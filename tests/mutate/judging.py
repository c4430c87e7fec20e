"""Is a mutant noticed? By the tests that execute the line, and if not, by random scenarios.

The quickest tests come first, those of the same package before others, and the first that fails decides. One
that waits for real processes and sockets is run a second time, alone: only if it fails again has it noticed
anything (a machine that is busy fails such tests, too). Nor does any count that fails without the mutant.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.mutate.mutants import Mutant
from tests.mutate.reach import Reach, environment

# A test may take so long, and so many times what it takes.
SLACK_S, SLACK = 20.0, 10.0
START_S = 120.0
# So many are tried first: most mutants are noticed by them, and there are fewer files to read.
FIRST = 50
# Tests of which time is no part.
TIMELESS = ("tests/broker/", "tests/wire/", "tests/relocation/", "tests/simulation/")
# Random scenarios by profile, none that the tests run.
SCENARIOS = (("all", 40), ("edges", 40), ("moves", 20), ("rewirings", 20))
FIRST_SEED = 1_000
FUZZ_S = 900.0
FUZZ = """
import sys
from roost.simulation.fuzz import fuzz
profile, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, first + count):
    _, _, checks = fuzz(seed, profile)
    if not checks.clean or not checks.rested:
        sys.exit(f"seed {seed}")
"""


class Judgement(NamedTuple):
    by: str  # what noticed it; "" if nothing did
    tests: int  # how many execute it
    ran: int  # how many of them there was time for


class Judge:
    """Judges mutants in a copy of the repository."""

    def __init__(self, tree: Path, reach: Reach, budget_s: float, fuzzes: bool) -> None:
        self._tree = tree
        self._reach = reach
        self._budget_s = budget_s
        self._fuzzes = fuzzes
        self._sound: set[str] = set()  # tests that hold without a mutant

    def judge(self, mutant: Mutant) -> Judgement:
        tests = self._tests(mutant)
        chosen = self._within_budget(tests)
        by = self._noticed_for_sure(mutant, chosen)
        if not by and self._fuzzes and mutant.file.startswith("src/roost/broker/"):
            with self._planted(mutant):
                by = self._fuzz()
        return Judgement(by, len(tests), len(chosen))

    def _noticed_for_sure(self, mutant: Mutant, tests: Sequence[str]) -> str:
        while tests:
            with self._planted(mutant):
                by = self._noticed_by(tests)
            if by not in tests or by in self._sound:
                return by
            if not self._fails([by]):
                self._sound.add(by)
                return by
            tests = tests[tests.index(by) + 1 :]
        return ""

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[None]:
        """The file has its old time again afterwards, so that its bytecode is the right one again."""
        file = self._tree / mutant.file
        source, at = file.read_text(), file.stat().st_mtime_ns
        file.write_text(mutant.applied(source))
        try:
            yield
        finally:
            file.write_text(source)
            os.utime(file, ns=(at, at))

    def _tests(self, mutant: Mutant) -> list[str]:
        package = mutant.file.split("/")[2]
        took = self._reach.took
        found = self._reach.tests_of(mutant.file, *mutant.lines)
        # No test is seen to execute it (machine code, or what runs on import), and any may.
        if mutant.on_import or not found:
            found |= self._reach.tests_of_file(mutant.file)
        return sorted(found, key=lambda test: (f"tests/{package}/" not in test, took[test], test))

    def _within_budget(self, tests: Sequence[str]) -> list[str]:
        chosen, left_s = [], self._budget_s
        for test in sorted(tests, key=lambda test: self._reach.took[test]):
            left_s -= self._reach.took[test]
            if left_s >= 0:
                chosen.append(test)
        those = set(chosen)
        return [test for test in tests if test in those]

    def _noticed_by(self, tests: Sequence[str]) -> str:
        while tests:
            failed = self._fails(tests[:FIRST]) or self._fails(tests[FIRST:])
            if failed not in tests:
                return failed  # none at all, or nothing could run
            if failed.startswith(TIMELESS) or self._fails([failed]):
                return failed
            tests = tests[tests.index(failed) + 1 :]
        return ""

    def _fails(self, tests: Sequence[str]) -> str:
        """The first test that fails; "" if none does."""
        if not tests:
            return ""
        limits_s = {test: SLACK_S + SLACK * self._reach.took[test] for test in tests}
        chosen = self._tree / ".mutate-tests.json"
        chosen.write_text(json.dumps(limits_s))
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        options = ("-x", "--tb=no", "-s", "-p", "no:cacheprovider", "-p", "tests.mutate.plugin")
        command = (sys.executable, "-m", "pytest", *options, *files)
        status, said = self._run(
            command, START_S + sum(limits_s.values()), MUTATE_TESTS=str(chosen)
        )
        if status == 0:
            return ""
        begun = re.findall(r"^runs (.*)$", said, re.MULTILINE)
        return begun[-1] if begun else "the first import"

    def _fuzz(self) -> str:
        for profile, count in SCENARIOS:
            command = (sys.executable, "-c", FUZZ, profile, str(FIRST_SEED), str(count))
            status, said = self._run(command, FUZZ_S)
            if status:
                seed = re.search(r"seed \d+$", said)
                return f"fuzz --profile {profile}, {seed.group() if seed else 'falls over'}"
        return ""

    def _run(self, command: Sequence[str], timeout_s: float, **more: str) -> tuple[int, str]:
        """Its exit code, and what it said; with everything that it has started it ends in time."""
        # Bytecode of a mutant would be taken for that of the next one in the same file, within a second.
        env = environment(self._tree, PYTHONDONTWRITEBYTECODE="1", **more)
        with subprocess.Popen(
            command,
            cwd=self._tree,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                said = ""
            finally:
                kill_group(process.pid)
        return process.returncode, said


def kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):  # all of it has ended
        os.killpg(leader, signal.SIGKILL)
