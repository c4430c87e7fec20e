"""`roost gateway ws-eventing`, and `[gateway]` of a broker: bad input, and processes from start to end."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Roost

SOAP = """<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><Quote/></s:Body></s:Envelope>"""


def test_help_has_examples(roost: Roost) -> None:
    ran = roost("gateway", "ws-eventing", "--help")
    assert ran.code == 0
    assert "roost gateway ws-eventing --url roost://127.0.0.1:7411\n" in ran.out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--url", "http://x"], "the URL is 'http://x'; expected roost://host:7411"),
        (["--port", "99999"], "less than or equal to 65535"),
        (["--server-key", "key.pem"], "--server-certificate and --server-key go together"),
        (["--server-key", "no.pem", "--server-certificate", "no.pem"], "no.pem"),
        (["--authority", "a.pem", "--port", "0"], "expected roosts://"),
        (["--data", "/dev/null/x"], "expected a folder"),
    ],
)
def test_bad_input(roost: Roost, arguments: list[str], what: str) -> None:
    ran = roost("gateway", "ws-eventing", *arguments)
    assert ran.code == 2
    assert what in ran.err


def test_a_port_that_is_taken(roost: Roost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = roost("gateway", "ws-eventing", "--port", port)
    assert ran.code == 2
    assert f"can't listen on 127.0.0.1:{port}, for WS-Eventing: Address already in use" in ran.err


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "roost", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def port_of(running: subprocess.Popen[str], words: str) -> int:
    """Where it says that it listens."""
    assert running.stderr is not None
    for line in running.stderr:
        found = re.search(rf"{words} on 127\.0\.0\.1:(\d+)", line)
        if found:
            return int(found[1])
    raise AssertionError("it has ended")


def publish(port: int) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/", SOAP.encode(), {"Content-Type": "application/soap+xml"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return int(answer.status)


def test_processes_from_start_to_end(tmp_path: Path) -> None:
    """A broker with a gateway beside it, and another gateway in front of both."""
    settings = tmp_path / "roost.toml"
    settings.write_text(
        "[broker]\nport = 0\n[admin]\nport = -1\n[gateway]\nport = 0\ndata = 'kept'\n"
    )
    with process("broker", "--config", str(settings)) as broker:
        port = port_of(broker, "listens")
        assert publish(port_of(broker, "WS-Eventing is served")) == 202
        url = f"roost://127.0.0.1:{port}"
        with process("gateway", "ws-eventing", "--url", url, "--port", "0") as gateway:
            assert publish(port_of(gateway, "WS-Eventing is served")) == 202
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(10) == 0
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(10) == 0
    assert (tmp_path / "kept" / "ws-eventing.db").exists()
