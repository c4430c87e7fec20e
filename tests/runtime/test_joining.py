"""A broker that joins a hierarchy is below the one that it joins, as that one knows, too."""

from __future__ import annotations

import asyncio

import roost
from roost.runtime.in_process import start_server
from roost.runtime.link_pages import AddRequest, LinkPages
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, ServerConfig
from roost.testing import until

HOST = "127.0.0.1"
EVENTS = 20


async def started(name: str, above: BrokerServer | None, *below: str) -> BrokerServer:
    neighbours = dict.fromkeys(below, "")
    if above is not None:
        neighbours[above.name] = f"{HOST}:{above.port}"
    return await start_server(
        ServerConfig(
            broker=BrokerTable(name=name, port=0, routing="cluster"),
            links=LinksTable(neighbours=neighbours, super=above.name if above else ""),
            admin=AdminTable(port=-1),
        )
    )


def test_what_is_wanted_below_a_newcomer_is_known_at_the_top() -> None:
    """B9 joins below B1, which is below B0. What its clients want goes on up from B1."""

    async def scenario() -> None:
        top = await started("B0", None, "B1")
        middle = await started("B1", top)
        LinkPages(middle).add(AddRequest("B9"), "an operator")
        newcomer = await started("B9", middle)
        servers = (top, middle, newcomer)
        try:
            await until(lambda: all(_linked(server) for server in servers))
            assert {n: link.rank for n, link in middle.shell.machine.links.items()} == {
                "B0": "super",
                "B9": "sub",
            }
            async with (
                roost.connect(f"roost://{HOST}:{newcomer.port}") as listener,
                roost.connect(f"roost://{HOST}:{top.port}") as speaker,
            ):
                subscription = listener.subscribe("n >= 0")
                await subscription.ready(everywhere=True)
                for number in range(EVENTS):
                    await speaker.publish({"n": number})
                got = [(await subscription.get(10.0))["n"] for _ in range(EVENTS)]
                assert got == list(range(EVENTS))
        finally:
            for server in reversed(servers):
                await server.stop()

    asyncio.run(scenario())


def _linked(server: BrokerServer) -> bool:
    return all(link.greeted for link in server.shell.machine.links.values())
