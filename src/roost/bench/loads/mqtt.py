"""mosquitto, by MQTT 3.1.1.

MQTT has no filters by content: each symbol has a topic, and a subscriber subscribes to all of them. Durable
means QoS 1 both ways and a session that is kept. mosquitto acknowledges what it holds in memory; it writes
its store when it ends and every so often (by default each half hour), so what is measured has not been on
the disk.
"""

from __future__ import annotations

import getpass
import socket
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roost.bench.loads import kernels
from roost.bench.loads.base import (
    HOST,
    READ_BYTES,
    Driver,
    Inlet,
    Outlet,
    Scenario,
    connect,
    read_exactly,
)
from roost.bench.loads.processes import PrivateServer, Processes, installed
from roost.bench.loads.quotes import PAYLOAD_BYTES, payload, quotes, symbol

_CONNECT, _CONNACK, _PUBLISH, _SUBSCRIBE, _SUBACK = 0x10, 0x20, 0x30, 0x82, 0x90
_QOS_1: Final = 0x02
_CLEAN_SESSION: Final = 0x02
_PUBACK_BYTES: Final = 4
_PACKET_IDS: Final = 0xFFFF
_TOPIC: Final = "quotes"


class Mosquitto(PrivateServer):
    """A private mosquitto."""

    name = "mosquitto"

    def launch(self, processes: Processes, scenario: Scenario) -> None:
        program = installed("mosquitto", "mosquitto")
        lines = [
            f"listener {self.publisher_port} {HOST}",
            "allow_anonymous true",
            "set_tcp_nodelay true",
            # The windows of the load are what limits; it should drop nothing.
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "log_type error",
            # Started by root it would become somebody who can't write into our folder.
            f"user {getpass.getuser()}",
        ]
        if scenario.durable:
            lines += ["persistence true", f"persistence_location {processes.folder}/"]
        config = processes.folder / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n", "utf-8")
        processes.start([program, "-c", str(config)])
        processes.wait_for_port(self.publisher_port)


class MqttDriver(Driver):
    """A topic for all quotes, or by content one a symbol."""

    window = 2_048

    def subscriber(self, scenario: Scenario, port: int, number: int) -> Inlet:
        sock = _session(port, f"subscriber-{number}", clean=not scenario.durable)
        topics = [_topic(symbol(n)) for n in range(scenario.symbols)]
        quality = int(scenario.durable)
        filters = b"".join(
            _text(topic) + bytes([quality])
            for topic in (topics if scenario.by_content else [_TOPIC])
        )
        sock.sendall(_packet(_SUBSCRIBE, b"\0\1" + filters))
        granted = _answer(sock, _SUBACK)[2:]
        if set(granted) != {quality}:
            raise RuntimeError(f"the server grants subscriptions {sorted(set(granted))}")
        return MqttInlet(sock, scenario)

    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        sock = _session(port, "publisher", clean=True)
        packets = [
            publish_packet(
                _topic(str(quote["symbol"])) if scenario.by_content else _TOPIC,
                payload(quote),
                acknowledged=scenario.durable,
            )
            for quote in quotes(scenario.symbols, scenario.seed)
        ]
        kind = AcknowledgedMqttOutlet if scenario.durable else Outlet
        return kind(sock, packets, len(packets[0]) - PAYLOAD_BYTES)


class AcknowledgedMqttOutlet(Outlet):
    """QoS 1: each packet has a number, which comes back in a PUBACK."""

    acknowledges = True

    def __init__(self, sock: socket.socket, frames: list[bytes], payload_at: int) -> None:
        super().__init__(sock, frames, payload_at)
        self._packet_id_at = payload_at - 2
        self._answer_bytes = 0

    def number(self, row: int, count: int) -> None:
        kernels.put_numbers(
            self.cells, self.width, row, count, self._packet_id_at, 2, self.sent, _PACKET_IDS
        )

    def acknowledge(self, data: bytes) -> None:
        # Nothing else comes on this connection.
        self._answer_bytes += len(data)
        self.acknowledged = self._answer_bytes // _PUBACK_BYTES


class MqttInlet(Inlet):
    """PUBLISH packets, and with QoS 1 a PUBACK for each."""

    def __init__(self, sock: socket.socket, scenario: Scenario) -> None:
        # No packet is as short as its answer.
        self._answers = np.zeros(READ_BYTES, np.uint8)
        self._answer_bytes = memoryview(self._answers)  # type: ignore[arg-type]
        super().__init__(sock, scenario)

    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        tally = self.tally
        used = kernels.scan_mqtt(data, end, now_ns, tally, self.latencies_ns, self._answers)
        if size := int(tally[kernels.MARK]):
            self.sock.sendall(self._answer_bytes[:size])
        return used


# --- the protocol ---------------------------------------------------------------------------------


def publish_packet(topic: str, content: bytes, *, acknowledged: bool) -> bytes:
    """A PUBLISH; if it is to be acknowledged, with QoS 1 and room for its number."""
    kind = _PUBLISH | _QOS_1 if acknowledged else _PUBLISH
    return _packet(kind, _text(topic) + (b"\0\0" if acknowledged else b"") + content)


def _session(port: int, client: str, *, clean: bool) -> socket.socket:
    sock = connect(port)
    flags = _CLEAN_SESSION if clean else 0
    keep_alive = b"\0\0"  # it need not be told that we are alive
    sock.sendall(_packet(_CONNECT, _text("MQTT") + bytes([4, flags]) + keep_alive + _text(client)))
    code = _answer(sock, _CONNACK)[1]
    if code:
        raise RuntimeError(f"the server refuses the connection with code {code}")
    return sock


def _topic(symbol_: str) -> str:
    return f"{_TOPIC}/{symbol_}"


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(kind: int, body: bytes) -> bytes:
    length = bytearray()
    left = len(body)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    length.append(left)
    return bytes([kind]) + length + body


def _answer(sock: socket.socket, kind: int) -> bytes:
    """The body of the next packet, which has to be of this kind."""
    (found,) = read_exactly(sock, 1)
    length = shift = 0
    while True:
        (digit,) = read_exactly(sock, 1)
        length |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            break
    body = read_exactly(sock, length)
    if found != kind:
        raise RuntimeError(f"the server says {found:#x} where {kind:#x} was expected: {body!r}")
    return body
