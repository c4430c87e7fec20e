"""Benchmark of a standby: what a commit at two costs next to a commit at one, and how long a take-over takes.

A broker with a store, and one that also has a standby, are measured in turn, so that a machine that is busy
is so for both. **Latency** is that of one event at a time: from publishing it to the subscriber, who gets it
when it is safe. The **rate** is that of many on their way, until the last has arrived. All of it is on one
machine with one disk, which both nodes wait for: on two machines the disks are two, and there is a network
between them.

A take-over is the time from the fault (kill -9, SIGSTOP) to the next event that is acknowledged.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import tempfile
import time
from pathlib import Path

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import Say, silent
from roost.client import Client, Subscription, connect
from roost.runtime.child_broker import ChildBroker
from roost.runtime.child_pair import ChildPair

ONE_AT_A_TIME = 150
EVENTS = 10_000
PAYLOAD = b"\0" * 100
# For a client that does not give up while one takes over.
PATIENCE_S = 30.0


async def _latencies(client: Client, subscription: Subscription, count: int) -> list[float]:
    found = []
    for number in range(count):
        began = time.perf_counter()
        await client.publish({"class": "A", "n": number}, PAYLOAD)
        await subscription.get()
        found.append(time.perf_counter() - began)
    return found


async def _rate(client: Client, subscription: Subscription, count: int) -> float:
    began = time.perf_counter()

    async def read() -> None:
        for _ in range(count):
            await subscription.get()

    reading = asyncio.create_task(read())
    for number in range(count):
        await client.publish({"class": "A", "n": number}, PAYLOAD)
    await reading
    return count / (time.perf_counter() - began)


async def _measured(url: str, count: int, events: int) -> tuple[list[float], float]:
    async with (
        connect(url, timeout_s=PATIENCE_S) as client,
        connect(url) as reader,
        reader.subscribe("class = 'A'") as subscription,
    ):
        await subscription.ready()
        await _latencies(client, subscription, 5)
        found = await _latencies(client, subscription, count)
        return found, await _rate(client, subscription, events)


async def _takeover(pair: ChildPair, how: signal.Signals) -> float:
    """From the fault to the next acknowledgement."""
    leader, _ = await asyncio.to_thread(pair.joined)
    async with connect(pair.url, timeout_s=PATIENCE_S) as client:
        await client.publish({"class": "A", "n": 0}, PAYLOAD)
        await client.flush()
        leader.running.signal(how)
        began = time.perf_counter()
        await client.publish({"class": "A", "n": 1}, PAYLOAD)
        await client.flush()
        took = time.perf_counter() - began
    leader.running.kill()
    leader.start()
    await asyncio.to_thread(pair.joined)
    return took


def run(
    rounds: int = 5, count: int = ONE_AT_A_TIME, events: int = EVENTS, say: Say = silent
) -> Result:
    """Measure both, in turn."""
    latencies: dict[str, list[float]] = {"one": [], "two": []}
    rates: dict[str, list[float]] = {"one": [], "two": []}
    takeovers: dict[str, list[float]] = {"kill": [], "stop": []}
    with tempfile.TemporaryDirectory(prefix="roost-standby-") as folder:
        (Path(folder) / "alone").mkdir()
        say("a broker, and one with a standby, start")
        pair = ChildPair(Path(folder))
        try:
            alone = ChildBroker(Path(folder) / "alone", {"broker": {"name": "A0", "data": "data"}})
            try:
                urls = {"one": f"roost://{alone.host}:{alone.port}", "two": pair.url}
                for number in range(rounds):
                    for name, url in urls.items():
                        say(f"round {number + 1} of {rounds}: a commit at {name}")
                        took, rate = asyncio.run(_measured(url, count, events))
                        latencies[name] += took
                        rates[name].append(rate)
            finally:
                alone.stop()
            for name, how in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
                for number in range(rounds):
                    say(f"take-over {number + 1} of {rounds}: {name}")
                    takeovers[name].append(asyncio.run(_takeover(pair, how)))
        finally:
            pair.stop()
    medians = {name: 1_000 * statistics.median(found) for name, found in latencies.items()}
    speeds = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "bench": "standby",
        "config": {
            "workload": "events of 100 bytes",
            "subscriptions": 0,
            "rounds": rounds,
            "commit": commit(),
            "seed": 0,
            **machine(),
        },
        "results": {
            **{f"latency_ms_at_{name}": found for name, found in medians.items()},
            **{f"events_per_s_at_{name}": found for name, found in speeds.items()},
            **{f"takeover_s_{name}": statistics.median(x) for name, x in takeovers.items()},
            **{f"takeover_s_{name}_max": max(x) for name, x in takeovers.items()},
        },
        "ratios": {
            "latency": medians["two"] / medians["one"],
            "rate": speeds["two"] / speeds["one"],
        },
    }


def table(result: Result) -> Table:
    """For people."""
    found, ratios = result["results"], result["ratios"]
    return Table(
        "standby",
        "A broker with a standby, next to one without",
        ["", "on one disk", "at two nodes", "ratio"],
        [
            [
                "one event, to its subscriber (ms)",
                f"{found['latency_ms_at_one']:.2f}",
                f"{found['latency_ms_at_two']:.2f}",
                f"{ratios['latency']:.2f}",
            ],
            [
                "events a second",
                f"{found['events_per_s_at_one']:,.0f}",
                f"{found['events_per_s_at_two']:,.0f}",
                f"{ratios['rate']:.2f}",
            ],
        ],
        [
            f"Until the next event is acknowledged: {found['takeover_s_kill']:.1f} s after kill -9"
            f" (at most {found['takeover_s_kill_max']:.1f}), {found['takeover_s_stop']:.1f} s after"
            f" SIGSTOP (at most {found['takeover_s_stop_max']:.1f}).",
        ],
    )
