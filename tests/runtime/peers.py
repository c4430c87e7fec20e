"""A live broker in the test's own event loop, and two clients that mind their own business.

`live` turns a scenario into a test: it starts a broker with security on, connects the two, plays the
scenario, and then has the two exchange events: whatever the scenario did, all of them arrive, on the
connections that they had. No token stands in the refusal log.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

from roost.broker.messages import Delivery
from roost.runtime import server as server_module
from roost.runtime.config import check_config
from roost.runtime.in_process import start_server
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.security import Hardness, User, changed_users, hash_token
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LimitsTable,
    QuotasTable,
    SecurityTable,
    ServerConfig,
    StoreTable,
    TlsTable,
)

QUICK = Hardness(time_cost=1, memory_kib=8)
HOST = "127.0.0.1"
# Connections are looked at more often than usual, so that tests wait less.
SWEEP_S = 0.05
PATIENCE_S = 10.0

GOOD = "good"


def token_of(user: str) -> str:
    return f"roost_secret-of-{user}"


def login_of(user: str) -> tuple[str, str]:
    return user, token_of(user)


def user(name: str, **fields: Any) -> User:
    return User(token_hash=hash_token(token_of(name), QUICK), **fields)


def usual_users() -> dict[str, User]:
    return {
        GOOD: user(GOOD, publish="class = 'good'", subscribe="class = 'good'"),
        "eve": user("eve", publish="class = 'eve'", subscribe="class = 'eve'"),
        "idle": user("idle"),
        "old": user("old", publish="*", subscribe="*", expires=date(2020, 1, 31)),
        "N": user("N", link=True),
    }


class Live:
    """The broker, and what a scenario may want of it."""

    def __init__(self, server: BrokerServer, folder: Path, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self.folder = folder
        self.tls = tls
        self._peers: list[PlainPeer] = []

    async def peer(self, **how: Any) -> PlainPeer:
        """A new connection; it is closed in the end."""
        how.setdefault("tls", self.tls)
        peer = await PlainPeer.connect(HOST, self.server.port, **how)
        self._peers.append(peer)
        return peer

    async def attached(self, name: str, session: str = "", **how: Any) -> PlainPeer:
        """A new connection with a session of this client, logged in as its user."""
        peer = await self.peer()
        await peer.attach(name, session, login=login_of(name.partition("~")[0]), **how)
        return peer

    def refusals(self) -> list[dict[str, str]]:
        """The lines of the refusal log."""
        text = (self.folder / "refusals").read_text("ascii")
        return [json.loads(line) for line in text.splitlines()]

    def change_users(self, changes: Mapping[str, User | None]) -> None:
        """Write the users file anew; None removes a user."""
        with changed_users(self.folder / "users.toml") as users:
            for name, new in changes.items():
                users.pop(name, None)
                if new is not None:
                    users[name] = new

    async def until(self, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for peer in self._peers:
            await peer.close()


class GoodPair:
    """A publisher and a subscriber, whose events must all arrive."""

    def __init__(self, publisher: PlainPeer, subscriber: PlainPeer) -> None:
        self.publisher = publisher
        self.subscriber = subscriber

    @classmethod
    async def begin(cls, at: Live, *, by_certificate: bool) -> GoodPair:
        login = None if by_certificate else login_of(GOOD)
        subscriber = await at.peer()
        await subscriber.attach("good~sub", login=login)
        subscriber.subscribe("good~sub/1", "class = 'good'")
        await subscriber.acknowledged()
        # Not earlier: the first subscription of a process takes its time.
        publisher = await at.peer()
        await publisher.attach("good~pub", login=login)
        publisher.advertise("good~pub/a", "class = 'good'")
        await publisher.acknowledged()
        return cls(publisher, subscriber)

    async def exchange(self, count: int = 5) -> None:
        for number in range(count):
            sequence = self.publisher.publish({"class": "good", "number": number})
            delivery = await self.subscriber.next(Delivery)
            assert delivery.publication.publisher == "good~pub"
            assert delivery.publication.sequence == sequence


Scenario = Callable[[Live], Awaitable[None]]


async def play(
    scenario: Scenario,
    folder: Path,
    *,
    users: Mapping[str, User] | None = None,
    broker: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    quotas: Mapping[str, Any] | None = None,
    store: Mapping[str, Any] | None = None,
    tls: TlsTable | None = None,
    client_tls: ssl.SSLContext | None = None,
) -> None:
    with changed_users(folder / "users.toml") as written:
        written.update(usual_users() | dict(users or {}))
    config = ServerConfig(
        broker=BrokerTable(port=0, **(broker or {})),
        admin=AdminTable(port=-1),
        # Peers here answer only while somebody listens to what they hear.
        limits=LimitsTable(**({"keepalive_s": 60.0} | dict(limits or {}))),
        quotas=QuotasTable(**(quotas or {})),
        store=StoreTable(**(store or {})),
        tls=tls or TlsTable(),
        security=SecurityTable(
            enabled=True, users=str(folder / "users.toml"), refusals=str(folder / "refusals")
        ),
    )
    check_config(config)
    with mock.patch.object(server_module, "SWEEP_S", SWEEP_S):
        server = await start_server(config)
        at = Live(server, folder, client_tls)
        try:
            pair = await GoodPair.begin(at, by_certificate=client_tls is not None)
            await pair.exchange(2)
            await scenario(at)
            await pair.exchange()
        finally:
            await at.close()
            await server.stop(within_s=1.0)
    assert "roost_secret" not in (folder / "refusals").read_text("ascii")


def live(**settings: Any) -> Callable[[Scenario], Callable[[Path], None]]:
    """A scenario as a test."""

    def decorate(scenario: Scenario) -> Callable[[Path], None]:
        def test(tmp_path: Path) -> None:
            asyncio.run(play(scenario, tmp_path, **settings))

        test.__name__ = scenario.__name__
        test.__doc__ = scenario.__doc__
        return test

    return decorate
