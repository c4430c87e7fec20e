"""What operators are told of a broker: real brokers on real sockets, their log, and what `/health` says."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roost.broker.commands import Decision, Record, Report
from roost.broker.events import StoreFilled
from roost.broker.messages import SessionEnded
from roost.runtime import watch as watch_module
from roost.runtime.broker_process import command_of
from roost.runtime.child_broker import ChildBroker
from roost.runtime.in_process import running
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.security import User, hash_token, users_text
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    LogTable,
    SecurityTable,
    ServerConfig,
)
from tests.runtime.test_admin import HOST, SOFT, Broker, basic, broker, check

QUICK: dict[str, Any] = {"redial_min_s": 0.01, "redial_max_s": 0.05}


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def events_in(path: Path, *wanted: str) -> list[dict[str, Any]]:
    return [line for line in lines_in(path) if line["event"] in wanted]


def log_in(path: Path, level: Any = "debug") -> LogTable:
    return LogTable(level=level, format="json", file=str(path))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def settings(name: str, neighbours: dict[str, str], log: Path, port: int = 0) -> ServerConfig:
    return ServerConfig(
        broker=BrokerTable(name=name, port=port, **QUICK),
        links=LinksTable(neighbours=neighbours),
        admin=AdminTable(port=-1),
        log=log_in(log),
    )


# --- the log ----------------------------------------------------------------------------------------


def test_links_come_and_go(tmp_path: Path) -> None:
    async def work() -> None:
        config = settings("B0", {"B1": ""}, tmp_path / "B0")
        async with running(config, within_s=1.0) as first:
            at = f"{HOST}:{first.port}"
            async with running(settings("B1", {"B0": at}, tmp_path / "B1"), within_s=1.0) as second:
                await until(lambda: events_in(tmp_path / "B1", "link up"))
                await until(lambda: events_in(tmp_path / "B0", "link up"))
                assert first.watch.health() == {"ok": True, "troubles": [], "warnings": []}
                port = first.port
                await first.stop(within_s=1.0)
                await until(lambda: events_in(tmp_path / "B1", "link down", "link not reached"))
                again = replace(config, broker=replace(config.broker, port=port))
                async with running(again, within_s=1.0):
                    await until(lambda: len(events_in(tmp_path / "B1", "link up")) == 2)
                    assert second.status()["links"]["B0"]["up"]

    asyncio.run(work())
    said = events_in(tmp_path / "B1", "link up", "link down")
    assert [line["event"] for line in said][:3] == ["link up", "link down", "link up"]
    assert all(line["about"] == "B0" and line["after_s"] >= 0 for line in said)
    lives = [line["event"] for line in events_in(tmp_path / "B0", "started", "stopping", "stopped")]
    assert lives == ["started", "stopping", "stopped"] * 2


def test_a_neighbour_that_refuses_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with running(settings("B0", {}, tmp_path / "B0"), within_s=1.0) as first:
            at = f"{HOST}:{first.port}"
            async with running(settings("B1", {"B0": at}, tmp_path / "B1"), within_s=1.0) as second:
                await until(lambda: events_in(tmp_path / "B1", "link refused"))
                # It may change its mind, for a while ...
                assert second.watch.health()["ok"] is True
                monkeypatch.setattr(watch_module, "LINK_PATIENCE_S", 0.0)
                # ... but not for long.
                await until(second.watch.troubles)
                (trouble,) = second.watch.health()["troubles"]
                assert trouble["what"] == "link refused"
                assert trouble["detail"].startswith("B0 refuses the link: B1 is no neighbour of B0")
                (warning,) = second.watch.health()["warnings"]
                assert (warning["what"], warning["since"] > "2026") == ("link down", True)
                assert first.watch.health() == {"ok": True, "troubles": [], "warnings": []}
                # However often it is refused: it is said once.
                refusals = first.refusals
                await until(lambda: first.refusals > refusals + 2)

    asyncio.run(work())
    (line,) = events_in(tmp_path / "B1", "link refused")
    assert (line["level"], line["about"]) == ("warning", "B0")
    said = events_in(tmp_path / "B0", "refused")
    assert said[0]["reason"].startswith("B1 is no neighbour of B0")


def test_a_neighbour_that_is_not_there_is_no_trouble_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with running(
            settings("B1", {"B0": f"{HOST}:1", "B2": ""}, tmp_path / "B1"), within_s=1.0
        ) as server:
            await until(lambda: events_in(tmp_path / "B1", "link not reached"))
            assert server.watch.health()["warnings"] == []
            monkeypatch.setattr(watch_module, "LINK_PATIENCE_S", 0.0)
            health = server.watch.health()
            assert (health["ok"], health["troubles"]) == (True, [])
            first, second = (each["detail"] for each in health["warnings"])
            assert first.startswith("no link to B0: ")
            assert second == "no link to B2"
            assert server.status()["warnings"] == health["warnings"]

    asyncio.run(work())
    assert len(events_in(tmp_path / "B1", "link not reached")) == 1


def test_the_machine_reports(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work() -> None:
        config = settings("B0", {"B1": ""}, log)
        config = replace(config, log=replace(config.log, level="info"))
        async with running(config, within_s=1.0) as server:
            reports = [
                Report("debug", "session begun", "c1", ""),
                Report("info", "session expired", "archive", "away for a week"),
                Report("info", "link up", "B1", "begun anew"),
                Report("info", "link up", "B1", "begun anew"),
                Report("info", "link down", "B1", "it does not answer"),
                Report("warning", "link refused", "B1", "no longer neighbours"),
                Report("warning", "link refused", "B1", "no longer neighbours"),
            ]
            server.shell.execute(list(reports))
            for kind in ("move", "stay"):
                decision = Decision("grape", kind, "p1", "B2", True, {}, {}, "grape 7")
                server.shell.execute([Record(decision)])

    asyncio.run(work())
    *said, _, _ = lines_in(log)[1:]
    assert [line["event"] for line in said] == [
        "session expired",
        "link up",
        "link down",
        "link refused",
        "decision",
    ]
    assert said[0]["about"] == "archive"
    assert said[0]["detail"] == "away for a week"
    assert said[2]["detail"] == "it does not answer"
    assert (said[4]["subject"], said[4]["choice"], said[4]["kind"]) == ("p1", "B2", "move")


def test_what_a_store_gives_back(tmp_path: Path) -> None:
    config = ServerConfig(
        broker=BrokerTable(port=0, data=str(tmp_path / "data")),
        admin=AdminTable(port=-1),
        log=log_in(tmp_path / "log"),
    )

    async def first() -> None:
        async with running(config, within_s=1.0) as server:
            peer = await PlainPeer.connect(HOST, server.port)
            await peer.attach("archive", durable=True)
            peer.advertise("a1", "x > 0")
            peer.subscribe("s1", "x > 5")
            await peer.acknowledged()
            for x in (6, 7, 8):
                peer.publish({"x": x})
            await peer.acknowledged()
            await peer.close()

    async def second() -> None:
        async with running(config, within_s=1.0):
            pass

    asyncio.run(first())
    assert not events_in(tmp_path / "log", "restored")
    asyncio.run(second())
    (restored,) = events_in(tmp_path / "log", "restored")
    assert (restored["sessions"], restored["links"]) == (1, 0)
    assert restored["messages"] >= 3
    assert restored["records"] > 3
    boots = [line["boots"] for line in events_in(tmp_path / "log", "started")]
    assert boots == [boots[0], boots[0] + 1]
    assert events_in(tmp_path / "log", "started")[0]["store"] == str(tmp_path / "data")


def test_what_operators_do_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(started: Broker) -> None:
        peer = await PlainPeer.connect(HOST, started.server.port)
        await peer.attach("c1")
        await started.post("/redirect", {"client": "c1", "broker": "b2.example:7411"})
        await started.post("/module", {"module": "grape", "state": "observing"})
        await started.post("/trace", {"on": True, "folder": "/nowhere"})
        await started.post("/sessions/end", {"session": "c1"})
        await peer.close()

    check(work, log=log_in(log, "info"))
    wanted = ("redirected", "module switched", "trace refused", "session ended by an operator")
    said = events_in(log, *wanted)
    assert [line["event"] for line in said] == list(wanted)
    assert (said[0]["about"], said[0]["to"]) == ("c1", "b2.example:7411")
    assert (said[1]["about"], said[1]["to"]) == ("grape", "observing")
    assert all(line["by"] == "an operator" for line in said)


# --- troubles and warnings --------------------------------------------------------------------------


def test_troubles_begin_and_end(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(started: Broker) -> None:
        server = started.server
        server.recorder.trouble = "the trace has ended: the disk is full"
        await until(lambda: events_in(log, "trouble"))  # without anybody asking
        server.recorder.trouble += " (again)"
        answer = await started.get("/health")
        assert answer.status == 503
        assert answer.json["troubles"][0]["detail"].endswith("(again)")
        server.recorder.trouble = ""
        assert (await started.get("/health")).status == 200
        server.shell.handle(StoreFilled(True))
        answer = await started.get("/health")
        assert (answer.status, answer.json["ok"]) == (200, True)
        (warning,) = answer.json["warnings"]
        assert (warning["what"], warning["detail"]) == ("store full", "new events are refused")
        metrics = (await started.get("/metrics")).body.decode()
        assert "\nroost_healthy 1.0\n" in metrics
        assert "\nroost_warnings 1.0\n" in metrics
        server.shell.handle(StoreFilled(False))
        assert (await started.get("/health")).json["warnings"] == []

    check(work, log=log_in(log))
    wanted = ("trouble", "trouble is over", "store full", "store has room again")
    said = events_in(log, *wanted)
    assert [line["event"] for line in said] == list(wanted)
    assert said[0]["level"] == "error"
    assert said[0]["what"] == said[1]["what"] == "trace"


def test_a_task_that_has_died(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        async def failing() -> None:
            raise RuntimeError("by a fault of ours\x1b[2J")

        started.server.tasks.spawn("tidying up", failing())
        await until(lambda: events_in(tmp_path / "log", "task failed"))
        answer = await started.get("/health")
        assert (answer.status, answer.json["troubles"][0]["what"]) == (503, "tasks")
        assert "tidying up failed: RuntimeError: by a fault" in answer.json["troubles"][0]["detail"]

    check(work, log=log_in(tmp_path / "log"))
    (line,) = events_in(tmp_path / "log", "task failed")
    assert (line["level"], line["about"]) == ("error", "tidying up")
    assert line["calls"][-1].startswith("RuntimeError: by a fault of ours")


def test_what_is_exposed_is_said_loudly_and_in_full_to_operators_only(tmp_path: Path) -> None:
    users = {"ops": User(token_hash=hash_token("right", SOFT), administer=True)}
    path, log = tmp_path / "users.toml", tmp_path / "log"
    path.write_text(users_text(users))
    path.chmod(0o644)

    async def work(started: Broker) -> None:
        answer = await started.get("/health")
        assert (answer.status, answer.json["ok"]) == (200, True)
        (warning,) = answer.json["warnings"]
        assert warning == {"what": "open file", "since": warning["since"]}
        answer = await started.get("/health", Authorization=basic("ops:wrong"))
        assert answer.status == 401
        answer = await started.get("/health", Authorization=basic("ops:right"))
        (warning,) = answer.json["warnings"]
        assert warning["detail"].startswith(f"{path}: the users file can be read")
        path.chmod(0o600)
        assert (await started.get("/health")).json["warnings"] == []

    security = SecurityTable(enabled=True, users=str(path), refusals=str(tmp_path / "refusals"))
    check(work, security=security, log=log_in(log))
    (line,) = events_in(log, "open file")
    assert line["level"] == "warning"
    # The refusal of the wrong token stands in both logs.
    (refusal,) = events_in(log, "refused")
    assert refusal["reason"] in (tmp_path / "refusals").read_text()


def test_all_addresses_without_security(tmp_path: Path) -> None:
    async def work() -> None:
        config = ServerConfig(
            broker=BrokerTable(host="0.0.0.0", port=0),
            admin=AdminTable(port=-1),
            log=log_in(tmp_path / "log"),
        )
        async with running(config, within_s=1.0) as server:
            (warning,) = server.watch.health()["warnings"]
            assert warning["what"] == "no security"

    asyncio.run(work())
    (line,) = events_in(tmp_path / "log", "no security")
    assert line["level"] == "warning"
    assert line["detail"].startswith("whoever reaches 0.0.0.0 may publish and subscribe")


# --- sessions that operators end --------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, pytest.importorskip("uvloop").run])
def test_a_session_is_ended(run: Callable[[Awaitable[None]], None]) -> None:
    async def work() -> None:
        async with broker() as started:
            there, away = [await PlainPeer.connect(HOST, started.server.port) for _ in range(2)]
            await there.attach("there")
            await away.attach("away", durable=True)
            away.subscribe("s1", "x > 5")
            await away.acknowledged()
            await away.close()
            sessions = started.server.shell.machine.sessions
            await until(lambda: sessions["away"].connection is None)
            first, second = (await started.get("/sessions")).json["sessions"]
            assert (first["session"], first["attached"], first["durable"]) == ("away", False, True)
            assert 0 <= first["away_s"] < 100
            assert 7 * 86_400 - 100 < first["left_s"] <= 7 * 86_400
            assert (second["away_s"], second["left_s"], second["ending"]) == (None, None, False)

            answer = await started.post("/sessions/end", {"session": "away"})
            assert (answer.status, answer.json["broker"]) == (200, "B0")
            assert answer.json["ended"]["client"] == "away"
            assert list(sessions) == ["there"]
            assert (await started.post("/sessions/end", {"session": "there"})).status == 200
            ended = await there.next(SessionEnded)
            assert ended.reason == "an operator has ended it"
            answer = await started.post("/sessions/end", {"session": "nobody"})
            assert answer.status == 404
            assert answer.json["error"] == "there is no session 'nobody' at this broker"
            await there.close()

    run(work())


# --- a process --------------------------------------------------------------------------------------


def test_a_process_has_its_log_in_a_file(tmp_path: Path) -> None:
    child = ChildBroker(tmp_path, {"log": {"format": "json"}})
    assert child.stop() == 0
    assert child.complaints() == []
    assert [line["event"] for line in lines_in(tmp_path / "log")] == [
        "started",
        "stopping",
        "stopped",
    ]
    assert lines_in(tmp_path / "log")[0]["address"] == f"{HOST}:{child.port}"


def test_standard_error_for_programs_has_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "roost.toml").write_text(
        '[broker]\nport = 0\n[admin]\nport = -1\n[log]\nformat = "json"\n[security]\ntoken = "t"\n'
    )
    (tmp_path / "roost.toml").chmod(0o644)
    command = command_of(tmp_path / "roost.toml")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            started = json.loads(process.stderr.readline())
            assert (started["event"], "boots" in started) == ("started", False)
            warning = json.loads(process.stderr.readline())
            assert (warning["event"], warning["level"]) == ("open file", "warning")
            assert "roost.toml: the settings, with a token in them, can be" in warning["detail"]
            process.send_signal(signal.SIGTERM)
            rest = [json.loads(line)["event"] for line in process.stderr]
            assert rest == ["stopping", "stopped"]
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_a_broker_that_cant_start_says_so_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "roost.toml").write_text(
        '[broker]\nport = 0\ndata = "data"\n[admin]\nport = -1\n[log]\nfile = "log"\n'
    )
    (tmp_path / "data").write_text("")
    command = command_of(tmp_path / "roost.toml")
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: ")
    assert "error   B0: not started: detail=" in (tmp_path / "log").read_text()
