"""The brokers of a chaos run: a chain of real processes, each with its store, and what is done to them.

Where it may (as root), each store has a small file system of its own, in memory, which can be filled up. A
broker that was killed is started again with what its store holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from roost.errors import UserError

HOST = "127.0.0.1"
START_S = 30.0
# Larger than what a store needs, so that only what we put there fills it.
DISK_BYTES = 256_000_000
FILLER = "filler"
FILL_CHUNK = b"\0" * 1_000_000


class ChaosBroker:
    """One of them."""

    def __init__(self, name: str, folder: Path, port: int, neighbours: dict[str, str]) -> None:
        self.name = name
        self.port = port
        self.data = folder / name
        self.can_be_filled = False
        self._log = folder / f"{name}.log"
        self._neighbours = neighbours
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"roost://{HOST}:{self.port}"

    def prepare(self, *, small_disk: bool) -> None:
        self.data.mkdir()
        if small_disk:
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.data)]
            with contextlib.suppress(OSError):
                self.can_be_filled = not subprocess.run(
                    command, capture_output=True, check=False
                ).returncode

    async def start(self) -> None:
        """Until it listens."""
        command = [sys.executable, "-m", "roost", "broker", "--name", self.name]
        command += ["--port", str(self.port), "--admin-port", "-1", "--data", str(self.data)]
        for name, address in self._neighbours.items():
            command += ["--neighbour", f"{name}={address}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = asyncio.get_running_loop().time() + START_S
        while not await self._answers():
            if self._process.poll() is not None or asyncio.get_running_loop().time() > deadline:
                last = self._log.read_text().splitlines()[-5:]
                raise UserError(f"{self.name} does not start: {' / '.join(last)}")
            await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return False
        writer.close()
        return True

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def fill(self) -> None:
        """Not a byte more fits on its disk."""
        with (self.data / FILLER).open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(FILL_CHUNK):
                await asyncio.sleep(0)

    def empty(self) -> None:
        (self.data / FILLER).unlink(missing_ok=True)

    def end(self) -> None:
        """In order, and nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            self.go_on()
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.can_be_filled:
            subprocess.run(["umount", str(self.data)], capture_output=True, check=False)
        shutil.rmtree(self.data, ignore_errors=True)


def chain(folder: Path, count: int) -> list[ChaosBroker]:
    """B0 - B1 - ...: each dials the one before it."""
    ports = _free_ports(count)
    brokers = []
    for number in range(count):
        neighbours = {}
        if number > 0:
            neighbours[f"B{number - 1}"] = f"{HOST}:{ports[number - 1]}"
        if number < count - 1:
            neighbours[f"B{number + 1}"] = ""
        brokers.append(ChaosBroker(f"B{number}", folder, ports[number], neighbours))
    small_disk = os.geteuid() == 0
    for broker in brokers:
        broker.prepare(small_disk=small_disk)
    return brokers


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
