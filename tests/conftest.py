"""What all tests share: how hard the property tests try, and which process runs a test if several do.

ROOST_HYPOTHESIS=thorough tries many examples, others each time; the default ("ci") few, always the same.
A failure prints the decorator that replays it.
"""

import os

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

# Their sessions are processes of their own.
WITHOUT_THE_SESSION = ("test_serving.py", "test_walk_through.py")


class OneSparkSession(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of the pipeline to one process, and that first, for they share a Spark session.

    All others go to whoever is free. (xdist's `loadgroup` is for this, and does nothing since pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        shares = file.startswith("tests/pipeline/") and not file.endswith(WITHOUT_THE_SESSION)
        return "pipeline" if shares else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSparkSession:
    return OneSparkSession(config, log)
