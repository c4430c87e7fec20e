"""Every broker of a tree and of a cluster serves WS-Eventing (003, IV), and so does one that fails over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roost.client import connect
from roost.gateway.ws_eventing.server import Gateway
from roost.gateway.ws_eventing.versions import EVENTING_2004, EVENTING_2011, SOAP_11, SOAP_12
from roost.overlay.hierarchies import parse_hierarchy
from roost.overlay.topologies import parse_topology
from roost.runtime.child_pair import ChildPair
from roost.runtime.federation import free_ports
from roost.runtime.in_process import running
from roost.runtime.server import BrokerServer
from roost.runtime.tables import LinksTable, ServerConfig
from tests.client.support import config, in_loop, until
from tests.gateway.kit import HOST, QUICK, Sink, gateway_to, post, publish, sinks, subscribed

EVENTS = 5


def settings_of(form: str) -> Sequence[ServerConfig]:
    """Those of the brokers of a tree, or of a hierarchy."""
    peers: dict[str, list[str]] = {}
    if form.startswith("cluster:"):
        hierarchy = parse_hierarchy(form)
        brokers, links = hierarchy.brokers, [(link.a, link.b) for link in hierarchy.links]
        for link in hierarchy.peers:
            peers.setdefault(link.a, []).append(link.b)
            peers.setdefault(link.b, []).append(link.a)
        links += [(link.a, link.b) for link in hierarchy.peers]
        routing = "cluster"
    else:
        tree = parse_topology(form)
        brokers, links = tree.brokers, [(link.a, link.b) for link in tree.links]
        routing = "flooding"
    ports = dict(zip(brokers, free_ports(len(brokers)), strict=True))
    found = []
    for name in brokers:
        above = {a: f"{HOST}:{ports[a]}" for a, b in links if b == name}
        below = {b: "" for a, b in links if a == name}
        supers = "".join(a for a in above if a not in peers.get(name, ()))
        ranks: dict[str, Any] = {"super": supers, "peers": tuple(peers.get(name, ()))}
        table = LinksTable(neighbours=above | below, **(ranks if routing == "cluster" else {}))
        one = config(name, ports[name], routing=routing)
        found.append(replace(one, links=table))
    return found


@asynccontextmanager
async def hierarchy(form: str) -> AsyncIterator[list[BrokerServer]]:
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(running(settings, within_s=1.0))
            for settings in settings_of(form)
        ]
        await until(
            lambda: all(link["up"] for s in servers for link in s.status()["links"].values()),
            "all are linked",
        )
        yield servers


def notification(number: int, publisher: str) -> str:
    attributes = f'<event:Attribute name="n" type="integer">{number}</event:Attribute>'
    attributes += f'<event:Attribute name="by" type="string">{publisher}</event:Attribute>'
    return f"<event:Event>{attributes}</event:Event>"


def by_publisher(sink: Sink) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for heard in sink.heard:
        parts = {each.attributes["name"]: each.text for each in heard.body.elements}
        found.setdefault(parts["by"], []).append(int(parts["n"]))
    return found


@pytest.mark.parametrize("form", ["tree:4:2", "cluster:2x1x1"])
@in_loop
async def test_every_broker_serves_it(form: str) -> None:
    """A sink and a publisher at each; every other one speaks of 2004, with SOAP 1.1."""
    async with hierarchy(form) as servers, AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(gateway_to(server)) for server in servers]
        heard = await stack.enter_async_context(sinks(len(servers)))
        for place, (gateway, sink) in enumerate(zip(gateways, heard, strict=True)):
            version, soap = ((EVENTING_2011, SOAP_12), (EVENTING_2004, SOAP_11))[place % 2]
            await subscribed(gateway, version, soap, sink.url, filter_="n >= 0")

        async def publish_at(gateway: Gateway, name: str) -> None:
            for number in range(EVENTS):
                assert (await post(gateway, SOAP_12, notification(number, name))).status == 202

        names = [server.name for server in servers]
        await asyncio.gather(*map(publish_at, gateways, names))
        for sink in heard:
            await until(
                lambda sink=sink: len(sink.heard) >= EVENTS * len(names),  # type: ignore[misc]
                "the sink hears",
            )
            assert by_publisher(sink) == {name: list(range(EVENTS)) for name in names}


@pytest.mark.long
@in_loop
async def test_a_gateway_goes_on_when_its_broker_fails_over(tmp_path: Path) -> None:
    """It names both nodes, as any client does. At least once: what was on its way may come again."""
    pair = await asyncio.to_thread(ChildPair, tmp_path)
    gateway = Gateway(pair.url, QUICK)
    await gateway.start()
    try:
        async with sinks() as (sink,), connect(pair.url) as client:
            await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url, filter_="n >= 0")
            await publish(client, *range(20))
            leader, _ = await asyncio.to_thread(pair.joined)
            leader.running.signal(signal.SIGKILL)
            await publish(client, *range(20, 40))
            await until(lambda: 39 in sink.numbers(), "the sink has all")
            assert list(dict.fromkeys(sink.numbers())) == list(range(40))
    finally:
        await gateway.stop()
        pair.stop()
