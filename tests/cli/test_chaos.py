"""`roost chaos`, a short one: real brokers, real clients, real faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roost.bench.chaos import run as chaos
from roost.bench.chaos.oracle import Counts
from roost.bench.chaos.plan import Round
from roost.bench.chaos.run import Recovered, Verdict
from tests.cli.support import Roost

WRONG = {"lost": 0, "doubled": 0, "reordered": 0}


@pytest.mark.parametrize(
    ("brokers", "faults", "rate", "events"),
    [
        ("chain:2", ("kill", "hole", "restore"), 200, 1_000),
        pytest.param(
            "tree:5", ("kill", "cut", "hole", "fill", "restore"), 800, 5_000, marks=pytest.mark.long
        ),
    ],
)
def test_all_that_can_go_wrong_and_nothing_is_lost(
    roost: Roost, brokers: str, faults: tuple[str, ...], rate: int, events: int
) -> None:
    wrong = ",".join(f"{fault}=1" for fault in faults)
    options = ("--events", events, "--seed", 3, "--keepalive", 0.4, "--rate", rate)
    ran = roost("chaos", "--brokers", brokers, "--faults", wrong, *options, "--json")
    found = json.loads(ran.out)
    assert ran.code == 0, found
    summary, checks = found["summary"], found["checks"]
    assert summary["acknowledged"] >= events
    # A disk can't be filled everywhere.
    assert summary["rounds"] + summary["not_run"] == len(faults)
    assert set(summary["faults"]) >= {*faults} - {"fill"}
    assert {key: checks[key] for key in WRONG} == WRONG
    # Somebody gets everything, and others some of it.
    assert checks["delivered"] + checks["forgiven"] >= checks["expected"] > events


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--faults", "flood"), "expected some of kill, stop"),
        (("--brokers", "chain:1"), "expected 2 brokers or more"),
        (("--brokers", "ring:5"), "ring"),
    ],
)
def test_what_makes_no_sense(roost: Roost, options: tuple[str, str], says: str) -> None:
    ran = roost("chaos", *options)
    assert ran.code == 2
    assert says in ran.err


def test_what_is_wrong_is_said(roost: Roost, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is no success, also if nothing is lost but something did not recover."""
    counts = Counts(
        expected=7_000,
        delivered=6_998,
        lost=2,
        doubled=0,
        reordered=0,
        again=5,
        forgiven=3,
        examples=["S misses 3..4 of P"],
        forgiven_examples=["S misses 7..9 of P"],
    )
    verdict = Verdict(
        rounds=[Recovered(Round("restore", "B1", 1.0, 0.5), 2.0, 4.25)],
        not_run=1,
        client_kills=6,
        publishers=2,
        subscribers=3,
        published=7_100,
        acknowledged=7_000,
        counts=counts,
        given_up=1,
        failures=["S: the session is over"],
        seconds=12.0,
        stuck="",
    )

    async def run(*_: Any, **__: Any) -> Verdict:
        return verdict

    monkeypatch.setattr(chaos, "run", run)
    ran = roost("chaos", "--seed", 8)
    assert ran.code == 1
    assert "roost chaos --seed 8 --brokers tree:5" in ran.err.replace("\n", " ")
    said = " ".join(ran.out.split())
    for part in (
        "4.2",
        "7,000 events acknowledged",
        "2 lost",
        "S misses 3..4 of P",
        "3 were lost with",
        "1 rounds with a full disk need root",
        "gave up a neighbour",
        "S: the session is over",
    ):
        assert part in said
    assert roost("chaos", "--json").json["checks"]["lost"] == 2

    well = Counts(7_000, 7_000, 0, 0, 0, 0, 0, [], [])
    for stuck, code in (("events arrive", 1), ("", 0)):
        verdict = Verdict([], 0, 0, 2, 3, 7_000, 7_000, well, 0, [], 9.0, stuck)
        ran = roost("chaos")
        assert ran.code == code
        assert ("Stuck: events arrive." in ran.out) == bool(code)
