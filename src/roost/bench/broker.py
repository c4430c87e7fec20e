"""Benchmark of live brokers, and of others under the same load in the same run.

Publisher, server and subscribers are processes of their own, on this machine; see `loads`. Contestants
take turns, run by run, so that a machine that slows down does so for all of them. What is shown is the
median of the runs of each, with the lowest and the highest rate beside it. All have the same window
between publisher and subscribers, so that no server has more to work on at a time than another. Latency
is measured at half of what each server took one to one, up to 250,000 a second, and at one rate for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from roost.bench.loads.base import Result as Run
from roost.bench.loads.base import Scenario
from roost.bench.loads.contestants import contestant
from roost.bench.loads.harness import run_scenario
from roost.bench.loads.roost import Roost, RoostDriver
from roost.bench.loads.scenarios import scenario
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.sizes import BROKER_RUNS
from roost.bench.timing import Say, silent

ROOST = "roost"
UNPACED = ("one_to_one", "one_to_ten", "content", "durable", "write_1", "write_8", "write_32")
ALL = (*UNPACED, "latency", "same_rate")
TITLES = {
    "one_to_one": "1 -> 1",
    "one_to_ten": "1 -> 10",
    "content": "10,000 subscriptions",
    "durable": "durable 1 -> 1",
    "write_1": "1 a write",
    "write_8": "8 a write",
    "write_32": "32 a write",
    "latency": "half load",
    "same_rate": "same rate",
}
QUICK_RUNS, QUICK_SECONDS = 1, 0.5
# How many messages a publisher may be ahead of the slowest subscriber, whoever serves them.
WINDOW = 4_096
# Messages a second for all, and how much of what the slowest took one to one that may be at most.
SAME_RATE, SAME_SHARE = 50_000.0, 0.7
# Nobody tells a paced publisher to wait. Above this, what a reader on the same two cores takes is measured.
PACED_MAX = 250_000.0
CHAINS = (3, 5)


def run(
    against: Sequence[str],
    seconds: float,
    seed: int,
    say: Say = silent,
    *,
    scenarios: Sequence[str] = ALL,
    chains: Sequence[int] = CHAINS,
    runs: int = BROKER_RUNS,
    window: int = WINDOW,
) -> Result:
    """Measure Roost, and whoever else is asked for."""
    names = [ROOST, *against]
    for name in names:
        contestant(name)  # an unknown one, or
    for title in scenarios:
        scenario(title)  # an unknown scenario, is refused before anything is measured
    figures: dict[str, float] = {}
    common = {"seconds": seconds, "seed": seed, "window": window}
    for title in (each for each in UNPACED if each in scenarios):
        figures |= _in_turn(names, title, scenario(title, **common), runs, say)
    rates = {name: figures.get(f"{name}/one_to_one/published_per_s", 0.0) for name in names}
    if "latency" in scenarios:
        for name in (name for name in names if rates[name]):
            rate = min(rates[name] / 2, PACED_MAX)
            paced = scenario("latency", rate=rate, messages=int(rate * seconds), seed=seed)
            figures |= _in_turn([name], "latency", paced, runs, say)
    if "same_rate" in scenarios and all(rates.values()):
        rate = min(SAME_RATE, SAME_SHARE * min(rates.values()))
        paced = scenario("same_rate", rate=rate, messages=int(rate * seconds), seed=seed)
        figures |= _in_turn(names, "same_rate", paced, runs, say)
        figures |= {f"{name}/same_rate/per_s": rate for name in names}
    for brokers in chains:
        for title in ("one_to_one", "content", "durable"):
            if title in scenarios:
                say(f"a chain of {brokers} brokers: {TITLES[title]}")
                once = run_scenario(Roost(brokers), RoostDriver(), scenario(title, **common))
                figures |= _figures(f"chain of {brokers}", title, [once])
    return {
        "bench": "broker",
        "config": {
            "workload": "quotes of 200 bytes",
            "subscriptions": 10_000,
            "seconds": seconds,
            "runs": runs,
            "window": window,
            "against": list(against),
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": _ratios(figures, against),
    }


def _in_turn(
    names: Sequence[str], title: str, load: Scenario, runs: int, say: Say
) -> dict[str, float]:
    """The figures of some contestants, which take turns."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(1, runs + 1):
        for name in names:
            say(f"{name}: {TITLES[title]}, {number} of {runs}")
            found[name].append(run_scenario(*contestant(name), load))
    figures: dict[str, float] = {}
    for name, each in found.items():
        figures |= _figures(name, title, each)
    return figures


def _figures(name: str, title: str, found: Sequence[Run]) -> dict[str, float]:
    """The median of each figure; of what must not be, all of it; and how far rates lie apart."""
    figures: dict[str, float] = {}
    for key in asdict(found[0]):
        values = [float(value) for run in found if (value := getattr(run, key)) is not None]
        if values:
            whole = sum(values) if key in ("lost", "disordered") else median(values)
            figures[f"{name}/{title}/{key}"] = whole
    rates = [run.published_per_s for run in found]
    figures[f"{name}/{title}/published_per_s_low"] = min(rates)
    figures[f"{name}/{title}/published_per_s_high"] = max(rates)
    return figures


def _ratios(figures: dict[str, float], against: Sequence[str]) -> dict[str, float]:
    ratios = {}
    for name in against:
        for title in UNPACED:
            ours, theirs = (figures.get(f"{who}/{title}/published_per_s") for who in (ROOST, name))
            if ours and theirs:
                ratios[f"{title}_over_{name}"] = ours / theirs
        for title, ratio in (("latency", "p99"), ("same_rate", "p99_same_rate")):
            ours, theirs = (figures.get(f"{who}/{title}/p99_us") for who in (ROOST, name))
            if ours and theirs:
                ratios[f"{ratio}_over_{name}"] = ours / theirs
    return ratios


def table(result: Result) -> Table:
    """The figures for people: a row for whoever took part."""
    figures, config = result["results"], result["config"]
    names = list(dict.fromkeys(key.split("/")[0] for key in figures))
    rows = [[name, *(_cell(figures, name, title) for title in UNPACED)] for name in names]
    for row, name in zip(rows, names, strict=True):
        row += [_latency(figures, name, title) for title in ("latency", "same_rate")]
        cpu_s = figures.get(f"{name}/one_to_one/server_cpu_s_per_million")
        row.append("" if cpu_s is None else f"{cpu_s:.1f}")
    notes = [
        "Events published a second -> deliveries a second. By content each of ten connections has 1,000"
        " filters, of which every event matches one; who can't filter has a topic a symbol instead"
        " (RabbitMQ: its headers exchange). Durable: acknowledged after it is stored, by Roost and RabbitMQ"
        " after a real fsync (of many together), by mosquitto and NATS before one. Latency at half of each"
        " one's rate of 1 -> 1, and at one rate for all. CPU: seconds of the server a million deliveries."
        f" Medians of {config['runs']} runs in turn (lowest to highest), all with a window of"
        f" {config['window']:,} messages.",
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
    titles = [TITLES[title] for title in UNPACED]
    columns = ["", *titles, "half load p50 / p99 us", "same rate p50 / p99 us", "CPU s/M"]
    return Table(key="broker", title="Live brokers", columns=columns, rows=rows, notes=notes)


def _cell(figures: dict[str, float], name: str, title: str) -> str:
    published = figures.get(f"{name}/{title}/published_per_s")
    if published is None:
        return ""
    delivered = figures[f"{name}/{title}/delivered_per_s"]
    low, high = (figures[f"{name}/{title}/published_per_s_{end}"] for end in ("low", "high"))
    spread = "" if low == high else f" ({low:,.0f} to {high:,.0f})"
    if title in ("one_to_ten", "content"):
        return f"{published:,.0f} -> {delivered:,.0f}{spread}"
    return f"{published:,.0f}{spread}"


def _latency(figures: dict[str, float], name: str, title: str) -> str:
    p99 = figures.get(f"{name}/{title}/p99_us")
    return "" if p99 is None else f"{figures[f'{name}/{title}/p50_us']:,.0f} / {p99:,.0f}"
