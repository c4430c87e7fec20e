"""Plays a workload file on live brokers: real sockets, and the client library, in place of the simulator.

Statements are played in their order, each when the one before has come into effect everywhere: a live
federation has no virtual clock that could be told to wait. So a workload whose statements are far enough
apart means the same to both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import roost
from roost.client import Advertised, Client, Subscription
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.simulation import statements as st
from roost.simulation.workload_file import Workload
from tests.client.support import config, until

# (subscriber, its name for the subscription) -> (publisher, event) in the order of arrival.
Deliveries = dict[tuple[str, str], list[tuple[str, str]]]

# Nothing has come for so long: then nothing will.
QUIET_S = 0.3


class LiveWorld:
    """The brokers and clients of a workload."""

    def __init__(self, workload: Workload, stack: AsyncExitStack) -> None:
        self.deliveries: Deliveries = {}
        self._workload = workload
        self._stack = stack
        self._servers: dict[str, BrokerServer] = {}
        self._clients: dict[str, Client] = {}
        self._publishers: dict[str, str] = {}  # the library's name of a publisher -> the workload's
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._advertised: dict[tuple[str, str], Advertised] = {}
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def play(self) -> Deliveries:
        await self._start_brokers()
        for statement in self._workload.statements:
            play = PLAYERS.get(type(statement))
            if play is not None:
                await play(self, statement)
        await self._rest()
        for reader in self._readers.values():
            reader.cancel()
        await asyncio.gather(*self._readers.values(), return_exceptions=True)
        return self.deliveries

    async def _start_brokers(self) -> None:
        """All at once: who is linked to whom is a setting of a live broker."""
        names = [s.broker for s in self._workload.statements if isinstance(s, st.AddBroker)]
        links = [(s.a, s.b) for s in self._workload.statements if isinstance(s, st.AddLink)]
        for name in names:
            neighbours = {}
            for a, b in links:
                if name in (a, b):
                    other = b if name == a else a
                    server = self._servers.get(other)
                    # The later of the two dials.
                    neighbours[other] = f"127.0.0.1:{server.port}" if server is not None else ""
            settings = self._workload.settings
            server = await start_server(
                config(
                    name,
                    neighbours=neighbours,
                    routing=settings.routing,
                    covering=settings.covering,
                )
            )
            self._stack.push_async_callback(server.stop)
            self._servers[name] = server
        machines = [server.shell.machine for server in self._servers.values()]
        await until(lambda: all(link.greeted for m in machines for link in m.links.values()))

    async def _connect(self, name: str, broker: str) -> Client:
        url = f"roost://127.0.0.1:{self._servers[broker].port}"
        client = await self._stack.enter_async_context(roost.connect(url, name=name))
        self._clients[name] = client
        self._publishers[client.name] = name
        return client

    async def _add_publisher(self, s: st.AddPublisher) -> None:
        await self._connect(s.publisher, s.broker)
        assert s.advertisement is not None
        await self._advertise(
            st.Advertise(at=s.at, publisher=s.publisher, name="main", advertisement=s.advertisement)
        )

    async def _advertise(self, s: st.Advertise) -> None:
        client = self._clients[s.publisher]
        self._advertised[s.publisher, s.name] = await client.advertise(s.advertisement)

    async def _unadvertise(self, s: st.Unadvertise) -> None:
        await self._advertised.pop((s.publisher, s.name)).withdraw()
        await self._clients[s.publisher].flush()

    async def _publish(self, s: st.Publish) -> None:
        client = self._clients[s.publisher]
        await client.publish(s.event.attributes)
        await client.flush()

    async def _add_subscriber(self, s: st.AddSubscriber) -> None:
        await self._connect(s.subscriber, s.broker)
        await self._subscribe(
            st.Subscribe(at=s.at, subscriber=s.subscriber, name="main", subscription=s.subscription)
        )

    async def _subscribe(self, s: st.Subscribe) -> None:
        key = (s.subscriber, s.name)
        subscription = self._clients[s.subscriber].subscribe(s.subscription)
        await subscription.ready()
        self._subscriptions[key] = subscription
        self.deliveries.setdefault(key, [])
        self._readers[key] = asyncio.create_task(self._read(key, subscription))

    async def _read(self, key: tuple[str, str], subscription: Subscription) -> None:
        async for event in subscription:
            text = str(roost.language.Event(event.attributes))
            self.deliveries[key].append((self._publishers[event.publisher], text))

    async def _unsubscribe(self, s: st.Unsubscribe) -> None:
        await self._rest()  # what is on the way is for it
        await self._subscriptions.pop((s.subscriber, s.name)).close()
        await self._clients[s.subscriber].flush()

    async def _rest(self) -> None:
        """Until nothing comes any more."""
        before = -1
        while before != (before := sum(map(len, self.deliveries.values()))):
            await asyncio.sleep(QUIET_S)


Player = Callable[[LiveWorld, Any], Coroutine[Any, Any, None]]
PLAYERS: dict[type[st.Statement], Player] = {
    st.AddPublisher: LiveWorld._add_publisher,
    st.Advertise: LiveWorld._advertise,
    st.Unadvertise: LiveWorld._unadvertise,
    st.Publish: LiveWorld._publish,
    st.AddSubscriber: LiveWorld._add_subscriber,
    st.Subscribe: LiveWorld._subscribe,
    st.Unsubscribe: LiveWorld._unsubscribe,
}
