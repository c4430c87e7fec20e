"""A broker as a process of ours: its settings, its signals, its end. The brokers are stand-ins."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roost.runtime import broker_process
from roost.runtime.broker_process import BrokerProcess, Tables, command_of, write_settings
from roost.runtime.config import read_config

Start = Callable[[str], BrokerProcess]

SLEEPER = "print('here', flush=True); import time; time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SLEEPER


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """A process that runs this code, and has come to its first word."""

    def begin(code: str) -> BrokerProcess:
        command = [sys.executable, "-c", code]
        monkeypatch.setattr(broker_process, "command_of", lambda _: command)
        log = tmp_path / "log"
        process = BrokerProcess(tmp_path / "roost.toml", log, {**os.environ, "WORD": "word"})
        until = time.monotonic() + 20
        while not log.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        return process

    return begin


def test_settings_are_read_back_and_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "roost.toml"
    tables: Tables = {
        "broker": {"name": "B7", "port": 0},
        "trace": {},
        "links": {"neighbours": {"B1": ""}},
    }
    write_settings(path, tables, "Written by a test.")
    settings = read_config(path)
    assert (settings.broker.name, settings.links.neighbours) == ("B7", {"B1": ""})
    assert path.read_text().startswith("# Written by a test.\n[broker]\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_command_line_is_that_of_a_broker(tmp_path: Path) -> None:
    assert command_of(tmp_path)[1:] == ["-m", "roost", "broker", "--config", str(tmp_path)]


def test_it_ends_when_it_is_asked_to(start: Start) -> None:
    process = start(SLEEPER)
    assert process.alive
    assert process.wait(0.0) is None
    assert process.stop() == -signal.SIGTERM
    assert not process.alive
    assert process.stop() == process.kill() == -signal.SIGTERM  # again is no harm


def test_one_that_does_not_end_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(STUBBORN)
    monkeypatch.setattr(broker_process, "STOP_S", 0.3)
    assert process.stop() == -signal.SIGKILL


def test_how_it_has_ended_by_itself(start: Start, tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['WORD'], flush=True); sys.exit(3)"
    assert start(code).wait(20.0) == 3
    assert (tmp_path / "log").read_text() == "word\n"
