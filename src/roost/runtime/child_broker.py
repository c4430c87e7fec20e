"""A broker as a child process: started on a free port, watched, measured, stopped.

For whoever tests or measures a broker from outside, as those see it who use it. A broker that is well says
two lines on standard error, when it starts and when it stops, and writes its log elsewhere, which is the file
`log` in its folder here: whatever else stands there is a complaint, and so is an error in that log.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from roost.runtime.broker_process import POLL_S, BrokerProcess, Tables, write_settings

HOST = "127.0.0.1"
START_S = 60.0

_listens = re.compile(r"^\S+ listens on (?P<host>\S+):(?P<port>\d+)$", re.MULTILINE).search
_announcement = re.compile(r"\S+ (?:listens on \S+|stops)").fullmatch
_error = re.compile(r'\S+ error |.*"level": "error"').match


class ChildBroker(BrokerProcess):
    """A broker with these settings, in a folder that is its own. It listens when it is made."""

    def __init__(self, folder: Path, settings: Tables) -> None:
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
        write_settings(config, tables)
        self._said.unlink(missing_ok=True)  # what the one before it has said
        super().__init__(config, self._said)
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
