"""Figures of 000's graphs, from traces made by hand and from one run that is measured otherwise, too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.experiments.relocation.figures import Clients, Window, delay_ms, figures, over_time
from roost.experiments.relocation.moves import Moved, by_path, selection_times, wait_times
from roost.experiments.relocation.optimum import optimum, patterns
from roost.experiments.relocation.tables import read_tables
from roost.experiments.relocation.wide_area import wide_area
from roost.simulation.generators import relocation
from roost.simulation.run import rest
from roost.simulation.settings import Settings
from roost.simulation.statements import Set
from roost.simulation.world import World
from roost.traces import TraceWriter
from tests.experiments.kit import tables

BROKERS = ("A", "B", "C")
CLIENTS = Clients(latency_s=0.001, joined_s=0.0)


def visit(
    sequence: int, broker: str, hop: int, local: int, age_s: float = 0.0, publisher: str = "P"
) -> dict[str, object]:
    return {
        "time": 5.0 + sequence / 100,
        "publisher": publisher,
        "sequence": sequence,
        "broker": broker,
        "hop": hop,
        "local_subscribers": local,
        "age_s": age_s,
    }


def loads(**more: float) -> list[dict[str, object]]:
    return [{"time": 10.0, "broker": broker, **more} for broker in BROKERS]


# A -> B -> C; one subscriber at B gets both publications, three at C the first.
DELIVERIES = [
    visit(1, "A", 0, 0, 0.001),
    visit(1, "B", 1, 1, 0.010),
    visit(1, "C", 2, 3, 0.020),
    visit(2, "A", 0, 0, 0.001),
    visit(2, "B", 1, 1, 0.010),
]
LINKS = [
    {"time": 10.0, "broker": "B", "neighbour": "A", "class": "data", "received": 2},
    {"time": 10.0, "broker": "C", "neighbour": "B", "class": "data", "received": 1},
    {"time": 10.0, "broker": "A", "neighbour": "B", "class": "control", "received": 4},
    {"time": 20.0, "broker": "A", "neighbour": "B", "class": "control", "received": 7},
]


def test_every_figure_of_a_trace_made_by_hand() -> None:
    traced = tables(
        BROKERS,
        deliveries=DELIVERIES,
        links=LINKS,
        loads=[
            {
                "time": 10.0,
                "broker": broker,
                "input_utilisation": busy,
                "output_utilisation": 0.1,
                "output_rate": 100.0,
                "output_queueing_delay_s": 0.002,
                "memory_bytes": 5_000.0,
            }
            for broker, busy in (("A", 0.1), ("B", 0.4), ("C", 0.1))
        ],
    )
    found = figures(traced, Window(0.0, 10.0), CLIENTS)
    # Three from brokers and two from the publisher, and four of control.
    assert found["message_rate"] == pytest.approx(9 / 10 / 3)
    assert found["data_rate"] == pytest.approx(5 / 10 / 3)
    assert found["overhead"] == pytest.approx(100 * 4 / 9)
    assert found["overhead_rate"] == pytest.approx(4 / 10 / 3)
    assert found["input_utilisation"] == pytest.approx(20.0)
    assert found["input_utilisation_max"] == pytest.approx(40.0)
    assert found["output_utilisation"] == pytest.approx(10.0)
    assert found["memory_kb"] == pytest.approx(5.0)
    assert found["hops"] == pytest.approx((1 + 1 + 3 * 2) / 5)
    # Each waits 2 ms for the network card, is sent in 1 ms (0.1 of it is 100 messages/s), and takes 1 ms.
    assert found["delay_ms"] == pytest.approx((10 + 10 + 3 * 20) / 5 + 4)


def test_counters_are_told_when_they_change_and_split_by_periods() -> None:
    traced = tables(BROKERS, deliveries=DELIVERIES, links=LINKS, loads=loads())
    found = over_time(traced, 10.0, 20.0, CLIENTS)
    assert found["message_rate_at_10"] == pytest.approx(9 / 10 / 3)
    assert found["message_rate_at_20"] == pytest.approx(3 / 10 / 3)
    assert found["overhead_at_20"] == pytest.approx(100.0)
    assert (found["hops_at_20"], found["delay_ms_at_20"]) == (0.0, 0.0)


def test_a_run_without_any_traffic_has_figures() -> None:
    found = figures(tables(BROKERS, loads=loads()), Window(0.0, 10.0), CLIENTS)
    assert found["message_rate"] == found["overhead"] == found["delay_ms"] == 0.0


LINE = {"A": {"B": 0.010}, "B": {"A": 0.010, "C": 0.010}, "C": {"B": 0.010}}


def test_the_optimum_of_a_line_of_three() -> None:
    traced = tables(BROKERS, deliveries=DELIVERIES, loads=loads(matching_delay_s=0.001))
    found = optimum(traced, Window(0.0, 10.0), LINE)
    # From A five messages; from B three: one stays there, the other goes on to C.
    assert found["rate_above_optimum"] == pytest.approx(100 * (5 / 3 - 1))
    assert found["data_rate_least"] == pytest.approx(3 / 10 / 3)
    # Over five deliveries: from A 2 * 12 + 3 * 23 ms; from B 2 * 1 + 3 * 12; from C 2 * 12 + 3 * 1.
    assert found["delay_placed_ms"] == pytest.approx((2 * 12 + 3 * 23) / 5)
    assert found["delay_least_ms"] == pytest.approx((2 * 12 + 3 * 1) / 5)


def test_publications_that_were_delivered_alike_count_together() -> None:
    traced = tables(BROKERS, deliveries=[*DELIVERIES, visit(3, "A", 0, 0)])
    found = patterns(traced.visits, BROKERS)
    assert found == {frozenset({("B", 1), ("C", 3)}): 1, frozenset({("B", 1)}): 1, frozenset(): 1}


def test_what_nobody_gets_still_comes_to_one_broker() -> None:
    traced = tables(BROKERS, deliveries=[visit(1, "A", 0, 0)], loads=loads())
    assert optimum(traced, Window(0.0, 10.0), LINE)["data_rate_least"] == pytest.approx(1 / 30)


def decision(kind: str, broker: str, choice: str, took_s: float) -> dict[str, str]:
    return {
        "kind": kind,
        "broker": broker,
        "choice": choice,
        "subject": "P",
        "evidence": json.dumps({"took_s": took_s}),
    }


def test_times_of_choices_and_moves_go_by_the_path() -> None:
    chosen = [
        decision("move", "A", "C", 0.2),
        decision("stay", "C", "C", 0.1),
        {"kind": "outcome", "broker": "C", "choice": "C", "evidence": "{}"},
    ]
    times = selection_times(chosen, LINE)
    assert times == {2: [200.0], 0: [100.0]}
    moved = [Moved(1.0, "P", "C", 0.05), Moved(2.0, "P", "B", 0.02)]
    waits = wait_times(moved, {"P": "A"}, LINE)
    assert waits == {2: [50.0], 1: [20.0]}
    assert by_path("wait_ms", waits) == {
        "wait_ms_path_1": 20.0,
        "wait_ms_path_2": 50.0,
        "wait_ms": 35.0,
        "wait_ms_max": 50.0,
    }
    assert by_path("wait_ms", {}) == {}


def test_the_delay_of_a_trace_is_what_clients_see(tmp_path: Path) -> None:
    statements = relocation(3, brokers=7, publishers=3, spread=4, until_s=65)
    settings = Settings(link_latency_ms=10.0, client_latency_ms=1.0, market_seed=3)
    told = [s for s in statements if not isinstance(s, Set)]
    with TraceWriter(tmp_path, "run") as trace:
        world = World(settings, told, trace=trace)
        world.run(65)
        rest(world)
    traced = read_tables(trace.paths, tuple(world.hosts))
    assert delay_ms(traced, traced.visits, CLIENTS) == pytest.approx(
        world.delays.mean * 1e3, rel=0.02
    )


@given(st.integers(2, 40), st.integers(0, 5))
def test_a_wide_area_is_symmetric_and_never_free(sites: int, seed: int) -> None:
    matrix = wide_area(sites, seed)
    assert matrix.shape == (sites, sites)
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()
    assert (matrix[~np.eye(sites, dtype=bool)] > 1.0).all()
    assert (matrix == wide_area(sites, seed)).all()


def test_a_wide_area_has_near_and_far_and_a_tail() -> None:
    matrix = wide_area(63, 0)
    low, middle, high = np.percentile(matrix[~np.eye(63, dtype=bool)], [5, 50, 99.5])
    assert low < middle / 2
    assert high > 2 * middle
