"""The spool of a sink, and publishing from it: killed anywhere, each event is published once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roost.client import connect_sync
from roost.client.sync import SyncOutbox
from roost.errors import UserError
from roost.pipeline.source import writer
from roost.pipeline.source.options import Place, Writing
from roost.pipeline.source.rows import Outgoing
from roost.pipeline.source.spool import Part, Spool
from tests.pipeline.brokers import LiveBroker, live_broker

WHOLE = SyncOutbox.publish


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with live_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def parts_of(spool: Spool, batch: int, groups: list[list[int]]) -> list[Part]:
    return [
        spool.write(
            batch, [[Outgoing({"n": n, "out": True}, b"%d" % n, "text/plain") for n in group]]
        )
        for group in groups
    ]


GROUPS = st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=3)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=st.lists(st.tuples(GROUPS, GROUPS, st.integers(0, 8)), min_size=1, max_size=4))
def test_each_event_of_each_batch_once_and_in_order(
    broker: LiveBroker,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[list[int]], list[list[int]], int]],
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    options = Writing(place=Place(url=broker.url), name=folder.name, spool=str(folder))
    expected: list[int] = []
    with connect_sync(broker.url) as client, pytest.MonkeyPatch.context() as patch:
        subscription = client.subscribe("out = true")
        subscription.ready()
        for number, (first, second, survived) in enumerate(batches):
            spool = Spool(folder, "query")
            expected += [n for group in first for n in group]
            left = [survived]

            def publish(
                outbox: SyncOutbox, *event: Any, left: list[int] = left, **more: Any
            ) -> bool:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                return WHOLE(outbox, *event, **more)

            patch.setattr(SyncOutbox, "publish", publish)
            try:
                writer.publish(options, spool, number, parts_of(spool, number, first))
            except Killed:
                patch.setattr(SyncOutbox, "publish", WHOLE)
                # The batch is run again, and might come out differently; what was decided counts.
                again = Spool(folder, "query")
                writer.publish(options, again, number, parts_of(again, number, second))
            patch.setattr(SyncOutbox, "publish", WHOLE)
        got = [subscription.get(20) for _ in expected]
        assert [event["n"] for event in got] == expected
        assert [event.payload for event in got] == [b"%d" % n for n in expected]
        assert len({event.id for event in got}) == len(got)
        client.publish({"out": True, "n": -1})
        assert subscription.get(20)["n"] == -1  # and nothing more
    writer._close(options.place, options.name)
    kept = sorted(path.name for path in (folder / "query").iterdir())
    assert {name[:10] for name in kept} == {f"{len(batches) - 1:010}"}


def test_a_broker_that_has_forgotten_the_outbox_gets_the_whole_batch_again(tmp_path: Path) -> None:
    with live_broker() as broker:
        options = Writing(place=Place(url=broker.url), name="out", spool=str(tmp_path))
        spool = Spool(tmp_path, "query")
        writer.publish(options, spool, 0, parts_of(spool, 0, [[1, 2, 3]]))
        writer._close(options.place, options.name)
        spool.decide(1, parts_of(spool, 1, [[4], [5]]), 4)
        broker.stop()
        broker.start()
        with connect_sync(broker.url) as client:
            subscription = client.subscribe("out = true")
            subscription.ready()
            writer.publish(options, spool, 1, [])
            assert [subscription.get(20)["n"] for _ in range(2)] == [4, 5]
        writer._close(options.place, options.name)


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "query")
    (part,) = parts_of(spool, 0, [[1]])
    manifest = spool.decide(0, [part], 1)
    spool.remove([part[0]])
    with pytest.raises(UserError, match=r"not there; .*the driver and all workers see"):
        list(spool.events(manifest, 0))
