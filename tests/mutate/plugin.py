"""Two plugins of pytest in one: who executes which line, and the tests that are to judge a mutant.

With `MUTATE_RECORD=FOLDER` each process of a run leaves a file there: how long each test that passed took,
and the tests that execute each line. With `MUTATE_TESTS=FILE`, ids with a time limit for each, those
run and no others, in the order of the list. A test that takes longer than its limit takes the process with
it: a mutant that loops can't be stopped in any gentler way. Nor may it take all memory while it does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MAX = 3 << 30


class Recorder:
    """Writes down what each test executes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._took: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = Coverage(
            data_file=None, include=[f"{ROOT}/src/roost/*"], config_file=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration
        if not report.passed:  # one that is skipped judges nothing, either
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        took = {test: took for test, took in self._took.items() if test not in self._failed}
        number = {test: number for number, test in enumerate(took)}  # a line may have thousands
        lines = {
            str(Path(file).relative_to(ROOT)): {
                line: [number[test] for test in tests if test in number]
                for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        found = {"took": took, "failed": sorted(self._failed), "lines": lines}
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(found))


class Chosen:
    """Runs the tests of a list, each within its time."""

    def __init__(self, limits_s: dict[str, float]) -> None:
        self._limits_s = limits_s
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {test: number for number, test in enumerate(self._limits_s)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        print(f"\nruns {item.nodeid}", flush=True)
        signal.setitimer(signal.ITIMER_REAL, self._limits_s[item.nodeid])
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_configure(config: pytest.Config) -> None:
    folder, tests = os.environ.get("MUTATE_RECORD"), os.environ.get("MUTATE_TESTS")
    # With xdist only its workers run tests.
    if folder and (hasattr(config, "workerinput") or not config.getoption("numprocesses")):
        config.pluginmanager.register(Recorder(Path(folder)))
    if tests:
        config.pluginmanager.register(Chosen(json.loads(Path(tests).read_text())))
