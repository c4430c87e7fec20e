"""The simulator and live brokers agree: one workload file, run in both, gives the same deliveries."""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import AsyncExitStack
from importlib.resources import files

import pytest

from roost.broker.messages import Publication
from roost.simulation.oracle import Oracle, Party
from roost.simulation.run import check, rest, run
from roost.simulation.workload_file import Workload, parse_workload
from roost.simulation.world import World
from tests.agreement.live_world import Deliveries, LiveWorld
from tests.client.support import in_loop

FIGURE_2_2 = (files("roost") / "data" / "figure-2.2.workload").read_text()


def simulated(workload: Workload) -> Deliveries:
    deliveries: Deliveries = {}
    arrived = Oracle.arrived

    def listen(
        self: Oracle, party: Party, publication: Publication, names: Collection[str], now: float
    ) -> None:
        arrived(self, party, publication, names, now)
        for name in names:
            got = deliveries.setdefault((party.name, name), [])
            got.append((publication.publisher, str(publication.event)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Oracle, "arrived", listen)
        world = World(workload.settings, workload.statements)
        run(world, workload.statements[-1].at + 5)
        checks = check(world, rested=rest(world), must_rest=True)
    assert checks.clean, checks.violations
    return deliveries


def by_publisher(deliveries: Deliveries) -> dict[tuple[str, str, str], list[str]]:
    """Order is promised for each publisher, not among them."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for (subscriber, name), got in deliveries.items():
        for publisher, event in got:
            found.setdefault((subscriber, name, publisher), []).append(event)
    return found


async def agree(text: str) -> int:
    workload = parse_workload(text, "workload", None)
    expected = by_publisher(simulated(workload))
    async with AsyncExitStack() as stack:
        got = by_publisher(await LiveWorld(workload, stack).play())
    assert got == expected
    return sum(map(len, got.values()))


@in_loop
async def test_figure_2_2() -> None:
    """001 section 2.1.3."""
    assert await agree(FIGURE_2_2) == 4


def workload_of(seed: int, routing: str, *, covering: bool) -> str:
    """Brokers in a tree, and clients that advertise, subscribe, change their mind, and publish."""
    draw = random.Random(seed)
    lines = [
        f"0.0 federation set routing {routing}",
        f"0.0 federation set covering {covering}".lower(),
    ]
    brokers = draw.randint(3, 6)
    lines += [f"0.0 broker add B{n} 1000 16 10" for n in range(brokers)]
    lines += [f"0.0 link add B{draw.randrange(n)} B{n} 5" for n in range(1, brokers)]
    now = 1.0
    extra: list[tuple[str, str]] = []

    def say(text: str) -> None:
        nonlocal now
        now += 2.0
        lines.append(f"{now:.1f} {text}")

    def some_filter() -> str:
        return draw.choice(["a > 3", "a > 5 and b present", "a < 8", "a = 4", "a > 2 and a < 7"])

    for n in range(2):
        say(f"publisher add P{n} - 0 B{draw.randrange(brokers)} a > {n}")
    for n in range(4):
        say(f"subscriber add S{n} B{draw.randrange(brokers)} {some_filter()}")
    for step in range(40):
        kind = draw.random()
        if kind < 0.7:
            publisher = draw.randrange(2)
            extra_attribute = draw.choice(["", ",[b,1]"])
            say(
                f"publisher publish P{publisher} [a,{draw.randint(publisher + 1, 9)}]{extra_attribute}"
            )
        elif kind < 0.85 or not extra:
            extra.append((f"S{draw.randrange(4)}", f"more{step}"))
            say(f"subscriber subscribe {extra[-1][0]} {extra[-1][1]} {some_filter()}")
        else:
            subscriber, name = extra.pop(draw.randrange(len(extra)))
            say(f"subscriber unsubscribe {subscriber} {name}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(4))
def test_random_workloads(seed: int) -> None:
    routing = ("advertisement", "flooding")[seed % 2]
    text = workload_of(seed, routing, covering=seed < 2)
    print(text)

    @in_loop
    async def play() -> None:
        assert await agree(text) > 20

    play()
