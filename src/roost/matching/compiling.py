"""Whoever waits while kernels are compiled can hear how far that is.

Numba compiles a kernel when it is first called, and all that it calls: seconds in which nothing else happens,
the first time that a version of Roost runs on a machine. From then on the machine code is on disk
(`kernels.jit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _Teller(event.Listener):  # type: ignore[misc]
    """Counts what is compiled; what is read from disk is not."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._count = 0

    def on_start(self, _: Any) -> None:
        self._count += 1
        self._tell(self._count)

    def on_end(self, _: Any) -> None:
        """The next one is told of when it begins."""


@contextmanager
def compiling_told(tell: Callable[[int], None]) -> Iterator[None]:
    """`tell` hears the number of each kernel that is compiled meanwhile, when that begins: 1, 2, ..."""
    with event.install_listener("numba:compile", _Teller(tell)):
        yield
