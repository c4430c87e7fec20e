"""Benchmark of live brokers, and of others under the same load in the same run.

Publisher, server and subscribers are processes of their own, on this machine; see `loads`. In turn for each
scenario, so that a machine that slows down does so for all. Rates are those of the fastest of a few runs:
whatever else the machine does can only make a run slower. Latency is measured at half of what the server
took one to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from roost.bench.loads.base import Driver, Server
from roost.bench.loads.base import Result as Run
from roost.bench.loads.contestants import contestant
from roost.bench.loads.harness import run_scenario
from roost.bench.loads.roost import Roost, RoostDriver
from roost.bench.loads.scenarios import scenario
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.timing import Say, silent

ROOST = "roost"
UNPACED = ("one_to_one", "one_to_ten", "content", "durable")
ALL = (*UNPACED, "latency")
TITLES = {
    "one_to_one": "1 -> 1",
    "one_to_ten": "1 -> 10",
    "content": "10,000 subscriptions",
    "durable": "durable 1 -> 1",
    "latency": "half load",
}
RUNS = 2
CHAINS = (3, 5)


def run(
    against: Sequence[str],
    seconds: float,
    seed: int,
    say: Say = silent,
    *,
    scenarios: Sequence[str] = ALL,
    chains: Sequence[int] = CHAINS,
    runs: int = RUNS,
) -> Result:
    """Measure Roost, and whoever else is asked for."""
    names = [ROOST, *against]
    for name in names:
        contestant(name)  # an unknown one, or
    for title in scenarios:
        scenario(title)  # an unknown scenario, is refused before anything is measured
    figures: dict[str, float] = {}
    for title in (each for each in UNPACED if each in scenarios):
        for name in names:
            say(f"{name}: {TITLES[title]}")
            found = fastest(*contestant(name), title, seconds, seed, runs)
            figures |= _figures(name, title, found)
    if "latency" in scenarios:
        for name in names:
            rate = figures.get(f"{name}/one_to_one/published_per_s", 0.0) / 2
            if rate:
                say(f"{name}: {TITLES['latency']}")
                paced = scenario("latency", rate=rate, messages=int(rate * seconds), seed=seed)
                figures |= _figures(name, "latency", run_scenario(*contestant(name), paced))
    for brokers in chains:
        for title in ("one_to_one", "content", "durable"):
            if title in scenarios:
                say(f"a chain of {brokers} brokers: {TITLES[title]}")
                found = fastest(Roost(brokers), RoostDriver(), title, seconds, seed, 1)
                figures |= _figures(f"chain of {brokers}", title, found)
    return {
        "bench": "broker",
        "config": {
            "workload": "quotes of 200 bytes",
            "subscriptions": 10_000,
            "seconds": seconds,
            "against": list(against),
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": _ratios(figures, against),
    }


def fastest(
    server: Server, driver: Driver, title: str, seconds: float, seed: int, runs: int
) -> Run:
    found = [
        run_scenario(server, driver, scenario(title, seconds=seconds, seed=seed))
        for _ in range(runs)
    ]
    return max(found, key=lambda each: each.published_per_s)


def _figures(name: str, title: str, found: Run) -> dict[str, float]:
    figures = asdict(found).items()
    return {f"{name}/{title}/{key}": float(value) for key, value in figures if value is not None}


def _ratios(figures: dict[str, float], against: Sequence[str]) -> dict[str, float]:
    ratios = {}
    for name in against:
        for title in UNPACED:
            ours, theirs = (figures.get(f"{who}/{title}/published_per_s") for who in (ROOST, name))
            if ours and theirs:
                ratios[f"{title}_over_{name}"] = ours / theirs
        ours, theirs = (figures.get(f"{who}/latency/p99_us") for who in (ROOST, name))
        if ours and theirs:
            ratios[f"p99_over_{name}"] = ours / theirs
    return ratios


def table(result: Result) -> Table:
    """The figures for people: a row for whoever took part."""
    figures, config = result["results"], result["config"]
    names = list(dict.fromkeys(key.split("/")[0] for key in figures))
    rows = [[name, *(_cell(figures, name, title) for title in UNPACED)] for name in names]
    for row, name in zip(rows, names, strict=True):
        row.append(_latency(figures, name))
        cpu_s = figures.get(f"{name}/one_to_one/server_cpu_s_per_million")
        row.append("" if cpu_s is None else f"{cpu_s:.1f}")
    notes = [
        "Events published a second -> deliveries a second. By content each of ten connections has 1,000"
        " filters, of which every event matches one; who can't filter has a topic a symbol instead"
        " (RabbitMQ: its headers exchange). Durable: acknowledged after it is stored, by Roost and RabbitMQ"
        " after a real fsync (of many together), by mosquitto and NATS before one. Latency at half of the"
        " rate of 1 -> 1. CPU: seconds of the server a million deliveries.",
    ]
    lost = sum(x for key, x in figures.items() if key.endswith(("/lost", "/disordered")))
    notes.append(f"Lost, doubled or out of order, of all: {lost:,.0f}.")
    notes += [
        f"Against {name}: "
        + ", ".join(
            f"{TITLES[title]} {ratio:,.2f}"
            for title in UNPACED
            if (ratio := result["ratios"].get(f"{title}_over_{name}"))
        )
        + "."
        for name in config["against"]
    ]
    columns = ["", *(TITLES[title] for title in UNPACED), "p50 / p99 us", "CPU s/M"]
    return Table(key="broker", title="Live brokers", columns=columns, rows=rows, notes=notes)


def _cell(figures: dict[str, float], name: str, title: str) -> str:
    published = figures.get(f"{name}/{title}/published_per_s")
    if published is None:
        return ""
    delivered = figures[f"{name}/{title}/delivered_per_s"]
    if title in ("one_to_one", "durable"):
        return f"{published:,.0f}"
    return f"{published:,.0f} -> {delivered:,.0f}"


def _latency(figures: dict[str, float], name: str) -> str:
    p99 = figures.get(f"{name}/latency/p99_us")
    return "" if p99 is None else f"{figures[f'{name}/latency/p50_us']:,.0f} / {p99:,.0f}"
