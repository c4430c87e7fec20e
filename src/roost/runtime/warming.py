"""Has everything that is loaded on first use loaded before the first client comes.

Compiled kernels are read from their cache when they are first called: a fifth of a second in which nobody
would be served. The first time ever they are compiled, which takes ten seconds and is said.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from roost.chunks.rehearsing import rehearse
from roost.matching.compiling import compiling_told

# How often somebody who looks on is told how far it is.
TELL_EVERY_S = 0.2


class Compiling:
    """Says that kernels are being compiled, if any are, and how far that is if somebody looks on."""

    def __init__(self, say: Callable[[str], None], *, is_watched: bool) -> None:
        self._say = say
        self._is_watched = is_watched
        self._began = self._told_at = time.monotonic()
        self._count = 0

    def begun(self, count: int) -> None:
        """The next one is compiled now."""
        now, self._count = time.monotonic(), count
        if count == 1:
            self._began = now
            self._say("compiling the matcher for this machine: ten seconds or more, once ...")
        elif self._is_watched and now - self._told_at > TELL_EVERY_S:
            self._told_at = now
            said = f"\r  {count} kernels, {now - self._began:.0f} s"
            print(said, end="", file=sys.stderr, flush=True)

    def over(self) -> None:
        """All are."""
        if self._count:
            if self._is_watched:
                print("\r\x1b[K", end="", file=sys.stderr)
            self._say(f"compiled {self._count} kernels in {time.monotonic() - self._began:.1f} s")


def warm_up(say: Callable[[str], None] = lambda _: None, *, is_watched: bool = False) -> None:
    """Let a broker that nobody knows do a little of everything.

    `say` hears it if something has to be compiled. If somebody watches standard error, there is more to see.
    """
    compiling = Compiling(say, is_watched=is_watched)
    with compiling_told(compiling.begun):
        rehearse()
    compiling.over()
