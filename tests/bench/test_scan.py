"""The baseline, the index and the obvious matcher agree, one by one and in batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from roost.bench.scan import Scan
from roost.bench.workloads import WORKLOADS, Template, workload_of
from roost.language import Event, Operator
from roost.matching import Ids, Index, Naive


def sets(answer: tuple[Ids, Ids]) -> list[list[int]]:
    offsets, ids = answer
    return [sorted(ids[start:end].tolist()) for start, end in pairwise(offsets.tolist())]


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_scan_index_and_naive_agree(name: str) -> None:
    load = workload_of(name, 11, 600, 60)
    events = load.events()
    scan, bulk, single, naive = Scan(load.templates), Index(), Index(), Naive()
    for template in load.templates:
        bulk.add_columns(*template)
    for id_, filter_ in enumerate(load.filters()):
        single.add(id_, filter_)
        naive.add(id_, filter_)
    expected = sets(naive.match_batch(events))
    assert sum(map(len, expected)) > 100
    (batch,) = load.batches()
    assert sets(scan.match_batch(batch)) == expected
    assert sets(bulk.match_batch(batch)) == expected
    assert sets(single.match_batch(batch)) == expected
    for event, ids in zip(events, expected, strict=True):
        assert sorted(scan.match(event).tolist()) == ids
        assert sorted(bulk.match(event).tolist()) == ids


@pytest.mark.parametrize(
    ("operator", "matching"), [("<", [2]), ("<=", [1, 2]), (">", [0]), (">=", [0, 1])]
)
def test_every_bound_is_kept_as_it_is_meant(operator: str, matching: list[int]) -> None:
    bounds = np.array([1.0, 2.0, 3.0])
    scan = Scan([Template(np.arange(3), [("x", Operator(operator), bounds)])])
    assert scan.match(Event({"x": 2})).tolist() == matching


def test_who_does_not_ask_gets_all() -> None:
    scan = Scan(
        [
            Template(np.array([1]), [("s", Operator.EQ, ["a"])]),
            Template(np.array([0]), [("x", Operator.GT, np.array([5.0]))]),
        ]
    )
    assert scan.match(Event({"s": "a", "x": 9})).tolist() == [0, 1]
    assert scan.match(Event({"s": "unheard of", "x": 9})).tolist() == [0]
    assert scan.match(Event({"s": "a", "x": 5})).tolist() == [1]
