"""Cluster-heads that are overloaded: publishers move to where their events go (001 section 6.2)."""

from __future__ import annotations

from typing import Any

import pytest

from roost.balancing.publishers import PublisherTraffic, choose_publishers
from roost.broker.messages import Publication
from roost.broker.module import Visit
from roost.language import Event
from tests.balancing.clusters import HURRIED, Clusters, judged

SECONDS = 10.0


def visits(client: str, count: int, *neighbours: str, **more: Any) -> list[Visit]:
    shown = {"from_client": True, "matches": {}, **more}
    return [
        Visit(
            publication=Publication(client, n, Event({})),
            hops=0,
            source=client,
            neighbours=neighbours,
            **shown,
        )
        for n in range(count)
    ]


def chosen(visits: list[Visit], excess_per_s: float, heads: tuple[str, ...] = ("H2", "H3")) -> Any:
    traffic = PublisherTraffic(0.0)
    for visit in visits:
        traffic.routed(visit)
    found = choose_publishers(*traffic.so_far(SECONDS), heads, excess_per_s)
    return [(move.client, move.head, move.relief_per_s) for move in found]


def test_who_relieves_the_most_goes_first_until_it_is_enough() -> None:
    some = [*visits("A", 50, "H2"), *visits("B", 200, "H2"), *visits("C", 100, "H3")]
    assert chosen(some, 1.0) == [("B", "H2", 20.0)]
    assert chosen(some, 25.0) == [("B", "H2", 20.0), ("C", "H3", 10.0)]
    assert chosen(some, 0.0) == []


@pytest.mark.parametrize(
    "some",
    [
        visits("A", 100, "E1"),  # to an edge-broker
        visits("A", 100, "H2", "E1"),  # which relieves nothing: they would come back
        visits("A", 100, "H2", matches={"S": ["s"]}),  # a client here wants them
        [*visits("A", 90, "H2"), *visits("A", 10, "E1")],  # some would be new to H2
        visits("A", 5, "H2"),  # too few to tell
        visits("A", 100, "H2", from_client=False),  # somebody else's
        visits("A", 100),
    ],
)
def test_who_stays(some: list[Visit]) -> None:
    assert chosen(some, 1.0) == []


def test_what_goes_elsewhere_too_is_no_relief() -> None:
    some = [*visits("A", 60, "H2"), *visits("A", 40, "H2", "E1")]
    assert chosen(some, 1.0) == [("A", "H2", 6.0)]


def test_an_overloaded_head_is_relieved_and_nothing_is_lost() -> None:
    """All publishers are at B0, which is slow, and all who want their events behind B9."""
    lines = [
        "0.0 broker add B0 1 32 10",
        *(f"0.0 broker add {name} 2000 32 10" for name in ("B1", "B2", "B7", "B8", "B9")),
        *(f"0.1 link add B0 {name} 2" for name in ("B1", "B2", "B9")),
        *(f"0.1 link add B9 {name} 2" for name in ("B7", "B8")),
        *(f"1.0 publisher add P{n} SYM{n} 120 B0" for n in range(6)),
        *(f"2.0 subscriber add S{n} B7 symbol = 'SYM{n}'" for n in range(6)),
    ]
    world = Clusters.of(lines, HURRIED)
    world.run(12)
    load = world.hosts["B0"].last_load
    assert load is not None
    assert load.input_utilisation > 1
    world.run(60)
    moved = world.of_kind("publisher")
    assert moved
    assert all((noted.broker, noted.decision.choice) == ("B0", "B9") for noted in moved)
    load = world.hosts["B0"].last_load
    assert load is not None
    assert load.input_utilisation < 1
    checks = judged(world)
    assert checks.clean, checks.violations
