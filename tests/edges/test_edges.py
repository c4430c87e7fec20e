"""Each promise at the edges is kept today; and the case would notice: it was broken once, in these words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.edges import BROKEN
from tests.edges.judge import judge
from tests.edges.kit import Case
from tests.edges.play import CASES
from tests.older import ROOT, NoHistory, source_at, warm_up

# Dozens of brokers are started, one after the other, and some cases wait for what does not come.
pytestmark = pytest.mark.long

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def now() -> Path:
    warm_up(ROOT / "src")
    return ROOT / "src"


@pytest.fixture(scope="module")
def then(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return source_at(BROKEN, tmp_path_factory.mktemp("then"))
    except NoHistory as error:
        pytest.skip(f"what was broken once can't be shown: {error}")


@every_case
def test_it_is_kept(case: Case, now: Path) -> None:
    verdict = judge(case.name, now)
    assert verdict.word == "kept", str(verdict)


@every_case
def test_it_was_broken(case: Case, then: Path) -> None:
    """In the words that the case expects: one that fails for another reason shows nothing."""
    verdict = judge(case.name, then)
    if case.once:
        assert verdict.word == "broken", str(verdict)
        assert re.match(case.once, verdict.how), str(verdict)
    else:
        assert verdict.word == "kept", str(verdict)
