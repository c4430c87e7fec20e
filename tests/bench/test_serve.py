"""The benchmark of the partitioned service, small: it counts what it says. No time is asserted."""

from __future__ import annotations

import pytest

from roost.bench import serve
from roost.bench.serve_steps import steps_us


def test_every_step_takes_some_time() -> None:
    steps = steps_us(2, 300, 1, budget_s=0.01)
    assert len(steps) == 10
    assert all(took_us > 0 for took_us in steps.values())


@pytest.mark.long
def test_a_small_service_is_measured() -> None:
    result = serve.run(1, 300, 0.5, 1)
    assert serve.is_clean(result)
    figures = result["results"]
    assert figures["matched/per_s"] > 0
    assert figures["end_to_end/delivered_per_s"] > figures["end_to_end/published_per_s"]
    rows = serve.table(result).rows
    assert len(rows) == 7 + 10
