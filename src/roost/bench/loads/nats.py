"""NATS, core and JetStream.

NATS has no filters by content: each symbol has a subject, and a subscriber subscribes to all of them. Core
NATS forgets what nobody takes. Durable is a JetStream stream in files: the server acknowledges each message
that it has written, which with its default settings means to the kernel, not to the disk (it syncs every two
minutes). The subscriber is a push consumer that acknowledges all up to a message at once.
"""

from __future__ import annotations

import json
import socket
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roost.bench.loads import kernels
from roost.bench.loads.base import (
    HOST,
    Driver,
    Inlet,
    Outlet,
    Scenario,
    connect,
    read_exactly,
)
from roost.bench.loads.processes import PrivateServer, Processes, installed
from roost.bench.loads.quotes import PAYLOAD_BYTES, payload, quotes, symbol

_SUBJECT: Final = "quotes"
_STREAM: Final = "QUOTES"
_CONSUMER: Final = "subscriber"
_DELIVERIES: Final = "deliveries"
_ANSWERS: Final = "answers"
_ACK: Final = b"+ACK"
# All ids of subscriptions have one length, and so all messages.
_FIRST_SID: Final = 1_000
_CRLF: Final = b"\r\n"


class Nats(PrivateServer):
    """A private nats-server."""

    name = "nats"

    def launch(self, processes: Processes, scenario: Scenario) -> None:
        program = installed("nats-server", "nats-server")
        lines = [f"listen: {HOST}:{self.publisher_port}", 'ping_interval: "1h"']
        if scenario.durable:
            lines.append(f"jetstream {{ store_dir: {json.dumps(str(processes.folder))} }}")
        config = processes.folder / "nats.conf"
        config.write_text("\n".join(lines) + "\n", "utf-8")
        processes.start([program, "-c", str(config)])
        processes.wait_for_port(self.publisher_port)


class NatsDriver(Driver):
    """A subject for all quotes, or by content one a symbol."""

    def subscriber(self, scenario: Scenario, port: int, _: int) -> Inlet:
        sock = _session(port)
        if scenario.durable:
            return _consumer(sock, scenario)
        subjects = [_SUBJECT]
        if scenario.by_content:
            subjects = [_subject(symbol(n)) for n in range(scenario.symbols)]
        _subscribe(sock, subjects)
        return NatsInlet(sock, scenario)

    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        sock = _session(port)
        reply = ""
        if scenario.durable:
            reply = _ANSWERS
            _subscribe(sock, [reply])
        lines = [
            publish_line(
                _subject(str(quote["symbol"])) if scenario.by_content else _SUBJECT,
                payload(quote),
                reply,
            )
            for quote in quotes(scenario.symbols, scenario.seed)
        ]
        kind = StreamOutlet if scenario.durable else Outlet
        return kind(sock, lines, len(lines[0]) - len(_CRLF) - PAYLOAD_BYTES)


class StreamOutlet(Outlet):
    """JetStream answers each message with another: `MSG answers sid size`, {"stream": ..., "seq": ...}."""

    acknowledges = True

    def __init__(self, sock: socket.socket, frames: list[bytes], payload_at: int) -> None:
        super().__init__(sock, frames, payload_at)
        self._lines = 0

    def acknowledge(self, data: bytes) -> None:
        if b'"error"' in data or b"-ERR" in data:
            raise RuntimeError(f"the server does not take a message: {data[:300]!r}")
        # Two lines each. The server's one PING in between makes no half a whole.
        self._lines += data.count(b"\n")
        self.acknowledged = self._lines // 2


class NatsInlet(Inlet):
    """MSG lines and their payloads."""

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        return kernels.scan_nats(data, end, now_ns, self.tally, self.latencies_ns)


class StreamInlet(NatsInlet):
    """The same, of a consumer: the last of a batch is acknowledged, and so all of them."""

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        self.tally[kernels.MARK] = -1
        used = super().scan(data, end, now_ns)
        last = int(self.tally[kernels.MARK])
        if last >= 0:
            line = data[last : last + 500].tobytes().split(_CRLF, 1)[0]
            reply = line.split(b" ")[3]
            self.sock.sendall(b"PUB %b %d\r\n%b\r\n" % (reply, len(_ACK), _ACK))
        return used


# --- the protocol ---------------------------------------------------------------------------------


def publish_line(subject: str, content: bytes, reply: str = "") -> bytes:
    """A PUB with its payload; the server answers to `reply`."""
    words = " ".join(filter(None, ("PUB", subject, reply, str(len(content)))))
    return words.encode() + _CRLF + content + _CRLF


def _subject(symbol_: str) -> str:
    return f"{_SUBJECT}.{symbol_}"


def _session(port: int) -> socket.socket:
    """A connection that is greeted."""
    sock = connect(port)
    information = _line(sock)
    if not information.startswith(b"INFO "):
        raise RuntimeError(f"this is no NATS server: {information!r}")
    options = {"verbose": False, "pedantic": False, "lang": "raw", "version": "1", "protocol": 0}
    sock.sendall(b"CONNECT " + json.dumps(options).encode() + _CRLF)
    _settle(sock)
    return sock


def _subscribe(sock: socket.socket, subjects: list[str]) -> None:
    lines = [f"SUB {subject} {_FIRST_SID + n}\r\n" for n, subject in enumerate(subjects)]
    sock.sendall("".join(lines).encode())
    _settle(sock)


def _settle(sock: socket.socket) -> None:
    """Wait until the server has done all that was asked of it so far."""
    sock.sendall(b"PING\r\n")
    while (line := _line(sock)) != b"PONG":
        if line == b"PING":
            sock.sendall(b"PONG\r\n")
        elif not line.startswith(b"INFO "):
            raise RuntimeError(f"the server says {line!r}")


def _consumer(sock: socket.socket, scenario: Scenario) -> Inlet:
    """A stream and its only consumer, whose deliveries come on this connection."""
    _subscribe(sock, [_DELIVERIES])
    sid = _FIRST_SID + 1
    sock.sendall(f"SUB {_ANSWERS}.api {sid}\r\n".encode())
    stream = {"name": _STREAM, "subjects": [_SUBJECT], "storage": "file", "num_replicas": 1}
    _request(sock, f"STREAM.CREATE.{_STREAM}", stream)
    consumer = {
        "durable_name": _CONSUMER,
        "deliver_subject": _DELIVERIES,
        "deliver_policy": "all",
        "ack_policy": "all",
        # The window of the load is what limits.
        "max_ack_pending": 2 * scenario.window,
    }
    named = {"stream_name": _STREAM, "config": consumer}
    _request(sock, f"CONSUMER.DURABLE.CREATE.{_STREAM}.{_CONSUMER}", named)
    sock.sendall(f"UNSUB {sid}\r\n".encode())
    _settle(sock)
    return StreamInlet(sock, scenario)


def _request(sock: socket.socket, what: str, content: dict[str, Any]) -> None:
    """Ask JetStream for something."""
    request = json.dumps(content).encode()
    sock.sendall(publish_line(f"$JS.API.{what}", request, f"{_ANSWERS}.api"))
    while not (line := _line(sock)).startswith(b"MSG "):
        if line not in (b"PING", b"PONG"):
            raise RuntimeError(f"the server says {line!r}")
    answer = json.loads(read_exactly(sock, int(line.split()[-1]) + len(_CRLF)))
    if "error" in answer:
        raise RuntimeError(f"JetStream refuses {what}: {answer['error']}")


def _line(sock: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(_CRLF):
        line += read_exactly(sock, 1)
    return bytes(line.removesuffix(_CRLF))
