"""The flows of a tree are those of the tree: of the obvious way to count, and of the simulator."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.language import Event, parse_subscription
from roost.overlay.rewiring import exact, kernels, ocbr, theorem
from roost.overlay.rewiring.counters import LOCAL
from roost.overlay.rewiring.demand import Demand, demand_of
from roost.overlay.rewiring.flows import Flows, flows_of, table_of
from roost.overlay.topologies import random_tree
from roost.overlay.trees import Link, Topology
from roost.testing import simulate
from tests.overlay.sent import World, rewirings, send, text, worlds


def demand(world: World) -> Demand:
    names = sorted(world.near)
    topics = range(1, 5)
    return Demand(
        tuple(names),
        np.array([[world.messages.count((name, t)) for t in topics] for name in names], float),
        np.array(
            [[sum(t in s for s in world.interests[name]) for t in topics] for name in names], float
        ),
    )


def flows(world: World) -> Flows:
    links = {tuple(sorted((a, b))) for a, near in world.near.items() for b in near}
    topology = Topology(tuple(sorted(world.near)), tuple(Link(a, b) for a, b in sorted(links)))
    return flows_of(topology, demand(world))


def near(found: Flows) -> dict[str, set[str]]:
    return {
        found.brokers[a]: {found.brokers[b] for b in others} for a, others in enumerate(found.near)
    }


@given(worlds(topics_a_subscription=3))
@settings(max_examples=40)
def test_counters_traffic_and_hops_are_those_of_messages_sent(world: World) -> None:
    found, sent = flows(world), send(*world)
    assert found.counters() == {pair: sent.links[pair] for pair in found.counters()}
    assert set(sent.links) <= set(found.counters())
    assert (found.traffic(), found.hops()) == (sent.total, sent.hops)
    assert found.demand.messages == len(world.messages)
    assert found.demand.bound <= sent.total


@given(worlds(topics_a_subscription=3), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_moved_links_leave_the_same_as_a_tree_built_anew(world: World, random: Random) -> None:
    found = flows(world)
    for _ in range(6):
        choices = rewirings(near(found))
        if not choices:
            return
        found.rewire(*(found.brokers.index(name) for name in random.choice(choices)))
        anew = flows_of(found.topology(), found.demand)
        assert found.counters() == anew.counters()
        assert (found.traffic(), found.hops()) == (anew.traffic(), anew.hops())
        assert send(near(found), world.interests, world.messages).total == found.traffic()


@given(worlds(topics_a_subscription=3), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_other_wishes_leave_the_same_as_a_tree_built_anew(world: World, random: Random) -> None:
    found = flows(world)
    for _ in range(4):
        broker = random.randrange(len(found.brokers))
        wanted = np.array([float(random.randrange(3)) for _ in range(4)])
        found.want(broker, wanted)
        assert (found.demand.wanted[broker] == wanted).all()
        anew = flows_of(found.topology(), found.demand)
        for each in range(len(found.brokers)):
            assert (found.sides(each).wanted == anew.sides(each).wanted).all()
        assert (found.traffic(), found.hops()) == (anew.traffic(), anew.hops())


@given(worlds(topics_a_subscription=3), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_way_from_one_broker_to_another(world: World, random: Random) -> None:
    found = flows(world)
    start, end = random.choices(range(len(found.brokers)), k=2)
    way = found.way(start, end)
    assert (way[0], way[-1], len(set(way))) == (start, end, len(way))
    assert all(b in found.near[a] for a, b in pairwise(way))


@given(worlds(topics_a_subscription=3))
@settings(max_examples=30)
def test_what_brokers_would_count_is_what_they_count(world: World) -> None:
    found, sent = flows(world), send(*world)
    everything = sorted({s for some in world.interests.values() for s in some}, key=text)
    matches = np.array([[float(t in s) for s in everything] for t in range(1, 5)]).reshape(4, -1)
    for broker, name in enumerate(found.brokers):
        sides = found.sides(broker)
        names = [found.brokers[other] for other in sides.near]
        counted, passed = sent.training[name], sent.passages[name]
        by_sum, by_message = sides.sums(), exact.sums(names, passed.kinds)
        assert by_sum.link.tolist() == by_message.link.tolist()
        assert by_sum.together.tolist() == by_message.together.tolist()
        assert sides.couples().tolist() == ocbr.couples(names, passed.kinds).tolist()
        assert sides.between().tolist() == exact.between(names, passed.deliveries).tolist()
        relayed = sum(
            n for (s, to), n in passed.kinds.items() if s != LOCAL and to and LOCAL not in to
        )
        savings = sides.savings()
        assert savings.relayed == relayed
        assert savings.link.tolist() == by_message.link.tolist()
        assert savings.saved.tolist() == exact.saved(by_message).tolist()
        shorter = exact.links_saved(exact.between(names, passed.deliveries))
        assert savings.shorter.tolist() == shorter.tolist()
        come, gone = table_of(sides, matches)
        expected = theorem.utilities(names, counted.incoming, counted.outgoing)
        assert kernels.utilities(come, gone).tolist() == expected.tolist()


def test_kinds_are_messages_that_the_same_clients_want() -> None:
    wanted = np.array([[1, 0], [0, 2], [1, 0], [1, 0]])
    found = demand_of(["B0", "B1"], np.array([1, 0, 1, 0]), wanted)
    assert found.published.tolist() == [[1, 1], [0, 2]]
    assert found.wanted.tolist() == [[0, 1], [2, 0]]
    assert (found.messages, found.deliveries, found.bound) == (4, 5, 3)


# --- the simulator ------------------------------------------------------------------------------------

BY_TOPIC = [f"topic = 't{i}'" for i in range(4)]
BY_CONTENT = ["x > 3", "x < 6", "y > 5", "x > 2 and y < 4", "y >= 0", "x > 8 and y > 8"]


@pytest.mark.parametrize("filters", [BY_TOPIC, BY_CONTENT])
@pytest.mark.parametrize("covering", ["on", "off"])
@pytest.mark.parametrize("seed", range(4))
def test_the_simulator_counts_the_same(seed: int, covering: str, filters: list[str]) -> None:
    """Each link, each direction, to the last message."""
    random = Random(seed)
    topology = random_tree(random.randint(3, 9), seed)
    names = topology.brokers
    lines = [f"0 federation set covering {covering}"]
    lines += [f"0 broker add {name} 1000 16 10" for name in names]
    lines += [f"0 link add {link.a} {link.b}" for link in topology.links]
    lines += [f"1 publisher add P{i} - 0 {name} *" for i, name in enumerate(names)]
    wanted = []
    for i in range(random.randint(1, 12)):
        broker, asked = random.randrange(len(names)), random.choice(filters)
        wanted.append((broker, parse_subscription(asked)))
        lines.append(f"2 subscriber add S{i} {names[broker]} {asked}")
    origin, clients = [], []
    for i in range(40):
        place, event = random.randrange(len(names)), _event(random, by_topic=filters is BY_TOPIC)
        lines.append(f"{6 + i / 100} publisher publish P{place} {event}")
        origin.append(place)
        row = np.zeros(len(names), np.int64)
        for broker, subscription in wanted:
            row[broker] += subscription.matches(event)
        clients.append(row)
    ran = simulate("\n".join([*lines, "20 end"]))
    ran.assert_clean()
    found = flows_of(topology, demand_of(names, np.array(origin), np.array(clients)))
    sent = {}
    for name, host in ran.world.hosts.items():
        assert host.life is not None
        for link in host.life.machine.links.values():
            sent[name, link.name] = link.channel.data.sent
    assert found.counters() == sent
    assert found.demand.deliveries == ran.checks.delivered


def _event(random: Random, *, by_topic: bool) -> Event:
    if by_topic:
        return Event({"topic": f"t{random.randrange(4)}"})
    return Event({"x": random.randrange(10), "y": random.randrange(10)})
