"""HTTP in the event loop of a process that has other work: for operators (`admin`), and for gateways.

Uvicorn's own loop and its signals are left aside: the former wakes up ten times a second, the latter belong
to whoever runs the process. Log lines and headers that tell strangers about us are off.
"""

from __future__ import annotations

import os
import socket
import ssl

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from roost.errors import UserError

HEAD_BYTES_MAX = 16_384
STOP_S = 1
# How long a connection may be silent between two requests.
IDLE_S = 5
BACKLOG = 128


class HttpFace:
    """Pages at an address. After `start`, `port` is where they are."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self.host, self.port = host, port
        self._tls = tls
        self._socket: socket.socket | None = None
        self._http: uvicorn.Server | None = None

    def bind(self, whom: str, expected: str) -> None:
        """Take the address; UserError if that is not possible. `start` is to follow."""
        self._socket = _listening(self.host, self.port, whom, expected)

    async def start(
        self, app: Starlette, connection: type[H11Protocol], idle_s: int = IDLE_S
    ) -> None:
        """Answer, on connections of that kind."""
        assert self._socket is not None
        config = uvicorn.Config(
            app,
            http=connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # not what strangers do wrong
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_graceful_shutdown=STOP_S,
            timeout_keep_alive=idle_s,
        )
        config.load()
        config.ssl = self._tls
        http = uvicorn.Server(config)
        # What `serve` does around its loop.
        http.lifespan = config.lifespan_class(config)
        await http.startup(sockets=[self._socket])
        self._http, self.port = http, self._socket.getsockname()[1]

    @property
    def is_up(self) -> bool:
        return self._http is not None

    async def stop(self) -> None:
        """Whoever is being answered gets the answer, if that takes no second."""
        http, self._http = self._http, None
        if http is not None and self._socket is not None:
            await http.shutdown(sockets=[self._socket])


def check_free(host: str, port: int, whom: str, expected: str) -> None:
    """UserError if nobody could listen there just now."""
    _listening(host, port, whom, expected).close()


def _listening(host: str, port: int, whom: str, expected: str) -> socket.socket:
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        # What `create_server` has to say of it is long-winded; names that lead nowhere are below 0.
        number = error.errno or 0
        what = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise UserError(
            f"can't listen on {host}:{port}, for {whom}: {what}; expected {expected}"
        ) from None
