"""What a live broker that has a standby asks before it says anything; see `pair`, which answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from roost.broker.commands import StoreKey, Superseded


class Gate(Protocol):
    """Stands between the store and the machine: what is safe is what is at both."""

    epoch: int

    @property
    def beside(self) -> str:
        """Where clients find the other node; "" if nobody knows."""

    @property
    def is_open(self) -> bool:
        """Whether anything may become safe: not while it takes a standby that is not there."""

    def begins(self, records: Mapping[StoreKey, Any]) -> None:
        """The store has been read."""

    def stamp(self, token: int) -> Mapping[StoreKey, Any]:
        """What a transaction has to say beyond its own."""

    def wrote(self, token: int, body: bytes) -> None:
        """The store is about to commit this."""

    def safe(self, token: int) -> None:
        """It is on the disk here."""

    def superseded(self, command: Superseded) -> None:
        """Somebody knows of a later epoch."""

    def warning(self) -> str:
        """What an operator should know of the standby; "" if all is well."""

    def status(self) -> dict[str, Any]: ...


def in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[[int, bytes], None], token: int, body: bytes
) -> None:
    """From the thread of the store."""
    loop.call_soon_threadsafe(call, token, body)
