"""The worked example of docs/BROKER.md: a user's module and router, simulated and live, from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roost.broker.registry import make_module, parse_order
from roost.client import Refused, connect
from roost.errors import UserError
from roost.runtime.child_broker import ChildBroker
from roost.simulation.run import check, rest
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World

CROWD = "tests.example.crowd:Crowd"
CLASSED = "tests.example.crowd:Classed"

WORKLOAD = f"""
0.0 federation set routing {CLASSED}
0.0 federation set load_period_s 2
0.0 federation optimiser {CROWD} {{order}}
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 link add B0 B1 1
1.0 publisher add P - 0 B1
1.0 subscriber add S1 B0 class = 'x'
1.0 subscriber add S2 B0 class = 'x'
1.0 subscriber add S3 B0 class = 'x'
9.0 publisher publish P [class,'x']
9.1 publisher publish P [n,1]
9.2 publisher publish P [class,'x']
20.0 end
"""


def simulated(order: str) -> World:
    workload = parse_workload(WORKLOAD.format(order=order), "example", None)
    world = World(workload.settings, workload.statements)
    world.run(20.0)
    return world


def test_simulated() -> None:
    world = simulated("acting limit=1")
    assert sorted(c.broker for n, c in world.clients.items() if n != "P") == ["B0", "B1", "B1"]
    checks = check(world, rested=rest(world), must_rest=True)
    assert checks.clean
    assert checks.delivered == 6


def test_observing_moves_nobody() -> None:
    world = simulated("observing limit=1")
    assert {c.broker for n, c in world.clients.items() if n != "P"} == {"B0"}


def test_live(tmp_path: Path) -> None:
    async def play() -> None:
        for name in ("B0", "B1"):
            (tmp_path / name).mkdir()
        b1 = ChildBroker(
            tmp_path / "B1",
            {
                "broker": {"name": "B1", "port": 0, "routing": CLASSED},
                "links": {"neighbours": {"B0": ""}},
            },
        )
        b0 = ChildBroker(
            tmp_path / "B0",
            {
                "broker": {"name": "B0", "port": 0, "routing": CLASSED},
                "links": {"neighbours": {"B1": f"127.0.0.1:{b1.port}"}},
                "optimisers": {"modules": {CROWD: "acting limit=1"}},
            },
        )
        try:
            url = f"roost://127.0.0.1:{b0.port}"
            async with connect(url) as one, connect(url) as two, asyncio.timeout(60):
                subscriptions = [client.subscribe("class = 'x'") for client in (one, two)]
                for subscription in subscriptions:
                    await subscription.ready()
                # The module of B0 sends one of them to B1: by its address, as names are nothing to clients.
                while not (one.pauses_s or two.pauses_s):  # one for each move
                    await asyncio.sleep(0.1)
                async with connect(f"roost://127.0.0.1:{b1.port}") as publisher:
                    for number in range(5):
                        await publisher.publish({"class": "x", "n": number})
                    await publisher.flush()
                    for subscription in subscriptions:
                        got = [int((await subscription.get(30))["n"]) for _ in range(5)]
                        assert got == list(range(5))
                    await publisher.publish({"n": 1})
                    with pytest.raises(Refused, match="an event without a class"):
                        await publisher.flush()
        finally:
            b0.stop()
            b1.stop()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("reference", "order", "words"),
    [
        ("nobody", "", "no package offers a module 'nobody'"),
        ("tests.example.crowd:Nobody", "", "can't be imported"),
        ("tests.example.crowd:Classed", "", "is no module"),
        (CROWD, "limit=many", "Expected `int`"),
        (CROWD, "most=3", "it has limit"),
        (CROWD, "asleep", "expected one of off, observing, acting, or KEY=VALUE"),
    ],
)
def test_what_will_not_do(reference: str, order: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        make_module(parse_order(reference, order.split()))
    assert words in str(refused.value)
