"""What operators ask of a broker's optimisers: a question waits until it is answered.

With a store that is when whatever the question has changed is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from roost.broker.commands import Answered
from roost.broker.events import Asked
from roost.runtime.shell import Shell

ANSWER_S = 4.0


class Questions:
    """Those that are open."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, asyncio.Future[Answered]] = {}

    async def ask(
        self, shell: Shell, request: str, arguments: Mapping[str, Any], module: str
    ) -> Answered:
        """What the optimisers say; TimeoutError if the store takes too long."""
        self._count += 1
        id_ = str(self._count)
        future: asyncio.Future[Answered] = shell.loop.create_future()
        self._open[id_] = future
        try:
            shell.handle(Asked(id_, request, arguments, module))
            async with asyncio.timeout(ANSWER_S):
                return await future
        finally:
            del self._open[id_]

    def answered(self, command: Answered) -> None:
        future = self._open.get(command.id)
        if future is not None and not future.done():
            future.set_result(command)
