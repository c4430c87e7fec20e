"""The machine of the worked example of docs/BROKER.md, simulated and live, from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roost.broker.hops import Session
from roost.broker.messages import Publication
from roost.client import connect
from roost.runtime.child_broker import ChildBroker
from roost.simulation.faults import with_faults
from roost.simulation.run import Checks, verdict
from roost.simulation.workload_file import parse_workload, write_workload
from roost.simulation.world import World
from tests.example.mesh import Mesh

MESH = "tests.example.mesh:Mesh"

# Beside it a federation of brokers, with which it has nothing to do.
WORKLOAD = f"""
0.0 federation set durability on
0.0 federation set commit_ms 1
0.0 broker add M0 1000 16 10 {MESH}
0.0 broker add M1 1000 16 10 {MESH}
0.0 broker add M2 1000 16 10 {MESH}
0.0 link add M0 M1 5
0.0 link add M1 M2 5
0.0 link add M2 M0 5
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 link add B0 B1 5
1.0 publisher add P0 YHOO 120 M0
1.0 publisher add P1 MSFT 120 M1
1.0 publisher add PB IBM 120 B0
1.0 subscriber add S0 M0 class = 'STOCK'
1.0 subscriber add S1 M1 class = 'STOCK'
1.0 subscriber durable S2 M2 class = 'STOCK'
1.0 subscriber add SB B1 class = 'STOCK'
8.0 subscriber unsubscribe S1 main
12.0 subscriber restart S2
40.0 end
"""


def simulated(text: str, *, faults: str = "none", seed: int = 0) -> tuple[World, Checks, list[str]]:
    workload = with_faults(parse_workload(text, "mesh", None), faults, seed, 40.0)
    world = World(workload.settings, workload.statements)
    world.run(40.0)
    return world, *verdict(world, workload)


def test_simulated() -> None:
    world, checks, reasons = simulated(WORKLOAD)
    assert (checks.violations, reasons) == ((), [])
    assert checks.clean
    assert checks.rested
    assert checks.routing_judged
    # 39 s of two events a second: S0 and S2 have all of two publishers, S1 a part, SB its own.
    assert 2 * 2 * 70 + 78 < checks.delivered < 2 * 2 * 80 + 80 + 2 * 16
    connected = world.oracle.connected
    assert connected is not None
    assert connected("P0", "S2")
    assert not connected("P0", "SB")


@pytest.mark.parametrize("seed", range(10))
def test_it_keeps_its_promises_amid_faults(seed: int) -> None:
    """Crashes, cuts, silent links, partitions, full stores, clients that vanish."""
    _, checks, reasons = simulated(WORKLOAD, faults="edges", seed=seed)
    assert (checks.violations, reasons) == ((), [])
    assert checks.clean
    assert checks.rested


class Forgetful(Mesh):
    """Planted: it does not tell the last of its neighbours."""

    def from_session(self, session: Session, publication: Publication) -> None:
        self._pass(session, publication, 0, list(self.links.values())[:-1])


def test_the_oracle_sees_what_it_does_wrong() -> None:
    _, checks, _ = simulated(WORKLOAD.replace(MESH, f"{__name__}:Forgetful"))
    assert checks.lost > 50


def test_what_messages_cost_comes_with_it() -> None:
    """0.05 s x MHz an event, whatever the table; 0.2 a subscription, one after the other."""
    lines = ["0.0 broker add M 1 16 1000 " + MESH, "1.0 publisher add P - 0 M"]
    lines += [f"1.0 subscriber add S{n} M a > 0" for n in range(5)]
    lines += [f"{2 + n / 2} publisher publish P [a,1]" for n in range(12)]
    world, checks, _ = simulated("\n".join([*lines, "9.9 end"]))
    assert checks.delivered == 60
    assert world.delays.mean == pytest.approx(0.05, abs=0.01)


def test_a_workload_with_it_is_written_as_it_is_read() -> None:
    workload = parse_workload(WORKLOAD, "mesh", None)
    again = parse_workload(write_workload(workload.statements), "again", None)
    assert [s.at for s in again.statements] == [s.at for s in workload.statements]
    assert f"0.0 broker add M0 1000 16 10 {MESH}\n" in write_workload(workload.statements)


def test_live(tmp_path: Path) -> None:
    """Three processes with stores, linked in a circle, and a trace of each."""

    def start(name: str, neighbours: dict[str, str]) -> ChildBroker:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return ChildBroker(
            folder,
            {
                "broker": {
                    "name": name,
                    "machine": MESH,
                    "data": str(folder / "data"),
                    "redial_min_s": 0.1,
                    "redial_max_s": 0.1,
                },
                "links": {"neighbours": neighbours},
                "trace": {"folder": str(tmp_path / "traces" / name)},
            },
        )

    async def play() -> None:
        m0 = start("M0", {"M1": "", "M2": ""})
        m1 = start("M1", {"M0": f"127.0.0.1:{m0.port}", "M2": ""})
        there = {"M0": f"127.0.0.1:{m0.port}", "M1": f"127.0.0.1:{m1.port}"}
        m2 = start("M2", there)
        try:
            urls = [f"roost://127.0.0.1:{each.port}" for each in (m0, m1, m2)]
            async with (
                connect(urls[0]) as here,
                connect(urls[1]) as there_,
                connect(urls[2]) as reader,
                asyncio.timeout(60),
            ):
                subscriptions = [client.subscribe("n > 0") for client in (here, reader)]
                for subscription in subscriptions:
                    await subscription.ready()
                for number in range(-1, 6):
                    await there_.publish({"n": number})
                await there_.flush()
                for subscription in subscriptions:
                    got = [int((await subscription.get(30))["n"]) for _ in range(5)]
                    assert got == [1, 2, 3, 4, 5]
                # Two that are linked with each other, too: nothing has come twice.
                for subscription in subscriptions:
                    with pytest.raises(TimeoutError):
                        await subscription.get(0.2)
        finally:
            codes = [each.stop() for each in (m2, m1, m0)]
        assert codes == [0, 0, 0]
        assert [each.complaints() for each in (m0, m1, m2)] == [[], [], []]

    asyncio.run(play())
    hops = {}
    for name in ("M0", "M1", "M2"):
        deliveries = pq.read_table(tmp_path / "traces" / name / "deliveries")
        hops[name] = set(deliveries["hop"].to_pylist())
        assert len(deliveries) == 7
    assert hops == {"M0": {1}, "M1": {0}, "M2": {1}}
