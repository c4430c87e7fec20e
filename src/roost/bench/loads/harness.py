"""Has a server, a publisher and subscribers play a scenario, and says what came of it."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from roost.bench.loads.base import PATIENCE_S, Driver, Result, Scenario, Server
from roost.bench.loads.children import (
    Failed,
    Order,
    Published,
    Received,
    publisher_main,
    subscriber_main,
)
from roost.bench.loads.credit import Credit
from roost.bench.loads.processes import cpu_s

# For a child to end by itself when its work is done.
END_S = 10.0
# The longest for any one answer besides the scenario's own time: RabbitMQ's warm-up by content.
ANSWER_S = 240.0

T = TypeVar("T")


def run_scenario(server: Server, driver: Driver, scenario: Scenario) -> Result:
    """Start the server, play the scenario, stop the server; RuntimeError if somebody fails."""
    scenario = driver.tuned(scenario)
    server.start(scenario)
    try:
        with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
            credit = Path(folder) / "credit"
            Credit.create(credit, scenario.subscribers)
            return _play(server, driver, scenario, credit)
    finally:
        server.stop()


def _play(server: Server, driver: Driver, scenario: Scenario, credit: Path) -> Result:
    subscribers = Child(subscriber_main, driver, scenario, server.subscriber_port, credit)
    publisher = Child(publisher_main, driver, scenario, server.publisher_port, credit)
    try:
        subscribers.tell("open")
        subscribers.answer(str, ANSWER_S)
        publisher.tell("open")
        # Subscribers that fail would leave the publisher waiting for them.
        publisher.answer(str, ANSWER_S, watching=subscribers)
        before_s = cpu_s(server.pids)
        publisher.tell("go")
        published = publisher.answer(Published, scenario.seconds + ANSWER_S, watching=subscribers)
        subscribers.tell("report")
        received = subscribers.answer(Received, PATIENCE_S)
        used_s = cpu_s(server.pids) - before_s
        publisher.tell("report")
    except BaseException:
        for child in (subscribers, publisher):
            child.end(within_s=0)
        raise
    for child in (subscribers, publisher):
        child.end(within_s=END_S)
    return result_of(scenario, published, received, used_s)


def result_of(
    scenario: Scenario, published: Published, received: Received, server_cpu_s: float
) -> Result:
    """The figures."""
    deliveries = published.messages * scenario.subscribers
    over_ns = max(published.end_ns, received.last_ns)
    return Result(
        messages=published.messages,
        published_per_s=_per_s(published.messages, over_ns - published.start_ns),
        delivered_per_s=_per_s(
            received.deliveries_in_interval, received.last_ns - received.first_ns
        ),
        lost=deliveries - received.deliveries,
        disordered=received.disordered,
        server_cpu_s_per_million=server_cpu_s / max(1, deliveries) * 1e6,
        publisher_busy=_per_s(published.cpu_s, published.end_ns - published.start_ns),
        subscribers_busy=_per_s(received.cpu_s, received.last_ns - received.first_ns),
        p50_us=received.p50_us,
        p99_us=received.p99_us,
        max_us=received.max_us,
    )


def _per_s(count: float, interval_ns: int) -> float:
    return count / interval_ns * 1e9 if interval_ns else 0.0


class Child:
    """A load process, and the pipe to it."""

    def __init__(self, main: Callable[..., None], *arguments: Any) -> None:
        # Spawned, not forked: it has nothing of ours in memory.
        context = multiprocessing.get_context("spawn")
        self._name = main.__name__.removesuffix("_main")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=main, args=(*arguments, theirs), name=self._name, daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pipe(self) -> Connection[Any, Any]:
        return self._pipe

    def tell(self, order: Order) -> None:
        self._pipe.send(order)

    def answer(self, kind: type[T], within_s: float, watching: Child | None = None) -> T:
        """What it says next; RuntimeError if it, or the other one, fails instead."""
        pipes = [child.pipe for child in (self, watching) if child is not None]
        ready = multiprocessing.connection.wait(pipes, within_s)
        if watching is not None and watching.pipe in ready:
            watching.answer(Failed, 0)
        if not ready:
            raise RuntimeError(f"the {self._name} says nothing for {within_s:.0f} s")
        try:
            said = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"the {self._name} has ended without a word") from None
        if isinstance(said, Failed):
            raise RuntimeError(f"the {self._name} failed: {said.what}")
        assert isinstance(said, kind), f"the {self._name} said {said!r}"
        return said

    def end(self, within_s: float) -> None:
        """Wait for its end, or make it."""
        self._pipe.close()
        self._process.join(within_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
