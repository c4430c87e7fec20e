"""The connection between the two nodes of a pair, and with a witness: words of those who have one token.

Both ends first prove to each other that they have the same token (`[security] token`, as neighbours present
it), without saying it: each answers the other's challenge. Then words follow, each a frame: its length in
four bytes, and MessagePack.

With `[tls]` all of it is inside TLS, and where there is an authority both ends show a certificate of it,
whether clients have to or not. Whoever comes without TLS, or with another's certificate, is refused, and who
refuses says why: two nodes of which one was forgotten when certificates were set would else wait for ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from roost.runtime.keepalive import set_options
from roost.runtime.tables import TlsTable
from roost.runtime.tls import client_context, server_context, tell_failures

PREFACE = b"roost-pair-1\n"
FRAME_BYTES_MAX = 256_000_000
# How long the other end may take to say who it is.
GREETING_S = 3.0
# Unsent bytes above which a snapshot waits.
WAITING_BYTES = 8_000_000

# How a record of TLS begins: a greeting, and an alert.
TLS_HELLO, TLS_ALERT = b"\x16\x03", b"\x15\x03"

_length = struct.Struct(">I")
W = TypeVar("W")


class PairWireError(Exception):
    """The other end is not what it should be."""


class Secured:
    """TLS of both ends, by the settings of one of them; nothing without a certificate."""

    def __init__(self, tls: TlsTable) -> None:
        self.listens: ssl.SSLContext | None = None
        self.dials: ssl.SSLContext | None = None
        if tls.certificate:
            self.listens = server_context(
                replace(tls, require_client_certificate=bool(tls.authority))
            )
            self.dials = client_context(tls)


class Channel(Generic[W]):
    """A connection of two ends that have proved themselves."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        words: Any,  # the type of all words
    ) -> None:
        self._reader, self._writer = reader, writer
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(words).decode

    def say(self, word: W) -> None:
        if not self._writer.is_closing():
            body = self._encode(word)
            self._writer.write(_length.pack(len(body)) + body)

    async def hear(self) -> W:
        """The next word; PairWireError, OSError or EOFError when there is none."""
        (length,) = _length.unpack(await self._reader.readexactly(_length.size))
        if length > FRAME_BYTES_MAX:
            raise PairWireError(f"a frame of {length:,} bytes")
        try:
            word: W = self._decode(await self._reader.readexactly(length))
        except msgspec.DecodeError as error:
            raise PairWireError(f"a word does not read: {error}") from None
        return word

    async def room(self) -> None:
        """Until not too much waits to be sent."""
        while self._writer.transport.get_write_buffer_size() > WAITING_BYTES:
            if self._writer.is_closing():
                raise PairWireError("the connection is gone")
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """After what was said, if the other reads it."""
        with suppress(OSError):
            self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


async def _prove(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, *, dials: bool
) -> None:
    nonce = secrets.token_bytes(32)
    writer.write(PREFACE + nonce)
    said = await reader.readexactly(len(TLS_ALERT))  # there may not be more
    if said in (TLS_ALERT, TLS_HELLO):
        raise PairWireError("it speaks TLS; expected [tls] at both, or at neither")
    if said + await reader.readexactly(len(PREFACE) - len(said)) != PREFACE:
        raise PairWireError("it is no node of a pair")
    theirs = await reader.readexactly(len(nonce))
    writer.write(_digest(token, theirs, nonce, dials=dials))
    said = await reader.readexactly(hashlib.sha256().digest_size)
    if not hmac.compare_digest(said, _digest(token, nonce, theirs, dials=not dials)):
        raise PairWireError(
            "it has another token; expected [security] token to be the same at both"
        )


def _digest(token: str, asked: bytes, own: bytes, *, dials: bool) -> bytes:
    """Proof of the token; who dials and who is dialled prove differently, so that none can be sent back."""
    return hmac.digest(token.encode(), (b"d" if dials else b"l") + asked + own, "sha256")


async def dial(
    host: str, port: int, token: str, tls: ssl.SSLContext | None, words: Any
) -> Channel[Any]:
    """Connect; OSError, TimeoutError, EOFError or PairWireError if that fails."""
    connected = False
    try:
        async with asyncio.timeout(GREETING_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            connected = True
            try:
                set_options(writer.transport)
                await _prove(reader, writer, token, dials=True)
            except BaseException:
                writer.close()
                raise
    except ssl.SSLError as error:
        raise PairWireError(f"the TLS handshake failed: {error}") from None
    except TimeoutError:
        if connected:
            # OpenSSL has no alert for whoever comes without TLS.
            raise PairWireError("it says nothing; it was stopped, or waits for TLS") from None
        raise
    return Channel(reader, writer, words)


async def listen(
    host: str,
    port: int,
    token: str,
    tls: ssl.SSLContext | None,
    words: Any,
    met: Callable[[Channel[Any]], Awaitable[None]],
    refused: Callable[[str], None],
) -> asyncio.Server:
    """`met(channel)` for each who connects and proves itself."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            set_options(writer.transport)
            async with asyncio.timeout(GREETING_S):
                await _prove(reader, writer, token, dials=False)
        except PairWireError as error:
            refused(str(error))
            writer.close()
            return
        except (OSError, EOFError, TimeoutError):
            writer.close()
            return
        await met(Channel(reader, writer, words))

    if tls is None:
        return await asyncio.start_server(accepted, host, port)
    tell_failures(tls, refused)
    return await asyncio.start_server(
        accepted, host, port, ssl=tls, ssl_handshake_timeout=GREETING_S
    )
