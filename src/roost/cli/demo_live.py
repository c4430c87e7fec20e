"""The parts of `roost demo` that run for real: broker processes in a federation, and killed ones."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from roost.client import Client

# A tree: B0 over B1 and B2, B1 over B3 and B4, B2 over B5 and B6.
BROKERS = [f"B{number}" for number in range(7)]
LINKS = [(f"B{(number - 1) // 2}", f"B{number}") for number in range(1, 7)]
PUBLISHER_AT, SUBSCRIBER_AT = "B3", "B6"
EVENTS = 2_000
FILTER = "class = 'STOCK' and volume > 300000"
KILLS = 2
CHAOS_EVENTS = 20_000


def show_federation(console: Console) -> None:
    """Seven processes, linked as a tree, and events from one leaf to another."""
    from roost.runtime import federation

    console.print("Live: a federation of seven broker processes\n", style="bold")
    console.print("            B0\n        B1      B2\n      B3  B4  B5  B6\n")
    with tempfile.TemporaryDirectory(prefix="roost-demo-") as folder:
        state = Path(folder) / "state"
        began = time.monotonic()
        running = federation.start(state, BROKERS, LINKS, title="demo")
        console.print(f"    seven brokers are up and linked after {time.monotonic() - began:.1f} s")
        try:
            addresses = {member.name: f"roost://{member.address}" for member in running.members}
            asyncio.run(cross(console, addresses[PUBLISHER_AT], addresses[SUBSCRIBER_AT]))
        finally:
            federation.end(state)
    console.print()


async def cross(console: Console, here: str, there: str) -> None:
    """Publish at one broker, subscribe at another."""
    import roost

    async with roost.connect(there) as reader, roost.connect(here) as writer:
        subscription = reader.subscribe(FILTER)
        await subscription.ready()
        publishing = asyncio.create_task(publish(writer))
        numbers: list[int] = []
        delays_ms: list[float] = []
        async for event in subscription:
            numbers.append(int(event["number"]))
            delays_ms.append((time.time() - event.published_at) * 1e3)
            if len(numbers) == EVENTS // 2:
                break
        await publishing
    how = "each once and in order" if numbers == sorted(set(numbers)) else "NOT in order"
    delays_ms.sort()
    console.print(
        f"    {PUBLISHER_AT} published {EVENTS:,} quotes; {SUBSCRIBER_AT}, four links away, wanted"
        f" {FILTER!r}\n    and got {len(numbers):,}, {how}; half of them within"
        f" {delays_ms[len(delays_ms) // 2]:.1f} ms"
    )


async def publish(writer: Client) -> None:
    for number in range(EVENTS):
        volume = 250_000 if number % 2 else 400_000
        await writer.publish({"class": "STOCK", "number": number, "volume": volume})
        if number % 20 == 0:
            await asyncio.sleep(0.005)  # a market, not a flood
    await writer.flush()


def show_chaos(console: Console) -> None:
    """Brokers are killed while events go through them."""
    from roost.bench.chaos.run import run

    console.print("Live: brokers with a store, killed under load\n", style="bold")
    verdict = asyncio.run(run(7, kills=KILLS, stops=0, fills=0, events=CHAOS_EVENTS))
    for done in verdict.rounds:
        console.print(
            f"    kill -9 of {done.round.broker}, started again"
            f" after {done.round.lasts_s:.1f} s: events arrive everywhere {done.recovery_s:.1f} s later"
        )
    console.print(
        f"    {verdict.acknowledged:,} events acknowledged, to {len(verdict.received)} durable"
        f" subscribers: {verdict.lost} lost, {verdict.doubled} doubled, {verdict.reordered} out of order\n"
    )
