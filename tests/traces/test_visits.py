"""Rows of many visits at once are those that the obvious loop gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.messages import Publication
from roost.language import Event
from roost.traces.columns import Columns
from roost.traces.rows import DeliveryRow
from roost.traces.schemas import SCHEMAS
from roost.traces.visits import RawVisit, Read, VisitLog, add_visits
from roost.wire import publication_bytes

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
    both = Columns(SCHEMAS["deliveries"]), Columns(SCHEMAS["deliveries"])
    rows: list[DeliveryRow] = []
    log, reads = VisitLog(), []
    for began, took, visits in found:
        reads.append(Read(began, began + took, len(visits)))
        for place, visit in enumerate(visits):
            log.tap(visit)
            rows.append(obvious(reads[-1], place, visit))
        if began > 150:  # now and then rows are made, and the log is empty
            add_visits(both[0], "B0", 7, log.take(), reads)
            reads.clear()
    if reads:
        add_visits(both[0], "B0", 7, log.take(), reads)
    assert len(log) == 0
    for row in rows:
        both[1].add(row)
    fast, slow = (columns.take().to_pylist() for columns in both)
    for one, other in zip(fast, slow, strict=True):
        for name in ("time", "age_s", "queueing_s"):
            assert one.pop(name) == pytest.approx(other.pop(name), abs=1e-9)
    assert fast == slow
