"""A service of processes gets a matcher more, and one less, while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roost.partition.dimensions import Dimension
from roost.partition.naming import plan_service
from roost.partition.provisioning import Step
from roost.runtime import federation
from roost.runtime.provisioning import carry_out, wishes


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "service"
    plan = plan_service(1, 1, [Dimension("x", 0.0, 10.0)])
    federation.start(folder, plan.names, plan.links, machines=plan.machines)
    yield folder
    federation.end(folder)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
def test_a_matcher_joins_and_another_leaves(state: Path) -> None:
    def has(*names: str) -> bool:
        figures = wishes(state)["D0"]
        return figures["matchers"] == list(names) and bool(figures["settled"])

    assert list(wishes(state)) == ["D0"]
    carry_out(state, Step("start", "M1", "a test"))
    until(lambda: has("M0", "M1"))
    carry_out(state, Step("leave", "M0", "a test"))
    until(lambda: has("M1"))
    carry_out(state, Step("end", "M0", "a test"))
    there = federation.running_federation(state)
    assert [member.name for member in there.running()] == ["D0", "M1"]
    assert there.links == (("D0", "M1"),)
