"""The benchmark of connections: small, for its shape and its counts."""

from __future__ import annotations

import resource

import pytest

from roost.bench import connections
from roost.errors import UserError


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("WARM_UP_S", 0.2),
        ("SETTLE_S", 0.3),
        ("BULK_AFTER", 40),
        ("BULK_PER_S", 200.0),
    ):
        monkeypatch.setattr(connections, name, value)
    steps: list[str] = []
    result = connections.run(300, 20, 50.0, 0.4, steps.append, runs=1)
    figures = result["results"]
    assert len(steps) == 3
    assert figures["connections"] == figures["delivered"] == 300
    assert 0 < figures["memory_kb_per_connection"] < 200
    assert figures["lost"] == figures["lost_with_one_stalled"] == 0
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
    # 32 MB were published that one did not read, less what the system's buffers hold of it.
    assert figures["grown_mb_with_one_stalled"] > 15 + figures["grown_mb"]
    ratio = result["ratios"]["p99_with_one_stalled_over_without"]
    assert ratio == figures["p99_ms_with_one_stalled"] / figures["p99_ms"]
    table = connections.table(result)
    assert table.key == "connections/300/20"
    assert [len(row) for row in table.rows] == [len(table.columns)] * 2


def test_too_few_and_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="expected more than 200"):
        connections.run(100)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(UserError, match="5,000 connections need 5,610 open files; the limit is 64"):
        connections.run(5_000)
