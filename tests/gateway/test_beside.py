"""A gateway in the process of a broker that wants TLS and users: `[gateway]` of its settings."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from roost.errors import UserError
from roost.gateway.ws_eventing.beside import gateway_beside
from roost.gateway.ws_eventing.versions import EVENTING_2011, SOAP_12
from roost.runtime.tables import GatewayTable, ServerConfig, TlsTable
from roost.runtime.tls import issue, make_authority
from tests.client.support import in_loop, until
from tests.client.test_security import secured, user
from tests.gateway.kit import HOST, Elsewhere, basic, broker, post, sinks, subscribed


def settings(folder: Path, port: int) -> ServerConfig:
    make_authority(folder)
    # It names the broker as others know it, and not as this process calls itself.
    certificate, key = issue(folder, "broker", ["b0.example"])
    tls = TlsTable(certificate=str(certificate), key=str(key))
    table = GatewayTable(port=port, allow_private=True)
    return replace(secured(folder, tls, alice=user()), gateway=table)


@in_loop
async def test_with_tls_and_users(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with (
        broker(settings(tmp_path, 0)) as server,
        gateway_beside(server),
        sinks() as (sink,),
    ):
        said = capfd.readouterr().err.split()
        gateway = Elsewhere(int(said[-1].rpartition(":")[2]))
        login = basic("alice")
        await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, login=login)
        assert (await post(gateway, SOAP_12, "<Quote/>", Authorization=login)).status == 202
        assert (await post(gateway, SOAP_12, "<Quote/>")).status == 401
        await until(lambda: sink.heard, "the sink hears")


@in_loop
async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        async with broker(settings(tmp_path, taken.getsockname()[1])) as server:
            with pytest.raises(UserError, match="can't listen"):
                async with gateway_beside(server):
                    pass
