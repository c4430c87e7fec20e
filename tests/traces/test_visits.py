"""Rows of many visits at once are those that the obvious loop gives."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.messages import Publication
from roost.language import Event
from roost.traces import read_table
from roost.traces import visits as visits_module
from roost.traces.columns import Columns
from roost.traces.routes import Route, columns_of, taken
from roost.traces.rows import DeliveryRow
from roost.traces.schemas import SCHEMAS
from roost.traces.segments import SegmentWriter
from roost.traces.visits import RawVisit, Read, Stretch, VisitLog, delivery_table
from roost.wire import publication_bytes

T = TypeVar("T")
LINKS = [Link(name, True, False, False, None) for name in ("B1", "B2")]
SESSIONS = [Session(f"s{n}", client, None) for n, client in enumerate(("c1", "c2", "c2"))]
HOPS: list[Hop] = [*LINKS, *SESSIONS, Inside("grape")]


@st.composite
def raw_visits(draw: st.DrawFn) -> RawVisit:
    local = draw(st.lists(st.sampled_from(HOPS[2:]), max_size=3, unique=True))
    ids = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2).map(tuple)
    return (
        draw(st.sampled_from(HOPS[:5])),
        Publication(
            draw(st.sampled_from("PQ")),
            draw(st.integers(1, 3)),
            Event({"x": draw(st.integers(0, 1_000))}),
            published_at=draw(st.floats(0, 90)),
            traced=draw(st.booleans()),
        ),
        draw(st.integers(0, 3)),
        draw(st.lists(st.sampled_from(LINKS), unique=True)),
        local,
        [draw(ids) for _ in local],
    )


def obvious(read: Read, place: int, visit: RawVisit) -> DeliveryRow:
    source, publication, hops, links, local, matched = visit
    each_s = (read.ended - read.began) / read.visits
    time = read.began + (place + 1) * each_s
    clients: dict[str, tuple[str, ...]] = {}
    for hop, ids in zip(local, matched, strict=True):
        if isinstance(hop, Session):
            clients[hop.client] = ids
    return DeliveryRow(
        time=time,
        publisher=publication.publisher,
        sequence=publication.sequence,
        broker="B0",
        hop=hops,
        local_subscribers=len(clients),
        forwarded=len(links),
        bytes=len(publication_bytes(publication)),
        queueing_s=place * each_s,
        matching_s=each_s,
        age_s=time - publication.published_at,
        source=source.client if isinstance(source, Session) else source.name,
        from_client=isinstance(source, Session),
        neighbours=tuple(link.name for link in links),
        clients=tuple(clients.items()),
        traced=publication.traced,
        life=7,
    )


def heard(log: VisitLog, visit: RawVisit) -> None:
    source, publication, hops, links, local, matched = visit
    for hop, ids in zip(local, matched, strict=True):
        hop.matched = ids
    log.tap(source, publication, hops, links, local, 0.0)


@given(
    st.lists(
        st.tuples(
            st.floats(100, 200), st.floats(0, 1), st.lists(raw_visits(), min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_many_at_once_are_as_one_by_one(found: list[tuple[float, float, list[RawVisit]]]) -> None:
    slow = Columns(SCHEMAS["deliveries"])
    stretches: list[Stretch] = []
    log, reads = VisitLog(), list[Read]()
    for began, took, visits in found:
        reads.append(Read(began, began + took, len(visits)))
        for place, visit in enumerate(visits):
            heard(log, visit)
            slow.add(obvious(reads[-1], place, visit))
        log.pack_if_full()
        if began > 150:  # now and then the log is taken, and empty
            stretches.append(Stretch(log.take(), reads))
            reads = []
    if reads:
        stretches.append(Stretch(log.take(), reads))
    assert len(log) == 0
    fast = delivery_table("B0", 7, stretches).to_pylist()
    expected = slow.take().table().to_pylist()
    for one, other in zip(fast, expected, strict=True):
        for name in ("time", "age_s", "queueing_s"):
            assert one.pop(name) == pytest.approx(other.pop(name), abs=1e-9)
    assert fast == expected


def test_a_file_of_visits_is_read_as_a_trace(tmp_path: Path) -> None:
    """Written in haste, and with words as numbers; it is to be read as any other."""
    trace = SegmentWriter(tmp_path, "r", part="B0", now=0.0, life=7, rows_a_group=3)
    source, sequences = SESSIONS[0], range(1, 9)
    for number in sequences:
        log = VisitLog()
        publication = Publication(f"P{number % 2}", number, Event({"x": 1}), published_at=1.0)
        heard(log, (source, publication, 0, LINKS[:1], SESSIONS[1:2], [("a", "b")]))
        trace.visited(Stretch(log.take(), [Read(10.0, 11.0, 1)]))
    trace.close()
    table = read_table(tmp_path / "deliveries" / "run=r" / "part-B0-000001.parquet")
    rows = table.to_pylist()
    assert [(row["publisher"], row["sequence"]) for row in rows] == [
        (f"P{number % 2}", number) for number in sequences
    ]
    assert rows[0]["clients"] == [{"client": "c2", "subscriptions": ["a", "b"]}]
    assert {(row["source"], row["life"], row["broker"]) for row in rows} == {("c1", 7, "B0")}
    joined = tmp_path / "deliveries" / "run=r" / "part-B0-000001.parquet"
    footer = pq.read_metadata(joined)
    assert footer.num_row_groups == 3
    assert footer.row_group(0).column(0).statistics.min == 11.0  # by which segments are joined


@st.composite
def some_routes(draw: st.DrawFn) -> list[Route]:
    """Lists that are all as long as each other, at each level, or not."""
    name = st.sampled_from("abc")

    def lists(of: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
        length = draw(st.integers(0, 3))
        return st.lists(of, min_size=length, max_size=length + draw(st.integers(0, 1)))

    neighbours = lists(name)
    clients = lists(st.tuples(name, lists(name).map(tuple)))
    return [
        Route("p", True, 0, tuple(draw(neighbours)), tuple(draw(clients)))
        for _ in range(draw(st.integers(1, 4)))
    ]


@given(some_routes(), st.data())
def test_lists_are_taken_as_arrow_takes_them(routes: list[Route], data: st.DataObject) -> None:
    columns = columns_of(routes)
    places = st.lists(st.integers(0, len(routes) - 1), max_size=6)
    rows = np.array(data.draw(places), np.int32)
    for values in (columns.neighbours, columns.clients):
        found = taken(values, rows)
        found.validate(full=True)
        assert found.to_pylist() == values.take(pa.array(rows)).to_pylist()


def test_a_log_forgets_routes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits_module, "ROUTES_MAX", 1)
    log = VisitLog()
    stretches = []
    for number in range(4):
        publication = Publication("P", number + 1, Event({"x": 1}))
        heard(log, (SESSIONS[0], publication, number, LINKS[:1], [], []))
        stretches.append(Stretch(log.take(), [Read(1.0, 2.0, 1)]))
    assert len({id(stretch.visits.routes) for stretch in stretches}) == 2
    assert delivery_table("B0", 7, stretches)["hop"].to_pylist() == [0, 1, 2, 3]
