"""What a scenario is, what a server and its driver have to do, and what comes out.

The server is started anew for each scenario. Its driver speaks its protocol, in two child processes of the
bench: an `Outlet` is the publisher's connection, an `Inlet` one of the subscribers'. What goes over them, and
when, is the same for all (see `children`).
"""

from __future__ import annotations

import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost.bench.loads import kernels
from roost.bench.loads.quotes import SENT_AT, SEQUENCE

HOST = "127.0.0.1"
# A server that says nothing for so long has failed.
PATIENCE_S = 30.0
# The most that one read takes.
READ_BYTES = 1 << 18


@dataclass(frozen=True)
class Scenario:
    """Who sends what to whom. Every subscriber gets every message, through one of its subscriptions."""

    name: str
    # It is over after so many messages or so long, whatever comes first.
    messages: int
    seconds: float = 5.0
    subscribers: int = 1  # connections
    # How many symbols the quotes are about. By content, a subscriber has a subscription for each;
    # otherwise one for all.
    symbols: int = 1
    by_content: bool = False
    # Stored by the server before it acknowledges, and acknowledged by the subscriber.
    durable: bool = False
    # Messages a second, each with the time when it was sent; 0: as many as the server takes.
    rate: float = 0.0
    # How many messages the publisher may be ahead of the slowest subscriber, so that nobody drops any;
    # 0: as many as suit the server best.
    window: int = 0
    # How many of them may lack the server's acknowledgement, where there is one.
    unacknowledged_max: int = 1_000
    # How many messages are written at once, at most; 0: as many as there are, up to 64 kB.
    per_write: int = 0
    # Sent before the clock runs, again and again until all of them arrive: subscriptions may take their
    # time to get from one broker to another. No less than there are symbols.
    warm_up: int = 2_000
    seed: int = 7


@dataclass(frozen=True)
class Result:
    """What was measured. A delivery is a message that one subscriber got."""

    messages: int  # published, without the warm-up
    # From the first write until the last has arrived, and is acknowledged if the server does.
    published_per_s: float
    # From the first arrival to the last, over all subscribers.
    delivered_per_s: float
    lost: int  # deliveries that never came
    disordered: int  # deliveries that came where another was expected: doubled, or out of order
    server_cpu_s_per_million: float  # deliveries, or lost ones
    # How much of a core the load took, of the time while there was any. Near 1 it is what limits.
    publisher_busy: float
    subscribers_busy: float
    # From just before it was sent to the return of the read that brought it; only of a paced scenario.
    p50_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None


class Server(Protocol):
    """A private server on a free port of this machine. Nothing else of the machine is touched."""

    name: str

    def start(self, scenario: Scenario) -> None:
        """Starts it and waits until it answers; UserError if it is not installed."""

    def stop(self) -> None:
        """Ends what was started, and only that. Nothing happens if nothing was."""

    @property
    def publisher_port(self) -> int:
        """Where the publisher connects."""

    @property
    def subscriber_port(self) -> int:
        """Where the subscribers connect: the same, unless there are several brokers."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes that were started, whose time counts with that of their children."""


class Driver(ABC):
    """Speaks a server's protocol. It goes to the child processes, so it has to be picklable."""

    # With how many messages on the way the server is fastest, or as fast as with more.
    window = 8_192

    def tuned(self, scenario: Scenario) -> Scenario:
        """The scenario as it suits this server."""
        # At a given rate the window should never be felt: it holds a second.
        window = max(self.window, int(scenario.rate))
        return replace(scenario, window=scenario.window or window)

    @abstractmethod
    def subscriber(self, scenario: Scenario, port: int, number: int) -> Inlet:
        """Connects one of the subscribers, and subscribes it; all of them do before the publisher."""

    @abstractmethod
    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        """Connects the publisher, and prepares its messages."""


class Outlet:
    """The publisher's connection: messages of one size, prepared, in which only numbers change.

    The messages are used in turn.
    """

    # Whether the server acknowledges what it takes.
    acknowledges = False

    def __init__(self, sock: socket.socket, frames: Sequence[bytes], payload_at: int) -> None:
        self.sock = sock
        self.sent = 0
        self.acknowledged = 0
        self.count = len(frames)
        self.width = len(frames[0])
        assert {len(frame) for frame in frames} == {self.width}, "frames have one size"
        self.cells = np.frombuffer(bytearray(b"".join(frames)), np.uint8)
        self._bytes = memoryview(self.cells)  # type: ignore[arg-type]
        self._sequence_at = payload_at + SEQUENCE.start
        self._sent_at_at = payload_at + SENT_AT.start

    def send(self, wanted: int, sequence: int, *, timed: bool = False) -> int:
        """Send the next messages, at most so many, numbered from here on; 0 stays 0. How many it sent."""
        row = self.sent % self.count
        count = min(wanted, self.count - row)
        cells, width = self.cells, self.width
        digits = SEQUENCE.stop - SEQUENCE.start
        step = 1 if sequence else 0
        kernels.put_hex(cells, width, row, count, self._sequence_at, digits, sequence, step)
        self.number(row, count)
        if timed:
            digits = SENT_AT.stop - SENT_AT.start
            now = time.monotonic_ns()
            kernels.put_hex(cells, width, row, count, self._sent_at_at, digits, now, 0)
        self.sock.sendall(self._bytes[row * width : (row + count) * width])
        self.sent += count
        return count

    def number(self, row: int, count: int) -> None:
        """Put in the numbers that the protocol itself asks for, `sent` + 1 and on."""

    def take_acknowledgements(self, *, wait: bool = True) -> None:
        """Count some in `acknowledged`; if there are none yet, wait, unless told not to."""
        try:
            data = self.sock.recv(READ_BYTES, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            if wait:
                raise  # that was all our patience
            return
        if not data:
            raise ConnectionError("the server has closed the connection of the publisher")
        self.acknowledge(data)

    def acknowledge(self, data: bytes) -> None:
        """Count the acknowledgements in what has come. Whoever gives none has nothing to say."""
        raise ConnectionError(f"the server has told the publisher {data[:80]!r}, unasked")

    def close(self) -> None:
        self.sock.close()


class Inlet(ABC):
    """A subscriber's connection: counts what comes, and answers what asks for it.

    Messages are not made into objects: a kernel walks over them, compares the number in each with the one
    that is due, and keeps its count in `tally` (see `kernels`).
    """

    def __init__(self, sock: socket.socket, scenario: Scenario) -> None:
        self.sock = sock
        self.tally = np.zeros(kernels.TALLY_SIZE, np.int64)
        self.tally[kernels.NEXT] = 1
        self.latencies_ns = np.zeros(scenario.messages if scenario.rate else 0, np.int64)
        self._data = np.zeros(READ_BYTES, np.uint8)
        self._view = memoryview(self._data)  # type: ignore[arg-type]
        self._kept = 0
        self.scan(self._data, 0, 0)  # compile now, not when it counts

    @property
    def received(self) -> int:
        """Messages, without those of the warm-up."""
        return int(self.tally[kernels.COUNT])

    @property
    def warmed(self) -> int:
        """Those."""
        return int(self.tally[kernels.WARM])

    def read(self) -> int:
        """Take what has come, at most a buffer full; when that was, in ns, or 0 if there is nothing."""
        try:
            size = self.sock.recv_into(self._view[self._kept :], 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        now = time.monotonic_ns()
        if not size:
            raise ConnectionError("the server has closed the connection of a subscriber")
        self.take(size, now)
        return now

    def take(self, size: int, now_ns: int) -> None:
        """Count what stands in the buffer now that so many bytes have come."""
        end = self._kept + size
        used = self.scan(self._data, end, now_ns)
        if self.tally[kernels.TROUBLE]:
            said = bytes(self._view[used : min(end, used + 200)])
            raise RuntimeError(f"the server says what no subscriber expects: {said!r}")
        self._kept = end - used
        if used:
            self._data[: self._kept] = self._data[used:end]

    @abstractmethod
    def scan(self, data: NDArray[np.uint8], end: int, now_ns: int) -> int:
        """Count the whole messages among the first `end` bytes, and answer; how many bytes they are."""

    def close(self) -> None:
        self.sock.close()


def connect(port: int) -> socket.socket:
    """A connection to a server of this machine, without Nagle's delays.

    The kernel minds the patience: with a timeout of Python's, every call would be two. At the end of it a
    call raises BlockingIOError.
    """
    sock = socket.create_connection((HOST, port))
    patience = struct.pack("ll", int(PATIENCE_S), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes and no more; for greetings."""
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"the server has closed the connection after {bytes(data)!r}")
        data += piece
    return bytes(data)
