"""A chaos run: a chain of durable brokers under load, one fault after the other, and the verdict.

The publisher is at one end of the chain, subscribers with durable subscriptions at both ends. So each fault
hits the publisher's broker, one on the path, or a subscriber's. The load never pauses. After the last fault
the publisher goes on until enough events were acknowledged, and then all of them must have reached every
subscriber once and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from roost.bench.chaos import publisher, subscriber
from roost.bench.chaos.brokers import ChaosBroker, chain
from roost.bench.chaos.plan import Round, rounds_of

BROKERS = 3
# What six processes on two cores can carry, with some to spare to catch up after a fault.
EVENTS_PER_S = 6_000.0
# Events have to flow again so long after a fault is over, and all to arrive so long after the last.
RECOVERY_S = 60.0
LOOK_S = 0.02

Say = Callable[[str, int, int], None]  # what is happening, rounds done, events acknowledged


class Player(Struct):
    """A publisher or subscriber: its process, and what it has last said."""

    name: str
    process: asyncio.subprocess.Process
    said: dict[str, Any]

    def count(self, key: str) -> int:
        return int(self.said.get(key, 0))


class Recovered(Struct, frozen=True):
    """A round, and how long after the fault was over events arrived again everywhere."""

    round: Round
    recovery_s: float


class Verdict(Struct, frozen=True):
    """What came of it. Counts are over all subscribers."""

    rounds: list[Recovered]
    not_run: int  # rounds that could not be had here
    published: int
    acknowledged: int
    received: dict[str, int]  # by subscriber
    lost: int
    doubled: int
    reordered: int
    seconds: float
    stuck: str  # what did not recover; "" if everything did

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.stuck)


class StuckError(Exception):
    """Events do not flow."""


async def run(
    seed: int,
    *,
    kills: int,
    stops: int,
    fills: int,
    events: int,
    events_per_s: float = EVENTS_PER_S,
    say: Say = lambda *_: None,
) -> Verdict:
    """Play all of it; at least so many events are acknowledged."""
    with tempfile.TemporaryDirectory(prefix="roost-chaos-") as folder:
        brokers = chain(Path(folder), BROKERS)
        players: list[Player] = []
        try:
            say("brokers start", 0, 0)
            for broker in brokers:
                await broker.start()
            ends = (brokers[0], brokers[-1])
            # The names are new: sessions of an earlier run are no concern of this one.
            word = secrets.token_hex(4)
            for number, broker in enumerate(ends):
                name = f"{word}-{number}"
                players.append(await _player(subscriber, broker.url, name))
            await _until(lambda: all(p.said.get("ready") for p in players), "subscribers are ready")
            players.append(await _player(publisher, brokers[0].url, str(events_per_s)))
            return await _play(seed, brokers, players, kills, stops, fills, events, say)
        finally:
            for player in players:
                with contextlib.suppress(ProcessLookupError):
                    player.process.kill()
            for broker in brokers:
                broker.end()


async def _play(
    seed: int,
    brokers: Sequence[ChaosBroker],
    players: list[Player],
    kills: int,
    stops: int,
    fills: int,
    events: int,
    say: Say,
) -> Verdict:
    began = time.monotonic()
    by_name = {broker.name: broker for broker in brokers}
    *subscribers, publisher = players
    rounds = rounds_of(seed, list(by_name), kills=kills, stops=stops, fills=fills)
    can_be_had = [r for r in rounds if r.fault != "fill" or by_name[r.broker].can_be_filled]
    done: list[Recovered] = []
    stuck = ""
    try:
        await _flow(subscribers, "at first")
        for each in can_be_had:
            say(f"{each.fault} {each.broker}", len(done), publisher.count("acknowledged"))
            await _fault(each, by_name[each.broker])
            over = time.monotonic()
            await _flow(subscribers, f"after {each.fault} of {each.broker}")
            done.append(Recovered(each, time.monotonic() - over))
            await asyncio.sleep(each.peace_s)
        while publisher.count("acknowledged") < events:
            say("until there are enough", len(done), publisher.count("acknowledged"))
            await _flow(subscribers, "without a fault")
            await asyncio.sleep(0.2)
        say("all must arrive", len(done), publisher.count("acknowledged"))
        assert publisher.process.stdin is not None
        publisher.process.stdin.close()
        await _until(lambda: publisher.said.get("done"), "everything is acknowledged")
        await _arrival(publisher, subscribers)
    except StuckError as error:
        stuck = str(error)
    acknowledged = publisher.count("acknowledged")
    received = {player.name: player.count("received") for player in subscribers}
    return Verdict(
        rounds=done,
        not_run=len(rounds) - len(can_be_had),
        published=publisher.count("published"),
        acknowledged=acknowledged,
        received=received,
        lost=sum(max(0, acknowledged - count) for count in received.values()),
        doubled=sum(player.count("doubled") for player in subscribers),
        reordered=sum(player.count("reordered") for player in subscribers),
        seconds=time.monotonic() - began,
        stuck=stuck,
    )


async def _fault(each: Round, broker: ChaosBroker) -> None:
    """It begins, lasts, and is over."""
    if each.fault == "kill":
        broker.kill()
        await asyncio.sleep(each.lasts_s)
        await broker.start()
    elif each.fault == "stop":
        broker.stop()
        await asyncio.sleep(each.lasts_s)
        broker.go_on()
    else:
        await broker.fill()
        await asyncio.sleep(each.lasts_s)
        broker.empty()


async def _flow(subscribers: Sequence[Player], when: str) -> None:
    """Until something new has reached everybody."""
    before = [player.count("received") for player in subscribers]
    await _until(
        lambda: all(p.count("received") > n for p, n in zip(subscribers, before, strict=True)),
        f"events arrive {when}",
    )


async def _arrival(publisher: Player, subscribers: Sequence[Player]) -> None:
    """Until all has arrived, or nothing does any more."""
    total = publisher.count("acknowledged")
    while any(player.count("received") < total for player in subscribers):
        before = [player.count("received") for player in subscribers]
        with contextlib.suppress(StuckError):
            await _flow([p for p in subscribers if p.count("received") < total], "at the end")
        if [player.count("received") for player in subscribers] == before:
            return
    await asyncio.sleep(1.0)  # for what may come a second time


async def _until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + RECOVERY_S
    while not holds():
        if time.monotonic() > deadline:
            raise StuckError(f"waited {RECOVERY_S:.0f} s in vain until {what}")
        await asyncio.sleep(LOOK_S)


async def _player(role: ModuleType, *arguments: str) -> Player:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        role.__name__,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    name = " ".join((role.__name__.rpartition(".")[2], *arguments[1:]))
    player = Player(name, process, {})
    _listeners.add(task := asyncio.create_task(_listen(player)))
    task.add_done_callback(_listeners.discard)
    return player


_listeners: set[asyncio.Task[None]] = set()


async def _listen(player: Player) -> None:
    assert player.process.stdout is not None
    async for line in player.process.stdout:
        with contextlib.suppress(json.JSONDecodeError):
            player.said = json.loads(line)
