"""A federation inside the test: real brokers, linked, in this event loop; and what an application fears.

Brokers are those of `memory://`: the machine, the shell and the bytes are the same as live, and there is
neither a port nor a process nor a store. Links can be cut, clients lose their connection or are moved, while
the application under test goes on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from roost.broker.config import BrokerConfig
from roost.broker.events import ClientRedirected, LinkAdded
from roost.broker.names import Address
from roost.broker.router import Flooding
from roost.client import Client, connect
from roost.client.arguments import check_kind, check_seconds, check_text, wrong
from roost.client.memory import SCHEME, MemoryBroker
from roost.testing.laboratory import name_of

# Far above what anything takes, so that only what never happens runs into it.
DEADLINE_S = 30.0
POLL_S = 0.002
# Nobody else is bothered by who dials here.
REDIAL_S = (0.02, 0.2)


async def until(is_so: Callable[[], object], *, within_s: float = DEADLINE_S) -> None:
    """Wait until something is so; AssertionError if that does not happen in time.

    >>> asyncio.run(until(lambda: True))
    """
    if not callable(is_so):
        raise wrong("is_so", is_so, "a function")
    check_seconds("within_s", within_s, optional=False)
    try:
        async with asyncio.timeout(within_s):
            while not is_so():
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"it was not so within {within_s:g} s") from None


class MemoryFederation:
    """Brokers that are linked; `memory_federation` makes one."""

    def __init__(self) -> None:
        self._brokers: dict[str, MemoryBroker] = {}
        self._cut: set[frozenset[str]] = set()

    # --- what applications see ----------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Of its brokers."""
        return list(self._brokers)

    def url(self, broker: str) -> str:
        """For an application that connects by itself, in this event loop: `roost.connect(url)`."""
        return f"{SCHEME}{self._broker(broker).name}"

    def connect(self, broker: str, **options: Any) -> Client:
        """A client of a broker; options are those of `roost.connect`."""
        return connect(self.url(broker), **options)

    def clients(self, broker: str) -> list[str]:
        """The names of the clients that are connected to a broker now."""
        sessions = self._broker(broker).shell.machine.sessions.values()
        return [session.client for session in sessions if session.connection is not None]

    # --- what applications fear ---------------------------------------------------------------------

    def disconnect(self, broker: str) -> int:
        """The clients of a broker lose their connections, without a word; how many. They dial again."""
        memory = self._broker(broker)
        sessions = memory.shell.machine.sessions.values()
        connections = [s.connection for s in sessions if s.connection is not None]
        for connection in connections:
            memory.cut(connection)
        return len(connections)

    def cut(self, a: str, b: str) -> None:
        """Nothing passes between two neighbours, and what is on the way is lost, until `heal`."""
        self._check_neighbours(a, b)
        here = self._broker(a)
        link = here.shell.machine.links[b]
        self._cut.add(frozenset((a, b)))
        if link.connection is not None:
            here.cut(link.connection)

    async def heal(self, a: str, b: str) -> None:
        """What was cut passes again, and the two have greeted each other."""
        self._check_neighbours(a, b)
        self._cut.discard(frozenset((a, b)))
        await until(lambda: self._is_linked(a, b))

    async def move(self, client: Client, broker: str) -> None:
        """A client is asked to move to another broker, as optimisers do; returns when it is there."""
        check_kind("client", client, (Client,), "a Client")
        there = self.url(broker)
        homes = [name for name in self._brokers if client.name in self.clients(name)]
        if not homes:
            raise ValueError(f"{client.name} is at none of these brokers")
        if broker in homes:
            raise ValueError(f"{client.name} is at {broker}; expected another broker")
        address = Address(there)
        moves = len(client.pauses_s)
        shell = self._broker(homes[0]).shell
        shell.handle(ClientRedirected(client.name, address, "a test asks for it"))
        await until(lambda: len(client.pauses_s) > moves and client.name in self.clients(broker))

    # --- beginning and end --------------------------------------------------------------------------

    def add(self, name: str, config: dict[str, Any]) -> None:
        """One more broker, unless it is there."""
        check_text("name", name, optional=False)
        check_kind("config", config, (dict,), "settings of a broker, by their names")
        if name in self._brokers:
            return
        if name in MemoryBroker.here():
            raise ValueError(f"there is another broker {SCHEME}{name} in this event loop")
        settings = BrokerConfig(broker=name, incarnation=secrets.token_hex(8), **config)
        broker = MemoryBroker(name, settings, reach=lambda there: self._way(name, there))
        broker.acquire()  # it stays, whoever comes and goes
        self._brokers[name] = broker

    def link(self, a: str, b: str) -> None:
        """They are neighbours from now on; the second dials."""
        brokers = {name: self._broker(name) for name in (a, b)}
        for here, there, dial in ((a, b, False), (b, a, True)):
            brokers[here].shell.handle(LinkAdded(there, dial))

    async def linked(self) -> None:
        """Until all neighbours have greeted each other, but for those that are cut off."""
        pairs = [(a, b) for a, broker in self._brokers.items() for b in broker.shell.machine.links]
        whole = [pair for pair in pairs if frozenset(pair) not in self._cut]
        await until(lambda: all(self._is_linked(a, b) for a, b in whole))

    def stop(self) -> None:
        """All brokers are gone."""
        for broker in self._brokers.values():
            for connection in list(broker.shell.connections):
                broker.cut(connection)
            broker.stop()

    def _broker(self, name: str) -> MemoryBroker:
        if name not in self._brokers:
            raise ValueError(f"there is no broker {name!r}; there are {', '.join(self._brokers)}")
        return self._brokers[name]

    def _check_neighbours(self, a: str, b: str) -> None:
        if self._broker(b).name not in self._broker(a).shell.machine.links:
            raise ValueError(f"{a} and {b} are no neighbours")

    def _way(self, here: str, there: str) -> MemoryBroker | None:
        return None if frozenset((here, there)) in self._cut else self._brokers[there]

    def _is_linked(self, a: str, b: str) -> bool:
        return all(
            self._brokers[here].shell.machine.links[there].greeted
            for here, there in ((a, b), (b, a))
        )


def _check_link(link: object) -> None:
    names = link if isinstance(link, tuple) else (link,)
    if not all(isinstance(name, str) for name in names):
        raise wrong("a link", link, "the names of two brokers, or of one without a link")


@asynccontextmanager
async def memory_federation(
    *links: tuple[str, str] | str, router: type[Flooding] | str | None = None, **config: Any
) -> AsyncIterator[MemoryFederation]:
    """A federation with these links, in this event loop, until the end of `async with`.

    A name by itself is a broker without a link. Links form no circle. `config` are fields of a
    `roost.broker.config.BrokerConfig`, the same for all.

    >>> async def main():
    ...     async with memory_federation(("B0", "B1"), ("B1", "B2")) as brokers:
    ...         async with brokers.connect("B0") as here, brokers.connect("B2") as there:
    ...             subscription = there.subscribe("volume > 300000")
    ...             await subscription.ready()
    ...             await here.publish({"volume": 400_000})
    ...             print((await subscription.get())["volume"])
    >>> asyncio.run(main())
    400000
    """
    for link in links:
        _check_link(link)
    config = {"redial_min_s": REDIAL_S[0], "redial_max_s": REDIAL_S[1]} | config
    if router is not None:
        config["routing"] = name_of(router)
    federation = MemoryFederation()
    try:
        for link in links:
            for name in (link,) if isinstance(link, str) else link:
                federation.add(name, config)
            if not isinstance(link, str):
                federation.link(*link)
        await federation.linked()
        yield federation
    finally:
        federation.stop()
