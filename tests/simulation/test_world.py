"""The world carries out what a workload says, the same way each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roost.broker.story import Storybook
from roost.simulation.checkers import in_transit
from roost.simulation.fuzz import fuzz
from roost.simulation.run import check, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.simulation.lab import PAIR, arrivals, judged, world_of

TRIPLE = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 link add B1 B2 10
0.0 link add B2 B3 10
1.0 publisher add P - 0 B1 a > 1
1.0 subscriber add S B3 a > 5
"""


def got(text: str, until: float = 20.0) -> list[tuple[str, str]]:
    """Who got what; all checkers have to be content."""
    world = world_of(text)
    heard = arrivals(world)
    checks = judged(world, until)
    assert checks.clean, checks.violations
    return [(client, event) for client, event, _ in heard]


# --- the same each time -----------------------------------------------------------------------------


def test_same_seed_same_story() -> None:
    books = Storybook(), Storybook()
    worlds = [fuzz(7, storybook=book)[1] for book in books]
    assert list(books[0].chapters) == list(books[1].chapters)
    assert worlds[0].network.sent == worlds[1].network.sent


def test_a_storybook_changes_nothing() -> None:
    _, with_book, _ = fuzz(7, storybook=Storybook())
    _, without, _ = fuzz(7)
    assert with_book.network.sent == without.network.sent
    assert with_book.oracle.delivered == without.oracle.delivered


def test_seeds_differ() -> None:
    text = "0.0 broker add B 1000 16 10\n1.0 publisher add P YHOO 60 B\n"
    text += "1.0 subscriber add S B class = 'STOCK'\n"
    workload = parse_workload(text, "workload", None)
    firsts = []
    for seed in (1, 1, 2):
        world = World(workload.settings, workload.statements, seed=seed)
        heard = arrivals(world)
        world.run(10.0)
        firsts.append(heard[0][2])
    assert firsts[0] == firsts[1] != firsts[2]


# --- publishers and subscribers ---------------------------------------------------------------------


def test_rates() -> None:
    text = "0.0 broker add B 1000 16 10\n1.0 publisher add P YHOO 60 B\n"
    text += "0.5 subscriber add S B class = 'STOCK' and symbol = 'YHOO'\n"
    text += "31.0 publisher chrate P 600\n61.0 publisher chrate P 0\n"
    world = world_of(text)
    world.run(31.0)
    assert world.oracle.published_count == pytest.approx(30, abs=1)
    world.run(61.0)
    assert world.oracle.published_count == pytest.approx(330, abs=2)
    before = world.oracle.published_count
    assert judged(world, 90.0).clean
    assert world.oracle.published_count == before


def test_clients_that_leave() -> None:
    text = PAIR + "4.0 publisher publish P [a,7]\n5.0 subscriber remove S\n"
    assert got(text + "6.0 publisher publish P [a,8]\n7.0 publisher remove P\n") == [("S", "P:1")]


def test_what_a_publisher_published_before_it_left_arrives() -> None:
    text = PAIR + "4.0 publisher publish P [a,7]\n4.0 publisher remove P\n"
    assert got(text) == [("S", "P:1")]


def test_advertisements_by_name() -> None:
    text = PAIR + "3.0 subscriber subscribe S more b > 1\n4.0 publisher advertise P more b > 1\n"
    text += "6.0 publisher publish P [b,7]\n7.0 publisher unadvertise P more\n"
    assert got(text + "8.0 publisher publish P [b,8]\n") == [("S", "P:1")]  # the other is refused


def test_redirect() -> None:
    text = TRIPLE + "4.0 client redirect S B1\n8.0 publisher publish P [a,7]\n"
    world = world_of(text)
    assert judged(world).clean
    assert world.clients["S"].broker == "B1"
    assert world.publications_sent == 0  # from broker to broker
    assert world.oracle.delivered == 1


def test_redirect_to_where_it_is() -> None:
    text = TRIPLE + "4.0 client redirect S B3\n8.0 publisher publish P [a,7]\n"
    assert got(text) == [("S", "P:1")]


# --- the overlay ------------------------------------------------------------------------------------


def test_links_that_come_and_go() -> None:
    text = TRIPLE + "4.0 publisher publish P [a,7]\n5.0 link remove B2 B3\n"
    text += "6.0 publisher publish P [a,8]\n7.0 link add B1 B3 10\n11.0 publisher publish P [a,9]\n"
    assert got(text) == [("S", "P:1"), ("S", "P:3")]


def test_a_broker_that_leaves() -> None:
    world = world_of(TRIPLE + "4.0 subscriber remove S\n6.0 broker remove B3\n")
    assert judged(world).clean
    assert sorted(world.hosts) == ["B1", "B2"]
    assert world.overlay.neighbours("B2") == ["B1"]


@pytest.mark.parametrize("fault", ["link cut B1 B2", "partition cut B1"])
def test_what_is_cut_off_waits(fault: str) -> None:
    text = TRIPLE + f"4.0 {fault}\n5.0 publisher publish P [a,7]\n"
    world = world_of(text + "8.0 partition heal\n")
    world.run(7.9)
    assert world.oracle.delivered == 0
    assert in_transit(world) == {("P", 1)}
    assert judged(world).clean
    assert world.oracle.delivered == 1


def test_a_partition_keeps_clients_with_their_brokers() -> None:
    text = TRIPLE + "3.0 subscriber add T B1 a > 5\n5.0 partition cut B1\n"
    world = world_of(text + "6.0 publisher publish P [a,7]\n")
    heard = arrivals(world)
    world.run(9.0)
    assert [(client, event) for client, event, _ in heard] == [("T", "P:1")]


def test_a_delay_that_ends() -> None:
    text = PAIR + "4.0 link delay B1 B2 500 1\n"
    text += "4.5 publisher publish P [a,7]\n6.0 publisher publish P [a,8]\n"
    world = world_of(text)
    heard = arrivals(world)
    assert judged(world).clean
    assert [time for _, _, time in heard] == pytest.approx([5.01, 6.01], abs=2e-3)


def test_latencies() -> None:
    text = "0.0 federation set client_latency_ms 20\n" + PAIR + "4.0 publisher publish P [a,7]\n"
    world = world_of(text)
    assert judged(world).clean
    assert world.delays.maximum == pytest.approx(0.02 + 0.01 + 0.02, abs=2e-3)


def test_latencies_from_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "rtt.npz"
    np.savez(path, rtt_ms=np.array([[0.0, 200.0], [200.0, 0.0]]))
    text = f"0.0 latency matrix {path}\n" + PAIR.replace("B1 B2 10", "B1 B2")
    world = world_of(text + "4.0 publisher publish P [a,7]\n")
    assert judged(world).clean
    assert world.delays.maximum == pytest.approx(0.1, abs=2e-3)


# --- the verdict ------------------------------------------------------------------------------------


def test_a_run_that_ends_early_has_events_on_the_way() -> None:
    world = world_of(PAIR + "4.0 publisher publish P [a,7]\n")
    world.run(4.005)
    checks = check(world, rested=False)
    assert (checks.in_transit, checks.delivered) == (1, 0)
    assert checks.clean
    assert not checks.rested


def test_progress() -> None:
    world, seen = world_of(PAIR), list[float]()
    run(world, 10.0, seen.append)
    assert seen == sorted(seen)
    assert (seen[-1], world.clock.now) == (10.0, 10.0)
    assert world.statements_done == 5


def test_control_is_quiet() -> None:
    world = world_of(PAIR + "4.0 link cut B1 B2\n")
    world.run(0.001)
    assert not world.settling.control_is_quiet()  # the link is not up yet
    world.run(3.0)
    assert world.settling.control_is_quiet()
    assert world.oracle.unsettled == 0
    world.run(5.0)
    assert not world.settling.control_is_quiet()
