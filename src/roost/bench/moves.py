"""The benchmark of moves: publishers move between live brokers while they publish, and nothing may be lost.

A chain of broker processes on this machine, with a subscriber at each. Publishers publish at a steady rate.
Meanwhile each is told again and again to move to another broker, by the admin address of the one where it is
(`POST /redirect`): over paths of one link, and up to all of the chain.

**The oracle** stands outside: the application numbers its events, and each subscriber keeps a tally of each
publisher. It knows nothing of sessions, of moves, or of the numbers that the protocol itself gives.

**The pause** of a move is how long the client kept events back, as it says itself; **a move** is from when it
was asked for to when the client is at the other broker, and has ended its old session.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import uvloop
from msgspec import Struct

from roost.bench.chaos.interests import Interest
from roost.bench.chaos.tally import Tally
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.sizes import MOVES_BROKERS, MOVES_PUBLISHERS, MOVES_RATE
from roost.bench.timing import Say, percentile, silent
from roost.client import Client, Subscription, connect
from roost.errors import UserError
from roost.runtime import federation
from roost.runtime.admin_client import ask
from roost.runtime.federation import Member

# A publisher rests so long after a move, and before the first.
REST_S = 0.2
# How often to look whether a move is over, and how long it may take: more than a client takes to give up.
LOOK_S = 0.002
PATIENCE_S = 30.0
# In the end all must have arrived when nothing has come for so long.
QUIET_S = 5.0


class Moved(Struct, frozen=True):
    """A move that was asked for."""

    links: int  # on the path
    took_s: float
    pause_s: float | None  # None: it was abandoned


class Publisher:
    """A publisher, what it has published, and where it is."""

    def __init__(self, number: int, client: Client, at: int) -> None:
        assert client._line is not None
        self.number = number
        self.client = client
        self.counts = client._line.machine.move_counts  # which an application does not see
        self.at = at
        self.published = 0

    async def publish(self, rate: float, stop: asyncio.Event) -> None:
        """Until told to stop; what is late is caught up with."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not stop.is_set():
            while self.published < (loop.time() - began) * rate:
                self.published += 1
                await self.client.publish({"publisher": self.number, "number": self.published})
            await asyncio.sleep(1 / rate)
        await self.client.flush()

    async def move(self, brokers: Sequence[Member], to: int) -> Moved:
        """Have it told to move, and wait until it has moved, or stays."""
        here, there, links = brokers[self.at], brokers[to], abs(to - self.at)
        counts = self.counts
        finished, abandoned = counts.finished, counts.abandoned
        began = time.perf_counter()
        wanted = {"client": self.client.name, "broker": there.address}
        await asyncio.to_thread(ask, here.admin_url, "/redirect", wanted)
        while counts.finished == finished:
            took_s = time.perf_counter() - began
            if counts.abandoned > abandoned or took_s > PATIENCE_S:
                return Moved(links, took_s, None)
            await asyncio.sleep(LOOK_S)
        self.at = to
        return Moved(links, time.perf_counter() - began, self.client.pauses_s[-1])


class Subscriber:
    """What has come of each publisher, by the numbers that the application has given."""

    def __init__(self, subscription: Subscription, publishers: int) -> None:
        self._subscription = subscription
        self.tallies = [Tally(Interest()) for _ in range(publishers)]

    async def listen(self) -> None:
        async for event in self._subscription:
            self.tallies[int(event["publisher"])].came(int(event["number"]))


class Played(Struct, frozen=True):
    """What came of it; counts are over all subscribers."""

    moves: list[Moved]
    migrated: int  # advertisements came along the path
    seconds: float
    published: int
    received: int
    lost: int
    doubled: int
    reordered: int


async def play(
    brokers: Sequence[Member], publishers: int, rate: float, moves: int, seed: int, say: Say
) -> Played:
    """All of it, at brokers that run and are linked one to the next."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        subscribers = []
        for broker in brokers:
            client = await stack.enter_async_context(connect(f"roost://{broker.address}"))
            subscription = client.subscribe("number > 0")
            await subscription.ready()
            subscribers.append(Subscriber(subscription, publishers))
        movers = []
        for number in range(publishers):
            at = number % len(brokers)
            client = await stack.enter_async_context(connect(f"roost://{brokers[at].address}"))
            await client.advertise(f"publisher = {number} and number > 0")
            movers.append(Publisher(number, client, at))
        stop = asyncio.Event()
        listening = [asyncio.create_task(subscriber.listen()) for subscriber in subscribers]
        publishing = [asyncio.create_task(mover.publish(rate, stop)) for mover in movers]
        began = loop.time()
        wanted = iter(range(moves))
        found: list[Moved] = []
        try:
            await asyncio.gather(
                *(
                    _moves(m, brokers, wanted, random.Random(f"{seed}/{m.number}"), found, say)
                    for m in movers
                )
            )
            stop.set()
            await asyncio.gather(*publishing)
            seconds = loop.time() - began
            say("all must arrive")
            await _arrival(movers, subscribers)
        finally:
            for task in (*listening, *publishing):
                task.cancel()
            await asyncio.gather(*listening, *publishing, return_exceptions=True)
    tallies = [(movers[n].published, t) for s in subscribers for n, t in enumerate(s.tallies)]
    return Played(
        moves=found,
        migrated=sum(mover.counts.migrated for mover in movers),
        seconds=seconds,
        published=sum(mover.published for mover in movers),
        received=sum(tally.received for _, tally in tallies),
        lost=sum(end - first for n, t in tallies for first, end in t.missing(n + 1)),
        doubled=sum(tally.doubled for _, tally in tallies),
        reordered=sum(tally.reordered for _, tally in tallies),
    )


async def _moves(
    mover: Publisher,
    brokers: Sequence[Member],
    wanted: Iterator[int],
    choose: random.Random,
    found: list[Moved],
    say: Say,
) -> None:
    """One publisher moves, and moves, as long as more moves are wanted of all of them."""
    await asyncio.sleep(REST_S)
    for number in wanted:
        say(f"move {number + 1:,}")
        to = choose.choice([place for place in range(len(brokers)) if place != mover.at])
        found.append(await mover.move(brokers, to))
        await asyncio.sleep(REST_S)


async def _arrival(movers: Sequence[Publisher], subscribers: Sequence[Subscriber]) -> None:
    """Until all has arrived, or nothing does any more."""
    loop = asyncio.get_running_loop()
    all_of_it = len(subscribers) * sum(mover.published for mover in movers)
    received, since = -1, loop.time()
    while received < all_of_it and loop.time() - since < QUIET_S:
        now = sum(tally.received for s in subscribers for tally in s.tallies)
        if now > received:
            received, since = now, loop.time()
        await asyncio.sleep(LOOK_S)
    await asyncio.sleep(REST_S)  # for what may come a second time


def run(
    moves: int,
    seed: int,
    say: Say = silent,
    *,
    brokers: int = MOVES_BROKERS,
    publishers: int = MOVES_PUBLISHERS,
    rate: float = MOVES_RATE,
) -> Result:
    """Measure so many moves over a chain of so many brokers."""
    if brokers < 2:
        raise UserError(f"{brokers} broker; expected 2 or more, or there is nowhere to move to")
    names = [f"B{number}" for number in range(1, brokers + 1)]
    with tempfile.TemporaryDirectory(prefix="roost-moves-") as folder:
        state = Path(folder) / "state"
        say(f"{brokers} brokers start")
        running = federation.start(state, names, list(pairwise(names)), title="bench moves")
        try:
            played = uvloop.run(play(running.members, publishers, rate, moves, seed, say))
        finally:
            federation.end(state)
    return {
        "bench": "moves",
        "config": {
            "brokers": brokers,
            "publishers": publishers,
            "subscribers": brokers,
            "rate_per_s": rate,
            "moves": moves,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        **_figures(played),  # type: ignore[typeddict-item]
    }


def _figures(played: Played) -> dict[str, dict[str, float]]:
    finished = [move for move in played.moves if move.pause_s is not None]
    results: dict[str, float] = {
        "moves_finished": len(finished),
        "moves_migrated": played.migrated,
        "moves_abandoned": len(played.moves) - len(finished),
        "published": played.published,
        "events_per_s": played.published / played.seconds,
        "deliveries_per_s": played.received / played.seconds,
        "lost": played.lost,
        "doubled": played.doubled,
        "reordered": played.reordered,
        **_times(finished, ""),
    }
    lengths = sorted({move.links for move in finished})
    for links in lengths:
        some = [move for move in finished if move.links == links]
        results[f"moves_over_{links}"] = len(some)
        results |= _times(some, f"_over_{links}")
    ratios = {}
    if len(lengths) > 1:
        first, last = lengths[0], lengths[-1]
        medians = (results[f"pause_p50_ms_over_{links}"] for links in (last, first))
        ratios[f"pause_over_{last}_links_to_{first}"] = next(medians) / next(medians)
    return {"results": results, "ratios": ratios}


def _times(moves: Sequence[Moved], suffix: str) -> dict[str, float]:
    if not moves:
        return {}
    pauses = [move.pause_s * 1e3 for move in moves if move.pause_s is not None]
    took = [move.took_s * 1e3 for move in moves]
    return {
        f"pause_p50_ms{suffix}": percentile(pauses, 50),
        f"pause_p99_ms{suffix}": percentile(pauses, 99),
        f"pause_max_ms{suffix}": max(pauses),
        f"move_p50_ms{suffix}": percentile(took, 50),
        f"move_max_ms{suffix}": max(took),
    }


def is_clean(result: Result) -> bool:
    """Whether everything arrived once and in order."""
    return not any(result["results"][what] for what in ("lost", "doubled", "reordered"))


def table(result: Result) -> Table:
    """The figures for people."""
    config, figures = result["config"], result["results"]

    def row(label: str, moves: float, suffix: str) -> list[str]:
        names = ("pause_p50_ms", "pause_p99_ms", "pause_max_ms", "move_p50_ms", "move_max_ms")
        times = (figures.get(f"{name}{suffix}") for name in names)
        return [label, f"{moves:,.0f}", *("" if x is None else f"{x:,.1f}" for x in times)]

    rows = [
        row(
            f"{links} link{'s' if links > 1 else ''}",
            figures[f"moves_over_{links}"],
            f"_over_{links}",
        )
        for links in range(1, config["brokers"])
        if f"moves_over_{links}" in figures
    ]
    rows.append(row("all", figures["moves_finished"], ""))
    wrong = ", ".join(f"{figures[what]:,.0f} {what}" for what in ("lost", "doubled", "reordered"))
    return Table(
        key=f"moves/{config['brokers']}/{config['publishers']}",
        title="Moves: publishers move between live brokers while they publish",
        columns=["path", "moves", "pause p50 ms", "p99", "max", "whole move p50 ms", "max"],
        rows=rows,
        notes=[
            f"A chain of {config['brokers']} broker processes with a subscriber at each,"
            f" {config['publishers']} publishers of {config['rate_per_s']:g} events/s each:"
            f" {figures['events_per_s']:,.0f} events/s, {figures['deliveries_per_s']:,.0f} deliveries/s"
            " on average.",
            f"{figures['published']:,.0f} events published, to be delivered"
            f" {config['subscribers']} times each: {wrong}."
            f" {figures['moves_abandoned']:,.0f} moves were abandoned; in"
            f" {figures['moves_migrated']:,.0f} the advertisement migrated along the path.",
        ],
    )
