"""A broker as a child process: started on a free port, watched, measured, stopped.

For whoever tests or measures a broker from outside, as those see it who use it. A broker that is well says
two lines on standard error, when it starts and when it stops, and writes its log elsewhere, which is the file
`log` in its folder here: whatever else stands there is a complaint, and so is an error in that log.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from roost.runtime.toml_file import toml_value

HOST = "127.0.0.1"
START_S = 60.0
STOP_S = 20.0
POLL_S = 0.02

Settings = Mapping[str, Mapping[str, object]]

_listens = re.compile(r"^\S+ listens on (?P<host>\S+):(?P<port>\d+)$", re.MULTILINE).search
_announcement = re.compile(r"\S+ (?:listens on \S+|stops)").fullmatch
_error = re.compile(r'\S+ error |.*"level": "error"').match


class ChildBroker:
    """A broker with these settings, in a folder that is its own."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.host, self.port = HOST, 0
        self._said, self._log = folder / "said", folder / "log"
        tables: dict[str, dict[str, object]] = {
            "broker": {"host": HOST, "port": 0},
            "admin": {"port": -1},
            "log": {"file": "log"},
        }
        for name, keys in settings.items():
            tables.setdefault(name, {}).update(keys)
        config = folder / "roost.toml"
        config.write_text(
            "".join(
                f"[{name}]\n" + "".join(f"{key} = {toml_value(v)}\n" for key, v in keys.items())
                for name, keys in tables.items()
            )
        )
        config.chmod(0o600)
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roost", "broker", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                # Signals of the terminal are for the parent, which stops it in order.
                start_new_session=True,
            )
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.stop()
            raise

    def _wait_until_it_listens(self) -> None:
        until = time.monotonic() + START_S
        while (found := _listens(self.said())) is None:
            if not self.alive or time.monotonic() > until:
                raise RuntimeError(f"the broker does not start; it said:\n{self.said()}")
            time.sleep(POLL_S)
        self.port = int(found["port"])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """None while it lives; negative if a signal ended it."""
        return self._process.poll()

    def said(self) -> str:
        """On standard error, and in its log."""
        files = [file for file in (self._said, self._log) if file.exists()]
        return "".join(file.read_text("utf-8", "replace") for file in files)

    def complaints(self) -> list[str]:
        """The lines that a broker that is well does not say."""
        said = self._said.read_text("utf-8", "replace").splitlines()
        errors = [line for line in self._log.read_text().splitlines() if _error(line)]
        return [line for line in said if line and not _announcement(line)] + errors

    def resident_bytes(self) -> int:
        """The memory that it has now."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii", "replace")
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"the broker has ended, with exit code {self.exit_code}")
        return int(found[1]) * 1024

    def stop(self) -> int:
        """Ask it to stop, and make it if it does not; its exit code."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
