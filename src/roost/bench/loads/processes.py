"""Servers as processes: a free port, start, wait until it answers, stop; and the time that it used."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from roost.bench.loads.base import HOST, Scenario
from roost.errors import UserError

START_S = 60.0
STOP_S = 20.0
POLL_S = 0.02
LOG_TAIL_BYTES = 2_000


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def installed(program: str, package: str, places: Sequence[str] = ()) -> str:
    """Where the program is; Debian has servers where not every user looks."""
    found = shutil.which(program, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    found = found or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise UserError(
            f"{program} is not installed; on Debian and Ubuntu: apt-get install {package}"
        )
    return found


def _leash() -> list[str]:
    """What ends a process with the bench, even if that is killed; where the system has it."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "TERM", "--"] if found else []


class Processes:
    """What a server is made of: a folder of its own, and processes that end with it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(
            prefix="roost-bench-", ignore_cleanup_errors=True
        )
        self.folder = Path(self._folder.name)

    def start(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        """Start a process, with these variables besides the usual. What it says is kept for failures."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*_leash(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **(more or {})},
                # A group of its own: signals from the terminal are for the bench, which stops it in order.
                start_new_session=True,
            )
        self._running.append(process)

    def wait_until(self, answers: Callable[[], bool]) -> None:
        """Wait until it does; RuntimeError with the last that it said, if it ends or takes too long."""
        until = time.monotonic() + START_S
        while True:
            over = [process for process in self._running if process.poll() is not None]
            if over or time.monotonic() > until:
                what = f"ended with {over[0].returncode}" if over else f"was silent for {START_S} s"
                said = (self.folder / "log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
                raise RuntimeError(f"{self._name} {what}; it said:\n{said}")
            if answers():
                return
            time.sleep(POLL_S)

    def wait_for_port(self, port: int) -> None:
        """Wait until it accepts connections."""

        def answers() -> bool:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
            except OSError:
                return False
            return True

        self.wait_until(answers)

    def stop(self) -> None:
        """End the processes, the last first, and remove the folder."""
        while self._running:
            process = self._running.pop()
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    process.send_signal(number)
                try:
                    process.wait(STOP_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
            # What it started itself and has left behind is in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self._folder.cleanup()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]


class PrivateServer(ABC):
    """A server of one process or several, on one port unless it says otherwise."""

    name: str

    def __init__(self) -> None:
        self._processes: Processes | None = None
        self.publisher_port = self.subscriber_port = 0

    def start(self, scenario: Scenario) -> None:
        self.publisher_port = self.subscriber_port = free_port()
        self._processes = Processes(self.name)
        try:
            self.launch(self._processes, scenario)
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def launch(self, processes: Processes, scenario: Scenario) -> None:
        """Start what it is made of, and wait until it answers."""

    def stop(self) -> None:
        if self._processes is not None:
            self._processes.stop()
            self._processes = None

    @property
    def pids(self) -> list[int]:
        return self._processes.pids if self._processes is not None else []


# --- processor time -------------------------------------------------------------------------------


def cpu_s(pids: Iterable[int]) -> float:
    """The processor time of processes so far: all threads, and all children, living and dead."""
    stats = _stats()
    ticks = 0
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in stats:
            raise RuntimeError(f"process {pid} is gone")
        ticks += stats[pid][1]
        waiting += [child for child, (parent, _) in stats.items() if parent == pid]
    return ticks / os.sysconf("SC_CLK_TCK")


def _stats() -> dict[int, tuple[int, int]]:
    """(parent, ticks) of every process; of children that it has waited for, it has the ticks."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text("ascii", errors="replace")
            except OSError:
                continue  # it has just ended
            # Behind the name, which may hold anything: state, parent, ...; times are fields 14 to 17.
            fields = text[text.rindex(")") + 2 :].split()
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    return found
