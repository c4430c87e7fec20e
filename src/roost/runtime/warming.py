"""Has everything that is loaded on first use loaded before the first client comes.

Compiled kernels are read from their cache when they are first called: a fifth of a second in which nobody
would be served. The first time ever they are compiled, which takes ten seconds and is said.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import ConnectionAccepted, LinkAdded, Received, Started
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    Frame,
    Publication,
    Subscribe,
)
from roost.chunks.taking import Chunks
from roost.language import Event, parse_advertisement, parse_subscription
from roost.matching.compiling import compiling_told
from roost.wire import encode
from roost.wire.limits import DEFAULT_LIMITS

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
        _do_a_little()
    compiling.over()


def _do_a_little() -> None:
    broker = Broker(BrokerConfig(broker="nobody", incarnation="none"))
    chunks = Chunks(broker, DEFAULT_LIMITS)
    broker.handle(Started(), 0.0)
    broker.handle(LinkAdded("nowhere", dial=False), 0.0)
    broker.handle(ConnectionAccepted(1), 0.0)
    parcels = (
        Attach(
            PROTOCOL_VERSION, "client", "session", resume=False, control_received=0, data_received=0
        ),
        Frame(CONTROL, 1, Advertise("a", parse_advertisement("class = 'A' and x > 0"), "")),
        Frame(CONTROL, 2, Subscribe("s", parse_subscription("class = 'A' and x > 1"), "")),
        Frame(CONTROL, 3, Subscribe("t", parse_subscription("x > 5 or y prefix 'b'"), "")),
        Frame(DATA, 1, Publication("client", 1, Event({"class": "A", "x": 9}))),
    )
    broker.handle(Received(1, parcels), 0.0)
    again = Frame(DATA, 2, Publication("client", 2, Event({"class": "A", "x": 9})))
    chunks.take(1, encode(again), 0, 0.0)
