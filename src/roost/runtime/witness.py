"""A witness of pairs: a third process that gives each epoch of a broker to one of its two nodes, once.

It knows nothing else, and takes no part in anything: of each broker, the last epoch that was given, and to
whom. Two nodes that have lost sight of each other both ask; the first gets it (`overlay.twin`). What was
given is on the disk before it is said. Any broker that has a store can be one: `[standby] witness_for =
"host:port"`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.runtime import pair_wire
from roost.runtime.pair_wire import Channel, PairWireError
from roost.runtime.store_file import sync_folder

NAME = "witness.json"
ANSWER_S = 2.0
# A stranger who knows the token can't fill the disk.
BROKERS_MAX = 10_000


class MayI(Struct, frozen=True, tag="may"):
    """May this node have this epoch of this broker?"""

    broker: str
    node: str
    epoch: int


class Given(Struct, frozen=True, tag="given"):
    granted: bool


class Grant(Struct, frozen=True):
    epoch: int
    node: str


class Register:
    """What was given, on the disk."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        try:
            data = self._file.read_bytes()
            self.grants = msgspec.json.decode(data, type=dict[str, Grant])
        except FileNotFoundError:
            self.grants = {}
        except msgspec.DecodeError as error:
            what = f"it does not read: {error}; expected what a witness has written"
            raise UserError(f"{self._file}: {what}") from None

    def give(self, asked: MayI) -> bool:
        """Whether it may: nobody else has that epoch, nor anybody a later one."""
        known = self.grants.get(asked.broker, Grant(0, ""))
        if asked.epoch == known.epoch:
            return asked.node == known.node
        if asked.epoch < known.epoch or len(self.grants) >= BROKERS_MAX:
            return False
        self.grants[asked.broker] = Grant(asked.epoch, asked.node)
        self._write()
        return True

    def _write(self) -> None:
        new = self._file.with_name(f"{NAME}.new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(self.grants) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._file)
        sync_folder(self._file.parent)


class Witness:
    """Answers at an address."""

    def __init__(self, folder: Path, refused: Callable[[str], None]) -> None:
        self._register = Register(folder)
        self._refused = refused
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, token: str, tls: ssl.SSLContext | None) -> int:
        """The port; UserError if nobody can listen there."""
        try:
            self._server = await pair_wire.listen(
                host, port, token, tls, MayI | Given, self._met, self._refused
            )
        except OSError as error:
            raise UserError(
                f"can't listen on {host}:{port}, as a witness: {error.strerror or error}"
            ) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def _met(self, channel: Channel[MayI | Given]) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                asked = await channel.hear()
                if isinstance(asked, MayI):
                    channel.say(Given(self._register.give(asked)))
        except (OSError, EOFError, TimeoutError, PairWireError):
            pass  # it asks again
        finally:
            channel.close()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()


async def ask(
    address: tuple[str, int], token: str, tls: ssl.SSLContext | None, question: MayI
) -> bool | None:
    """What the witness says; None if it says nothing. PairWireError if it is not one of ours."""
    channel: Channel[MayI | Given] | None = None
    try:
        async with asyncio.timeout(ANSWER_S):
            channel = await pair_wire.dial(*address, token, tls, MayI | Given)
            channel.say(question)
            answer = await channel.hear()
            return answer.granted if isinstance(answer, Given) else None
    except (OSError, EOFError, TimeoutError):
        return None
    finally:
        if channel is not None:
            channel.close()
