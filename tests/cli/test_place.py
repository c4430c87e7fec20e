"""`roost place`, and `roost join` without a neighbour: the broker that a newcomer is linked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live import Live, live_brokers
from tests.cli.support import Roost


@pytest.fixture
def brokers() -> Iterator[Live]:
    with live_brokers() as found:
        yield found


def test_the_place_of_a_newcomer_is_said_with_the_reasons(roost: Roost, brokers: Live) -> None:
    """On one machine both are equally near."""
    ran = roost("place", *brokers.options, "--json")
    assert ran.code == 0
    port = brokers.servers[0].port
    assert ran.json["neighbour"] == "B0"
    assert ran.json["address"] == f"127.0.0.1:{port}"
    assert "1 hops from the farthest, 1 neighbours" in ran.json["why"]
    assert list(ran.json["passed_over"]) == ["B1"]
    said = roost("place", *brokers.options).out.splitlines()
    assert said[0].startswith(f"B0 at 127.0.0.1:{port}: ")
    assert said[1].startswith("  not B1, which is as near")


def test_nobody_has_room(roost: Roost, brokers: Live) -> None:
    ran = roost("place", *brokers.options, "--fanout-max", 1)
    assert ran.code == 2
    assert "no broker can take one more: B0 has 1 neighbours already, of 1; B1 has" in ran.err
    assert roost("place", *brokers.options, "--fanout-max", 0).code == 2


@pytest.mark.long
def test_a_broker_joins_where_there_is_room(roost: Roost, tmp_path: Path) -> None:
    """Processes: of a star's middle with as many neighbours as it may have, and its end, the end."""
    state = tmp_path / "state"
    assert roost("join", "B7", "--state", state).code == 2  # there is no federation yet
    assert roost("up", "star:2", "--state", state).code == 0
    try:
        ran = roost("join", "B7", "--fanout-max", 2, "--state", state, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["neighbour"] == "B0"
        assert "1 neighbours" in ran.json["why"]
        refused = roost("join", "B8", "--fanout-max", 1, "--state", state)
        assert refused.code == 2
        assert "no broker can take one more" in refused.err
    finally:
        assert roost("down", "--state", state).code == 0
