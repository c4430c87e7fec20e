"""Ids of subscriptions as they stand in a frame: for whoever makes many deliveries with many ids each.

A `Delivery` names the subscriptions that it is for. Where these come from a kernel as bytes, hundreds an
event, they stay that: the frame is written from them, and no string is touched. Whoever looks at them (a
module, the simulator, a store) sees strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from msgspec import msgpack

_read = msgpack.Decoder(tuple[str, ...]).decode


class WrittenIds(Sequence[str]):
    """Some ids. `encoded` is MessagePack's array of them."""

    __slots__ = ("_count", "encoded")

    def __init__(self, encoded: bytes, count: int) -> None:
        self.encoded = encoded
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(_read(self.encoded))

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...

    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return _read(self.encoded)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WrittenIds):
            return self.encoded == other.encoded
        return isinstance(other, tuple) and _read(self.encoded) == other

    def __hash__(self) -> int:
        return hash(_read(self.encoded))

    def __repr__(self) -> str:
        return repr(_read(self.encoded))
