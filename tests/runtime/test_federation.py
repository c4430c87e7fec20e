"""A federation as processes: what is written, started, remembered and ended. The brokers are stand-ins.

`tests/cli/test_up.py` starts real ones.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from roost.errors import UserError
from roost.runtime import federation, processes
from roost.runtime.config import read_config
from roost.runtime.federation import RECORD, Federation, end, read, start
from roost.runtime.processes import Process

SLEEPER = "import time; print('here', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
FAILING = "import sys; print('no good'); sys.exit(3)"
CHAIN = (["B0", "B1", "B2"], [("B0", "B1"), ("B1", "B2")])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Brokers are this code instead; with `linked`, they are taken for well."""
    started: list[Process] = []

    def use(code: str, linked: bool = True) -> None:
        def start_code(_: Path, log: Path) -> Process:
            started.append(processes.start([sys.executable, "-c", code], log))
            return started[-1]

        monkeypatch.setattr(federation, "starting", lambda _: nullcontext(start_code))
        if linked:
            monkeypatch.setattr(federation, "_wait_until_linked", lambda *_: None)

    yield use
    processes.end(started, 0)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def pids(found: Federation | None) -> list[int]:
    assert found is not None
    return [member.process.pid for member in found.members if member.process is not None]


def wait_until_it_says(path: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- what is written --------------------------------------------------------------------------------


def test_one_end_of_each_link_dials(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(SLEEPER)
    found = start(tmp_path, *CHAIN)
    first, second, third = (read_config(tmp_path / member.config) for member in found.members)
    assert first.links.neighbours == {"B1": ""}
    assert second.links.neighbours == {"B0": found.members[0].address, "B2": ""}
    assert third.links.neighbours == {"B1": found.members[1].address}
    for config, member in zip((first, second, third), found.members, strict=True):
        assert (config.broker.name, config.broker.port) == (member.name, member.port)
        assert (config.admin.port, config.broker.data) == (member.admin_port, "")
    ports = [port for member in found.members for port in (member.port, member.admin_port)]
    assert len(set(ports)) == 6
    assert max(ports) < federation._first_outgoing_port()


def test_durable_brokers_have_folders_of_their_own(
    tmp_path: Path, stand_in: Callable[..., None]
) -> None:
    stand_in(SLEEPER)
    found = start(tmp_path, *CHAIN, durable=True)
    folders = [read_config(tmp_path / member.config).broker.data for member in found.members]
    assert folders == [str(tmp_path / "data" / name) for name in CHAIN[0]]


def test_names_that_are_no_names_of_files(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(SLEEPER)
    state = tmp_path / "state"
    names = ["../B0", "a/b", 'q"\\', "..", "ü" * 200, "~1"]
    found = start(state, names, [(names[0], name) for name in names[1:]], durable=True)
    assert list(tmp_path.iterdir()) == [state]
    assert all((state / member.config).parent == state for member in found.members)
    assert len({member.config for member in found.members}) == len(names)
    assert [read_config(state / x.config).broker.name for x in found.members] == names


def test_ports_from_a_base(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(SLEEPER)
    base = federation.free_ports(1)[0]
    found = start(tmp_path, ["B0", "B1"], [("B0", "B1")], base_port=base)
    assert [x.port for x in found.members] == [base, base + 2]
    assert [x.admin_port for x in found.members] == [base + 1, base + 3]


def test_bad_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # The one before it may have been taken by somebody else.
        taken_ones = f"({port - 1}|{port})"
        with pytest.raises(UserError, match=f"^port {taken_ones} is in use; expected 6 free ones"):
            start(tmp_path, *CHAIN, base_port=port - 1)
    for base in (0, -1, 65_531):
        with pytest.raises(UserError, match=r"expected 1 to 65535, two for each broker"):
            start(tmp_path, *CHAIN, base_port=base)


def test_too_many_brokers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^257 brokers; expected 1 to 256"):
        start(tmp_path / "state", [f"B{i}" for i in range(257)], [])
    assert not (tmp_path / "state").exists()


# --- starting ---------------------------------------------------------------------------------------


def test_processes_stand_on_their_own(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(SLEEPER)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    found = start(tmp_path, ["B0"], [])
    os.close(writer)
    assert os.read(reader, 1) == b""  # nobody else has it
    os.close(reader)
    (pid,) = pids(found)
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    wait_until_it_says(tmp_path / "B0.log", "here")


def test_a_second_one_is_refused_while_the_first_runs(
    tmp_path: Path, stand_in: Callable[..., None]
) -> None:
    stand_in(SLEEPER)
    first = start(tmp_path, *CHAIN)
    with pytest.raises(UserError, match=r"a federation runs from this folder, with 3 brokers; end"):
        start(tmp_path, ["B0"], [])
    assert pids(read(tmp_path)) == pids(first)
    end(tmp_path)
    assert len(pids(start(tmp_path, ["B0"], []))) == 1


def test_one_that_is_over_is_no_hindrance(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(SLEEPER)
    for pid in pids(start(tmp_path, *CHAIN)):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert len(pids(start(tmp_path, *CHAIN))) == 3


def test_a_broker_that_does_not_start(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(FAILING, linked=False)
    with pytest.raises(UserError) as refused:
        start(tmp_path, ["B0"], [])
    log = tmp_path / "B0.log"
    expected = f"B0 did not start (exit code 3); {log} says:\n  no good"
    assert str(refused.value) == expected
    assert read(tmp_path) is None


def test_brokers_that_are_never_ready_are_ended(
    tmp_path: Path, stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(SLEEPER, linked=False)
    monkeypatch.setattr(federation, "START_S", 0.0)
    monkeypatch.setattr(federation, "START_S_A_BROKER", 0.1)
    seen: list[int] = []
    monkeypatch.setattr(federation, "_check_runs", lambda state, _: seen.extend(pids(read(state))))
    with pytest.raises(UserError, match=r"^B0 is not ready after 0 s: http://.*: no answer: "):
        start(tmp_path, *CHAIN)
    assert len(set(seen)) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in seen)
    assert read(tmp_path) is None


# --- ending -----------------------------------------------------------------------------------------


def test_all_of_it_ends_and_nothing_else(
    tmp_path: Path, stand_in: Callable[..., None], sleeper: subprocess.Popen[bytes]
) -> None:
    stand_in(SLEEPER)
    started = start(tmp_path, *CHAIN)
    endings = end(tmp_path)
    assert [(member.name, how) for member, how in endings] == [
        ("B0", "ended"),
        ("B1", "ended"),
        ("B2", "ended"),
    ]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids(started))
    assert sleeper.poll() is None
    assert end(tmp_path) == end(tmp_path / "nothing") == []
    assert (tmp_path / "B0.log").exists()


def test_a_number_that_another_process_has_now(
    tmp_path: Path, stand_in: Callable[..., None], sleeper: subprocess.Popen[bytes]
) -> None:
    stand_in(SLEEPER)
    found = start(tmp_path, ["B0"], [])
    (member,) = found.members
    assert member.process is not None
    later = member.process.start_ticks + 1
    for other in (
        replace(member.process, pid=sleeper.pid, start_ticks=later),
        replace(member.process, start_ticks=later),
        replace(member.process, boot="another"),
    ):
        record = replace(found, members=(replace(member, process=other),))
        (tmp_path / RECORD).write_bytes(msgspec.json.encode(record))
        assert [how for _, how in end(tmp_path)] == ["gone"]
        assert sleeper.poll() is None
        assert processes.is_alive(member.process)


def test_one_that_does_not_end_is_killed(
    tmp_path: Path, stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(STUBBORN)
    monkeypatch.setattr(federation, "END_S", 0.2)
    (pid,) = pids(start(tmp_path, ["B0"], []))
    wait_until_it_says(tmp_path / "B0.log", "here")
    assert [how for _, how in end(tmp_path)] == ["killed"]
    assert not Path(f"/proc/{pid}").exists()


# --- the folder -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{}", '{"members": [{"pid": -1}]}'])
def test_a_record_that_does_not_read(tmp_path: Path, text: str) -> None:
    (tmp_path / federation.MARK).write_text(federation.MARK_TEXT)
    (tmp_path / RECORD).write_text(text)
    for verb in (read, end, lambda state: start(state, ["B0"], [])):
        with pytest.raises(UserError, match=r"federation\.json: not as `roost up` writes it: "):
            verb(tmp_path)


def test_nobodys_files_are_overwritten(tmp_path: Path) -> None:
    for name, text in (("B0.toml", "mine"), (federation.MARK, "*.pyc\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=r"there are files in it that `roost up` has not made"):
            start(tmp_path, ["B0"], [])
        assert (tmp_path / name).read_text() == text
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file: can't be the folder of a federation: File exists"):
        start(tmp_path / "file", ["B0"], [])
    assert end(tmp_path / "file") == []
    assert read(tmp_path / "file") is None
