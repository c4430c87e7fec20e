"""`roost chaos`, a short one: real brokers, real faults."""

from __future__ import annotations

import json

from tests.cli.support import Roost

WRONG = {"lost": 0, "doubled": 0, "reordered": 0, "routing_errors": 0}


def test_brokers_are_killed_and_nothing_is_lost(roost: Roost) -> None:
    """The publisher's broker, one on the path, the subscriber's; and a disk that is full for a while."""
    faults = ("--kills", "3", "--stops", "0", "--fills", "1")
    ran = roost("chaos", *faults, "--events", "10000", "--seed", "3", "--json")
    found = json.loads(ran.out)
    assert ran.code == 0, found
    summary = found["summary"]
    assert summary["acknowledged"] >= 10_000
    assert summary["rounds"] + summary["not_run"] == 4  # a disk can't be filled everywhere
    assert found["checks"] == {"delivered": 2 * summary["acknowledged"], **WRONG}
