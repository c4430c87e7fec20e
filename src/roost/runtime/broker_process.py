"""A broker as a process: its settings written to a file, and the process started with them.

This is the one place that knows how to do both. `roost up` leaves what it has started to itself (`start`);
whoever tests or measures a broker from outside looks after it as its parent (`BrokerProcess`, and
`child_broker` for one that is also waited for).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from roost.runtime import processes
from roost.runtime.processes import Process
from roost.runtime.toml_file import toml_value

STOP_S = 20.0
POLL_S = 0.02

# The tables of a settings file, and the keys that are not as by default.
Tables = Mapping[str, Mapping[str, object]]


def write_settings(path: Path, tables: Tables, remark: str = "") -> None:
    """A settings file that its owner alone may read: there may be a token in it."""
    lines = [f"# {remark}\n"] if remark else []
    for name, keys in tables.items():
        if keys:
            lines.append(f"[{name}]\n")
        lines += [f"{key} = {toml_value(value)}\n" for key, value in keys.items()]
    path.write_text("".join(lines), "utf-8")
    path.chmod(0o600)


def command_of(config: Path) -> list[str]:
    """The command line of a broker with these settings."""
    return [sys.executable, "-m", "roost", "broker", "--config", os.fspath(config)]


def start(config: Path, log: Path, environment: Mapping[str, str] | None = None) -> Process:
    """A broker that lives on without us; what it says goes to the end of the log."""
    return processes.start(command_of(config), log, environment)


class BrokerProcess:
    """A broker that is our child, whether it listens yet or not."""

    def __init__(
        self, config: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = start(config, log, environment)
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """None while it lives; negative if a signal ended it."""
        if self._exit_code is None:
            self._exit_code = processes.exit_code(self._process)
        return self._exit_code

    def signal(self, number: signal.Signals) -> None:
        """Nothing happens if it has ended."""
        if self.alive:  # and so nobody else has its number
            os.kill(self.pid, number)

    def wait(self, within_s: float) -> int | None:
        """Until it has ended; None if it has not within this time."""
        until = time.monotonic() + within_s
        while self.alive and time.monotonic() < until:
            time.sleep(POLL_S)
        return self.exit_code

    def kill(self) -> int:
        """At once, whatever it is at."""
        self.signal(signal.SIGKILL)
        code = self.wait(processes.KILL_S)
        if code is None:
            raise RuntimeError(f"the process {self.pid} hangs in the system")
        return code

    def stop(self) -> int:
        """Ask it to stop, and make it if it does not; its exit code."""
        self.signal(signal.SIGTERM)
        code = self.wait(STOP_S)
        return self.kill() if code is None else code
