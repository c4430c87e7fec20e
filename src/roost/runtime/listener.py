"""Accepting connections, also when there is no room for more.

Each is counted from the moment that it is accepted, ahead of TLS, which may take a stranger as long as it is
given. When all slots are taken somebody has to make room (`strangers`), or the newcomer is told to come
again. When this process has no files left, which the slots should prevent, one that was kept in reserve lets
us accept and close: whoever waits in the queue of the system would else wait there, and find nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from typing import TYPE_CHECKING, NoReturn

from roost.broker.messages import AttachRefused
from roost.errors import UserError
from roost.runtime.connection import SocketConnection
from roost.runtime.doorstep import Doorstep
from roost.runtime.keepalive import set_options_of
from roost.runtime.strangers import Arrival
from roost.wire import PREFACE, encode

if TYPE_CHECKING:
    from roost.runtime.server import BrokerServer

BACKLOG = 1_024
# In one turn of the event loop: others want to be served too, and what is closed is closed behind it.
ACCEPTS_A_TURN = 32
# How long nobody is accepted when the system can't.
PAUSE_S = 1.0
# All addresses, of both kinds.
EVERYWHERE = ("0.0.0.0", "::")


class Listener:
    """Where others can reach us."""

    def __init__(self, server: BrokerServer, tls: ssl.SSLContext | None) -> None:
        self._server = server
        self._tls = tls
        self._where = ""
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._is_closed = False

    async def bind(self, host: str, port: int) -> int:
        """Take the address, and let nobody in yet. The port; UserError if that is not possible there."""
        self._where = f"{host}:{port}"
        try:
            found = await self._loop.getaddrinfo(
                None if host in EVERYWHERE else host,
                port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._sockets.append(_bound(family, kind, protocol, address))
        except OSError as error:
            self._fail(error)
        return int(self._sockets[0].getsockname()[1])

    def begin(self) -> None:
        """From here on others can connect; UserError if somebody was quicker."""
        try:
            for listening in self._sockets:
                listening.listen(BACKLOG)
        except OSError as error:
            self._fail(error)
        for listening in self._sockets:
            self._loop.add_reader(listening, self._readable, listening)

    def _fail(self, error: OSError) -> NoReturn:
        self.close()
        raise UserError(f"can't listen on {self._where}: {error.strerror or error}") from None

    def close(self) -> None:
        """Nobody new."""
        if self._is_closed:
            return
        self._is_closed = True
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        if self._spare >= 0:
            os.close(self._spare)

    # --- accepting ----------------------------------------------------------------------------------

    def _readable(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it has gone again
            except OSError as error:
                self._server.tasks.failed("accepting connections", error)
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._turn_away(
                    listening
                ):
                    self._pause(listening)
                return
            sock.setblocking(False)
            self._accepted(sock, str(address[0]))

    def _turn_away(self, listening: socket.socket) -> bool:
        """There are no files left: use the spare one to say so. False if even that does not work."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        try:
            sock, _ = listening.accept()
            _say_farewell(sock, "the broker has no files left")
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            return False
        return True

    def _pause(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening)
        self._loop.call_later(PAUSE_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if self._is_closed:
            return
        if self._spare < 0:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)
        self._loop.add_reader(listening, self._readable, listening)

    def _accepted(self, sock: socket.socket, address: str) -> None:
        server = self._server
        if not server.slots.make_room():
            reason = f"all {server.slots.most:,} connections are taken"
            server.refused_address(address, reason)
            if self._tls is None:
                _say_farewell(sock, reason)
            else:
                sock.close()
            return
        arrival = Arrival(address, self._loop.time())
        server.slots.put(arrival, "stranger")
        task = server.tasks.spawn("a new connection", self._begin(sock, arrival))

        def cut(_: str) -> None:
            task.cancel()

        arrival.cut = cut

    async def _begin(self, sock: socket.socket, arrival: Arrival) -> None:
        """TLS, if that is asked for; then it is on the doorstep."""
        server = self._server
        within_s = server.config.limits.greeting_s if self._tls is not None else None
        begun = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: Doorstep(SocketConnection(server, arrival)),
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=within_s,
            )
            begun = True
        except (OSError, TimeoutError):
            pass  # it was none of TLS, which is logged where it is noticed, or has gone again
        finally:
            if not begun:
                server.slots.put(arrival, "gone")
                sock.close()


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        set_options_of(sock)
        sock.setblocking(False)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _say_farewell(sock: socket.socket, reason: str) -> None:
    """If it can be said at once, and is read before it is noticed that nobody listens."""
    with sock, contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.send(PREFACE + encode(AttachRefused(reason, transient=True)))
        sock.shutdown(socket.SHUT_WR)
