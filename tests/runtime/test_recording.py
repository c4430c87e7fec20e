"""Recording that survives: a real broker, killed while it records, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roost.broker.messages import Attached
from roost.pipeline.lake import Lake
from roost.runtime.child_broker import ChildBroker
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.recorder import NOTE
from roost.runtime.tables import BrokerTable, TraceTable
from roost.traces.schemas import traced_tables
from roost.traces.segments import span_of
from tests.runtime.test_admin import Broker, broker

EVENTS = 300


def publish(child: ChildBroker, client: str, *, until: Callable[[], bool] = lambda: True) -> None:
    """So many events, all of which the broker has; then wait for something."""

    async def work() -> None:
        peer = await PlainPeer.connect(child.host, child.port)
        assert isinstance(await peer.attach(client), Attached)
        peer.advertise(client, "x present")
        for number in range(EVENTS):
            peer.publish({"x": number})
        await peer.acknowledged()
        async with asyncio.timeout(20):
            while not until():
                await asyncio.sleep(0.02)
        await peer.close()

    asyncio.run(work())


def sequences(lake: Path, publisher: str) -> list[int]:
    """What readers find of a publisher, by the names of the segments."""
    (folder,) = (lake / "deliveries").iterdir()
    paths = sorted(folder.glob("part-*.parquet"))
    tables = [pq.ParquetFile(path).read(["publisher", "sequence"]).to_pylist() for path in paths]
    return [row["sequence"] for rows in tables for row in rows if row["publisher"] == publisher]


def test_a_broker_that_is_killed_loses_the_open_segment(tmp_path: Path) -> None:
    lake, data = tmp_path / "lake", tmp_path / "data"
    settings: dict[str, dict[str, object]] = {
        "broker": {"name": "B0", "data": str(data)},
        "trace": {"folder": str(lake), "segment_s": 0.1},
    }
    whole = list(range(1, EVENTS + 1))
    child = ChildBroker(tmp_path, settings)
    try:
        publish(child, "before", until=lambda: sequences(lake, "before") == whole)
        publish(child, "open")
    finally:
        child.kill()
    (run,) = Lake(lake).runs()
    assert (run.kind, [part.part for part in run.parts]) == ("live", ["B0"])
    assert sequences(lake, "before") == whole
    lost = sequences(lake, "open")
    assert lost == whole[: len(lost)]

    child = ChildBroker(tmp_path, settings)
    try:
        publish(child, "after")
    finally:
        child.stop()
    assert not child.complaints()
    # The same run, the next numbers, a row of `runs` for each life.
    (again,) = Lake(lake).runs()
    assert (again.name, len(again.parts)) == (run.name, 2)
    assert sequences(lake, "before") == sequences(lake, "after") == whole
    assert sequences(lake, "open") == lost
    spans = [span_of(path.name) for path in lake.glob("deliveries/*/part-*")]
    lives = [span_of(path.name) for path in lake.glob("runs/*/part-*")]
    # The second life began behind all that the first has left.
    begun = max(span.first for span in lives if span is not None)
    (folder,) = (lake / "deliveries").iterdir()
    for span in filter(None, spans):
        publishers = pq.ParquetFile(folder / span.name).read()["publisher"].to_pylist()
        assert ("after" in publishers) <= (span.first >= begun > 1)
    assert not list(lake.rglob("*.writing"))


def settings_of(tmp_path: Path, **trace: object) -> dict[str, object]:
    return {
        "broker": BrokerTable(port=0, data=str(tmp_path / "data")),
        "trace": TraceTable(allowed=(str(tmp_path),), **trace),  # type: ignore[arg-type]
    }


def life(tables: dict[str, object], work: Callable[[Broker], object]) -> None:
    async def live() -> None:
        async with broker(**tables) as started:
            found = work(started)
            if asyncio.iscoroutine(found):
                await found

    asyncio.run(live())


def test_what_an_operator_began_goes_on_until_it_is_turned_off(tmp_path: Path) -> None:
    tables = settings_of(tmp_path)

    async def begin(started: Broker) -> None:
        order = {"on": True, "folder": str(tmp_path / "t"), "run": "monday"}
        assert (await started.post("/trace", order)).status == 200

    async def off(started: Broker) -> None:
        assert started.server.recorder.recording
        await started.post("/trace", {"on": False})

    def is_off(started: Broker) -> None:
        assert not started.server.recorder.recording

    for work in (begin, off, is_off):
        life(tables, work)
    names = [path.name for path in (tmp_path / "t" / "loads" / "run=monday").glob("part-*")]
    assert sorted(names) == ["part-B0-000001.parquet", "part-B0-000002.parquet"]
    assert not (tmp_path / "data" / NOTE).exists()


@pytest.mark.parametrize("note", [b"rubbish", b'{"folder": "/etc", "run": "x"}', b'{"folder": 1}'])
def test_a_note_that_is_no_use_is_told(tmp_path: Path, note: bytes) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / NOTE).write_bytes(note)

    def is_told(started: Broker) -> None:
        assert not started.server.recorder.recording
        trouble = started.server.trouble()
        assert "not what was recorded last" in trouble or "is not for traces" in trouble

    life(settings_of(tmp_path), is_told)


def test_the_run_of_the_settings(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    for _ in range(2):
        life(settings_of(tmp_path, folder=folder, run="always"), lambda _: None)
    assert [path.name for path in (tmp_path / "t" / "loads").iterdir()] == ["run=always"]
    # Another folder is another run.
    life(settings_of(tmp_path, folder=str(tmp_path / "u")), lambda _: None)
    (run,) = (tmp_path / "u" / "loads").iterdir()
    assert run.name.startswith("run=B0-2")


def test_a_second_broker_of_that_name_is_refused(tmp_path: Path) -> None:
    async def work(started: Broker) -> None:
        order = {"on": True, "folder": str(tmp_path), "run": "r"}
        assert (await started.post("/trace", order)).status == 200
        async with broker(trace=TraceTable(allowed=(str(tmp_path),))) as other:
            refused = await other.post("/trace", order)
        assert refused.status == 400
        assert "another process is recording 'B0' in the run 'r'" in refused.json["error"]

    life({"trace": TraceTable(allowed=(str(tmp_path),))}, work)


def test_what_a_live_broker_records(tmp_path: Path) -> None:
    """Where events came from and went to, how long they took, who wants what; and what they say, if asked."""

    async def work(started: Broker) -> None:
        for run, content in (("plain", False), ("full", True)):
            peer = await PlainPeer.connect("127.0.0.1", started.server.port)
            await peer.attach(f"c-{run}")
            peer.advertise(f"a-{run}", "x present")
            peer.subscribe(f"s-{run}", "x > 1")
            await peer.acknowledged()
            order = {"on": True, "folder": str(tmp_path), "run": run, "content": content}
            assert (await started.post("/trace", order)).status == 200
            for number in (1, 2, 3):
                peer.publish({"x": number})
            await peer.acknowledged()
            await started.post("/trace", {"on": False})
            await peer.close()

    life({"trace": TraceTable(allowed=(str(tmp_path),))}, work)
    lake = Lake(tmp_path)
    assert [table.table for table in lake.tables("plain")] == sorted(traced_tables(content=False))
    rows = lake.sample("deliveries", "plain", 9).to_pylist()
    assert [row["sequence"] for row in rows] == [1, 2, 3]
    assert {(row["source"], row["from_client"]) for row in rows} == {("c-plain", True)}
    reached = [{"client": "c-plain", "subscriptions": ["s-plain"]}]
    assert [row["clients"] for row in rows] == [[], reached, reached]
    assert all(row["matching_s"] > 0 and row["queueing_s"] >= 0 for row in rows)
    interests = lake.sample("interests", "plain", 9).to_pylist()
    assert {(row["id"], row["kind"], row["filter"], row["added"]) for row in interests} == {
        ("a-plain", "advertisement", "x present", True),
        ("s-plain", "subscription", "x > 1", True),
    }
    events = lake.sample("events", "full", 9).to_pylist()
    assert [row["event"] for row in events] == ['{"x": 1}', '{"x": 2}', '{"x": 3}']
