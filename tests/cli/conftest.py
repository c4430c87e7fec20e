"""The fixtures of all tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Roost, make_roost


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    """Runs `roost` with these arguments: `roost("covers", "x > 1", "x > 2").code`."""
    return make_roost(capsys, monkeypatch)


@pytest.fixture(autouse=True)
def settings_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where contexts are noted: not among those of whoever runs the tests."""
    folder = tmp_path / "settings"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("ROOST_CONTEXT", raising=False)
    return folder
