"""One fault: it begins, lasts, and is over. `begin` to `over` is all that brokers and wires are done to."""

from __future__ import annotations

import asyncio
import time

from roost.bench.chaos.brokers import ChaosBroker, Tree
from roost.bench.chaos.crowd import Crowd
from roost.bench.chaos.oracle import Oracle
from roost.bench.chaos.plan import Round
from roost.bench.chaos.wires import WAYS, Way, Wire

LOOK_S = 0.05
# A disk is full when nothing was acknowledged for so long; which takes at most so long, if somebody helps
# (`Crowd.hoard`, `Crowd.press`).
SILENCE_S = 1.0
FILL_PATIENCE_S = 60.0


async def suffer(each: Round, tree: Tree, oracle: Oracle, crowd: Crowd) -> None:
    """All of it."""
    if each.fault in ("cut", "hole", "delay"):
        await _wire(each, tree.wires[each.place])
        return
    broker = tree.brokers[each.place]
    if each.fault == "kill":
        broker.kill()
        await asyncio.sleep(each.lasts_s)
        await broker.start()
    elif each.fault == "stop":
        broker.stop()
        await asyncio.sleep(each.lasts_s)
        broker.go_on()
    elif each.fault == "fill":
        hoarder = await crowd.hoard(broker.name)
        await broker.fill()
        presser = crowd.press(broker.name)
        await _silence(broker, oracle)
        crowd.relax(presser)
        await asyncio.sleep(each.lasts_s)
        broker.empty()
        crowd.release(hoarder)
    else:
        await _restore(each, broker, oracle)


async def _wire(each: Round, wire: Wire) -> None:
    if each.fault == "cut":
        wire.cut(reset=each.how == "reset")
        return
    if each.fault == "hole":
        ways: tuple[Way, ...] = (
            WAYS if each.how == "both" else tuple(w for w in WAYS if w == each.how)
        )
        wire.swallow(*ways)
    else:
        wire.delay_s = each.delay_s
    await asyncio.sleep(each.lasts_s)
    wire.heal()


async def _silence(broker: ChaosBroker, oracle: Oracle) -> None:
    """Until it acknowledges nothing any more: a store has some room of its own."""
    began = changed = time.monotonic()
    acked = oracle.acked_at(broker.name)
    while (now := time.monotonic()) - changed < SILENCE_S and now - began < FILL_PATIENCE_S:
        if oracle.acked_at(broker.name) != acked:
            acked, changed = oracle.acked_at(broker.name), now
        await asyncio.sleep(LOOK_S)


async def _restore(each: Round, broker: ChaosBroker, oracle: Oracle) -> None:
    backup = oracle.backup(broker.name)
    await broker.back_up()
    await asyncio.sleep(each.lasts_s)
    broker.kill()
    oracle.about_to_restore(backup, time.monotonic())
    await broker.restore()
    await broker.start()
    oracle.restored(backup, time.monotonic())
