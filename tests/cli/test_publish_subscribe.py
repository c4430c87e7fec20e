"""`roost publish` and `roost subscribe`: lines in, lines out, and a broker in between."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from roost.cli import main as cli
from roost.cli import publish as publish_command
from roost.cli import subscribe as subscribe_command
from roost.cli.advice import START
from roost.client import SyncSubscription, connect_sync
from roost.runtime.federation import Federation, Member, write_record
from roost.runtime.processes import known
from roost.runtime.server import BrokerServer
from roost.runtime.tables import ServerConfig
from tests.cli.support import Roost
from tests.client.support import DEADLINE_S, config, serving, url_of
from tests.client.test_security import secured, user

EVENTS: list[dict[str, Any]] = [
    {"class": "STOCK", "symbol": "YHOO", "volume": 400_000},
    {"class": "STOCK", "symbol": "größer", "price": -0.5},
    {"halted": True},
]


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are among the commands, and nothing of this machine's is."""
    ours = tuple(
        command.register
        for command in (publish_command, subscribe_command)
        if command.register not in cli.COMMANDS
    )
    monkeypatch.setattr(cli, "COMMANDS", cli.COMMANDS + ours)
    for name in ("ROOST_URL", "ROOST_USER", "ROOST_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def in_a_thread(settings: ServerConfig | None = None) -> Iterator[BrokerServer]:
    """A broker in a thread of its own."""
    started: list[BrokerServer] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(settings) as broker:
            started.append(broker)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(DEADLINE_S)
    try:
        yield started[0]
    finally:
        over.set()
        thread.join()


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    """One that everybody may use."""
    with in_a_thread() as server:
        yield server


@pytest.fixture
def heard(server: BrokerServer) -> Iterator[SyncSubscription]:
    """All that is published."""
    with connect_sync(url_of(server)) as client, client.subscribe("*") as subscription:
        subscription.ready()
        yield subscription


def attributes(heard: SyncSubscription, count: int) -> list[dict[str, Any]]:
    return [heard.get(DEADLINE_S).attributes for _ in range(count)]


def ndjson(*events: object) -> bytes:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events).encode()


# --- publishing -------------------------------------------------------------------------------------


def test_lines_of_standard_input(
    roost: Roost, server: BrokerServer, heard: SyncSubscription
) -> None:
    lines = b"\xef\xbb\xbf" + ndjson(*EVENTS[:2]) + b"\n  \n" + ndjson(EVENTS[2]).rstrip()
    ran = roost("publish", "--url", url_of(server), stdin=lines)
    assert (ran.code, ran.out, ran.err) == (0, "", "3 events acknowledged\n")
    assert attributes(heard, 3) == EVENTS


def test_a_file(
    roost: Roost, server: BrokerServer, heard: SyncSubscription, tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    many = [{"n": n} for n in range(2_000)]
    file.write_bytes(ndjson(*many))
    ran = roost("publish", file, "--url", url_of(server))
    assert (ran.code, ran.err) == (0, "2,000 events acknowledged\n")
    assert attributes(heard, 2_000) == many


def test_what_is_not_permitted_was_not_acknowledged(roost: Roost, tmp_path: Path) -> None:
    """The advertisement that follows from the event is refused as well, and is no event."""
    granted = secured(tmp_path, alice=user(publish="class = 'STOCK'"))
    with in_a_thread(granted) as server:
        login = ("--url", url_of(server), "--user", "alice", "--token", "secret")
        ran = roost("publish", "class=NEWS", *login)
        assert (ran.code, ran.err.splitlines()[0]) == (2, "0 events acknowledged")
        assert "may only advertise what" in ran.err
        mixed = ndjson(*[{"class": "STOCK", "n": n} for n in range(3)], {"class": "NEWS"})
        ran = roost("publish", *login, stdin=mixed)
        assert (ran.code, ran.err.splitlines()[0]) == (2, "3 events acknowledged")


def test_what_goes_along(roost: Roost, server: BrokerServer, heard: SyncSubscription) -> None:
    lines = ndjson(
        {
            "attributes": {"n": 1},
            "payload": "ä",
            "content_type": "text/plain",
            "headers": {"k": "v"},
            "id": "ignored",
            "published_at": 1.0,
        },
        {"attributes": {"n": 2}, "payload_base64": "AP8="},
        {"attributes": "not an object, so an attribute"},
    )
    assert roost("publish", "--url", url_of(server), stdin=lines).code == 0
    one, two, three = (heard.get(DEADLINE_S) for _ in range(3))
    assert (one.attributes, one.payload) == ({"n": 1}, "ä".encode())
    assert (one.content_type, one.headers) == ("text/plain", {"k": "v"})
    assert (two.attributes, two.payload) == ({"n": 2}, b"\0\xff")
    assert three.attributes == {"attributes": "not an object, so an attribute"}


def test_the_command_line(roost: Roost, server: BrokerServer, heard: SyncSubscription) -> None:
    words = [
        "class=STOCK",
        "volume=400000",
        "price=-.5e1",
        "halted=true",
        "zip='01234'",
        "note=a=b",
    ]
    ran = roost("publish", *words, "--payload", "hello", "--url", url_of(server))
    assert (ran.code, ran.err) == (0, "1 event acknowledged\n")
    event = heard.get(DEADLINE_S)
    assert event.payload == b"hello"
    assert event.attributes == {
        "class": "STOCK",
        "volume": 400_000,
        "price": -5.0,
        "halted": True,
        "zip": "01234",
        "note": "a=b",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"a": null}', "line 3, column 7: found 'null', expected a string, a number"),
        (b'{"a": {"b": 1}}', "line 3, column 7: found '{'"),
        (b'{"a": [1]}', "line 3, column 7"),
        (b'{"a": 1, "a": 2}', "line 3, column 10"),
        (b'{"a": 1e999}', "line 3, column 7"),
        (b'{"a": 18446744073709551616}', "line 3, column 7: found the integer"),
        (b'{"a": NaN}', "line 3, column 7"),
        (b'{"": 1}', "line 3, column 2: "),
        (b"[1]", "line 3: expected an object such as"),
        (b"7", "line 3: expected an object such as"),
        (b'{"a": 1', "line 3, column 8"),
        (b"\xff", "line 3: byte 1 is not UTF-8"),
        (b'{"attributes": {"a": null}}', "line 3: event attribute 'a': null is not a value"),
        (b'{"attributes": {"a": 1}, "to": 1}', "line 3: beside \"attributes\" stands 'to'"),
        (b'{"attributes": {"a": 1}, "payload": 1}', 'line 3: "payload" is no text'),
        (b'{"attributes": {"a": 1}, "headers": 1}', 'line 3: "headers" is no object'),
        (b'{"attributes": {"a": 1}, "headers": {"h": 1}}', "line 3: event: header 'h' is an int"),
        (b'{"attributes": {"a": 1}, "payload_base64": "!"}', "is no base64"),
        (b'{"attributes": {"a": 1}, "payload_base64": "", "payload": ""}', "expected one of them"),
        (b'{"attributes": {"a": 1}, "payload": "\\ud800"}', "surrogate pair"),
        (b'{"attributes": {"a": 1, "a": 2}}', "line 3: 'a' stands twice in an object"),
    ],
)
def test_a_bad_line_ends_it(
    roost: Roost, server: BrokerServer, heard: SyncSubscription, line: bytes, expected: str
) -> None:
    """All before it is acknowledged, and nothing behind it is published."""
    stdin = ndjson({"n": 1}, {"n": 2}) + line + b"\n" + ndjson({"n": 3})
    ran = roost("publish", "--url", url_of(server), stdin=stdin)
    assert ran.code == 2
    count, _, error = ran.err.partition("\n")
    assert count == "2 events acknowledged"
    assert error.startswith("error: standard input, line 3")
    assert expected in error
    assert attributes(heard, 2) == [{"n": 1}, {"n": 2}]
    assert roost("publish", "last=true", "--url", url_of(server)).code == 0
    assert attributes(heard, 1) == [{"last": True}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no-such-file"], "no-such-file: No such file or directory"),
        (["a=1", "a=2"], "'a' is said twice"),
        (["a=1", "file"], "expected one file, or only NAME=VALUE"),
        (["file", "--payload", "x"], "--payload goes along with NAME=VALUE"),
        (["a=99999999999999999999"], "a=99999999999999999999: "),
        (["a=1", "--url", "http://h"], "expected roost://host:7411"),
        (["a=1", "--token", "t"], "there is a token, and no user"),
        (["a=1", "--authority", "x.pem"], "expected roosts://"),
    ],
)
def test_bad_arguments(
    roost: Roost, server: BrokerServer, arguments: list[str], expected: str
) -> None:
    url = [] if "--url" in arguments else ["--url", url_of(server)]
    ran = roost("publish", *arguments, *url)
    assert ran.code == 2
    assert expected in ran.err


def test_a_file_that_looks_like_an_attribute(
    roost: Roost, server: BrokerServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b").write_bytes(ndjson({"n": 1}, {"n": 2}))
    assert roost("publish", "./a=b", "--url", url_of(server)).err == "2 events acknowledged\n"


def test_the_url_of_the_environment(
    roost: Roost, server: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOST_URL", url_of(server))
    assert roost("publish", "n=1").err == "1 event acknowledged\n"


def test_nobody_there(roost: Roost) -> None:
    for command in (["publish", "n=1"], ["subscribe", "*"]):
        ran = roost(*command, "--url", "roost://127.0.0.1:9")
        assert ran.code == 2
        assert ran.err == "error: roost://127.0.0.1:9: 127.0.0.1:9: Connection refused\n"


def test_nobody_where_brokers_usually_are(
    roost: Roost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who has said no place hears how to get one; who has a federation here, where that is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roost.client.url.DEFAULT_URL", "roost://127.0.0.1:9")
    monkeypatch.delenv("ROOST_URL", raising=False)
    at = "error: roost://127.0.0.1:9: 127.0.0.1:9: Connection refused\nhint: "
    for command in (["publish", "n=1"], ["subscribe", "*"]):
        ran = roost(*command)
        assert ran == (2, "", f"{at}{START}\n")
    broker = Member(
        name="B0",
        host="127.0.0.1",
        port=26398,
        admin_port=26399,
        config="B0.toml",
        log="B0.log",
        process=known(os.getpid()),
    )
    (tmp_path / ".roost").mkdir()
    write_record(
        tmp_path / ".roost", Federation(title="chain", durable=False, members=(broker,), links=())
    )
    ran = roost("publish", "n=1")
    assert "--url roost://127.0.0.1:26398 is B0, `roost status` has all" in ran.err
    # That a file is missing has nothing to do with brokers.
    ran = roost("publish", "class")
    assert ran.err == ("error: class: No such file or directory; expected a file, or NAME=VALUE\n")


def test_at_a_rate(roost: Roost, server: BrokerServer) -> None:
    began = time.monotonic()
    ran = roost("publish", "--rate", 200, "--url", url_of(server), stdin=ndjson(*[{"n": 1}] * 41))
    assert ran.err == "41 events acknowledged\n"
    assert time.monotonic() - began >= 0.2


# --- subscribing ------------------------------------------------------------------------------------


def test_a_filter_that_never_holds(roost: Roost, server: BrokerServer) -> None:
    options = ("--url", url_of(server), "--timeout", 0.2)
    ran = roost("subscribe", "n > 5 and n < 3", *options)
    said = "warning: nothing will come: no value of n satisfies n > 5 and n < 3"
    assert ran.err.splitlines()[0] == said
    assert "Warning" not in ran.err


def cli_process(*arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    """`roost ARGUMENTS` with our two commands, as a process of its own."""
    program = (
        "import sys; from roost.cli import main, publish, subscribe;"
        "main.COMMANDS += tuple(c.register for c in (publish, subscribe)"
        " if c.register not in main.COMMANDS); main.main(sys.argv[1:])"
    )
    return subprocess.Popen([sys.executable, "-c", program, *arguments], **more)


class Subscriber:
    """`roost subscribe ARGUMENTS`, ready."""

    def __init__(self, broker: BrokerServer | str, *arguments: str) -> None:
        pipe, url = subprocess.PIPE, broker if isinstance(broker, str) else url_of(broker)
        self.process = cli_process("subscribe", *arguments, "--url", url, stdout=pipe, stderr=pipe)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr
        assert self.err.readline() == f"subscribed at {url}\n".encode()

    def lines(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(self.out.readline()) for _ in range(count)]

    def end(self) -> tuple[int, bytes, bytes]:
        """The code, and the rest of what was said."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, err

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_events_come_as_they_are_published(server: BrokerServer) -> None:
    with (
        connect_sync(url_of(server)) as client,
        Subscriber(server, "n > 0", "--count", "3") as subscriber,
    ):
        id_ = client.publish({"n": 1, "nan": float("nan"), "inf": float("inf")}, b"text")
        (one,) = subscriber.lines(1)  # a line at a time, though standard output is a pipe
        assert one.pop("published_at") == pytest.approx(time.time(), abs=60)
        assert one == {
            "id": id_,
            "attributes": {"n": 1, "nan": "nan", "inf": "inf"},
            "payload": "text",
        }
        client.publish({"n": 0})
        client.publish({"n": 2}, b"\xff", content_type="x", headers={"k": "v"})
        (two,) = subscriber.lines(1)
        assert (two["attributes"], two["payload_base64"]) == ({"n": 2}, "/w==")
        assert (two["content_type"], two["headers"]) == ("x", {"k": "v"})
        client.publish({"n": 3})
        client.publish({"n": 4})
        assert [line["attributes"] for line in subscriber.lines(1)] == [{"n": 3}]
        assert subscriber.end() == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(server: BrokerServer, number: signal.Signals) -> None:
    with Subscriber(server, "n > 0") as subscriber:
        os.kill(subscriber.process.pid, number)
        assert subscriber.end() == (0, b"", b"")
    assert not server.shell.machine.sessions


def test_a_reader_that_is_gone(server: BrokerServer) -> None:
    with connect_sync(url_of(server)) as client, Subscriber(server, "n > 0") as subscriber:
        subscriber.out.close()
        client.publish({"n": 1})
        assert subscriber.process.wait(DEADLINE_S) == 141
        assert subscriber.err.read() == b""


def test_time_is_over(roost: Roost, server: BrokerServer) -> None:
    said = f"subscribed at {url_of(server)}\n"
    began = time.monotonic()
    assert roost("subscribe", "*", "--timeout", 1.0, "--url", url_of(server)) == (0, "", said)
    assert time.monotonic() - began >= 1.0
    too_few = roost("subscribe", "*", "--timeout", 1.0, "--count", 1, "--url", url_of(server))
    assert too_few == (1, "", said)


def test_durable_goes_on_where_it_ended(roost: Roost, server: BrokerServer) -> None:
    command = ["subscribe", "n >= 0", "--durable", "billing", "--url", url_of(server)]
    with connect_sync(url_of(server)) as client:
        client.subscribe("n >= 0", durable="billing").ready()
        for n in range(10):
            client.publish({"n": n})
    first = roost(*command, "--count", 4)
    second = roost(*command, "--count", 6)
    got = [line["attributes"]["n"] for line in (*first.ndjson, *second.ndjson)]
    assert got == list(range(10))


def test_what_is_printed_can_be_published_again(
    roost: Roost, server: BrokerServer, heard: SyncSubscription
) -> None:
    with Subscriber(server, "*", "--count", "2") as subscriber:
        with connect_sync(url_of(server)) as client:
            client.publish({"n": 1, "s": "ä"}, b"\xff", content_type="c", headers={"k": "v"})
            client.publish({"n": 2})
        code, lines, _ = subscriber.end()
    assert code == 0
    ran = roost("publish", "--url", url_of(server), stdin=lines)
    assert ran.err == "2 events acknowledged\n"
    before, after = [[heard.get(DEADLINE_S) for _ in range(2)] for _ in range(2)]
    for one, two in zip(before, after, strict=True):
        assert one.id != two.id
        assert one.attributes == two.attributes
        assert (one.payload, one.content_type, one.headers) == (
            two.payload,
            two.content_type,
            two.headers,
        )


def test_a_bad_filter(roost: Roost) -> None:
    ran = roost("subscribe", "n >")
    assert ran.code == 2
    assert "error: FILTER: line 1, column 4: found the end" in ran.err


def test_help(roost: Roost) -> None:
    for command in ("publish", "subscribe"):
        ran = roost(command, "--help")
        assert ran.code == 0
        assert f"roost {command}" in ran.out


# --- a broker as a process --------------------------------------------------------------------------


@contextmanager
def broker_process(*arguments: str) -> Iterator[str]:
    """The URL of `roost broker ARGUMENTS`, which is killed in the end, without a word."""
    process = cli_process("broker", *arguments, "--admin-port", "-1", stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = iter(process.stderr.readline, b"")  # its log stands there, too
        listens = next(filter(None, (re.search(rb"listens on (\S+)", line) for line in said)))
        yield f"roost://{listens[1].decode()}"
    finally:
        process.kill()
        process.communicate()


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """What came of `roost ARGUMENTS`."""
    pipe = subprocess.PIPE
    process = cli_process(*arguments, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        out, err = process.communicate(stdin, timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def test_all_of_them_as_processes(tmp_path: Path) -> None:
    """A broker that is killed in between: nothing that was acknowledged is lost or doubled."""
    store = ["--data", str(tmp_path / "store")]
    got: list[int] = []

    def publish(url: str, first: int) -> None:
        stdin = ndjson(*({"n": n} for n in range(first, first + 500)))
        ran = run("publish", "--url", url, stdin=stdin)
        assert ran == (0, b"", b"500 events acknowledged\n")

    def read(url: str, count: int) -> None:
        durable = ["subscribe", "n >= 0", "--durable", "d", "--url", url]
        code, out, _ = run(*durable, "--count", str(count))
        assert code == 0
        got.extend(json.loads(line)["attributes"]["n"] for line in out.splitlines())

    with broker_process("--port", "0", *store) as url:
        with Subscriber(url, "n >= 0", "--durable", "d") as subscriber:
            os.kill(subscriber.process.pid, signal.SIGINT)
            assert subscriber.end()[0] == 0
        publish(url, 0)
        read(url, 100)
    with broker_process("--port", "0", *store) as url:
        publish(url, 500)
        read(url, 900)
    assert got == list(range(1_000))


def test_it_is_said_when_the_broker_is_gone_and_back(tmp_path: Path) -> None:
    with in_a_thread(config(data=tmp_path)) as server:
        port, url = server.port, url_of(server)
        command = [
            sys.executable,
            "-m",
            "roost",
            "subscribe",
            "n > 0",
            "--url",
            url,
            "--count",
            "1",
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert process.stderr.readline() == f"subscribed at {url}\n"
    with process:
        assert process.stderr.readline().startswith(f"{url} is gone (")
        with in_a_thread(config(port=port, data=tmp_path)):
            assert process.stderr.readline().startswith(f"{url} is back, after ")
            with connect_sync(url) as client:
                client.publish({"n": 1})
            out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["attributes"] == {"n": 1}
