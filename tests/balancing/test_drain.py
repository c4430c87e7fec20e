"""A broker that is emptied: through sessions like any other, and it says when it may stop."""

from __future__ import annotations

from typing import Any

import pytest

from roost.simulation import statements as st
from tests.balancing.clusters import SPEEDS, SUBSCRIBERS, SYMBOLS, Clusters, cluster, judged


def asked(world: Clusters, broker: str, arguments: str = "") -> dict[str, Any]:
    """What the module there answers."""
    at = world.clock.now
    world.hosts[broker].ask(
        st.AskBroker(at=at, broker=broker, request="drain", arguments=arguments)
    )
    world.run(at + 0.1)  # with a store the answer waits for it
    said = world.hosts[broker].answers[-1]
    return dict(said.answers.get("balancing") or {"objection": said.objections["balancing"]})


@pytest.fixture
def world() -> Clusters:
    found = Clusters.of(cluster())
    found.run(60)
    return found


def test_everybody_goes_and_then_it_may_stop(world: Clusters) -> None:
    before = world.placed()["B3"]
    said = asked(world, "B3")
    assert said == {"draining": True, "clients": before, "durable": [], "may_stop": False}
    world.run(100)
    assert asked(world, "B3", "do=look") == {
        "draining": True,
        "clients": 0,
        "durable": [],
        "may_stop": True,
    }
    assert world.placed() == {"B0": len(SYMBOLS), **{b: world.placed()[b] for b in ("B1", "B2")}}
    assert judged(world).clean


def test_nobody_else_is_overloaded_by_that(world: Clusters) -> None:
    asked(world, "B1")
    world.run(100)
    assert asked(world, "B1", "do=look")["may_stop"]
    for name in ("B2", "B3"):
        load = world.hosts[name].last_load
        assert load is not None
        assert max(load.input_utilisation, load.output_utilisation) < 0.9


def test_moves_are_proposed_as_a_drain(world: Clusters) -> None:
    asked(world, "B2")
    world.run(80)
    drains = [n for n in world.of_kind("offload") if n.broker == "B2" and n.at > 60]
    assert drains
    assert all(noted.decision.predicted for noted in drains)


def test_newcomers_go_elsewhere_wherever_they_connect() -> None:
    late = [
        f"80.{n:02} subscriber add N{n} {'B0' if n % 2 else 'B3'} class = 'none{n}'"
        for n in range(20)
    ]
    world = Clusters.of([*cluster(), *late])
    world.run(60)
    asked(world, "B3")
    world.run(110)
    assert {world.clients[f"N{n}"].broker for n in range(20)} == {"B1", "B2"}
    assert asked(world, "B3", "do=look")["may_stop"]
    assert judged(world).clean


def test_who_is_durable_stays_and_is_named() -> None:
    world = Clusters.of(
        [*cluster(), "3.0 subscriber durable D B3 class = 'STOCK'"], durability=True
    )
    world.run(60)
    asked(world, "B3")
    world.run(110)
    said = asked(world, "B3", "do=look")
    assert (said["clients"], said["durable"], said["may_stop"]) == (1, ["D"], False)


def test_a_drain_can_be_called_off(world: Clusters) -> None:
    asked(world, "B3")
    world.run(100)
    assert not asked(world, "B3", "do=cancel")["draining"]
    world.run(200)
    assert world.placed()["B3"] >= 0.5 * SUBSCRIBERS * SPEEDS["B3"][0] / 140


def test_the_others_go_on_balancing_meanwhile(world: Clusters) -> None:
    """A broker that is emptied says BUSY: N/A would keep all others from asking (3.3.2.3)."""
    asked(world, "B3")
    world.run(62)
    assert world.edge("B1").table.entries(62.0)["B3"].status.value == "BUSY"


@pytest.mark.parametrize(
    ("broker", "arguments", "why"),
    [("B0", "", "expected an edge-broker"), ("B1", "do=that", "expected begin, look or cancel")],
)
def test_what_will_not_do_is_said(world: Clusters, broker: str, arguments: str, why: str) -> None:
    assert why in asked(world, broker, arguments)["objection"]
