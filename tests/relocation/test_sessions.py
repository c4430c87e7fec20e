"""Trace sessions: what passes together counts as if it had passed one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from roost.broker.hops import Hop, Link, Session
from roost.broker.messages import Publication
from roost.broker.module import Passage, Visit, Way
from roost.language import Event
from roost.relocation.sessions import TraceSessions

B2, B3 = (Link(name, False, True, True, None) for name in ("B2", "B3"))
P, S, T = (Session(f"{name}~1", name, None) for name in "PST")
WAYS = [((), ()), ((B2,), ()), ((), (S,)), ((B2, B3), (S, T)), ((B3,), (T,))]


@dataclass
class Row:
    """A publication, and its way: which of `WAYS`."""

    publisher: str
    number: int
    way: int


class Together:
    """Rows that have passed together, as far as sessions look at them."""

    def __init__(self, source: Hop, rows: Sequence[Row]) -> None:
        self.source = source
        ways = [row.way for row in rows]
        self.way = np.array(ways)
        self.ways = [Way(0, *WAYS[way], ()) for way in range(len(WAYS))]
        names = sorted({row.publisher for row in rows})
        self.publishers = names, np.array([names.index(row.publisher) for row in rows])
        self.sequence = np.array([row.number for row in rows])

    def __len__(self) -> int:
        return len(self.sequence)


def visit(source: Hop, row: Row) -> Visit:
    links, local = WAYS[row.way]
    return Visit(
        Publication(row.publisher, row.number, Event({})),
        0,
        source.client if isinstance(source, Session) else source.name,
        source.is_session,
        [link.name for link in links],
        {session.client: ("s",) for session in local},
    )


def as_data(session: Any) -> dict[str, Any]:
    return structs.asdict(session)


def check(count: int, source: Hop, parts: Sequence[Sequence[Row]]) -> int:
    """Both ways say the same, and remember the same; how many sessions were over."""
    together = TraceSessions(count, by_client=True)
    singly = TraceSessions(count, by_client=True)
    ends = 0
    for now, rows in enumerate(parts):
        over = together.passed(cast(Passage, Together(source, rows)), float(now))
        visits = [(row.publisher, singly.visited(visit(source, row), float(now))) for row in rows]
        expected = [(publisher, session) for publisher, session in visits if session is not None]
        assert [(name, as_data(each)) for name, each in over] == [
            (name, as_data(each)) for name, each in expected
        ]
        assert {name: as_data(each) for name, each in together._sessions.items()} == {
            name: as_data(each) for name, each in singly._sessions.items()
        }
        ends += len(over)
    return ends


@pytest.mark.parametrize(("count", "ends"), [(1, 10), (3, 3), (4, 2), (10, 1), (11, 0)])
def test_a_session_that_ends_amid_what_passes_together_is_over_there(count: int, ends: int) -> None:
    assert check(count, P, [[Row("P", number, 3) for number in range(1, 11)]]) == ends


@pytest.mark.parametrize("source", [P, B2])
def test_what_passes_together_counts_as_if_it_had_passed_one_by_one(source: Hop) -> None:
    """From one publisher and from several, with gaps, and on ways that change."""
    ends = 0
    for seed in range(100):
        draw = random.Random(seed)
        number = dict.fromkeys("PQ", draw.randrange(3))
        parts: list[list[Row]] = []
        way = 0
        for _ in range(4):
            rows: list[Row] = []
            for _ in range(draw.randrange(1, 20)):
                publisher = "P" if draw.random() < 0.8 else "Q"
                number[publisher] += 1 if draw.random() < 0.9 else 2
                way = way if draw.random() < 0.8 else draw.randrange(len(WAYS))
                rows.append(Row(publisher, number[publisher], way))
            parts.append(rows)
        ends += check(draw.choice([1, 2, 5, 8]), source, parts)
    assert (ends > 0) == source.is_session


@pytest.mark.parametrize("together", [False, True])
def test_a_publisher_that_rests_is_not_looked_at(together: bool) -> None:
    sessions = TraceSessions(3, rest_s=1.0)

    def passes(first: int, last: int, now: float) -> list[int]:
        rows = [Row("P", number, 2) for number in range(first, last + 1)]
        if together:
            over = sessions.passed(cast(Passage, Together(P, rows)), now)
            return [session.first for _, session in over]
        found = [sessions.visited(visit(P, row), now) for row in rows]
        return [session.first for session in found if session is not None]

    assert sessions.may_end(P, 10.0)
    assert passes(1, 3, 10.0) == [1]
    assert not sessions.may_end(P, 10.5)
    assert passes(4, 8, 10.5) == []
    assert not sessions._sessions
    # That which was under way when the rest ended has not been seen in whole.
    assert sessions.may_end(P, 11.0)
    assert passes(9, 9, 11.0) == []
    assert passes(10, 12, 11.2) == [10]


def test_of_others_no_session_ends_here() -> None:
    sessions = TraceSessions(3)
    durable = Session("P~1", "P", None)
    durable.publisher = "P/orders"
    assert not sessions.may_end(B2, 0.0)
    assert not sessions.may_end(durable, 0.0)
