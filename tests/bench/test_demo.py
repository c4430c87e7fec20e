"""The demo's parts: its oracle, its places and its table; tests/pipeline has a real run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.demo.brokers import parts_of
from roost.bench.demo.oracle import Oracle, Verdict
from roost.bench.demo.plan import audiences_in, farthest_from
from roost.bench.demo.report import Report
from roost.overlay.topologies import balanced_tree, random_tree

TREE = balanced_tree(15)


@given(st.lists(st.integers(1, 8), max_size=20))
def test_the_oracle_misses_nothing(came: list[int]) -> None:
    oracle = Oracle({"S": "odd = 1"})
    for number in range(1, 8):
        oracle.published("P", {"odd": number % 2})
    for number in came:
        oracle.arrived("S", ("P", number))
    late = sum(
        number not in came[:place] and any(other > number for other in came[:place])
        for place, number in enumerate(came)
    )
    wanted = {1, 3, 5, 7}
    verdict = oracle.verdict()
    assert verdict == Verdict(
        published=7,
        delivered=len(set(came) & wanted),
        lost=len(wanted - set(came)),
        doubled=len(came) - len(set(came)),
        reordered=late,
        unwanted=len(set(came) - wanted),
    )
    assert verdict.clean == (came == [1, 3, 5, 7])


def test_events_of_two_publishers_have_no_order() -> None:
    oracle = Oracle({"S": "x > 0"})
    for publisher in ("P", "Q"):
        for _ in range(2):
            oracle.published(publisher, {"x": 1})
    for number in (("P", 1), ("P", 2), ("Q", 1), ("Q", 2)):
        oracle.arrived("S", number)
    assert oracle.verdict().clean


def test_publishers_are_far_from_their_audience() -> None:
    audiences = audiences_in(TREE)
    assert audiences[0] == ("B3", "B7")
    assert len(audiences) == 8
    assert farthest_from(TREE, audiences[0]) == ["B11", "B12", "B13", "B14"]


@given(st.integers(1, 40), st.integers(0, 1_000))
def test_neighbours_are_in_different_processes(brokers: int, seed: int) -> None:
    topology = random_tree(brokers, seed)
    first, second = parts_of(topology)
    assert sorted(first + second) == sorted(topology.brokers)
    for link in topology.links:
        assert (link.a in first) != (link.b in first)


def figures(between: float, delay_s: float) -> dict[str, Any]:
    keys = ("received_per_s", "busiest_per_s", "delivered_per_s", "other_per_s", "delay_mean_s")
    return {
        **dict.fromkeys(keys, 10.0),
        "between_per_s": between,
        "received_per_s": between / 15,
        "delay_median_s": delay_s,
        "overhead": None,
        "hops": 2.0,
    }


@pytest.mark.parametrize(
    ("rate", "delay_s", "kept"),
    [
        (50.0, 0.007, [True] * 3),
        (51.0, 0.005, [False, False, True]),
        (1.0, 0.008, [True, True, False]),
    ],
)
def test_a_promise_that_is_not_kept_is_told(rate: float, delay_s: float, kept: list[bool]) -> None:
    report = Report({"before": figures(100.0, 0.010), "after": figures(rate, delay_s)}, {})
    assert [claim.holds for claim in report.claims] == kept
    assert report.lines[0].words == ("100.0", f"{rate:.1f}", f"{rate - 100:+.0f} %")
    overhead = next(line for line in report.lines if line.unit == "%")
    assert overhead.words == ("0.0", "0.0", "")  # nothing over nothing
