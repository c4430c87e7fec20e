"""A chaos run: a tree of durable brokers under load, one fault after the other, and the verdict.

Clients come, go and are killed all the while, whatever is the matter with the brokers. After each fault the
load has to flow again: every subscriber that stands gets something of every such publisher that was
published after the fault was over. After the last one the publishers go on until enough events were
acknowledged, and end; then all that the oracle expects must come.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from roost.bench.chaos.brokers import Tree, door_name, tree
from roost.bench.chaos.crowd import Crowd
from roost.bench.chaos.faults import suffer
from roost.bench.chaos.oracle import Counts, Oracle, paths_of
from roost.bench.chaos.plan import Fault, Round, acts_of, rounds_of
from roost.errors import UserError
from roost.runtime.keepalive import DEAD_AFTER

# What a dozen processes on two cores can carry, with some to spare to catch up after a fault.
EVENTS_PER_S = 2_000.0
# Events have to flow again so long after a fault is over: what has waited comes first.
RECOVERY_S = 180.0
# Everything has come, or nothing has for so long: in the end.
QUIET_S = 30.0
LOOK_S = 0.05
# What may come a second time, in the end, does so within this time.
SECOND_TIME_S = 1.0

Say = Callable[[str, int, int], None]  # what is happening, rounds done, events acknowledged


class Recovered(Struct, frozen=True):
    """A round, how long it took, and how long after the fault was over events arrived again everywhere."""

    round: Round
    lasted_s: float
    recovery_s: float


class Verdict(Struct, frozen=True):
    """What came of it."""

    rounds: list[Recovered]
    not_run: int  # rounds that could not be had here
    client_kills: int
    publishers: int
    subscribers: int
    published: int
    acknowledged: int
    counts: Counts
    given_up: int  # how often a broker gave a neighbour up, and so promised nothing
    failures: list[str]  # the last that clients complained of
    seconds: float
    stuck: str  # what did not recover; "" if everything did

    @property
    def clean(self) -> bool:
        return self.counts.clean and not self.stuck


class StuckError(Exception):
    """Events do not flow."""


async def run(
    seed: int,
    counts: Mapping[Fault, int],
    *,
    events: int,
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
    keepalive_s: float = 3.0,
    duration_s: float | None = None,
    events_per_s: float = EVENTS_PER_S,
    logs: Path | None = None,
    standbys: bool = False,
    say: Say = lambda *_: None,
) -> Verdict:
    """Play all of it; at least so many events are acknowledged, unless that takes longer than said."""
    with tempfile.TemporaryDirectory(prefix="roost-chaos-") as folder:
        there = tree(
            Path(folder), brokers, links, keepalive_s, logs or Path(folder), standbys=standbys
        )
        oracle = Oracle(paths_of(brokers, links))
        crowd = Crowd(there, oracle, events_per_s, keepalive_s)
        rounds = rounds_of(
            seed,
            brokers,
            list(there.links),
            [door_name(broker) for broker in brokers],
            counts,
            dead_after_s=DEAD_AFTER * keepalive_s,
        )
        can_be_had = [
            r for r in rounds if r.fault != "fill" or there.brokers[r.place].can_be_filled
        ]
        play = _Play(there, oracle, crowd, say, duration_s)
        began = time.monotonic()
        stuck = ""
        try:
            try:
                await play.all(can_be_had, seed, events)
            except (StuckError, UserError) as error:
                stuck = str(error)
            return Verdict(
                rounds=play.done,
                not_run=len(rounds) - len(can_be_had),
                client_kills=crowd.kills,
                publishers=len(oracle.publishers),
                subscribers=len(oracle.subscribers),
                published=oracle.published,
                acknowledged=oracle.acknowledged,
                counts=oracle.counts(),
                given_up=there.given_up(),
                failures=list(oracle.failures),
                seconds=time.monotonic() - began,
                stuck=stuck,
            )
        finally:
            await crowd.close()
            await there.end()


class _Play:
    def __init__(
        self, tree: Tree, oracle: Oracle, crowd: Crowd, say: Say, duration_s: float | None
    ) -> None:
        self.done: list[Recovered] = []
        self._tree = tree
        self._oracle = oracle
        self._crowd = crowd
        self._tell = say
        self._until_s = None if duration_s is None else time.monotonic() + duration_s

    async def all(self, rounds: Sequence[Round], seed: int, events: int) -> None:
        self._say("brokers start")
        await self._tree.start()
        await self._crowd.start()
        await self._until(lambda: self._crowd.are_ready, "the subscribers are ready")
        await self._flow(time.monotonic(), "at first")
        acts, enough = acts_of(seed, list(self._tree.brokers)), asyncio.Event()
        coming_and_going = asyncio.create_task(self._crowd.come_and_go(acts, enough))
        try:
            for each in rounds:
                if self._is_time_up:
                    break
                await self._round(each)
            while self._oracle.acknowledged < events and not self._is_time_up:
                self._say("until there are enough")
                await self._flow(time.monotonic(), "without a fault")
        finally:
            enough.set()
            await coming_and_going
        await self._crowd.all_there()
        self._say("all must be acknowledged")
        self._crowd.end_publishers()
        await self._until(
            lambda: not self._crowd.publishers_left,
            lambda: f"{', '.join(self._crowd.publishers_left)} have everything acknowledged",
        )
        self._say("all must arrive")
        await self._arrival()

    @property
    def _is_time_up(self) -> bool:
        return self._until_s is not None and time.monotonic() > self._until_s

    async def _round(self, each: Round) -> None:
        self._say(f"{each.fault} {each.place}")
        began = time.monotonic()
        await suffer(each, self._tree, self._oracle, self._crowd)
        over = time.monotonic()
        await self._flow(over, f"after {each.fault} of {each.place}")
        self.done.append(Recovered(each, over - began, time.monotonic() - over))
        await asyncio.sleep(each.peace_s)

    async def _flow(self, since: float, when: str) -> None:
        """Until something that was published since has reached everybody."""
        crowd = self._crowd
        await self._until(
            lambda: self._oracle.flows(since, [*crowd.load, *crowd.gauges], crowd.standing),
            f"events arrive {when}",
        )

    async def _arrival(self) -> None:
        """Until all has arrived, or nothing does any more."""
        left, at = self._oracle.outstanding(), time.monotonic()
        while left and time.monotonic() - at < QUIET_S:
            await asyncio.sleep(LOOK_S)
            before, left = left, self._oracle.outstanding()
            if left != before:
                at = time.monotonic()
        await asyncio.sleep(SECOND_TIME_S)

    async def _until(self, holds: Callable[[], bool], what: str | Callable[[], str]) -> None:
        deadline = time.monotonic() + RECOVERY_S
        while not holds():
            self._tree.check()
            self._crowd.check()
            if time.monotonic() > deadline:
                text = what if isinstance(what, str) else what()
                raise StuckError(f"waited {RECOVERY_S:.0f} s in vain until {text}")
            await asyncio.sleep(LOOK_S)

    def _say(self, what: str) -> None:
        self._tell(what, len(self.done), self._oracle.acknowledged)
