"""A live broker inside the test, in an event loop of its own, which can be restarted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, ServerConfig

T = TypeVar("T")
PATIENCE_S = 20.0


class LiveBroker:
    """A broker at a port of its own; with a folder it keeps what it has."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.port = 0
        self.server: BrokerServer
        self.start()

    @property
    def url(self) -> str:
        return f"roost://127.0.0.1:{self.port}"

    def start(self) -> None:
        table = BrokerTable(
            name="B0",
            host="127.0.0.1",
            port=self.port,
            data=str(self._data or ""),
            redial_min_s=0.05,
        )
        config = ServerConfig(broker=table, admin=AdminTable(port=-1))
        self.server = self._run(start_server(config))
        self.port = self.server.port

    def stop(self) -> None:
        self._run(self.server.stop(within_s=1.0))

    def waiting(self, durable: str) -> int | None:
        """How many events wait for a durable subscription; None if the broker does not know it."""

        async def count() -> int | None:
            session = self.server.shell.machine.sessions.get(f"durable/{durable}")
            return (
                None if session is None else session.channel.data.sent - session.channel.data.acked
            )

        return self._run(count())

    def wait_until_waiting(self, durable: str, number: int) -> None:
        """Until so many wait. Whoever acknowledges does not see to it that this has arrived."""
        until = time.monotonic() + PATIENCE_S
        while (found := self.waiting(durable)) != number:
            assert time.monotonic() < until, f"{found} events wait for {durable}, not {number}"
            time.sleep(0.01)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def end(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def live_broker(data: Path | None = None) -> Iterator[LiveBroker]:
    broker = LiveBroker(data)
    try:
        yield broker
    finally:
        broker.end()
