"""A gateway in the process of a broker, as `[gateway]` of its settings says.

It is a client of that broker like any other, over a connection of its own to this very process: so it has no
more rights than its callers, and the broker's limits hold for it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from roost.gateway.ws_eventing.server import Gateway
from roost.runtime.main import announce
from roost.runtime.server import BrokerServer

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@asynccontextmanager
async def gateway_beside(server: BrokerServer) -> AsyncIterator[None]:
    """A gateway for as long as the broker runs."""
    config = server.config
    host = EVERYWHERE.get(config.broker.host, config.broker.host)
    scheme = "roosts" if config.tls.certificate else "roost"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{server.port}"
    gateway = Gateway(url, config.gateway, _to_ourselves() if config.tls.certificate else None)
    await gateway.start()
    announce(server.log, f"WS-Eventing is served on {gateway.host}:{gateway.port}")
    try:
        yield
    finally:
        await gateway.stop()


def _to_ourselves() -> ssl.SSLContext:
    """The certificate is our own, and names us as others know us: there is nothing to check in it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
