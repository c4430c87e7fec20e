"""The brokers of the demo: many in one process, on real sockets.

They share an event loop, so that two cores are enough for all of them. What they say to each other goes over
TCP all the same, and neighbours are never in the same process (`parts_of`): a message takes from broker to
broker what it takes between processes, as in a federation in which each has its own. Each records what it
does, all into the same run.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from roost.bench.demo.child import REPORT_S, Orders, run_child
from roost.broker.module import ModuleState
from roost.overlay.topologies import Topology
from roost.overlay.trees import rooted
from roost.runtime.federation import REDIAL_S
from roost.runtime.in_process import start_server
from roost.runtime.main import COLLECT_AFTER
from roost.runtime.optimisers import decided_dict
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, RelocationTable, ServerConfig
from roost.runtime.warming import warm_up

HOST = "127.0.0.1"
MODULE = "grape"
LINKED_S = 60.0
LOOK_S = 0.01


class Switch(Struct, frozen=True):
    """To the brokers: their optimiser is off, observing or acting from now on."""

    state: str


class Up(Struct, frozen=True):
    """From them: all are there, and linked to their neighbours."""


class Beat(Struct, frozen=True):
    """From them, now and then: how they fare. Counts are since their start."""

    at: float
    between: int  # messages from broker to broker
    routed: Mapping[str, int]  # publications, by broker
    places: Mapping[str, str]  # the broker of each publisher
    decisions: list[dict[str, Any]]  # since the last beat, with the broker that made each


def parts_of(topology: Topology) -> list[list[str]]:
    """The brokers of a tree in two parts, in neither of which there are neighbours."""
    depth = rooted(topology, topology.brokers[0]).depth
    return [[name for name in topology.brokers if depth[name] % 2 == odd] for odd in (0, 1)]


def brokers_main(
    topology: Topology,
    part: Sequence[str],
    ports: Mapping[str, int],
    session: int,
    lake: Path,
    run: str,
    pipe: Connection,
) -> None:
    """Runs in the child, until its pipe is closed."""

    async def work() -> None:
        warm_up()
        servers: dict[str, BrokerServer] = {}
        try:
            for name in part:
                server = await start_server(_config(topology, name, ports, session))
                servers[name] = server
                server.recorder.begin(lake, server.shell, run)
            await _linked(servers)
            gc.collect()
            gc.freeze()
            gc.set_threshold(*COLLECT_AFTER)
            pipe.send(Up())
            await _serve(servers, pipe)
        finally:
            await asyncio.gather(*(server.stop() for server in servers.values()))

    run_child(pipe, work)


def _config(
    topology: Topology, broker: str, ports: Mapping[str, int], session: int
) -> ServerConfig:
    neighbours = {link.b: "" for link in topology.links if link.a == broker}
    neighbours |= {link.a: f"{HOST}:{ports[link.a]}" for link in topology.links if link.b == broker}
    return ServerConfig(
        broker=BrokerTable(
            name=broker,
            host=HOST,
            port=ports[broker],
            redial_min_s=REDIAL_S[0],
            redial_max_s=REDIAL_S[1],
        ),
        links=LinksTable(neighbours=neighbours),
        admin=AdminTable(port=-1),
        relocation=RelocationTable(priority="load", weight=100.0, session=session),
    )


async def _linked(servers: Mapping[str, BrokerServer]) -> None:
    async with asyncio.timeout(LINKED_S):
        while not all(
            link["up"] for server in servers.values() for link in server.status()["links"].values()
        ):
            await asyncio.sleep(LOOK_S)


async def _serve(servers: Mapping[str, BrokerServer], pipe: Connection) -> None:
    orders = Orders(pipe)
    told = dict.fromkeys(servers, 0.0)  # the time of the last decision that was told
    while True:
        order = await orders.next(REPORT_S)
        if order is None:
            pipe.send(_beat(servers, told))
        else:
            assert isinstance(order, Switch)
            for server in servers.values():
                server.optimisers.switch(server.shell, MODULE, ModuleState(order.state))


def _beat(servers: Mapping[str, BrokerServer], told: dict[str, float]) -> Beat:
    between = 0
    places, decisions = {}, []
    for name, server in servers.items():
        machine = server.shell.machine
        for link in machine.links.values():
            between += link.channel.control.sent + link.channel.data.sent
        for session in machine.sessions.values():
            if session.advertisements:
                places[session.client] = name
        for decided in server.optimisers.decisions:
            if decided.time > told[name]:
                told[name] = decided.time
                decisions.append({"broker": name, **decided_dict(decided)})
    routed = {name: server.shell.machine.traffic.routed for name, server in servers.items()}
    decisions.sort(key=lambda decision: float(decision["time"]))
    return Beat(time.time(), between, routed, places, decisions)
