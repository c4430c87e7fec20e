"""Brokers that are forked from one process: real ones, each on its own from then on."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

from roost.client import connect_sync
from roost.runtime import processes
from roost.runtime.nursery import starting
from roost.runtime.processes import Process

PATIENCE_S = 60.0


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def said(folder: Path, name: str) -> str:
    return (folder / f"{name}.log").read_text()


def own_kb(process: Process) -> int:
    """The memory that it shares with nobody."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"^Private_\w+: +(\d+) kB", text, re.MULTILINE))


def test_brokers_of_a_nursery(tmp_path: Path) -> None:
    """They serve, share memory, are children of ours, end by themselves; one that can't start says why."""
    taken = socket.create_server(("127.0.0.1", 0))
    ports = {"B0": 0, "B1": 0, "B2": taken.getsockname()[1]}
    started: list[Process] = []
    with starting(len(ports)) as start:
        for name, port in ports.items():
            config = tmp_path / f"{name}.toml"
            config.write_text(f'[broker]\nname = "{name}"\nport = {port}\n[admin]\nport = -1\n')
            started.append(start(config, tmp_path / f"{name}.log"))
    try:
        for name in ("B0", "B1"):
            wait_for(lambda name=name: " listens on " in said(tmp_path, name))  # type: ignore[misc]
            found = re.search(r"listens on (\S+)", said(tmp_path, name))
            assert found is not None
            with connect_sync(f"roost://{found[1]}") as client:
                subscription = client.subscribe("x > 1")
                subscription.ready()
                client.publish({"x": 2})
                assert subscription.get(PATIENCE_S)["x"] == 2
        assert all(own_kb(process) < 40_000 for process in started[:2])
        names = [Path(f"/proc/{process.pid}/comm").read_text() for process in started[:2]]
        assert names == ["roost B0\n", "roost B1\n"]
        wait_for(lambda: not processes.is_alive(started[2]))
        assert processes.exit_code(started[2]) == 2
        assert said(tmp_path, "B2").startswith("error: can't listen on 127.0.0.1:")
        assert "Traceback" not in said(tmp_path, "B2")
    finally:
        taken.close()
        endings = processes.end(started, PATIENCE_S)
    assert endings == ["ended", "ended", "gone"]
    assert "B0 stops" in said(tmp_path, "B0")
