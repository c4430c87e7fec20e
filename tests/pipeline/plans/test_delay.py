"""What a plan has come to in delay, from segments that brokers have shown."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.plans.delay import mean_delay_s, shown_until, wait_until_shown
from roost.traces.run import part_path
from roost.traces.schemas import SCHEMAS

RUN = "live"


def segment(
    lake: Path, broker: str, number: int, last: float, *visits: tuple[float, int, float]
) -> None:
    """One that was shown: a load, and (time, subscribers, age)."""
    names = ("time", "local_subscribers", "age_s")
    rows = [dict(zip(names, visit, strict=True)) for visit in visits]
    for table, told in (("loads", [{"broker": broker, "time": last}]), ("deliveries", rows)):
        path = part_path(lake, table, RUN, f"{broker}-{number:06}")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(told, SCHEMAS[table]), path)


def test_the_mean_is_by_delivery_within_the_time(tmp_path: Path) -> None:
    segment(tmp_path, "B1", 1, 20.0, (10.0, 1, 9.0), (11.0, 3, 0.1), (12.0, 0, 7.0))
    segment(tmp_path, "B2", 1, 20.0, (20.0, 1, 0.5), (20.5, 1, 9.0))
    lake = Lake(tmp_path)
    assert mean_delay_s(lake, RUN, 10.0, 20.0) == pytest.approx((3 * 0.1 + 0.5) / 4)
    assert mean_delay_s(lake, RUN, 11.5, 13.0) is None


def test_all_that_record_are_waited_for(tmp_path: Path) -> None:
    segment(tmp_path, "B1", 1, 70.0)
    segment(tmp_path, "B2", 1, 40.0)
    lake = Lake(tmp_path)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            segment(tmp_path, "B2", 2, 61.0)

    wait_until_shown(lake, RUN, 60.0, sleep=sleep)
    assert len(waits) == 3
    assert shown_until(lake, RUN) == {"B1": 70.0, "B2": 61.0}
    with pytest.raises(UserError, match=r"nothing that B2 has recorded since .* 5 s"):
        wait_until_shown(lake, RUN, 65.0, patience_s=5.0, sleep=lambda _: None)
