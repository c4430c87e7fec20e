"""The thread that writes the trace of a live broker: in order, all of it, and nothing after a failure."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roost.runtime.scribe import WAITING_MAX, ThreadScribe
from tests.traces.test_segments import names, record, times, writer


def test_jobs_are_done_in_order_and_elsewhere() -> None:
    scribe, done, threads = ThreadScribe(), list[int](), set[int]()

    def job(number: int) -> None:
        done.append(number)
        threads.add(threading.get_ident())

    for number in range(100):
        scribe.ask(partial(job, number))
    scribe.settle()
    assert done == list(range(100))
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    scribe.close()


def test_whoever_asks_for_too_much_waits() -> None:
    scribe, gate, done = ThreadScribe(), threading.Event(), list[int]()

    def wait() -> None:
        gate.wait()

    scribe.ask(wait)
    for number in range(1, WAITING_MAX):
        scribe.ask(partial(done.append, number))
    threading.Timer(0.05, gate.set).start()
    scribe.ask(lambda: done.append(0))
    assert gate.is_set()
    scribe.settle()
    assert done == [*range(1, WAITING_MAX), 0]
    scribe.close()


def test_segments_of_a_thread_are_those_of_the_obvious_way(tmp_path: Path) -> None:
    for folder, scribe in ((tmp_path / "a", None), (tmp_path / "b", ThreadScribe())):
        trace = writer(folder, rows_a_group=2, scribe=scribe)
        for at in (1.0, 4.0, 7.0):
            record(trace, at, at + 1, at + 2)
            trace.next_segment(0.0)
        trace.close()
        if scribe is not None:
            scribe.close()
    assert names(tmp_path / "a") == names(tmp_path / "b")
    assert times(tmp_path / "a") == times(tmp_path / "b") == [float(n) for n in range(1, 10)]


def test_what_fails_in_the_thread_is_told_and_nothing_is_shown_after(tmp_path: Path) -> None:
    scribe = ThreadScribe()
    trace = writer(tmp_path, scribe=scribe)
    record(trace, 1.0)
    trace.next_segment(0.0)
    # Nobody can take this name any more.
    (tmp_path / "links" / "run=r" / "part-B0-000002.parquet" / "x").mkdir(parents=True)
    record(trace, 2.0)
    trace.next_segment(0.0)
    record(trace, 3.0)
    with pytest.raises(OSError, match="directory"):
        trace.close()
    assert pq.read_metadata(tmp_path / "links/run=r/part-B0-000001.parquet").num_rows == 1
    assert names(tmp_path) == ["part-B0-000001.parquet", "part-B0-000002.parquet"]
    assert not list(tmp_path.rglob("*.writing"))
    scribe.close()
