"""The fixture of all tests of the command line."""

from __future__ import annotations

import pytest

from tests.cli.support import Roost, make_roost


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    """Runs `roost` with these arguments: `roost("covers", "x > 1", "x > 2").code`."""
    return make_roost(capsys, monkeypatch)
