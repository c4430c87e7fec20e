"""Messages to one address, by HTTP: one after the other, over a connection that stays open between them.

The answer's status is all that matters; where a sink would rather have us look (a redirection) is not
followed. A connection that turns out to have been closed meanwhile is opened again, once.
"""

from __future__ import annotations

import asyncio
import os
import ssl

import h11

from roost.gateway.ws_eventing.answers import Message
from roost.gateway.ws_eventing.guard import Target, UnusableError, checked_addresses

# Of an answer, that nobody reads.
ANSWER_BYTES_MAX = 65_536
READ_BYTES = 65_536


class PostError(Exception):
    """A message was not answered."""


class Poster:
    """Sends messages to one target; each has so long."""

    def __init__(
        self,
        target: Target,
        *,
        within_s: float,
        allow_private: bool,
        tls: ssl.SSLContext,
    ) -> None:
        self._target = target
        self._within_s = within_s
        self._allow_private = allow_private
        self._tls = tls
        self._wire: _Wire | None = None

    async def post(self, message: Message) -> int:
        """The status of the answer; PostError if there is none in time."""
        try:
            async with asyncio.timeout(self._within_s):
                return await self._post(message)
        except TimeoutError:
            self.close()
            raise PostError(f"no answer within {self._within_s:g} s") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def _post(self, message: Message) -> int:
        head = self._head(message)
        if self._wire is not None:
            try:
                return await self._exchange(self._wire, head, message.content)
            except PostError:
                pass  # it had been closed, most likely
        self._wire = await self._open()
        return await self._exchange(self._wire, head, message.content)

    def _head(self, message: Message) -> h11.Request:
        kind, soap_12 = message.media_type, message.media_type.startswith("application/")
        action = f'; action="{message.action}"' if soap_12 and _is_plain(message.action) else ""
        headers = [
            ("Host", self._target.authority),
            ("Content-Type", f"{kind}; charset=utf-8{action}"),
            ("Content-Length", str(len(message.content))),
        ]
        if not soap_12:
            action = message.action if _is_plain(message.action) else ""
            headers.append(("SOAPAction", f'"{action}"'))
        return h11.Request(method="POST", target=self._target.path, headers=headers)

    async def _exchange(self, wire: _Wire, head: h11.Request, body: bytes) -> int:
        try:
            status, is_open = await wire.exchange(head, body)
        except (OSError, h11.ProtocolError) as error:
            self.close()
            raise PostError(f"the connection broke: {_words(error)}") from None
        if not is_open:
            self.close()
        return status

    async def _open(self) -> _Wire:
        target = self._target
        try:
            addresses = await checked_addresses(target, allow_private=self._allow_private)
        except UnusableError as error:
            raise PostError(str(error)) from None
        secure = target.scheme == "https"
        why = ""
        for address in addresses:
            try:
                reader, writer = await asyncio.open_connection(
                    address,
                    target.port,
                    ssl=self._tls if secure else None,
                    server_hostname=target.host if secure else None,
                )
            except OSError as error:  # those of TLS are among them
                why = _words(error)
            else:
                return _Wire(reader, writer)
        raise PostError(f"{target.authority}: {why}")

    def close(self) -> None:
        """Hang up, if there is a connection."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None


class _Wire:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    async def exchange(self, head: h11.Request, body: bytes) -> tuple[int, bool]:
        """The status of the answer, and whether the connection is good for another."""
        http, status, taken = self._http, 0, 0
        said = (http.send(head), http.send(h11.Data(data=body)), http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(filter(None, said)))
        await self._writer.drain()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await self._reader.read(READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                taken += len(event.data)
                if taken > ANSWER_BYTES_MAX:
                    return status, False
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("closed without an answer")
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return status, False
        http.start_next_cycle()
        return status, True

    def close(self) -> None:
        self._writer.transport.abort()


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _words(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    # asyncio's own words repeat the address
    return os.strerror(number) if number and number > 0 else str(error)
