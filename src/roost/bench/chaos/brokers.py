"""The brokers of a chaos run: a tree of real processes, each with its store, and what is done to them.

Neighbours and clients reach a broker through wires of ours (`wires`). Where it may (as root), each store has
a small file system of its own, in memory, which can be filled up. A broker that was killed is started again
with what its store holds, or with a backup of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from roost.bench.chaos.wires import HOST, Wire
from roost.errors import UserError
from roost.runtime import pair_file
from roost.runtime.broker_process import BrokerProcess, write_settings
from roost.runtime.federation import free_ports

START_S = 60.0
# Larger than what a store needs, so that only what we put there fills it.
DISK_BYTES = 512_000_000
FILLER = "filler"
FILL_CHUNK = b"\0" * 1_000_000
# A neighbour that is back is not waited for long.
REDIAL_S = (0.1, 2.0)
# In times of the keepalive, as it is by default.
GRACE = 5 / 3
# The same of the time after which a standby takes over.
TAKEOVER = 1 / 2
# More than is published while a broker is away: what is given up is no promise kept, and said.
SPARE_MAX = 500_000


class ChaosBroker:
    """One of them."""

    def __init__(self, name: str, folder: Path, logs: Path, port: int, door: Wire) -> None:
        self.name = name
        self.port = port
        self.door = door  # what its clients come through
        self.data = folder / name
        self.log = logs / f"{name}.log"
        self.can_be_filled = False
        self._config = folder / f"{name}.toml"
        self._backup = folder / f"{name}.backup"
        self._process: BrokerProcess | None = None

    @property
    def url(self) -> str:
        return f"roost://{HOST}:{self.door.port}"

    @property
    def has_died(self) -> bool:
        """Of its own accord."""
        return self._process is not None and not self._process.alive

    def prepare(self, neighbours: dict[str, str], keepalive_s: float, *, small_disk: bool) -> None:
        self.data.mkdir()
        if small_disk:
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.data)]
            with contextlib.suppress(OSError):
                self.can_be_filled = not subprocess.run(
                    command, capture_output=True, check=False
                ).returncode
        tables: dict[str, dict[str, object]] = {
            "broker": {
                "name": self.name,
                "host": HOST,
                "port": self.port,
                "data": str(self.data),
                "redial_min_s": REDIAL_S[0],
                "redial_max_s": REDIAL_S[1],
                "absence_grace_s": GRACE * keepalive_s,
                "spare_max": SPARE_MAX,
            },
            "links": {"neighbours": neighbours},
            "limits": {"keepalive_s": keepalive_s},
            "admin": {"port": -1},
        }
        write_settings(self._config, tables)

    # --- its life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Until it listens."""
        self._process = BrokerProcess(self._config, self.log)
        deadline = asyncio.get_running_loop().time() + START_S
        while not await self._answers():
            if self.has_died or asyncio.get_running_loop().time() > deadline:
                raise UserError(f"{self.name} does not start: {' / '.join(self.last_said())}")
            await asyncio.sleep(0.02)

    def last_said(self) -> list[str]:
        return self.log.read_text("utf-8", "replace").splitlines()[-5:]

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return False
        writer.close()
        return True

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None

    def stop(self) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGCONT)

    def end(self) -> None:
        """In order, and nothing of it is left."""
        if self._process is not None and self._process.alive:
            self.go_on()
            self.empty()
            self._process.stop()
        if self.can_be_filled:
            subprocess.run(["umount", str(self.data)], capture_output=True, check=False)
        shutil.rmtree(self.data, ignore_errors=True)

    # --- its disk -----------------------------------------------------------------------------------

    async def fill(self) -> None:
        """Not a byte more fits on its disk."""
        with (self.data / FILLER).open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(FILL_CHUNK):
                await asyncio.sleep(0)

    def empty(self) -> None:
        (self.data / FILLER).unlink(missing_ok=True)

    async def back_up(self) -> None:
        """While it runs."""
        await _roost("backup", str(self.data), str(self._backup), "--replace")

    async def restore(self) -> None:
        """While it does not."""
        await _roost("restore", str(self._backup), str(self.data), "--force")
        for old in self.data.glob("*.before-*"):
            old.unlink()


class PairedBroker(ChaosBroker):
    """One that has a standby: what is done to it is done to whichever of the two is the broker."""

    def __init__(
        self, name: str, folder: Path, logs: Path, ports: tuple[int, int, int], door: Wire
    ) -> None:
        super().__init__(name, folder, logs, ports[0], door)
        self._ports = ports  # of the two, and where they meet
        self._configs = [folder / f"{name}.{place}.toml" for place in (0, 1)]
        self._nodes: list[BrokerProcess | None] = [None, None]

    @property
    def has_died(self) -> bool:
        return any(process is not None and not process.alive for process in self._nodes)

    def prepare(self, neighbours: dict[str, str], keepalive_s: float, *, small_disk: bool) -> None:
        del small_disk
        super().prepare(neighbours, keepalive_s, small_disk=False)
        tables = tomllib.loads(self._config.read_text("utf-8"))
        for place, config in enumerate(self._configs):
            tables["broker"] |= {
                "port": self._ports[place],
                "data": str(self._folder_of(place)),
                # Both are behind the same door, which leads to whichever answers.
                "advertised": f"{HOST}:{self.door.port}",
            }
            role = ("primary", "standby")[place]
            tables["standby"] = {
                "role": role,
                "address": f"{HOST}:{self._ports[2]}",
                "takeover_s": TAKEOVER * keepalive_s,
            }
            write_settings(config, tables)

    def _folder_of(self, place: int) -> Path:
        return self.data / str(place)

    async def start(self) -> None:
        for place, process in enumerate(self._nodes):
            if process is None:
                log = self.log.with_suffix(f".{place}.log")
                self._nodes[place] = BrokerProcess(self._configs[place], log)
        deadline = asyncio.get_running_loop().time() + START_S
        while not await self._answers():
            if self.has_died or asyncio.get_running_loop().time() > deadline:
                raise UserError(f"{self.name} does not start: {' / '.join(self.last_said())}")
            await asyncio.sleep(0.02)

    def last_said(self) -> list[str]:
        logs = [self.log.with_suffix(f".{place}.log") for place in (0, 1)]
        return [
            line
            for log in logs
            if log.exists()
            for line in log.read_text("utf-8", "replace").splitlines()[-5:]
        ]

    async def _answers(self) -> bool:
        for port in self._ports[:2]:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                return True
        return False

    def _leader(self) -> int:
        """Which of the two is the broker, or was last, as far as they know."""
        known = [pair_file.seen(self._folder_of(place)) for place in (0, 1)]
        epochs = [-1 if k is None or k.membership is None else k.membership.epoch for k in known]
        last = known[epochs.index(max(epochs))]
        if last is None or last.membership is None:
            return 0
        return next(
            (n for n, k in enumerate(known) if k is not None and k.node == last.membership.leader),
            0,
        )

    def kill(self) -> None:
        place = self._leader()
        process = self._nodes[place]
        if process is not None:
            process.kill()
            self._nodes[place] = None

    def stop(self) -> None:
        process = self._nodes[self._leader()]
        if process is not None:
            process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        for process in self._nodes:
            if process is not None:
                process.signal(signal.SIGCONT)

    def end(self) -> None:
        self.go_on()
        for process in self._nodes:
            if process is not None and process.alive:
                process.stop()
        shutil.rmtree(self.data, ignore_errors=True)


async def _roost(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "roost",
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        raise UserError(f"roost {arguments[0]}: {said.decode('utf-8', 'replace').strip()}")


class Tree:
    """All brokers, and the wires between them."""

    def __init__(self, brokers: list[ChaosBroker], links: list[Wire]) -> None:
        self.brokers = {broker.name: broker for broker in brokers}
        self.links = {link.name: link for link in links}
        self.wires = {wire.name: wire for wire in [*links, *(b.door for b in brokers)]}

    async def start(self) -> None:
        for wire in self.wires.values():
            await wire.open()
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))

    def check(self) -> None:
        for broker in self.brokers.values():
            if broker.has_died:
                raise UserError(f"{broker.name} has died: {' / '.join(broker.last_said())}")

    def given_up(self) -> int:
        """How often a broker said that it keeps no longer what nobody has asked for."""
        files = [
            path for b in self.brokers.values() for path in b.log.parent.glob(f"{b.name}.*log")
        ]
        logs = (path.read_text("utf-8", "replace") for path in files)
        return sum(log.count("neighbour given up") for log in logs)

    async def end(self) -> None:
        for wire in self.wires.values():
            await wire.close()
        for broker in self.brokers.values():
            broker.end()


def link_name(a: str, b: str) -> str:
    return f"{a}-{b}"


def door_name(broker: str) -> str:
    return f"clients of {broker}"


def tree(
    folder: Path,
    names: Sequence[str],
    links: Sequence[tuple[str, str]],
    keepalive_s: float,
    logs: Path,
    *,
    standbys: bool = False,
) -> Tree:
    """The second of each link dials the first. With standbys, each is a pair."""
    free = iter(free_ports((4 if standbys else 2) * len(names) + len(links)))
    ports = {name: next(free) for name in names}
    seconds = {name: (next(free), next(free)) for name in names} if standbys else {}
    behind = {name: (port, *seconds.get(name, ())[:1]) for name, port in ports.items()}
    neighbours: dict[str, dict[str, str]] = {name: {} for name in names}
    wires = []
    for called, dials in links:
        wire = Wire(link_name(called, dials), next(free), *behind[called])
        neighbours[called][dials] = ""
        neighbours[dials][called] = f"{HOST}:{wire.port}"
        wires.append(wire)
    brokers = []
    for name, port in ports.items():
        door = Wire(door_name(name), next(free), *behind[name])
        brokers.append(
            PairedBroker(name, folder, logs, (port, *seconds[name]), door)
            if standbys
            else ChaosBroker(name, folder, logs, port, door)
        )
    small_disk = os.geteuid() == 0
    for broker in brokers:
        broker.prepare(neighbours[broker.name], keepalive_s, small_disk=small_disk)
    return Tree(brokers, wires)
