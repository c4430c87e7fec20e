"""The figures of a run are those of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roost.broker.events import LoadIndices
from roost.simulation.run import Checks, end_of, run_workload, unfinished, verdict
from roost.simulation.summary import (
    BROKER_COLUMNS,
    Summary,
    duration,
    last_loads,
    overloaded_since,
    percent,
    summarise,
)
from roost.simulation.workload_file import Workload, parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter, read_table
from roost.traces.columns import Columns
from roost.traces.rows import load_row
from roost.traces.schemas import SCHEMAS

CHAIN = """
0 federation set durability on
0 federation set link_latency_ms 10
0 federation set load_period_s 5
0 broker add B0 1000 16 10
0 broker add B1 1000 16 10
0 broker add B2 1000 16 10
0 link add B0 B1
0 link add B1 B2
1 publisher add P1 YHOO 60 B0
1 subscriber add S1 B2 class = 'STOCK'
2 subscriber add S2 B1 class = 'STOCK'
21 end
"""
# 60 quotes a second, of which the broker matches 6 a second and subscription.
OVERLOAD = """
0 federation set load_period_s 5
0 broker add B0 0.1 16 10
1 subscriber add S1 B0 class = 'STOCK'
10 publisher add P1 YHOO 3600 B0
40 end
"""


def ran(text: str, folder: Path | None = None) -> tuple[World, Checks, Summary]:
    workload = parse_workload(text, "x", None)
    until = end_of(workload)
    trace = TraceWriter(folder, "r") if folder is not None else None
    world = World(workload.settings, workload.statements, trace=trace)
    run_workload(world, workload, until)
    loads = last_loads(world)
    checks, _ = verdict(world, workload)
    table = None
    if trace is not None:
        trace.close()
        table = read_table(trace.paths["loads"])
    return world, checks, summarise(world, checks, until=until, wall_s=2, loads=loads, trace=table)


def test_the_figures_of_a_chain() -> None:
    _, checks, summary = ran(CHAIN)
    assert checks.clean
    assert (summary.brokers, summary.clients) == (3, 3)
    assert summary.publications in (19, 20)
    # Every event visits all brokers, but for one that came before the subscription.
    assert summary.hops in (3 * summary.publications, 3 * summary.publications - 2)
    assert summary.deliveries == checks.delivered
    assert summary.hops_per_s == summary.hops / 2
    assert summary.virtual_s == 21.0
    assert 0 < summary.rest_s < 60
    assert summary.control_messages > 0
    assert summary.data_messages >= 2 * (summary.publications - 1)
    total = summary.control_messages + summary.data_messages
    assert summary.control_share == summary.control_messages / total
    assert summary.delay_p50_s <= summary.delay_p99_s <= summary.delay_max_s < 0.2
    assert 0.01 < summary.delay_mean_s < 0.1


def test_brokers_are_as_the_last_sample_before_the_rest_found_them() -> None:
    _, _, summary = ran(CHAIN)
    b1 = summary.per_broker[1]
    assert b1.broker == "B1"
    assert b1.up
    assert b1.load is not None
    assert b1.load.input_rate == pytest.approx(1.0)
    assert b1.load.subscriptions >= 1
    assert b1.memory_share == b1.load.memory_bytes / 16e6
    assert b1.store_records > 0
    assert not b1.overloaded
    assert b1.overloaded_since_s is None


def test_a_broker_that_is_down_or_was_never_sampled() -> None:
    text = CHAIN.replace("load_period_s 5", "load_period_s 100") + "20 broker crash B2 lose\n"
    world, checks, summary = ran(text)
    assert checks.clean
    assert not checks.rested
    workload = parse_workload(text, "x", None)
    assert unfinished(world, workload) == ["B2 is down"]
    assert [b.up for b in summary.per_broker] == [True, True, False]
    assert summary.per_broker[2].load is None
    assert summary.per_broker[2].row() == ("B2 (down)", *["-"] * 9, "0")


def test_an_overloaded_broker_is_told_since_when(tmp_path: Path) -> None:
    _, checks, without = ran(OVERLOAD)
    _, again, with_trace = ran(OVERLOAD, tmp_path)
    assert checks == again
    assert checks.clean
    assert [b.overloaded for b in without.per_broker] == [True]
    assert [b.overloaded_since_s for b in without.per_broker] == [None]
    assert [b.overloaded_since_s for b in with_trace.per_broker] == [15.0]


def load(utilisation: float) -> LoadIndices:
    zeros: dict[str, Any] = dict.fromkeys(LoadIndices.__struct_fields__, 0)
    return LoadIndices(**{**zeros, "input_utilisation": utilisation})


def test_overload_is_counted_from_where_it_stayed() -> None:
    rows = [
        load_row(10.0 * step, broker, load(utilisation))
        for step, pair in enumerate([(2, 0), (0.5, 2), (1.1, 1.5), (3, 1.0), (0, 0)], 1)
        for broker, utilisation in zip(("B0", "B1"), pair, strict=True)
    ]
    columns = Columns(SCHEMAS["loads"])
    for row in rows:
        columns.add(row)
    table = columns.take().table()
    assert overloaded_since(table, 40) == {"B0": 30.0}
    assert overloaded_since(table, 30) == {"B0": 30.0, "B1": 20.0}
    assert overloaded_since(table, 50) == {}


def test_the_summary_is_plain_for_programs_and_rows_for_people() -> None:
    _, _, summary = ran(CHAIN)
    whole = summary.as_dict()
    assert json.loads(json.dumps(whole, allow_nan=False)).keys() == whole.keys()
    assert whole["per_broker"][0]["load"]["input_queue"] == 0
    rows = dict(summary.rows())
    assert rows["virtual time"].startswith("21 s, and ")
    assert rows["federation"] == "3 brokers, 3 clients"
    assert all(len(b.row()) == len(BROKER_COLUMNS) for b in summary.per_broker)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (5e-7, "<1 µs"),
        (1.5e-4, "150 µs"),
        (0.0421, "42.1 ms"),
        (1.5, "1.5 s"),
        (719.4, "719 s"),
        (12345.6, "12,346 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_shares() -> None:
    assert percent(0.0573) == "5.7 %"
    assert percent(12.5) == "1,250.0 %"


def test_a_run_ends_where_the_workload_says() -> None:
    def ends(text: str) -> float:
        return end_of(parse_workload(text, "x", None))

    assert ends("5 end") == 5.0
    assert ends("5 broker add B0 1 1 1") == 65.0
    assert end_of(Workload("x", parse_workload("", "x", None).settings, ())) == 60.0


@pytest.mark.parametrize(
    ("extra", "reasons"),
    [
        ("20 client vanish S1", ["S1 is away"]),
        ("20 link cut B0 B1", ["B0 - B1 is cut"]),
        ("20 partition cut B0", ["the network is partitioned"]),
        ("20 partition cut B0\n20.5 partition heal", []),
        ("20 broker crash B0 keep\n20 broker crash B1 keep", ["each of B0, B1 is down"]),
    ],
)
def test_why_a_run_is_not_at_rest(extra: str, reasons: list[str]) -> None:
    world, checks, _ = ran(CHAIN + extra)
    assert checks.clean
    assert checks.rested == (not reasons)
    found = unfinished(world, parse_workload(CHAIN + extra, "x", None))
    assert [r for r in found if "overloaded" not in r] == reasons
