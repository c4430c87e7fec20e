"""Asking the brokers whether what was asked for has come into effect everywhere.

A broker answers when a marker that went behind the request has passed all brokers, which costs a message on
each link. So all who ask in one turn of the event loop share one question. While more waits for a neighbour
than may, a broker refuses to say: that will pass, so it is asked again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from roost.broker.events import SettleRequested

if TYPE_CHECKING:
    from roost.client.line import Line


Missing: TypeAlias = tuple[str, ...] | None

# Until a broker is asked again that could not tell.
AGAIN_S = 0.5


class Settling:
    """The questions of one line. An answer is the brokers that are away; None if there will be no answer."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._count = 0
        self._next: asyncio.Future[Missing] | None = None  # to be asked at the end of this turn
        self._asked: dict[str, asyncio.Future[Missing]] = {}
        self._is_over = False

    def ask(self) -> asyncio.Future[Missing]:
        """Done when all that was asked for so far is in effect. It is shared: don't cancel it."""
        if self._next is None:
            self._next = self._line.loop.create_future()
            if self._is_over:
                self._next.set_result(None)
            else:
                self._line.loop.call_soon(self._ask)
        return self._next

    def _ask(self) -> None:
        if self._next is not None:
            self._count += 1
            self._asked[str(self._count)], self._next = self._next, None
            self._line.handle(SettleRequested(str(self._count)))

    def settled(self, id_: str, missing: str) -> None:
        future = self._asked.pop(id_, None)
        if future is not None:
            future.set_result(tuple(missing.split()))

    def refused(self, id_: str) -> bool:
        """A broker can't tell yet. False: it was no question of ours."""
        if id_ not in self._asked:
            return False
        self._line.loop.call_later(AGAIN_S, self._repeat, id_)
        return True

    def _repeat(self, id_: str) -> None:
        if id_ in self._asked:
            self._line.handle(SettleRequested(id_))

    def ask_again(self) -> None:
        """A session began anew, whose broker has never heard the questions."""
        for id_ in self._asked:
            self._line.handle(SettleRequested(id_))

    def end(self) -> None:
        """Nobody will answer."""
        self._is_over = True
        asked, self._asked = self._asked, {}
        for future in (*asked.values(), *filter(None, [self._next])):
            if not future.done():
                future.set_result(None)
        self._next = None
