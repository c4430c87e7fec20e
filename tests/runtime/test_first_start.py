"""What takes long when a broker starts comes after what can fail at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from roost.errors import UserError
from roost.runtime import main
from roost.runtime.in_process import running, start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, ServerConfig
from tests.client.support import in_loop

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((HOST, 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("whose", ["clients", "operators"])
def test_a_taken_port_is_known_before_anything_is_compiled(
    whose: str, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiling(*_: object, **__: object) -> None:
        raise AssertionError("it compiles, and could have known")

    monkeypatch.setattr(main, "warm_up", compiling)
    ports = (taken, -1) if whose == "clients" else (0, taken)
    config = ServerConfig(
        broker=BrokerTable(host=HOST, port=ports[0]), admin=AdminTable(host=HOST, port=ports[1])
    )
    with pytest.raises(UserError, match=f"can't listen on {HOST}:{taken}.*already in use"):
        asyncio.run(main.serve(config))


@in_loop
async def test_nobody_is_let_in_before_it_has_started() -> None:
    server = BrokerServer(ServerConfig(broker=BrokerTable(port=0), admin=AdminTable(port=-1)))
    await server.bind()
    port = server.port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, port)
    await server.start()
    assert server.port == port
    _, writer = await asyncio.open_connection(HOST, port)
    writer.close()
    await server.stop()


@in_loop
async def test_whoever_listens_first_has_the_port() -> None:
    config = ServerConfig(broker=BrokerTable(port=0), admin=AdminTable(port=-1))
    slow = BrokerServer(config)
    await slow.bind()
    same = ServerConfig(broker=BrokerTable(port=slow.port), admin=AdminTable(port=-1))
    async with running(same):  # both have taken the address, which the system allows
        with pytest.raises(UserError, match=r"can't listen on .*:0: .*in use"):
            await slow.start()
        with pytest.raises(UserError, match=f"can't listen on .*:{slow.port}"):
            await start_server(same)
