"""A process of a chaos run, in which clients live: publishers and subscribers, each a task.

    python -m roost.bench.chaos.player KEEPALIVE_S

Reads orders on its input, as JSON, a line each, until that ends; then it ends, too. What its clients have to
say they say on its output, a line each: `[WHAT, NAME, ...]`, which the oracle hears. A line is written before
what it is about goes on: what a process has said is known, even if it is killed right behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from roost.bench.chaos.interests import Interest

Say = Callable[..., None]

# For a broker that is down: longer than any fault lasts, and what has to recover behind it.
PATIENCE_S = 300.0


class Order(Struct, frozen=True, omit_defaults=True):
    """What a client is to be; or that it is to end.

    To hoard is to subscribe durably and go away; and to come back as a subscriber when told to end.
    """

    do: Literal["publish", "subscribe", "hoard", "end"]
    name: str
    url: str = ""
    class_: str = ""
    # Of publishers: events a second, how many (0: until told), and how.
    rate: float = 0.0
    events: int = 0
    how: Literal["plain", "advertised", "outbox"] = "plain"
    payload_bytes: int = 100
    # Of subscribers.
    interest: Interest = Interest()
    is_durable: bool = True


def say(*said: Any) -> None:
    line = msgspec.json.encode(said) + b"\n"
    while line:
        line = line[os.write(1, line) :]


class Stage:
    """The clients of this process."""

    def __init__(self, keepalive_s: float) -> None:
        self._keepalive_s = keepalive_s
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def order(self, order: Order) -> None:
        # Here, as they need what is above.
        from roost.bench.chaos.publisher import publish  # noqa: PLC0415
        from roost.bench.chaos.subscriber import subscribe  # noqa: PLC0415

        if order.do == "end":
            self._ends[order.name].set()
            return
        end = self._ends[order.name] = asyncio.Event()
        role = publish if order.do == "publish" else subscribe
        task = asyncio.create_task(self._play(order, role(order, self._keepalive_s, say, end)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, order: Order, role: Awaitable[None]) -> None:
        try:
            await role
        except Exception as error:  # whatever it is, it is no reason to take the others along
            say("failed", order.name, f"{type(error).__name__}: {error}")
        say("ended", order.name)


async def main(keepalive_s: float) -> None:
    stage = Stage(keepalive_s)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async for line in reader:
        stage.order(msgspec.json.decode(line, type=Order))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
    os._exit(0)  # whoever ended our input waits for nobody
