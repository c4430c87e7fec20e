"""An operator's request, handed to a module: simulated, by a line of a workload, and live, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from roost.client import Client, connect
from roost.runtime.admin_client import AdminError, ask
from roost.runtime.in_process import running
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    OptimisersTable,
    ServerConfig,
)
from roost.testing import simulate

DRAIN = "tests.example.drain:Drain"

WORKLOAD = f"""
0.0 federation optimiser {DRAIN}
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 link add B0 B1 1
1.0 publisher add P - 0 B0 a > 0
1.0 subscriber add S1 B0 a > 0
2.0 publisher publish P [a,1]
3.0 broker ask B0 drain to=B9
3.1 broker ask B0 drain to=B1
3.2 publisher publish P [a,2]
9.0 broker ask B0 refill
9.0 subscriber add S2 B0 a > 0
12.0 publisher publish P [a,3]
20.0 end
"""


def test_simulated() -> None:
    run = simulate(WORKLOAD)
    assert run.checks.clean
    assert {client.broker for client in run.world.clients.values()} == {"B1"}
    wrong, drained, unknown = run.world.hosts["B0"].answers
    assert (wrong.answers, wrong.objections) == ({}, {"drain": "to=B9; expected one of B1"})
    assert drained.answers == {"drain": {"moving": ["P", "S1"], "staying": 0}}
    assert (unknown.answers, unknown.objections) == ({}, {})
    assert run.checks.delivered == 4


def test_live(tmp_path: Path) -> None:
    """With a store: the answer waits until what it speaks of is safe."""

    async def play() -> None:
        first = ServerConfig(
            broker=BrokerTable(name="B1", port=0),
            links=LinksTable(neighbours={"B0": ""}),
            admin=AdminTable(port=-1),
        )
        async with running(first) as b1:
            second = ServerConfig(
                broker=BrokerTable(name="B0", port=0, data=str(tmp_path)),
                links=LinksTable(neighbours={"B1": f"127.0.0.1:{b1.port}"}),
                optimisers=OptimisersTable(modules={DRAIN: "acting"}),
                admin=AdminTable(port=0),
            )
            async with running(second) as b0, connect(f"roost://127.0.0.1:{b0.port}") as client:
                await drained(b0, client)

    asyncio.run(asyncio.wait_for(play(), 60))


async def drained(broker: BrokerServer, client: Client) -> None:
    assert broker.admin is not None
    url = f"http://127.0.0.1:{broker.admin.port}"

    async def asked(request: str, module: str = "", **arguments: str) -> dict[str, Any]:
        body = {"request": request, "arguments": arguments, "module": module}
        return await asyncio.to_thread(ask, url, "/ask", body)

    await client.subscribe("a > 0").ready()
    while not broker.shell.machine.links["B1"].address:
        await asyncio.sleep(0.05)
    with pytest.raises(AdminError, match="drain: to=B9; expected one of B1"):
        await asked("drain", to="B9")
    with pytest.raises(AdminError, match="no optimiser that is awake here knows 'refill'"):
        await asked("refill")
    with pytest.raises(AdminError, match="no optimiser called 'grape' that is awake here knows"):
        await asked("drain", "grape", to="B1")
    assert await asked("drain", to="B1") == {
        "broker": "B0",
        "answers": {"drain": {"moving": [client.name], "staying": 0}},
        "objections": {},
    }
    while not client.pauses_s:  # one for each move
        await asyncio.sleep(0.05)
