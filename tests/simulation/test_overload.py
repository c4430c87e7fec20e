"""Subscribers leave a broker that can't follow (001): their moves do not wait for its queue.

The workload is that of 001 section 5.2.1 (generator `local`, seed 1): B1 gets more than it can match.
Until markers went ahead of data, 20 of 20 subscribers that were told to leave it gave up after a minute.
"""

from __future__ import annotations

from collections import Counter

import pytest

from roost.broker import events as ev
from roost.broker.messages import DrainEcho, Frame, Marker, MarkerEcho, Parcel
from roost.simulation.addresses import address_of
from roost.simulation.generators import local
from roost.simulation.host import Life
from roost.simulation.run import check, rest
from roost.simulation.workload_file import parse_workload, write_workload
from roost.simulation.world import World

HOT, COLD = "B1", "B0"
LEAVING = 20
UNTIL_S = 400.0
LINKS = 4


def queue(world: World) -> int:
    life = world.hosts[HOT].life
    assert life is not None
    return life.queued


def leave(world: World, count: int) -> list[str]:
    """Have subscribers of the hot broker told to go."""
    there = [n for n, c in world.clients.items() if c.broker == HOT and not c.party.offers]
    for name in there[:count]:
        world.hosts[HOT].notice(ev.ClientRedirected(name, address_of(COLD), "it is too much"))
    return there[:count]


def stages(world: World, clients: list[str]) -> Counter[str]:
    moves = [world.clients[name].machine.move for name in clients]
    return Counter("over" if move is None else move.stage for move in moves)


@pytest.fixture
def markers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many were sent, and how many echoes."""
    sent: Counter[str] = Counter()
    original = Life._send

    def send(self: Life, connection: int, parcel: Parcel) -> None:
        message = parcel.message if isinstance(parcel, Frame) else parcel
        if isinstance(message, Marker | MarkerEcho | DrainEcho):
            sent[type(message).__name__] += 1
        original(self, connection, parcel)

    monkeypatch.setattr(Life, "_send", send)
    return sent


def test_all_have_joined_within_5_s_and_finish_when_the_queue_is_empty(
    markers: Counter[str],
) -> None:
    workload = parse_workload(write_workload(local(seed=1)), "local", None)
    world = World(workload.settings, workload.statements, seed=1)
    world.run(UNTIL_S)
    assert queue(world) > 1_000
    gone = leave(world, LEAVING)
    markers.clear()
    world.run(UNTIL_S + 5.0)
    assert stages(world, gone) == {"handing": LEAVING}
    assert queue(world) > 1_000
    # Alone each would cost 4 links a marker and its echo, to settle and to hand over. The first goes alone,
    # the others together behind it.
    assert markers["Marker"] <= 2 * 2 * LINKS
    assert markers["MarkerEcho"] <= 2 * LINKS
    world.workload_is_over = True
    for client in world.clients.values():
        client.stop()
    while queue(world):
        assert stages(world, gone)["handing"], "what came the old way comes first"
        world.run(world.clock.now + 10.0)
    world.run(world.clock.now + 1.0)
    assert stages(world, gone) == {"over": LEAVING}
    assert {world.clients[name].broker for name in gone} == {COLD}
    assert sum(world.clients[name].machine.move_counts.finished for name in gone) == LEAVING
    assert check(world, rested=rest(world), must_rest=True).clean
