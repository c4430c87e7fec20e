"""PEER: roles, and who belongs where (001 section 3.2)."""

from __future__ import annotations

from collections import Counter

import pytest

from roost.balancing import Balancing, Status
from roost.balancing.peer import Role
from roost.broker.arbiter import Proposal
from roost.broker.errors import RemoteProtocolError
from roost.testing import Simulation, simulate
from tests.balancing.clusters import HURRIED, SPEEDS, Clusters, cluster, judged
from tests.broker.kit import Federation

BROKERS = """
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 link add B0 B1 5
"""
CLIENTS = """
1.0 publisher add at_head - 0 B0 a > 0
1.0 publisher add at_edge - 0 B1 a > 0
1.0 subscriber add sub_at_head B0 a > 5
1.0 subscriber add sub_at_edge B1 a > 5
1.0 subscriber durable kept B0 a > 5
1.0 publisher add both - 0 B1 b > 0
1.5 subscriber add hearer B1 b > 0
"""
EVENTS = "\n".join(
    f"{2 + n / 2} publisher publish {who} [a,{n}]"
    for n in range(80)
    for who in ("at_head", "at_edge")
)


def ran(text: str) -> Simulation:
    found = simulate(text, modules=lambda _: [Balancing(HURRIED)])
    found.assert_clean()
    return found


def roles(world: Clusters) -> dict[str, tuple[Role, str]]:
    return {name: (world.peer(name).role, world.peer(name).cluster) for name in world.hosts}


def test_with_two_brokers_nobody_has_a_role_and_everybody_stays() -> None:
    found = ran(f"{BROKERS}{CLIENTS}{EVENTS}\n60.0 end")
    assert {found.broker_of(name) for name in ("at_head", "sub_at_head", "kept")} == {"B0"}
    assert {found.broker_of(name) for name in ("at_edge", "sub_at_edge", "both")} == {"B1"}
    assert not found.decisions


def test_the_third_broker_makes_the_one_that_it_joins_a_head_and_all_are_converted() -> None:
    found = ran(f"{BROKERS}{CLIENTS}{EVENTS}\n10.0 link add B0 B2 5\n60.0 end")
    # Publishers go to the head, subscribers to edge-brokers; who is durable stays.
    assert {found.broker_of(name) for name in ("at_head", "at_edge", "both")} == {"B0"}
    assert found.broker_of("sub_at_head") in ("B1", "B2")
    assert found.broker_of("sub_at_edge") == "B1"
    assert found.broker_of("kept") == "B0"
    assert {noted.decision.kind for noted in found.decisions if noted.decision.acted} == {
        "redirect",
        "carried out",
    }


def test_a_broker_that_joins_an_edge_broker_makes_it_a_head_of_its_own_cluster() -> None:
    lines = [
        *BROKERS.split("\n"),
        "0.0 link add B0 B2 5",
        "1.0 subscriber add S B1 a > 5",
        "1.0 publisher add P - 0 B0 a > 0",
        "20.0 link add B1 B3 5",
        *(f"{2 + n / 2} publisher publish P [a,{n}]" for n in range(80)),
    ]
    world = Clusters.of(lines)
    world.run(10)
    head, edge = (Role.HEAD, "B0"), (Role.EDGE, "B0")
    assert roles(world) == {"B0": head, "B1": edge, "B2": edge, "B3": (Role.NONE, "")}
    world.run(40)
    assert roles(world) == {
        "B0": head,
        "B1": (Role.HEAD, "B1"),
        "B2": edge,
        "B3": (Role.EDGE, "B1"),
    }
    assert world.clients["S"].broker == "B3"
    assert world.peer("B0").heads == ["B1"]
    assert world.peer("B1").edges == ["B3"]
    assert judged(world).clean


def test_subscribers_that_connect_to_a_head_are_spread_over_its_edge_brokers() -> None:
    lines = [
        *cluster(subscribers=0),
        *(f"{5 + n / 10:.1f} subscriber add S{n} B0 symbol = 'none{n}'" for n in range(60)),
    ]
    world = Clusters.of(lines)
    world.run(30)
    spread = Counter(world.clients[f"S{n}"].broker for n in range(60))
    assert spread.keys() == SPEEDS.keys()
    assert min(spread.values()) >= 10
    assert judged(world).clean


def test_nobody_is_sent_to_an_edge_broker_that_is_overloaded() -> None:
    # B1 gets more than it can match, and asks nobody.
    slow = {"B1": (4.0, 1.0), "B2": (40.0, 1.0), "B3": (40.0, 1.0)}
    lines = [
        *cluster(slow, subscribers=20),
        *(f"{14 + n / 10:.1f} subscriber add N{n} B0 symbol = 'none{n}'" for n in range(30)),
    ]
    world = Clusters.of(lines)
    world.run(1)
    world.edge("B1").mediator.ask = lambda *_: None  # type: ignore[method-assign]
    world.run(14)
    assert world.head("B0").brokers.entries(14.0)["B1"].status is Status.NOT_AVAILABLE
    world.run(25)
    sent = Counter(noted.decision.choice for noted in world.of_kind("redirect"))
    assert sent.keys() == {"B2", "B3"}
    assert sent.total() == 30


@pytest.mark.parametrize("first", ["advertises", "subscribes"])
@pytest.mark.parametrize("at", ["B0", "B1"])
def test_who_publishes_and_subscribes_is_served_by_an_edge_broker(first: str, at: str) -> None:
    """Left open by the thesis: its deliveries are what is to be balanced."""
    federation = Federation(("B0", "B1"), ("B0", "B2"), modules=lambda _: [Balancing(HURRIED)])
    federation.advance(2.0)
    federation.client("C", at)
    federation.settle()
    for what in (
        ("advertises", "subscribes") if first == "advertises" else ("subscribes", "advertises")
    ):
        if what == "advertises":
            federation.advertise("C", "a > 1")
        else:
            federation.subscribe("C", "b > 1")
        federation.advance(5.0)
    assert federation.clients["C"].address in ("B1", "B2")


def test_a_client_that_only_publishes_is_sent_to_the_head_and_one_that_does_nothing_stays() -> None:
    federation = Federation(("B0", "B1"), ("B0", "B2"), modules=lambda _: [Balancing(HURRIED)])
    federation.advance(2.0)
    for name in ("P", "idle"):
        federation.client(name, "B1")
    federation.settle()
    federation.advertise("P", "a > 1")
    federation.advance(5.0)
    assert federation.clients["P"].address == "B0"
    assert federation.clients["idle"].address == "B1"


def test_a_head_without_edge_brokers_keeps_its_subscribers() -> None:
    chain = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5"))
    federation = Federation(*chain, modules=lambda _: [Balancing(HURRIED)])
    federation.advance(2.0)
    federation.client("S", "B3")
    federation.settle()
    federation.subscribe("S", "a > 1")
    federation.advance(5.0)
    assert federation.clients["S"].address == "B3"


def test_who_rests_is_judged_again_afterwards() -> None:
    """A publisher that was sent to an edge-broker, by whomever, rests there before it can be sent on."""
    workload = f"""
0.0 federation set rest_s 10
{BROKERS}
0.0 link add B0 B2 5
1.0 publisher add P - 0 B0 a > 0
5.0 client redirect P B1
60.0 end
"""
    found = ran(workload)
    kinds = [noted.decision.kind for noted in found.decisions]
    refused = kinds.count("refused")
    assert kinds == ["refused"] * refused + ["redirect", "carried out"]
    assert 1 <= refused <= 4  # it takes longer each time
    assert found.broker_of("P") == "B0"


def test_while_it_only_observes_it_says_once_who_is_misplaced() -> None:
    workload = f"""
0.0 federation optimiser balancing observing
{BROKERS}
0.0 link add B0 B2 5
1.0 publisher add P - 0 B1 a > 0
60.0 end
"""
    found = ran(workload)
    assert [(noted.decision.kind, noted.decision.acted) for noted in found.decisions] == [
        ("redirect", False)
    ]


def test_no_link_may_move_if_that_makes_a_broker_the_first_edge_broker_of_a_head() -> None:
    """The subscribers of B4 would have to go one link farther, to B3 or B5, as soon as it has one link."""
    chain = [(f"B{n}", f"B{n + 1}") for n in range(1, 7)]
    federation = Federation(*chain, modules=lambda _: [Balancing(HURRIED)])
    federation.advance(2.0)
    module = federation.brokers["B4"].modules._hosts["balancing"].module

    def objection(middle: str) -> str:
        mover = {"B3": "B2", "B5": "B6"}[middle]
        return module.objection_to(
            Proposal("overlay", "rewiring", "anchor", (middle,), mover), federation.now
        )

    assert objection("B3") == objection("B5") == ""  # nobody would have to go
    federation.client("S", "B4")
    federation.settle()
    federation.subscribe("S", "a > 1")
    federation.advance(5.0)
    assert objection("B3") == "B3 would become the edge-broker for the subscribers of B4"
    federation.start("B8")
    federation.join("B8", "B3")
    federation.advance(5.0)
    assert objection("B3") == ""  # it has two other links
    assert objection("B5") == "B5 would become the edge-broker for the subscribers of B4"
    federation.start("B9")
    federation.join("B9", "B4")
    federation.advance(5.0)
    assert federation.clients["S"].address == "B9"
    assert objection("B5") == ""  # they are at an edge-broker already


def test_a_note_that_is_none_is_the_neighbours_fault() -> None:
    federation = Federation(("B0", "B1"), ("B0", "B2"), modules=lambda _: [Balancing(HURRIED)])
    module = federation.brokers["B0"].modules._hosts["balancing"].module
    with pytest.raises(RemoteProtocolError, match="a note on roles of B1"):
        module.told("B1", b"\xc1", 1.0)
