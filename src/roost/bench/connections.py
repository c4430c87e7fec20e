"""What connections cost a live broker, and what one that stalls costs the others.

**Memory.** So many clients attach, each with a session and a subscription of its own, and stay. The broker's
memory with all of them, less what it has with the first few (which load code and tables), over their number
is what a connection costs. They are there: one event is then delivered to each.

**A stalled subscriber.** Subscribers on one stream, events at a moderate rate, latencies from just before an
event is written to when the read that brings it returns, over all subscribers but one. That one also wants
large events that nobody else does. Some of these come before the clock runs: either it reads them, like all
the others, or it has stopped reading, and then its buffers are full while the others are measured. The ratio
of the 99th percentiles is what they notice of it. More large events follow than the broker keeps for anybody:
by how much it has grown in the end is what it holds of what is not read. Both ways in turn, each time with a
fresh broker.

The clients are plain sockets in a child process, read by epoll: what they take of a machine with few cores is
the same both ways, and part of all latencies.
"""

from __future__ import annotations

import multiprocessing
import resource
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import Say, percentile, silent
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION_MIN,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Frame,
    Message,
    Parcel,
    Publication,
    Refused,
    SessionEnded,
    Subscribe,
)
from roost.errors import UserError
from roost.language import Event, parse_advertisement, parse_subscription
from roost.runtime.child_broker import ChildBroker
from roost.wire import PREFACE, StreamDecoder, encode

CONNECTIONS = 5_000
SUBSCRIBERS = 1_000
RATE = 20.0
SECONDS = 10.0
RUNS = 3
# Ahead of the rest: what a broker loads once is not what a connection costs.
FIRST = 200
# So many connect at a time, which is less than a broker lets wait.
BATCH = 100
WARM_UP_S = 2.0
SETTLE_S = 1.0
PATIENCE_S = 60.0
# Deliveries that a subscriber acknowledges at once.
ACK_EVERY = 16
READ_BYTES = 1 << 18
# What only the one gets that may stall: enough for its buffers to be full, and then more than is kept.
BULK_BYTES = 400_000
BULK_BEFORE = 40
BULK_AFTER = 200
BULK_PER_S = 40.0
SMALL_BUFFER_BYTES = 4_096
# Files of a process besides its connections.
OTHER_FILES = 100
KB, MB = 1e3, 1e6


# --- a client -------------------------------------------------------------------------------------


class PlainSession:
    """A connection with a session, by a plain socket."""

    def __init__(self, port: int, client: str, *, buffer_bytes: int = 0) -> None:
        self._client = client
        self.sock = socket.socket()
        self.sock.settimeout(PATIENCE_S)
        if buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = 0  # the number of the last delivery
        self._acknowledged = 0
        self._decoder = StreamDecoder()
        self._requests = 0
        # The version that is asked nothing, which nobody here would answer.
        greeting = Attach(PROTOCOL_VERSION_MIN, client, client, False, 0, 0)
        self.sock.sendall(PREFACE + encode(greeting))

    def request(self, message: Message) -> None:
        self._requests += 1
        self.sock.sendall(encode(Frame(CONTROL, self._requests, message)))

    def wait(self) -> None:
        """Until it is attached, and the broker has what it asked for."""
        attached, taken = False, 0
        while not attached or taken < self._requests:
            for parcel in self.read():
                if isinstance(parcel, Attached):
                    attached = True
                elif isinstance(parcel, Ack):
                    taken = parcel.control

    def read(self) -> list[Parcel]:
        data = self.sock.recv(READ_BYTES)
        if not data:
            raise ConnectionError(f"the broker has closed the connection of {self._client}")
        parcels = self._decoder.feed(data)
        for parcel in parcels:
            said = parcel.message if isinstance(parcel, Frame) else parcel
            if isinstance(said, AttachRefused | SessionEnded | Refused):
                raise RuntimeError(f"the broker says to {self._client}: {said}")
        return parcels

    def take(self) -> list[Publication]:
        """The events that have come, acknowledged now and then."""
        found = []
        for parcel in self.read():
            if isinstance(parcel, Frame) and isinstance(parcel.message, Delivery):
                self.received = parcel.sequence
                found.append(parcel.message.publication)
        if self.received - self._acknowledged >= ACK_EVERY:
            self._acknowledged = self.received
            self.sock.sendall(encode(Ack(0, self.received)))
        return found


def subscribed(port: int, names: Sequence[str], text: str) -> list[PlainSession]:
    """New sessions with a subscription each, a batch at a time; `{name}` in the text is their own."""
    peers: list[PlainSession] = []
    for start in range(0, len(names), BATCH):
        batch = []
        for name in names[start : start + BATCH]:
            peer = PlainSession(port, name)
            wanted = parse_subscription(text.format(name=name))
            peer.request(Subscribe(f"{name}/1", wanted, name))
            batch.append(peer)
        for peer in batch:
            peer.wait()
        peers += batch
    return peers


class Publisher:
    """Publishes at a rate."""

    def __init__(self, port: int) -> None:
        self._peer = PlainSession(port, "p")
        self._peer.request(Advertise("p/a", parse_advertisement("class present"), "p"))
        self._peer.wait()
        self._sent = 0

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.sock.close()

    def publish(self, class_: str, payload: bytes = b"") -> None:
        self._sent += 1
        publication = Publication(
            "p", self._sent, Event({"class": class_}), payload, published_at=time.monotonic()
        )
        self._peer.sock.sendall(encode(Frame(DATA, self._sent, publication)))

    def stream(self, class_: str, count: int, rate: float, payload: bytes = b"") -> None:
        """So many events at a rate."""
        start = time.monotonic()
        for tick in range(count):
            time.sleep(max(0.0, start + tick / rate - time.monotonic()))
            self.publish(class_, payload)
            self._take_acknowledgements()

    def _take_acknowledgements(self) -> None:
        while select.select([self._peer.sock], [], [], 0)[0]:
            self._peer.read()


# --- in the child ---------------------------------------------------------------------------------


def holder_main(port: int, connections: int, pipe: Connection[Any, Any]) -> None:
    """Holds connections, says when it has the first and all, and counts an event that goes to each."""
    raise_files_limit(connections)
    names = [f"c{number:05}" for number in range(connections)]
    text = "class = 'quote' and name = '{name}' or class = 'all'"
    peers = subscribed(port, names[:FIRST], text)
    pipe.send("first")
    pipe.recv()
    start = time.monotonic()
    peers += subscribed(port, names[FIRST:], text)
    pipe.send(time.monotonic() - start)
    pipe.recv()
    pipe.send(sum(len(peer.take()) for peer in peers))
    pipe.recv()


def subscribers_main(port: int, subscribers: int, stalls: bool, pipe: Connection[Any, Any]) -> None:
    """Subscribers on one stream; the first gets bulk as well, and stops reading if it stalls.

    Orders come as the run goes on: stall, measure from now on, report, end.
    """
    raise_files_limit(subscribers)
    one = PlainSession(port, "s0", buffer_bytes=SMALL_BUFFER_BYTES if stalls else 0)
    wanted = parse_subscription("class = 'quote' or class = 'bulk'")
    one.request(Subscribe("s0/1", wanted, "s0"))
    one.wait()
    names = [f"s{number}" for number in range(1, subscribers)]
    others = subscribed(port, names, "class = 'quote'")
    epoll = select.epoll()
    by_file = {peer.sock.fileno(): peer for peer in (one, *others)}
    for file in by_file:
        epoll.register(file, select.EPOLLIN)
    epoll.register(pipe.fileno(), select.EPOLLIN)
    pipe.send("ready")
    latencies: list[float] = []
    while True:
        for file, _ in epoll.poll():
            if file != pipe.fileno():
                peer = by_file[file]
                events = peer.take()
                if peer is not one:
                    now = time.monotonic()
                    latencies.extend(now - event.published_at for event in events)
                continue
            order = pipe.recv()
            if order == "stall":
                epoll.unregister(one.sock.fileno())
            elif order == "measure":
                latencies.clear()
            elif order == "report":
                p50, p99 = percentile(latencies, 50), percentile(latencies, 99)
                pipe.send(Latencies(len(latencies), p50, p99, max(latencies)))
            else:
                return


# --- in the parent --------------------------------------------------------------------------------


class Latencies(Struct, frozen=True):
    """Of all deliveries to all subscribers but the one."""

    deliveries: int
    p50_s: float
    p99_s: float
    max_s: float


class Measured(Struct, frozen=True):
    """A run with or without one that stalls."""

    latencies: Latencies
    grown_bytes: int  # the broker, from before the first large event to behind the last


class Child:
    """A process with clients, and the pipe to it."""

    def __init__(self, main: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(*arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, order: str) -> None:
        try:
            self._pipe.send(order)
        except BrokenPipeError:
            raise RuntimeError("the process of the clients has ended; see above") from None

    def answer(self) -> Any:
        if not self._pipe.poll(PATIENCE_S + SECONDS):
            raise RuntimeError("the process of the clients says nothing")
        try:
            return self._pipe.recv()
        except EOFError:
            raise RuntimeError("the process of the clients has ended; see above") from None

    def end(self) -> None:
        self._pipe.close()
        self._process.join(PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def broker_for(connections: int) -> Iterator[ChildBroker]:
    """A fresh broker that takes so many."""
    with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
        # Beside the sessions there is a reserve, for neighbours and administrators.
        limits = {"connections_max": (connections + OTHER_FILES) * 11 // 10}
        broker = ChildBroker(Path(folder), {"limits": limits})
        try:
            yield broker
        except RuntimeError as error:
            code = broker.stop()
            error.add_note(f"the broker ended with {code}; it said:\n{broker.said()}")
            raise
        finally:
            broker.stop()


def raise_files_limit(connections: int) -> None:
    """Each connection is an open file, here and in the broker, which inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = (connections + OTHER_FILES) * 11 // 10
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UserError(
                f"{connections:,} connections need {wanted:,} open files; the limit is {hard:,}"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def hold(connections: int) -> dict[str, float]:
    """What so many connections cost."""
    with broker_for(connections) as broker:
        child = Child(holder_main, broker.port, connections)
        try:
            child.answer()
            time.sleep(SETTLE_S)
            before = broker.resident_bytes()
            child.tell("all")
            attaching_s = child.answer()
            time.sleep(SETTLE_S)
            after = broker.resident_bytes()
            with Publisher(broker.port) as publisher:
                publisher.publish("all")
                child.tell("count")
                delivered = child.answer()
            child.tell("end")
        finally:
            child.end()
    more = connections - FIRST
    return {
        "connections": connections,
        "delivered": delivered,
        "attached_per_s": more / attaching_s,
        "resident_mb": after / MB,
        "memory_kb_per_connection": (after - before) / more / KB,
    }


def play(subscribers: int, rate: float, seconds: float, *, stalls: bool) -> Measured:
    """A run with a fresh broker."""
    with broker_for(subscribers) as broker:
        child = Child(subscribers_main, broker.port, subscribers, stalls)
        try:
            child.answer()
            bulk = bytes(BULK_BYTES)
            with Publisher(broker.port) as publisher:
                publisher.stream("quote", round(rate * WARM_UP_S), rate)
                if stalls:
                    child.tell("stall")
                before = broker.resident_bytes()
                publisher.stream("bulk", BULK_BEFORE, BULK_PER_S, bulk)
                time.sleep(SETTLE_S)
                child.tell("measure")
                publisher.stream("quote", round(rate * seconds), rate)
                time.sleep(SETTLE_S)
                child.tell("report")
                latencies = child.answer()
                publisher.stream("bulk", BULK_AFTER, BULK_PER_S, bulk)
                after = broker.resident_bytes()
            child.tell("end")
        finally:
            child.end()
    return Measured(latencies, after - before)


def run(
    connections: int = CONNECTIONS,
    subscribers: int = SUBSCRIBERS,
    rate: float = RATE,
    seconds: float = SECONDS,
    say: Say = silent,
    *,
    runs: int = RUNS,
) -> Result:
    """Measure what connections cost, and what one that stalls costs the others."""
    if connections <= FIRST:
        raise UserError(f"{connections:,} connections; expected more than {FIRST}")
    raise_files_limit(connections)
    say(f"{connections:,} connections")
    figures = hold(connections)
    calm, stalled = [], []
    for number in range(runs):
        say(f"{subscribers:,} subscribers, run {number + 1} of {runs}")
        calm.append(play(subscribers, rate, seconds, stalls=False))
        say(f"{subscribers:,} subscribers of which one stalls, run {number + 1} of {runs}")
        stalled.append(play(subscribers, rate, seconds, stalls=True))
    for suffix, measured in (("", calm), ("_with_one_stalled", stalled)):
        found = [m.latencies for m in measured]
        # The run that the rest of the machine disturbed least.
        quietest = min(found, key=lambda each: each.p99_s)
        expected = round(rate * seconds) * (subscribers - 1)
        figures |= {
            f"p50_ms{suffix}": quietest.p50_s * 1e3,
            f"p99_ms{suffix}": quietest.p99_s * 1e3,
            f"max_ms{suffix}": quietest.max_s * 1e3,
            f"lost{suffix}": sum(expected - each.deliveries for each in found),
            f"grown_mb{suffix}": max(m.grown_bytes for m in measured) / MB,
        }
    p99s = figures["p99_ms_with_one_stalled"], figures["p99_ms"]
    return {
        "bench": "connections",
        "config": {
            "workload": "connections",
            "subscriptions": connections,
            "subscribers": subscribers,
            "rate_per_s": rate,
            "seconds": seconds,
            "runs": runs,
            "seed": 0,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": {"p99_with_one_stalled_over_without": p99s[0] / p99s[1]},
    }


def table(result: Result) -> Table:
    """The figures for people."""
    config, figures = result["config"], result["results"]
    connections, subscribers = config["subscriptions"], config["subscribers"]
    rows = [
        [
            label,
            f"{figures[f'p50_ms{suffix}']:.1f}",
            f"{figures[f'p99_ms{suffix}']:.1f}",
            f"{figures[f'max_ms{suffix}']:.0f}",
            f"{figures[f'grown_mb{suffix}']:,.1f}",
        ]
        for label, suffix in (("all read", ""), ("one does not", "_with_one_stalled"))
    ]
    ratio = result["ratios"]["p99_with_one_stalled_over_without"]
    bulk_mb = BULK_BYTES * (BULK_BEFORE + BULK_AFTER) / MB
    return Table(
        key=f"connections/{connections}/{subscribers}",
        title=f"Connections: {subscribers:,} subscribers on one stream",
        columns=["", "p50 ms", "p99 ms", "max ms", "broker grown MB"],
        rows=rows,
        notes=[
            f"{connections:,} connections, each with a session and a subscription:"
            f" {figures['memory_kb_per_connection']:.1f} KB of the broker's memory each,"
            f" {figures['resident_mb']:,.0f} MB in all; {figures['attached_per_s']:,.0f} attach a second.",
            f"{config['rate_per_s']:g} events a second, {config['rate_per_s'] * subscribers:,.0f}"
            f" deliveries. The 99th percentile of the others is {ratio:.2f} times as long when one has"
            f" stalled, for which {bulk_mb:g} MB are published. The quietest of {config['runs']} runs,"
            " each with a fresh broker; of growth the largest.",
        ],
    )
