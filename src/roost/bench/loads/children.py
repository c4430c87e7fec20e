"""What the two load processes do. They are spawned by `harness`, and talk to it through a pipe.

The bench tells both to *open*; each says that it is *ready*. Then the publisher warms up: it sends messages
with the number 0, a round again and again until a whole round has arrived everywhere. Told to *go*, it sends
those that count, and waits until they have all arrived, or nothing has for a while. The subscribers just
read, until told to *report*.

Publishing is bounded twice: by the window to the slowest subscriber (see `credit`), and, where the server
acknowledges, by how much may be unacknowledged.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from roost.bench.loads import kernels
from roost.bench.loads.base import PATIENCE_S, Driver, Inlet, Outlet, Scenario
from roost.bench.loads.credit import Credit

Order: TypeAlias = Literal["open", "go", "report"]

# How many messages are written at once, unless the window is small: some 64 kB.
CHUNK: Final = 250
# How long to wait when there is no room in the window. Long against a write, short against the time
# that a server needs for a window.
NAP_S: Final = 0.000_5
# If so long nothing of a round of the warm-up arrives, subscriptions were not in place for it.
QUIET_S: Final = 1.0
ROUNDS: Final = 30
# Unless times are taken, a subscriber is woken for no less than this: a server that sends each message
# for itself would keep it busy with waking up ...
READ_LEAST_BYTES: Final = 16_000
# ... and looks after so long for what is less.
REST_S: Final = 0.005


@dataclass(frozen=True)
class Published:
    """What the publisher reports. Times are `time.monotonic_ns`, which all processes have in common."""

    messages: int
    start_ns: int
    end_ns: int  # when the last was written, and acknowledged if the server does
    cpu_s: float


@dataclass(frozen=True)
class Received:
    """What the subscribers report, together."""

    deliveries: int
    # The first arrival opens the interval and is not in it.
    deliveries_in_interval: int
    first_ns: int
    last_ns: int
    disordered: int
    cpu_s: float  # since the first arrival
    p50_us: float | None
    p99_us: float | None
    max_us: float | None


@dataclass(frozen=True)
class Failed:
    """A load process could not go on."""

    what: str


def publisher_main(
    driver: Driver, scenario: Scenario, port: int, credit: Path, pipe: Connection
) -> None:
    """Runs in the child: the publisher, from opening to its report."""

    def run() -> None:
        shared = Credit(credit, scenario.subscribers)
        _await(pipe, "open")
        outlet = driver.publisher(scenario, port)
        publisher = Publisher(outlet, scenario, shared)
        publisher.warm_up()
        _freeze()
        pipe.send("ready")
        _await(pipe, "go")
        pipe.send(publisher.publish())
        # Not earlier: some servers drop what a publisher sent that has left.
        _await(pipe, "report")
        outlet.close()

    _reporting_failures(pipe, run)


def subscriber_main(
    driver: Driver, scenario: Scenario, port: int, credit: Path, pipe: Connection
) -> None:
    """Runs in the child: all subscribers, from opening to their report."""

    def run() -> None:
        shared = Credit(credit, scenario.subscribers)
        _await(pipe, "open")
        numbers = range(scenario.subscribers)
        inlets = [driver.subscriber(scenario, port, number) for number in numbers]
        if not scenario.rate:
            for inlet in inlets:
                inlet.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, READ_LEAST_BYTES)
        _freeze()
        pipe.send("ready")
        pipe.send(receive(inlets, shared, pipe))
        for inlet in inlets:
            inlet.close()

    _reporting_failures(pipe, run)


def _await(pipe: Connection, order: Order) -> None:
    said = pipe.recv()
    assert said == order, f"expected {order!r}, got {said!r}"


def _freeze() -> None:
    """The collector has nothing to look for in what exists now."""
    gc.collect()
    gc.freeze()


def _reporting_failures(pipe: Connection, run: Callable[[], None]) -> None:
    # A person who interrupts means the bench, which ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_bench, daemon=True).start()
    try:
        run()
    except BlockingIOError:
        pipe.send(Failed(f"the server was silent for {PATIENCE_S:.0f} s\n{traceback.format_exc()}"))
    except Exception:
        pipe.send(Failed(traceback.format_exc()))


def _end_with_bench() -> None:
    """If that is killed, it can't end its children."""
    bench = multiprocessing.parent_process()
    if bench is not None:
        bench.join()
        os._exit(1)


# --- the publisher --------------------------------------------------------------------------------


class Publisher:
    """Sends what the windows allow."""

    def __init__(self, outlet: Outlet, scenario: Scenario, credit: Credit) -> None:
        self._outlet = outlet
        self._scenario = scenario
        self._credit = credit
        self._chunk = min(scenario.per_write or CHUNK, scenario.window // 2)
        if outlet.acknowledges:
            self._chunk = min(self._chunk, scenario.unacknowledged_max // 2)

    def warm_up(self) -> None:
        """Send rounds until one has arrived as a whole."""
        size = max(self._scenario.warm_up, self._scenario.symbols)
        for _ in range(ROUNDS):
            arrived = self._credit.arrivals(warm=True)
            if self._send(size, 0, arrived, QUIET_S) == size:
                self._await_acknowledgements(0)
                if _reaches(size, arrived, QUIET_S):
                    return
        raise RuntimeError(f"the warm-up did not get through in {ROUNDS} rounds")

    def publish(self) -> Published:
        """Send what counts, and wait for its arrival; what does not come in time is lost."""
        scenario = self._scenario
        arrived = self._credit.arrivals(warm=False)
        start_ns, start_cpu_s = time.monotonic_ns(), time.process_time()
        until = time.monotonic() + scenario.seconds
        sent = self._send(scenario.messages, 1, arrived, PATIENCE_S, until, scenario.rate)
        self._await_acknowledgements(0)
        end_ns = time.monotonic_ns()
        cpu_s = time.process_time() - start_cpu_s
        _reaches(sent, arrived, PATIENCE_S)
        return Published(sent, start_ns, end_ns, cpu_s)

    def _send(
        self,
        total: int,
        sequence: int,
        arrived: Callable[[], int],
        quiet_s: float,
        until: float = float("inf"),
        rate: float = 0.0,
    ) -> int:
        """Send so many, unless the time is up or nothing arrives any more; how many it sent."""
        outlet, window = self._outlet, self._scenario.window
        start = progress = time.monotonic()
        sent = 0
        while sent < total and (now := time.monotonic()) < until:
            count = min(self._chunk, total - sent)
            if rate:
                # All that are due by now: a sleep may take longer than it is from one to the next.
                due = int((now - start) * rate) + 1 - sent
                if due <= 0:
                    time.sleep(max(0.0, start + sent / rate - now))
                    continue
                count = min(count, due)
                self._glance_at_acknowledgements()
            if sent + count - arrived() > window:
                if now - progress > quiet_s:
                    break
                time.sleep(NAP_S)
                continue
            self._await_acknowledgements(self._scenario.unacknowledged_max - count)
            sent += outlet.send(count, sequence and sequence + sent, timed=rate > 0)
            progress = now
        return sent

    def _await_acknowledgements(self, most: int) -> None:
        """Until at most so many are lacking."""
        outlet = self._outlet
        while outlet.acknowledges and outlet.sent - outlet.acknowledged > most:
            outlet.take_acknowledgements()

    def _glance_at_acknowledgements(self) -> None:
        """Take those that are there, if some are lacking: many at once would take long."""
        outlet = self._outlet
        if outlet.acknowledges and outlet.sent - outlet.acknowledged > CHUNK:
            outlet.take_acknowledgements(wait=False)


def _reaches(total: int, arrived: Callable[[], int], quiet_s: float) -> bool:
    """Waits until so many have arrived; not, if nothing arrives any more."""
    seen, since = 0, time.monotonic()
    while (now_seen := arrived()) < total:
        now = time.monotonic()
        if now_seen > seen:
            seen, since = now_seen, now
        elif now - since > quiet_s:
            return False
        time.sleep(NAP_S)
    return True


# --- the subscribers ------------------------------------------------------------------------------


def receive(inlets: list[Inlet], credit: Credit, pipe: Connection) -> Received:
    """Read from all of them until the bench asks for a report."""
    by_file = {inlet.sock.fileno(): (number, inlet) for number, inlet in enumerate(inlets)}
    first_ns = last_ns = in_first = 0
    first_cpu_s = 0.0
    everybody = [(file, select.EPOLLIN) for file in by_file]
    with select.epoll() as poll:
        for file in (*by_file, pipe.fileno()):
            poll.register(file, select.EPOLLIN)
        while True:
            for file, _ in poll.poll(REST_S) or everybody:
                if file not in by_file:
                    _await(pipe, "report")
                    cpu_s = time.process_time() - first_cpu_s
                    return _summary(inlets, in_first, first_ns, last_ns, cpu_s)
                number, inlet = by_file[file]
                before = inlet.received
                now_ns = inlet.read()
                if not now_ns:
                    continue
                received = inlet.received
                credit.put(number, inlet.warmed, received)
                if received > before:
                    if not first_ns:
                        first_ns, in_first = now_ns, received
                        first_cpu_s = time.process_time()
                    last_ns = now_ns


def _summary(
    inlets: list[Inlet], in_first: int, first_ns: int, last_ns: int, cpu_s: float
) -> Received:
    deliveries = sum(inlet.received for inlet in inlets)
    taken = [inlet.latencies_ns[: inlet.received] for inlet in inlets]
    latencies_us = np.concatenate(taken) / 1_000
    p50 = p99 = most = None
    if len(latencies_us):
        p50, p99, most = np.percentile(latencies_us, (50, 99, 100)).tolist()
    return Received(
        deliveries=deliveries,
        deliveries_in_interval=deliveries - in_first,
        first_ns=first_ns,
        last_ns=last_ns,
        disordered=sum(int(inlet.tally[kernels.DISORDERED]) for inlet in inlets),
        cpu_s=cpu_s,
        p50_us=p50,
        p99_us=p99,
        max_us=most,
    )
