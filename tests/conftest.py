"""What all tests share: how hard the property tests try, and which process runs a test if several do.

ROOST_HYPOTHESIS=thorough tries many examples, others each time; the default ("ci") few, always the same.
A failure prints the decorator that replays it.
"""

import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Commands print as they do into a file, however wide the terminal is that the tests run in.
os.environ.pop("COLUMNS", None)

# The same examples each time: whether a change is let in must not depend on luck. Others are looked for by
# `thorough`, each time anew.
settings.register_profile("ci", max_examples=60, deadline=None, print_blob=True, derandomize=True)
settings.register_profile(
    "thorough", settings.get_profile("ci"), max_examples=5000, derandomize=False
)
settings.load_profile(os.environ.get("ROOST_HYPOTHESIS") or "ci")


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives what shares something that is dear to make to one process; all others go to whoever is free.

    Files whose tests want the Spark session share that, and the tests of a file what it makes once for all
    of them: one test at a time, each of the processes would make it anew. Groups go first, the largest
    before all, so that no process is left alone with one at the end. (xdist's `loadgroup` is for this, and
    does nothing since pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _shares(self.config.rootpath / file) or nodeid


@cache
def _shares(file: Path) -> str:
    """What the tests of a file share, if they do."""
    text = file.read_text("utf-8")
    if "spark: " in text:
        return "Spark"
    return str(file) if 'scope="module"' in text else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
