"""Benchmark of the WS-Eventing gateway: notifications a second from one gateway to many sinks.

Broker and gateway are processes of their own. The sinks and the publisher are in this one: together they
leave the gateway a processor of its own where there are two. What counts is how many notifications the
gateway sends in a second of its processor's time, and that each sink got all of them in order.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import Say, silent
from roost.client import connect
from roost.gateway.ws_eventing.filters import FILTER_DIALECT
from roost.gateway.ws_eventing.versions import EVENTING_2011, SOAP_12
from roost.runtime.child_broker import ChildBroker

HOST = "127.0.0.1"
START_S = 60.0
PATIENCE_S = 300.0
# So many events before those that count.
WARM_UP = 20

SUBSCRIBE = (
    f'<s:Envelope xmlns:s="{SOAP_12.namespace}" xmlns:e="{EVENTING_2011.namespace}"'
    f' xmlns:a="{EVENTING_2011.addressing.namespace}"><s:Body><e:Subscribe><e:Delivery><e:NotifyTo>'
    "<a:Address>ADDRESS</a:Address></e:NotifyTo></e:Delivery>FILTER</e:Subscribe></s:Body></s:Envelope>"
)
_served = re.compile(r"served on \S+:(\d+)").search
_length = re.compile(rb"content-length: *(\d+)", re.IGNORECASE).search
_number = re.compile(rb'name="n" type="integer">(\d+)<').search
ANSWER = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Played:
    """What was measured."""

    seconds: float
    gateway_cpu_s: float
    notifications: int
    lost: int
    doubled: int
    reordered: int


def run(sinks: int, events: int, seed: int, say: Say = silent) -> Result:
    """Measure it."""
    with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
        say("a broker and a gateway start")
        broker = ChildBroker(Path(folder), {})
        try:
            with gateway_process(f"roost://{HOST}:{broker.port}") as (process, port):
                url = f"roost://{HOST}:{broker.port}"
                played = asyncio.run(_play(url, process.pid, port, sinks, events, say))
        finally:
            broker.stop()
    return {
        "bench": "gateway",
        "config": {
            "workload": "events of four attributes",
            "subscriptions": sinks,
            "events": events,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": _figures(played),
        "ratios": {},
    }


@contextmanager
def gateway_process(url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A gateway, and where it listens."""
    command = [sys.executable, "-m", "roost", "gateway", "ws-eventing", "--url", url]
    command += ["--port", "0", "--allow-private"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(filter(None, map(_served, process.stderr)), None)
            if found is None:
                raise RuntimeError("the gateway does not start")
            yield process, int(found[1])
        finally:
            process.terminate()


class _Sink(asyncio.Protocol):
    """Takes notifications as quickly as can be: their numbers are all that is looked at."""

    def __init__(self, numbers: list[int], opened: list[asyncio.Transport]) -> None:
        self._numbers = numbers
        self._opened = opened
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opened.append(transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (head := self._data.find(b"\r\n\r\n")) >= 0:
            length = _length(self._data, 0, head)
            end = head + 4 + int(length[1] if length else 0)
            if len(self._data) < end:
                return
            number = _number(self._data, head, end)
            if number:
                self._numbers.append(int(number[1]))
            self._data = self._data[end:]
            self._transport.write(ANSWER)


@asynccontextmanager
async def listening(count: int) -> AsyncIterator[list[tuple[int, list[int]]]]:
    """Sinks: their ports, and the numbers that they get."""
    loop = asyncio.get_running_loop()
    found: list[tuple[int, list[int]]] = []
    servers: list[asyncio.Server] = []
    opened: list[asyncio.Transport] = []
    for _ in range(count):
        numbers: list[int] = []
        server = await loop.create_server(partial(_Sink, numbers, opened), HOST, 0)
        servers.append(server)
        found.append((server.sockets[0].getsockname()[1], numbers))
    try:
        yield found
    finally:
        for server in servers:
            server.close()
        for transport in opened:
            transport.abort()
        await asyncio.sleep(0)  # for them to end


async def _play(url: str, pid: int, port: int, sinks: int, events: int, say: Say) -> Played:
    async with listening(sinks) as listeners, connect(url) as client:
        say(f"{sinks} subscriptions")
        for sink, _ in listeners:
            await asyncio.to_thread(subscribe, port, f"http://{HOST}:{sink}/")
        got = [numbers for _, numbers in listeners]

        async def publish(first: int, count: int) -> None:
            for n in range(first, first + count):
                await client.publish({"class": "STOCK", "symbol": "YHOO", "price": 30.25, "n": n})
            await client.flush()
            async with asyncio.timeout(PATIENCE_S):
                while not all(numbers and numbers[-1] >= first + count - 1 for numbers in got):
                    await asyncio.sleep(0.001)

        await publish(0, WARM_UP)
        say(f"{sinks * events:,} notifications")
        began, cpu_s = time.monotonic(), _cpu_s(pid)
        await publish(WARM_UP, events)
        seconds, cpu_s = time.monotonic() - began, _cpu_s(pid) - cpu_s
    expected = WARM_UP + events
    return Played(
        seconds=seconds,
        gateway_cpu_s=cpu_s,
        notifications=sinks * events,
        lost=sum(expected - len(set(numbers)) for numbers in got),
        doubled=sum(len(numbers) - len(set(numbers)) for numbers in got),
        reordered=sum(numbers != sorted(numbers) for numbers in got),
    )


def subscribe(port: int, sink: str, filter_: str = "") -> None:
    """Have a gateway notify a sink, of what a filter in Roost's language admits."""
    within = f'<e:Filter Dialect="{FILTER_DIALECT}">{escape(filter_)}</e:Filter>' if filter_ else ""
    request = urllib.request.Request(
        f"http://{HOST}:{port}/",
        SUBSCRIBE.replace("ADDRESS", sink).replace("FILTER", within).encode(),
        {"Content-Type": SOAP_12.media_type},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=START_S) as answer:
        answer.read()


def _cpu_s(pid: int) -> float:
    """The processor's time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(played: Played) -> dict[str, float]:
    return {
        "notifications_per_s": played.notifications / played.seconds,
        "notifications_per_core_s": played.notifications / max(0.01, played.gateway_cpu_s),
        "gateway_cpu_share": played.gateway_cpu_s / played.seconds,
        "lost": played.lost,
        "doubled": played.doubled,
        "reordered": played.reordered,
    }


def is_clean(result: Result) -> bool:
    """Whether every sink got all, once and in order."""
    return not any(result["results"][what] for what in ("lost", "doubled", "reordered"))


def table(result: Result) -> Table:
    """The figures for people."""
    figures, config = result["results"], result["config"]
    names = {
        "notifications_per_s": "notifications/s",
        "notifications_per_core_s": "... and a second of the gateway's processor",
    }
    wrong = ", ".join(f"{figures[what]:.0f} {what}" for what in ("lost", "doubled", "reordered"))
    return Table(
        key="gateway",
        title=f"Gateway: WS-Eventing, {config['subscriptions']} sinks",
        columns=["", "figure"],
        rows=[[title, f"{figures[name]:,.0f}"] for name, title in names.items()],
        notes=[
            f"{config['events']:,} events to each sink, one notification at a time for each; SOAP 1.2, events"
            " of Roost's own in XML. Broker, publisher and sinks share the machine with the gateway.",
            f"{wrong}.",
        ],
    )
