"""`roost chaos`, a short one: real brokers, real clients, real faults."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Roost

WRONG = {"lost": 0, "doubled": 0, "reordered": 0}


def test_all_that_can_go_wrong_and_nothing_is_lost(roost: Roost) -> None:
    faults = "kill=1,cut=1,hole=1,fill=1,restore=1"
    options = ("--events", 5_000, "--seed", 3, "--keepalive", 0.4, "--rate", 800)
    ran = roost("chaos", "--faults", faults, *options, "--json")
    found = json.loads(ran.out)
    assert ran.code == 0, found
    summary, checks = found["summary"], found["checks"]
    assert summary["acknowledged"] >= 5_000
    assert summary["rounds"] + summary["not_run"] == 5  # a disk can't be filled everywhere
    assert set(summary["faults"]) >= {"kill", "cut", "hole", "restore"}
    assert {key: checks[key] for key in WRONG} == WRONG
    # Somebody gets everything, and others some of it.
    assert checks["delivered"] + checks["forgiven"] >= checks["expected"] > 5_000


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
