"""The benchmark of the client library: a publisher, a broker and a subscriber, each a process, end to end.

What is measured is what an application gets, and what it costs: events a second from the first call of the
publisher until the subscriber has the last event, and the processor time of each of the three for an event.
Applications publish and subscribe in one of three ways:

    arrow   record batches by `publish_many`, and record batches by `batches(arrow=True)`
    dicts   dictionaries by `publish_many`, and events by `batches()`
    single  one event a call of `publish`, and `async for`

The subscriber looks at a number in each event: whether it is the next one. Each run has new processes of the
library (`client_roles`) at one broker, whose bounds for what waits for a client are so high that a subscriber
which is slower than the publisher is not given up: the rate is that of the slowest of the three.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from msgspec import Struct

from roost.bench import client_roles
from roost.bench.loads.processes import cpu_s
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.sizes import CLIENT_EVENTS, CLIENT_RUNS
from roost.bench.timing import Say, silent
from roost.runtime.child_broker import ChildBroker

SCENARIOS: Final = {
    "arrow": "Arrow to Arrow batches",
    "dicts": "publish_many of dicts to batches()",
    "single": "publish to async for",
}
OUTBOX_MAX: Final = 100_000_000
EVENT_BYTES: Final = 200  # at most
# A process that has said nothing for so long hangs.
PATIENCE_S: Final = 120.0


class Ran(Struct, frozen=True):
    """What came of one run."""

    events: int
    seconds: float  # until the last event was there; 0: it never was
    publisher_cpu_s: float
    broker_cpu_s: float
    subscriber_cpu_s: float
    received: int
    reordered: int


class Role:
    """A process of the library, and what it says."""

    def __init__(self, role: str, url: str, scenario: str, rounds: int, source: Path) -> None:
        words = [role, url, scenario, str(rounds)]
        self._process = subprocess.Popen(
            # Without the folder of the script among those that modules are looked for in.
            [sys.executable, "-P", os.fspath(Path(client_roles.__file__)), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.fspath(source)},
            cwd=tempfile.gettempdir(),
            text=True,
        )
        self._name = role

    def heard(self) -> Any:
        """The next thing that it says."""
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the process that is to {self._name} has ended")
        return json.loads(line)

    def go(self) -> None:
        """What it waits for has come."""
        into = self._pipe(self._process.stdin)
        into.write("go\n")
        into.flush()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            self._pipe(pipe).close()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def run_once(broker: ChildBroker, scenario: str, rounds: int, source: Path) -> Ran:
    """Publish so many rounds of events, with the library that is there."""
    url = f"roost://{broker.host}:{broker.port}"
    subscriber = Role("subscribe", url, scenario, rounds, source)
    try:
        subscriber.heard()
        publisher = Role("publish", url, scenario, rounds, source)
        try:
            subscriber.heard()
            broker_cpu_s = cpu_s([broker.pid])
            publisher.go()
            published = publisher.heard()
            received = subscriber.heard()
            broker_cpu_s = cpu_s([broker.pid]) - broker_cpu_s
        finally:
            publisher.end()
    finally:
        subscriber.end()
    return Ran(
        events=rounds * client_roles.ROUND,
        seconds=max(0.0, received["ended"] - published["began"]),
        publisher_cpu_s=published["cpu_s"],
        broker_cpu_s=broker_cpu_s,
        subscriber_cpu_s=received["cpu_s"],
        received=received["received"],
        reordered=received["reordered"],
    )


def source_of_this() -> Path:
    """What PYTHONPATH has to be for the library that runs here."""
    return Path(client_roles.__file__).parents[2]


def serving(folder: Path) -> ChildBroker:
    """A broker for such runs."""
    bounds = {
        "session_outbox_max": OUTBOX_MAX,
        "session_outbox_bytes_max": OUTBOX_MAX * EVENT_BYTES,
    }
    return ChildBroker(folder, {"broker": {"name": "B1", **bounds}})


def run(events: int = CLIENT_EVENTS, runs: int = CLIENT_RUNS, say: Say = silent) -> Result:
    """All ways in turn, so many times; the medians count."""
    rounds = max(1, round(events / client_roles.ROUND))
    found: dict[str, list[Ran]] = {scenario: [] for scenario in SCENARIOS}
    with tempfile.TemporaryDirectory(prefix="roost-client-") as folder:
        say("a broker starts")
        broker = serving(Path(folder))
        try:
            for number in range(1, runs + 1):
                for scenario, ran in found.items():
                    say(f"run {number} of {runs}: {SCENARIOS[scenario]}")
                    ran.append(run_once(broker, scenario, rounds, source_of_this()))
        finally:
            broker.stop()
    figures: dict[str, float] = {}
    for scenario, ran in found.items():
        figures |= figures_of(scenario, ran)
    return {
        "bench": "client",
        "config": {
            "workload": "quotes of four attributes",
            "subscriptions": 1,
            "events": rounds * client_roles.ROUND,
            "runs": runs,
            "seed": 0,
            "machine": machine(),
            "commit": commit(),
        },
        "results": {
            **figures,
            **{
                what: sum(figures[f"{scenario}_{what}"] for scenario in found)
                for what in ("lost", "doubled", "reordered")
            },
        },
        "ratios": {
            f"{scenario}_to_single": figures[f"{scenario}_events_per_s"]
            / (figures["single_events_per_s"] or 1.0)
            for scenario in ("arrow", "dicts")
        },
    }


def figures_of(scenario: str, ran: Sequence[Ran]) -> dict[str, float]:
    """The medians of the runs of a scenario, and what went wrong in all of them."""

    def median_us(what: str) -> float:
        return float(statistics.median(getattr(each, what) / each.events * 1e6 for each in ran))

    return {
        f"{scenario}_events_per_s": statistics.median(
            each.events / each.seconds if each.seconds else 0.0 for each in ran
        ),
        f"{scenario}_publisher_us": median_us("publisher_cpu_s"),
        f"{scenario}_broker_us": median_us("broker_cpu_s"),
        f"{scenario}_subscriber_us": median_us("subscriber_cpu_s"),
        f"{scenario}_lost": sum(max(0, each.events - each.received) for each in ran),
        f"{scenario}_doubled": sum(max(0, each.received - each.events) for each in ran),
        f"{scenario}_reordered": sum(each.reordered for each in ran),
    }


def is_clean(result: Result) -> bool:
    """Whether everything arrived once and in order."""
    return not any(result["results"][what] for what in ("lost", "doubled", "reordered"))


def table(result: Result) -> Table:
    """The figures for people."""
    config, found, ratios = result["config"], result["results"], result["ratios"]
    rows = []
    for scenario, title in SCENARIOS.items():
        ratio = ratios.get(f"{scenario}_to_single")
        rows.append(
            [
                title,
                f"{found[f'{scenario}_events_per_s']:,.0f}",
                *(
                    f"{found[f'{scenario}_{who}_us']:.2f}"
                    for who in ("publisher", "broker", "subscriber")
                ),
                "" if ratio is None else f"{ratio:.1f}",
            ]
        )
    wrong = ", ".join(f"{found[what]:,.0f} {what}" for what in ("lost", "doubled", "reordered"))
    return Table(
        key="client",
        title="The client library: a publisher, a broker and a subscriber, end to end",
        columns=[
            "",
            "events/s",
            "publisher us an event",
            "broker",
            "subscriber",
            "to single calls",
        ],
        rows=rows,
        notes=[
            f"Medians of {config['runs']} runs of {config['events']:,} events each, of four attributes."
            " Microseconds are of processor time.",
            f"Of all events: {wrong}.",
        ],
    )
