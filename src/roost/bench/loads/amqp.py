"""RabbitMQ, by AMQP 0-9-1.

Each subscriber has a queue. A direct exchange feeds them; by content a headers exchange does, with a binding
for each symbol whose arguments (class and symbol) must all be among the headers of a message. Such an
exchange compares a message with one binding after the other. Durable means a durable queue, persistent
messages, confirms to the publisher, which come when a message is on the disk, and acknowledgements of the
subscriber, many at once.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

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
from roost.bench.loads.processes import PrivateServer, Processes, free_port, installed
from roost.bench.loads.quotes import CLASS, PAYLOAD_BYTES, payload, quotes, symbol

# Debian's own place: the program of that name in the path lets only root and its own user in.
_PLACES: Final = ("/usr/lib/rabbitmq/bin",)

_EXCHANGE: Final = "quotes"
_KEY: Final = "all"
_CHANNEL: Final = 1
_METHOD, _HEADER, _BODY, _END = 1, 2, 3, 0xCE
_PERSISTENT: Final = 2
_HAS_HEADERS, _HAS_DELIVERY_MODE = 1 << 13, 1 << 12

# (class, method)
_START, _START_OK = (10, 10), (10, 11)
_TUNE, _TUNE_OK = (10, 30), (10, 31)
_OPEN, _OPEN_OK = (10, 40), (10, 41)
_CHANNEL_OPEN, _CHANNEL_OPEN_OK = (20, 10), (20, 11)
_EXCHANGE_DECLARE, _EXCHANGE_DECLARE_OK = (40, 10), (40, 11)
_QUEUE_DECLARE, _QUEUE_DECLARE_OK = (50, 10), (50, 11)
_BIND, _BIND_OK = (50, 20), (50, 21)
_QOS, _QOS_OK = (60, 10), (60, 11)
_CONSUME, _CONSUME_OK = (60, 20), (60, 21)
_PUBLISH, _ACK = (60, 40), (60, 80)
_CONFIRM_SELECT, _CONFIRM_SELECT_OK = (85, 10), (85, 11)

Method = tuple[int, int]


class RabbitMq(PrivateServer):
    """A private RabbitMQ, without plugins."""

    name = "rabbitmq"

    def launch(self, processes: Processes, _: Scenario) -> None:
        program = installed("rabbitmq-server", "rabbitmq-server", _PLACES)
        folder = processes.folder
        config = folder / "rabbitmq.conf"
        config.write_text("heartbeat = 0\nlog.console = false\n", "utf-8")
        (folder / "plugins").write_text("[].\n", "utf-8")
        names_port = free_port()
        variables = {
            "HOME": str(folder),  # where Erlang keeps its cookie
            "ERL_EPMD_PORT": str(names_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"roost-bench-{self.publisher_port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.publisher_port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RUNNING_UNDER_SYSTEMD": "yes",  # which means without a shell in between
        }
        # The server of Erlang's names: of its own, because Erlang would start one that stays.
        names = installed("epmd", "erlang-base")
        processes.start([names, "-port", str(names_port), "-address", HOST], variables)
        processes.wait_for_port(names_port)
        processes.start([program], variables)
        processes.wait_for_port(self.publisher_port)


class AmqpDriver(Driver):
    """A queue a subscriber."""

    window = 2_048

    def tuned(self, scenario: Scenario) -> Scenario:
        if scenario.by_content:
            # A hundred messages a second: what is on the way should not take long to arrive.
            return replace(scenario, window=20, warm_up=scenario.symbols)
        return super().tuned(scenario)

    def subscriber(self, scenario: Scenario, port: int, number: int) -> Inlet:
        session = AmqpSession(port)
        _declare_exchange(session, scenario)
        queue = f"subscriber-{number}"
        session.ask(
            _QUEUE_DECLARE,
            b"\0\0" + _short(queue) + _flags(False, scenario.durable) + _table({}),
            _QUEUE_DECLARE_OK,
        )
        for arguments in _bindings(scenario):
            names = _short(queue) + _short(_EXCHANGE) + _short(_KEY)
            session.ask(_BIND, b"\0\0" + names + _flags() + _table(arguments), _BIND_OK)
        if scenario.durable:
            prefetch = min(2 * scenario.unacknowledged_max, 0xFFFF)
            session.ask(_QOS, struct.pack(">IHB", 0, prefetch, 0), _QOS_OK)
        consume = b"\0\0" + _short(queue) + _short("c")
        without_acks = not scenario.durable
        session.ask(_CONSUME, consume + _flags(False, without_acks) + _table({}), _CONSUME_OK)
        kind = AmqpInlet if without_acks else AcknowledgingAmqpInlet
        return kind(session.sock, scenario)

    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        session = AmqpSession(port)
        _declare_exchange(session, scenario)
        if scenario.durable:
            session.ask(_CONFIRM_SELECT, _flags(), _CONFIRM_SELECT_OK)
        frames = [
            publish_frames(
                payload(quote),
                _headers(str(quote["symbol"])) if scenario.by_content else {},
                persistent=scenario.durable,
            )
            for quote in quotes(scenario.symbols, scenario.seed)
        ]
        kind = ConfirmedOutlet if scenario.durable else Outlet
        return kind(session.sock, frames, len(frames[0]) - 1 - PAYLOAD_BYTES)


class ConfirmedOutlet(Outlet):
    """The server numbers what a publisher sends by itself, and confirms these numbers."""

    acknowledges = True

    def __init__(self, sock: socket.socket, frames: list[bytes], payload_at: int) -> None:
        super().__init__(sock, frames, payload_at)
        self._kept = b""
        self._tally = np.zeros(kernels.TALLY_SIZE, np.int64)
        self._early = np.zeros(1 << 16, np.uint8)
        self.acknowledge(b"")  # compile now, not when it counts

    def acknowledge(self, data: bytes) -> None:
        data = self._kept + data
        cells = np.frombuffer(data, np.uint8)
        used = kernels.scan_confirms(cells, len(data), self._tally, self._early)
        self._kept = data[used:]
        if self._tally[kernels.TROUBLE]:
            raise RuntimeError(f"the server does not confirm: {self._kept[:200]!r}")
        self.acknowledged = int(self._tally[kernels.COUNT])


class AmqpInlet(Inlet):
    """Deliveries that need no acknowledgement."""

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        return kernels.scan_amqp(data, end, now_ns, self.tally, self.latencies_ns)


class AcknowledgingAmqpInlet(AmqpInlet):
    """Acknowledges all that a read has brought, at once."""

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        before = self.received + self.warmed
        used = super().scan(data, end, now_ns)
        # The server numbers deliveries from 1 on.
        tag = self.received + self.warmed
        if tag > before:
            self.sock.sendall(_method(_ACK, struct.pack(">QB", tag, 1)))
        return used


# --- the protocol ---------------------------------------------------------------------------------


class AmqpSession:
    """A connection with one channel."""

    def __init__(self, port: int) -> None:
        self.sock = connect(port)
        self.sock.sendall(b"AMQP\0\0\x09\x01")
        self.expect(_START)
        login = _long(b"\0guest\0guest")
        hello = _table({}) + _short("PLAIN") + login + _short("en_US")
        self.ask(_START_OK, hello, _TUNE, channel=0)
        self.tell(_TUNE_OK, struct.pack(">HIH", 16, 1 << 17, 0), channel=0)
        self.ask(_OPEN, _short("/") + _short("") + _flags(), _OPEN_OK, channel=0)
        self.ask(_CHANNEL_OPEN, _short(""), _CHANNEL_OPEN_OK)

    def tell(self, method: Method, arguments: bytes, channel: int = _CHANNEL) -> None:
        self.sock.sendall(_method(method, arguments, channel))

    def ask(
        self, method: Method, arguments: bytes, answer: Method, channel: int = _CHANNEL
    ) -> None:
        """Call a method and wait for its answer."""
        self.tell(method, arguments, channel)
        self.expect(answer)

    def expect(self, method: Method) -> None:
        """The next frame has to be this method."""
        kind, _, size = struct.unpack(">BHI", read_exactly(self.sock, 7))
        body = read_exactly(self.sock, size + 1)
        if kind != _METHOD or struct.unpack_from(">HH", body) != method:
            raise RuntimeError(f"the server says {body!r} where {method} was expected")


def publish_frames(content: bytes, headers: Mapping[str, str], *, persistent: bool) -> bytes:
    """The three frames of a message."""
    flags, properties = 0, b""
    if headers:
        flags |= _HAS_HEADERS
        properties += _table(headers)
    if persistent:
        flags |= _HAS_DELIVERY_MODE
        properties += bytes([_PERSISTENT])
    header = struct.pack(">HHQH", _PUBLISH[0], 0, len(content), flags) + properties
    return (
        _method(_PUBLISH, b"\0\0" + _short(_EXCHANGE) + _short(_KEY) + _flags())
        + _frame(_HEADER, header)
        + _frame(_BODY, content)
    )


def _declare_exchange(session: AmqpSession, scenario: Scenario) -> None:
    kind = "headers" if scenario.by_content else "direct"
    names = _short(_EXCHANGE) + _short(kind)
    flags = _flags(False, scenario.durable)
    session.ask(_EXCHANGE_DECLARE, b"\0\0" + names + flags + _table({}), _EXCHANGE_DECLARE_OK)


def _bindings(scenario: Scenario) -> list[dict[str, str]]:
    """The arguments of a subscriber's bindings."""
    if not scenario.by_content:
        return [{}]
    return [{"x-match": "all", **_headers(symbol(n))} for n in range(scenario.symbols)]


def _headers(symbol_: str) -> dict[str, str]:
    return {"class": CLASS, "symbol": symbol_}


def _method(method: Method, arguments: bytes, channel: int = _CHANNEL) -> bytes:
    return _frame(_METHOD, struct.pack(">HH", *method) + arguments, channel)


def _frame(kind: int, body: bytes, channel: int = _CHANNEL) -> bytes:
    return struct.pack(">BHI", kind, channel, len(body)) + body + bytes([_END])


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _long(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _flags(*bits: bool) -> bytes:
    """Bits of a method, the first lowest."""
    return bytes([sum(bit << place for place, bit in enumerate(bits))])


def _table(items: Mapping[str, str]) -> bytes:
    return _long(b"".join(_short(k) + b"S" + _long(v.encode()) for k, v in items.items()))
