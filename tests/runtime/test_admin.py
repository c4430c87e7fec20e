"""The face of a broker for operators: a real broker, asked over real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from roost.broker.messages import Redirect
from roost.errors import UserError
from roost.runtime import admin as admin_module
from roost.runtime import admin_client
from roost.runtime.admin import Admin
from roost.runtime.admin_client import Access, AdminError, NoAnswerError, ask, ask_all
from roost.runtime.in_process import running
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.security import Hardness, User, hash_token, users_text
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    SecurityTable,
    ServerConfig,
    TlsTable,
    TraceTable,
)
from roost.runtime.tls import issue, make_authority

HOST = "127.0.0.1"
SOFT = Hardness(time_cost=1, memory_kib=8, parallelism=1)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Broker(NamedTuple):
    """A broker and its face."""

    server: BrokerServer
    admin: Admin

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.admin.port}"

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, b"", **headers)

    async def post(self, path: str, body: object, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.request("POST", path, data, **headers)

    async def request(self, method: str, path: str, body: bytes, **headers: str) -> Answer:
        head = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        head += [f"Content-Length: {len(body)}", "", ""]
        return read_answer(await self.exchange("\r\n".join(head).encode() + body))

    async def exchange(self, data: bytes) -> bytes:
        """All that comes back until the other end closes."""
        reader, writer = await asyncio.open_connection(HOST, self.admin.port)
        try:
            writer.write(data)
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


def read_answer(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


@asynccontextmanager
async def broker(**tables: Any) -> AsyncIterator[Broker]:
    tables.setdefault("broker", BrokerTable(port=0))
    config = ServerConfig(**tables, admin=AdminTable(port=-1))
    async with running(config) as server:
        server.config = replace(config, admin=AdminTable(port=0))
        admin = Admin(server)
        await admin.start()
        try:
            yield Broker(server, admin)
        finally:
            await admin.stop()


def check(work: Callable[[Broker], Awaitable[None]], **tables: Any) -> None:
    """Runs a test against a broker with these settings."""

    async def checked() -> None:
        async with broker(**tables) as started:
            await work(started)

    asyncio.run(checked())


# --- looking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_health_says_what_the_trouble_is(run: Callable[[Any], None]) -> None:
    async def work() -> None:
        async with broker() as started:
            answer = await started.get("/health")
            well = {"ok": True, "troubles": [], "warnings": []}
            assert (answer.status, answer.json) == (200, well)
            assert answer.headers["content-type"] == "application/json"
            started.server.recorder.trouble = "the trace has ended: the disk is full"
            answer = await started.get("/health")
            assert (answer.status, answer.json["ok"], answer.json["warnings"]) == (503, False, [])
            (trouble,) = answer.json["troubles"]
            assert trouble["what"] == "trace"
            assert trouble["detail"] == "the trace has ended: the disk is full"
            assert (await started.get("/health")).json["troubles"] == [
                trouble
            ]  # since the same time
            started.server.recorder.trouble = ""
            assert (await started.get("/health")).json == well

    run(work())


def test_status_is_that_of_the_server() -> None:
    async def work(started: Broker) -> None:
        said = (await started.get("/status")).json
        known = started.server.status()
        for changing in ("uptime_s", "load"):
            said.pop(changing), known.pop(changing)
        assert said == known
        assert (said["broker"], said["pid"]) == ("B0", os.getpid())
        assert said["links"]["B1"]["up"] is False

    check(work, links=LinksTable(neighbours={"B1": ""}))


def test_metrics_are_as_prometheus_reads_them(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        peer = await PlainPeer.connect(HOST, started.server.port)
        await peer.attach("c1")
        peer.advertise("a1", "x > 0")
        peer.subscribe("s1", "x > 5")
        peer.publish({"x": 7})
        await peer.acknowledged()
        answer = await started.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = {x.name: x for x in text_string_to_metric_families(answer.body.decode())}
        assert all(family.documentation for family in families.values())
        samples = {
            (sample.name, sample.labels.get("link", "")): sample.value
            for family in families.values()
            for sample in family.samples
        }
        assert samples["roost_publications_routed_total", ""] == 1
        assert samples["roost_sessions", ""] == samples["roost_subscriptions", ""] == 1
        assert samples["roost_connections", ""] == 1
        assert samples["roost_healthy", ""] == 1
        assert samples["roost_link_up", 'the "other"'] == samples["roost_links_up", ""] == 0
        for name in ("messages_out_total", "bytes_out_total", "cpu_seconds_total", "memory_bytes"):
            assert samples[f"roost_{name}", ""] > 0
        assert samples["roost_store_commits_total", ""] > 0
        assert samples["roost_store_bytes", ""] > 0
        (what,) = families["roost_broker_info"].samples
        assert (what.labels["broker"], what.labels["durable"]) == ("B0", "True")
        await peer.close()

    check(
        work,
        broker=BrokerTable(port=0, data=str(tmp_path / "data")),
        links=LinksTable(neighbours={'the "other"': ""}),
    )


def test_sessions_page_by_page() -> None:
    async def work(started: Broker) -> None:
        peers = []
        for number in range(5):
            peers.append(await PlainPeer.connect(HOST, started.server.port))
            await peers[-1].attach(f"c{number}")
        peers[0].subscribe("s1", "x > 5")
        await peers[0].acknowledged()
        whole = (await started.get("/sessions")).json
        assert [x["client"] for x in whole["sessions"]] == ["c0", "c1", "c2", "c3", "c4"]
        assert (whole["total"], whole["next"]) == (5, None)
        first = whole["sessions"][0]
        assert (first["subscriptions"], first["attached"], first["waiting"]) == (1, True, 0)
        names, after = [], ""
        while after is not None:
            page = (await started.get(f"/sessions?limit=2&after={after}")).json
            names += [x["client"] for x in page["sessions"]]
            after = page["next"]
        assert names == ["c0", "c1", "c2", "c3", "c4"]
        for peer in peers:
            await peer.close()

    check(work)


# --- telling ----------------------------------------------------------------------------------------


def test_tracing_is_turned_on_and_off(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        on = {"on": True, "folder": str(tmp_path), "run": "monday"}
        assert (await started.post("/trace", on)).json == {
            "tracing": True,
            "folder": str(tmp_path),
            "run": "monday",
        }
        assert (await started.get("/status")).json["tracing"] is True
        again = await started.post("/trace", on)
        assert again.status == 409
        assert "already" in again.json["error"]
        for _ in range(2):
            assert (await started.post("/trace", {"on": False})).json == {"tracing": False}
        assert (tmp_path / "deliveries" / "run=monday" / "part-B0-000001.parquet").is_file()
        # Turned on again, it goes on.
        assert (await started.post("/trace", on)).json["run"] == "monday"
        await started.post("/trace", {"on": False})
        assert (tmp_path / "deliveries" / "run=monday" / "part-B0-000002.parquet").is_file()

    check(work, trace=TraceTable(allowed=(str(tmp_path),)))


def test_a_run_of_its_own_is_named(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        answer = await started.post("/trace", {"on": True, "folder": str(tmp_path)})
        assert answer.json["run"].startswith("B0-")
        await started.post("/trace", {"on": False})
        (path,) = tmp_path.glob("loads/*/*")
        assert path == tmp_path / "loads" / f"run={answer.json['run']}" / "part-B0-000001.parquet"

    check(work, trace=TraceTable(allowed=(str(tmp_path),)))


def test_a_client_is_asked_to_move() -> None:
    async def work(started: Broker) -> None:
        peer = await PlainPeer.connect(HOST, started.server.port)
        await peer.attach("c1")
        # A neighbour that it dials has a name here; of all others only the address will do.
        for broker, address in (("B2", "b2.example:7411"), ("[::1]:7411", "[::1]:7411")):
            order = {"client": "c1", "broker": broker}
            assert (await started.post("/redirect", order)).json == {**order, "sessions": 1}
            assert await peer.next(Redirect) == Redirect(address, "an operator asks for it")
        for broker, message in {
            "B1": "where 'B1' is, nobody here knows; expected host:port, or the name of a neighbour",
            "B7": "where 'B7' is, nobody here knows",
            "B0": "it is at B0; expected another broker",
            f"{HOST}:{started.server.port}": "; expected another broker",
        }.items():
            answer = await started.post("/redirect", {"client": "c1", "broker": broker})
            assert answer.status == 400
            assert message in answer.json["error"]
        await peer.close()

    check(work, links=LinksTable(neighbours={"B1": "", "B2": "b2.example:7411"}))


def test_the_record_of_what_somebody_outside_decided_is_kept() -> None:
    async def work(started: Broker) -> None:
        told = {"kind": "move", "subject": "c1", "choice": "B2", "cause": "plan 1 2"}
        predicted = {"load_per_s": 2.5}
        answer = await started.post("/decisions", {**told, "predicted": predicted})
        assert answer.json == {"broker": "B0", "recorded": True}
        (kept,) = (await started.get("/decisions")).json["decisions"]
        assert {name: kept[name] for name in told} == told
        assert kept["module"] == "plan"
        assert kept["acted"] is True
        assert kept["predicted"] == predicted
        assert kept["evidence"] == {"asked_by": "an operator"}

    check(work)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/trace", b"", 400, "the body does not read: "),
        ("/trace", b"{", 400, "the body does not read: "),
        ("/trace", {"on": "yes"}, 400, "Expected `bool`, got `str` - at `$.on`; expected {"),
        ("/trace", {"on": True, "of": 1}, 400, "unknown field `of`"),
        ("/trace", {"on": True}, 400, "the folder is missing; expected where the traces go"),
        ("/trace", {"on": True, "folder": "x"}, 400, "the folder is 'x'; expected a path from"),
        ("/trace", {"on": True, "folder": "/dev/null/x"}, 400, "can't be written: Not a directory"),
        ("/trace", {"on": True, "folder": "/\0"}, 400, "null byte"),
        (
            "/trace",
            {"on": True, "folder": "/x", "run": "../y"},
            400,
            "a run can't be called '../y'",
        ),
        ("/trace", b"[" * 70_000, 413, "the body is too long"),
        ("/redirect", {"client": "c1"}, 400, "missing required field `broker`"),
        ("/redirect", {"client": "", "broker": "B1"}, 400, "length >= 1 - at `$.client`"),
        ("/redirect", {"client": "c1", "broker": "B1"}, 404, "there is no client 'c1' at this"),
        ("/module", {"module": "x", "state": "off"}, 404, "no module 'x'; expected grape or pop"),
        ("/module", {"module": "grape", "state": "on"}, 400, "Invalid enum value 'on' - at `$.st"),
        ("/module", {"module": "grape"}, 400, "missing required field `state`; expected {"),
        ("/decisions", {"kind": "move"}, 400, "missing required field `subject`; expected {"),
        ("/decisions?limit=1001", None, 400, "expected a whole number from 1 to 1,000"),
        ("/sessions?limit=0", None, 400, "limit is '0'; expected a whole number from 1 to 10,000"),
        ("/sessions?limit=%E0%A5%A8", None, 400, "expected a whole number"),
        ("/nothing", None, 404, "Not Found"),
        ("/status", {}, 405, "Method Not Allowed"),
    ],
)
def test_bad_input_is_told_apart(
    face: Callable[..., Answer], path: str, body: object, status: int, message: str
) -> None:
    answer = face(path, body)
    assert answer.status == status
    assert message in answer.json["error"]


@pytest.fixture(scope="module")
def face() -> Any:
    """One broker for all who only ask it nonsense."""
    with asyncio.Runner() as runner:
        running = broker(trace=TraceTable(allowed=("/",)))
        started = runner.run(running.__aenter__())

        def asked(path: str, body: object) -> Answer:
            work = started.get(path) if body is None else started.post(path, body)
            return runner.run(work)

        yield asked
        runner.run(running.__aexit__(None, None, None))


# --- who may ----------------------------------------------------------------------------------------


@pytest.fixture
def secured(tmp_path: Path) -> SecurityTable:
    users = {
        "ops": User(token_hash=hash_token("right", SOFT), administer=True),
        "desk": User(token_hash=hash_token("right", SOFT), subscribe="*"),
        "watch": User(token_hash=hash_token("right", SOFT), monitor=True),
    }
    (tmp_path / "users.toml").write_text(users_text(users))
    return SecurityTable(
        enabled=True, users=str(tmp_path / "users.toml"), refusals=str(tmp_path / "refusals")
    )


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("path", ["/status", "/metrics", "/sessions", "/trace", "/redirect"])
def test_security_wants_an_operator(secured: SecurityTable, path: str) -> None:
    async def work(started: Broker) -> None:
        def asked(**headers: str) -> Awaitable[Answer]:
            if path in ("/trace", "/redirect"):
                return started.post(path, b"", **headers)
            return started.get(path, **headers)

        wrong = ("", "Bearer right", "Basic", "Basic *", basic("ops"), basic("ops:wrong"))
        for header in (*wrong, basic("desk:wrong"), basic("nobody:right")):
            answer = await asked(**({"Authorization": header} if header else {}))
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == 'basic realm="roost"'
        answer = await asked(Authorization=basic("desk:right"))
        assert (answer.status, answer.json) == (
            403,
            {"error": "'desk' may not administer a broker"},
        )
        assert started.server.refusals == 9
        assert (await asked(Authorization=basic("ops:right"))).status in (200, 400)
        assert (await started.get("/health")).status == 200
        assert "administration" in Path(secured.refusals).read_text()
        assert "right" not in Path(secured.refusals).read_text().replace("is not right", "")

    check(work, security=secured)


def test_a_monitor_sees_and_changes_nothing(secured: SecurityTable) -> None:
    async def work(started: Broker) -> None:
        me = {"Authorization": basic("watch:right")}
        for path in ("/status", "/metrics", "/sessions", "/decisions", "/health"):
            assert (await started.get(path, **me)).status == 200, path
        assert "warnings" in (await started.get("/health", **me)).json
        changes = ("/sessions/end", "/trace", "/redirect", "/links/add", "/module", "/ask")
        for path in (*changes, "/decisions"):
            answer = await started.post(path, b"", **me)
            assert (answer.status, answer.json) == (
                403,
                {"error": "'watch' may only monitor a broker"},
            ), path

    check(work, security=secured)


def test_few_tokens_are_checked_at_a_time(secured: SecurityTable) -> None:
    async def work(started: Broker) -> None:
        asked = [started.get("/status", Authorization=basic("ops:wrong")) for _ in range(40)]
        statuses = [answer.status for answer in await asyncio.gather(*asked)]
        assert set(statuses) == {401, 429}
        answer = await started.get("/status", Authorization=basic("ops:right"))
        assert answer.status == 200

    check(work, security=secured)


def test_pages_of_the_web_may_not_steer(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        order = {"on": True, "folder": str(tmp_path / "new")}
        answer = await started.post("/trace", order, Origin="https://example.org")
        assert answer.status == 403
        assert not (tmp_path / "new").exists()

    check(work, trace=TraceTable(allowed=(str(tmp_path),)))


def test_with_a_certificate_it_is_encrypted(tmp_path: Path, secured: SecurityTable) -> None:
    authority, _ = make_authority(tmp_path / "keys")
    certificate, key = issue(tmp_path / "keys", "B0", [HOST])
    tls = TlsTable(
        certificate=str(certificate),
        key=str(key),
        authority=str(authority),
        require_client_certificate=True,
    )

    async def work(started: Broker) -> None:
        url = started.url.replace("http", "https")
        known = Access("ops", "right", authority)
        assert (await asyncio.to_thread(ask, url, "/status", None, known))["broker"] == "B0"
        with pytest.raises(NoAnswerError, match="certificate verify failed"):
            await asyncio.to_thread(ask, url, "/health")
        with pytest.raises(NoAnswerError):
            await asyncio.to_thread(ask, started.url, "/health")

    check(work, tls=tls, security=secured)


# --- limits -----------------------------------------------------------------------------------------


def test_a_port_in_use_is_said_and_nothing_is_left_of_the_broker(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        table = BrokerTable(name="B1", host=HOST, port=port, data=str(tmp_path))
        taken = ServerConfig(broker=table, admin=AdminTable(port=started.admin.port))
        for _ in range(2):
            other = BrokerServer(taken)
            with pytest.raises(UserError, match=r"for operators: Address already in use; expect"):
                await other.start()
            await other.stop()  # which is no fault
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(HOST, port)
        await BrokerServer(taken).stop()  # nor is this, of one that was never started

    check(work)


def test_a_port_below_zero_is_none() -> None:
    async def work(started: Broker) -> None:
        started.server.config = replace(started.server.config, admin=AdminTable(port=-1))
        off = Admin(started.server)
        await off.start()
        assert off.port == -1
        await off.stop()

    check(work)


def test_after_the_end_nobody_listens() -> None:
    async def work(started: Broker) -> None:
        with socket.create_connection((HOST, started.admin.port)):  # says nothing
            await started.admin.stop()
        with pytest.raises(ConnectionRefusedError):
            await started.get("/health")
        await started.admin.stop()

    check(work)


def test_what_is_no_http_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    async def work(started: Broker) -> None:
        for data in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000):
            answer = await started.exchange(data)
            assert not answer or read_answer(answer).status == 400
        assert (await started.get("/health")).status == 200

    check(work)
    assert capfd.readouterr().err == ""


def test_connections_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(admin_module, "CONNECTION_S", 0.3)

    async def work(started: Broker) -> None:
        slow = [asyncio.create_task(started.exchange(b"GET /health")) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert await started.exchange(b"GET /health HTTP/1.1\r\n\r\n") == b""
        assert await asyncio.gather(*slow) == [b"", b"", b""]
        assert (await started.get("/health")).status == 200

    check(work)


# --- the other end ----------------------------------------------------------------------------------


def test_several_are_asked_at_once() -> None:
    async def work(started: Broker) -> None:
        nobody = f"http://{HOST}:1"
        ours = f"{HOST}:{started.admin.port}"
        first, second, third = await asyncio.to_thread(
            ask_all, [ours, nobody, started.url], "/status"
        )
        assert isinstance(first, dict)
        assert isinstance(third, dict)
        assert first["pid"] == third["pid"] == os.getpid()
        assert isinstance(second, NoAnswerError)
        assert str(second) == f"{nobody}: no answer: Connection refused"
        with pytest.raises(AdminError, match=r"there is no client 'c1' at this broker"):
            await asyncio.to_thread(ask, ours, "/redirect", {"client": "c1", "broker": "B1"})

    check(work)


def test_an_address_may_hold_who_asks(secured: SecurityTable) -> None:
    async def work(started: Broker) -> None:
        url = f"http://ops:right@{HOST}:{started.admin.port}"
        assert (await asyncio.to_thread(ask, url, "/status"))["broker"] == "B0"
        with pytest.raises(AdminError) as refused:
            await asyncio.to_thread(ask, url.replace("right", "secret"), "/status")
        assert "secret" not in str(refused.value)

    check(work, security=secured)


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://x:y", "http://x/y", "http://ops:secret@x:y"]
)
def test_no_address(url: str) -> None:
    with pytest.raises(UserError, match=r"is no address of a broker; expected one such as") as bad:
        ask(url, "/status")
    assert "secret" not in str(bad.value)


def test_somebody_else_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "ANSWER_S", 0.2)

    async def work() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = await reader.readline()
            if b"silent" in line:
                await asyncio.sleep(0.5)
            elif b"web" in line:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
            else:
                writer.write(b"SSH-2.0\r\n")
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        for path, message in (
            ("/silent", "no answer within 0.2 s"),
            ("/web", "answers 200 and no JSON; expected a broker's"),
            ("/else", "no answer: SSH-2.0"),
        ):
            with pytest.raises(AdminError, match=message):
                await asyncio.to_thread(ask, url, path)
        server.close()
        await asyncio.sleep(0.4)

    asyncio.run(work())
