"""The ring in the laboratory and on sockets: a circle, which no overlay may be, dialled by name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest

from roost.broker.client import Client
from roost.broker.config import BrokerConfig, ClientConfig
from roost.broker.core import Broker
from roost.broker.machine import Machine
from roost.broker.machines import kind_of
from roost.errors import UserError
from roost.runtime.config import check_config
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    OptimisersTable,
    ServerConfig,
)
from roost.simulation.faults import with_faults
from roost.simulation.run import check, rest
from roost.simulation.workload_file import WorkloadError, parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter
from tests.machines.ring import Ring

RING = "tests.machines.ring:Ring"
SIZE = 3


def ring(*, settings: str = "", mhz: float = 1000, brokers: str = "") -> str:
    lines = [f"0.0 federation set {line}" for line in settings.split(",") if line]
    for number in range(SIZE):
        order = f"next=R{(number + 1) % SIZE} first={'true' if number == 0 else 'false'}"
        lines.append(f"0.0 broker add R{number} {mhz:g} 16 10 {RING} {order}")
    lines += [f"0.1 link add R{number} R{(number + 1) % SIZE} 1" for number in range(SIZE)]
    return "\n".join([*lines, brokers, "60.0 end"])


def run(
    text: str, *, faults: str = "none", seed: int = 0, trace: TraceWriter | None = None
) -> World:
    workload = with_faults(parse_workload(text, "ring", None), faults, seed, 60.0)
    world = World(workload.settings, workload.statements, trace=trace)
    world.run(60.0)
    return world


def machine(world: World, name: str) -> Ring:
    life = world.hosts[name].life
    assert life is not None
    return cast(Ring, life.machine)


def words(world: World) -> list[int]:
    """Wherever it is now: with somebody, or on the way to somebody."""
    found = []
    for name in ("R0", "R1", "R2"):
        here = machine(world, name)
        if here.word is not None:
            found.append(here.word)
        link = here.links[here.settings.next]
        there = machine(world, link.name).links[name].channel.control.received
        found += [
            int(frame.message.body)  # type: ignore[attr-defined]
            for frame in link.channel.control.outbox
            if frame.sequence > there
        ]
    return found


# --- simulated ------------------------------------------------------------------------------------


def test_it_goes_round_in_virtual_time() -> None:
    world = run(ring())
    heard = machine(world, "R1").heard
    assert len(heard) > 300
    assert heard == list(range(1, heard[-1] + 1, SIZE))
    assert len(words(world)) == 1


def test_what_a_message_costs_comes_with_the_machine() -> None:
    """A note takes 10 s x MHz: with a pause of 0.05 s and a latency of 1 ms, another 0.1 s at 100 MHz."""
    fast, slow = (run(ring(mhz=mhz)) for mhz in (1e6, 100))
    passes = [max(machine(world, f"R{n}").heard[-1] for n in range(SIZE)) for world in (fast, slow)]
    assert passes[0] == pytest.approx(60 / 0.051, rel=0.02)
    assert passes[1] == pytest.approx(60 / 0.151, rel=0.02)
    load = slow.hosts["R1"].last_load
    assert load is not None
    assert load.cpu_utilisation == pytest.approx(0.1 / 0.151 / SIZE, rel=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_faults_lose_and_double_nothing(seed: int) -> None:
    """Crashes, cuts and partitions of a ring with stores: there is one word, and it has come far."""
    world = run(ring(settings="durability on"), faults="edges", seed=seed)
    (word,) = words(world)
    assert word > 100


def test_nobody_takes_it_for_an_overlay() -> None:
    """It never comes to rest, so tables are not judged here, but in tests/example, beside a mesh."""
    brokers = """
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.1 link add B0 B1 1
1.0 publisher add P - 0 B0 a > 0
1.0 subscriber add S B1 a > 0
5.0 publisher publish P [a,1]
"""
    world = run(ring(brokers=brokers))
    assert world.overlay.brokers() == ["B0", "B1"]
    assert world.overlay.parts == 2
    checks = check(world, rested=rest(world))
    assert checks.clean
    assert checks.delivered == 1


def test_traces_see_it(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "ring") as trace:
        run(ring(), trace=trace)
    loads, links = (pq.read_table(tmp_path / name) for name in ("loads", "links"))
    assert set(loads["broker"].to_pylist()) == {"R0", "R1", "R2"}
    assert set(links["neighbour"].to_pylist()) == {"R0", "R1", "R2"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (f"0.0 broker add R9 1 1 1 {RING}", "missing required field `next`"),
        (f"0.0 broker add R9 1 1 1 {RING} next=R0 past=R1", "has no setting 'past'; it has next"),
        (f"0.0 broker add R9 1 1 1 {RING} R0", "'R0'; expected KEY=VALUE"),
        ("0.0 broker add R9 1 1 1 nobody", "no package offers a machine 'nobody'"),
        ("0.0 broker add R9 1 1 1 tests.machines.ring:Note", "is no machine"),
        ("0.0 broker add B 1 1 1\n0.1 link add B R0", "a broker with a machine that is none (R0: "),
    ],
)
def test_what_a_workload_may_not_say(line: str, what: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        parse_workload(f"{ring()}\n{line}", "ring", None)
    assert what in str(refused.value)


# --- live -----------------------------------------------------------------------------------------


def server(name: str, order: str, neighbours: dict[str, str], data: Path) -> BrokerServer:
    table = BrokerTable(
        name=name,
        port=0,
        machine=f"{RING} {order} pause_s=0.001",
        data=str(data / name),
        redial_min_s=0.05,
        redial_max_s=0.05,
    )
    config = ServerConfig(
        broker=table, links=LinksTable(neighbours=neighbours), admin=AdminTable(port=-1)
    )
    check_config(config)
    return BrokerServer(config)


def test_it_goes_round_on_sockets(tmp_path: Path) -> None:
    """R1 dials R0, and R2 both: a circle. One of them stops and comes back, and the word goes on."""

    async def play() -> None:
        r0 = server("R0", "next=R1 first=true", {"R1": "", "R2": ""}, tmp_path)
        await r0.start()
        at_r0 = f"127.0.0.1:{r0.port}"
        r1 = server("R1", "next=R2", {"R0": at_r0, "R2": ""}, tmp_path)
        await r1.start()
        neighbours = {"R0": at_r0, "R1": f"127.0.0.1:{r1.port}"}
        r2 = server("R2", "next=R0", neighbours, tmp_path)
        await r2.start()
        try:
            heard = cast(Ring, r1.shell.machine).heard
            await until(lambda: len(heard) > 20)
            await r2.stop()
            r2 = server("R2", "next=R0", neighbours, tmp_path)
            await r2.start()
            before = len(heard)
            await until(lambda: len(heard) > before + 20)
            assert heard == list(range(1, heard[-1] + 1, SIZE))
            status = r1.status()
            assert status["heard"] >= len(heard) - 1
            assert status["links"]["R2"]["up"]
            assert status["modules"] == {}
        finally:
            for each in (r2, r1, r0):
                await each.stop()

    asyncio.run(play())


async def until(happened: object) -> None:
    async with asyncio.timeout(30):
        while not happened():  # type: ignore[operator]
            await asyncio.sleep(0.01)


def test_modules_are_for_brokers() -> None:
    config = ServerConfig(
        broker=BrokerTable(machine=f"{RING} next=R1"),
        optimisers=OptimisersTable(modules={"tests.example.crowd:Crowd": "limit=1"}),
    )
    with pytest.raises(UserError, match="there are modules, and the machine is"):
        check_config(config)
    with pytest.raises(UserError, match="no package offers a machine 'ring'"):
        check_config(ServerConfig(broker=BrokerTable(machine="ring")))


def test_all_are_machines() -> None:
    config = BrokerConfig(broker="B", incarnation="i")
    machines: list[Machine] = [
        Broker(config),
        kind_of(f"{RING} next=R1").make(config),
        Client(ClientConfig(client="C", session="C")),
    ]
    assert [type(each).__name__ for each in machines] == ["Broker", "Ring", "Client"]
