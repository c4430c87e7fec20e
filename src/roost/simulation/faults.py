"""Faults for a workload: what breaks, when, and for how long.

A fault happens to a *thing*: a broker, a link, a client, or the network as a whole (which is
partitioned). It lies in a time in which the thing is there and the workload leaves it alone, meets no
other fault of the same thing, whether planned here or by the workload, and is over before the span of
time ends. So a workload with faults is one that makes sense if it did before.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from roost.errors import UserError
from roost.simulation import statements as st
from roost.simulation.workload_check import check_workload
from roost.simulation.workload_file import Workload

# The faults of a profile, by how likely each is.
PROFILES: dict[str, tuple[str, ...]] = {
    "none": (),
    "network": ("cut", "cut", "partition", "delay", "vanish", "slow"),
    "crash": ("crash",),
    "all": (
        *(
            "crash",
            "crash",
            "amnesia",
            "cut",
            "cut",
            "partition",
            "delay",
            "vanish",
            "slow",
            "full",
        ),
    ),
    "standbys": (
        *("node", "node", "node", "node", "node", "crash"),
        *("cut", "silence", "partition", "delay", "vanish", "slow"),
    ),
    "edges": (
        "crash",
        "crash",
        "crash",
        "cut",
        "silence",
        "silence",
        "partition",
        "vanish",
        "full",
    ),
    "rewirings": (
        "crash",
        "crash",
        "crash",
        "amnesia",
        "cut",
        "partition",
        "partition",
        "delay",
        "vanish",
        "slow",
        "full",
    ),
}
# Of the nodes of a pair: which, and what.
NODE_FAULTS = (
    ("leader", "kill"),
    ("leader", "stop"),
    ("leader", "stop"),
    ("leader", "lose"),
    ("standby", "kill"),
    ("standby", "stop"),
    ("standby", "lose"),
    ("both", "kill"),
    ("both", "stop"),
    ("between", "cut"),
    ("between", "cut"),
)
# How long a fault lasts.
SHORTEST_S = 0.2
LONGEST_S = 10.0
# A client is away for so much longer: some come back only after their broker has forgotten them.
AWAY_LONGER_S = (0.0, 4.0)
# A link that has become silent is noticed by each end when it has heard nothing for so long.
SILENCE_S = (0.2, 2.0)
EXTRA_MS = (20.0, 300.0, 2000.0)
SLOWNESS = (3.0, 30.0)
# For a whole workload: a fault every so often, and some even in a short one.
FAULT_EVERY_S = 20.0
FAULTS_MIN = 3
# How many things are looked at to find one that can have a fault just then.
TRIES = 20

Time = tuple[float, float]  # from, to


class Thing(NamedTuple):
    """What can have a fault; a link by both its ends, in order."""

    kind: str
    name: str
    other: str = ""


NETWORK = Thing("network", "")


def broker(name: str) -> Thing:
    return Thing("broker", name)


def client(name: str) -> Thing:
    return Thing("client", name)


def link(a: str, b: str) -> Thing:
    return Thing("link", min(a, b), max(a, b))


# --- what there is, and when ------------------------------------------------------------------------


class Stage:
    """When things are there and left alone, and when they have a fault."""

    def __init__(self) -> None:
        self.spells: dict[Thing, list[Time]] = {NETWORK: [(-inf, inf)]}
        self.faults: dict[Thing, list[Time]] = {}
        # When all cuts are over, those of single links too: none of them may be on then, as nobody
        # could heal it any more.
        self.heals: list[float] = []
        self.cuts: list[Time] = []

    def is_there(self, thing: Thing, at: float) -> bool:
        return self.free(thing, at, at, of_faults=False)

    def free(self, thing: Thing, at: float, until: float, *, of_faults: bool = True) -> bool:
        """Whether it is there and left alone from before the one time until after the other."""
        spells = self.spells[thing]
        # In order, and apart but for their ends.
        place = bisect_right(spells, at, key=lambda spell: spell[0]) - 1
        if place < 0 or not spells[place][0] < at <= until < spells[place][1]:
            return False
        return not of_faults or not meets(self.faults.get(thing, ()), at, until)

    def take(self, thing: Thing, at: float, until: float) -> None:
        self.faults.setdefault(thing, []).append((at, until))


def meets(times: Iterable[Time], at: float, until: float) -> bool:
    """Whether any of these has a moment in common with this one."""
    return any(at <= end and start <= until for start, end in times)


def stage_of(statements: Iterable[st.Statement]) -> Stage:
    """What a workload, in the order of time, says of the things in it."""
    reading = _Reading()
    for statement in statements:
        reading.pass_by(statement)
    return reading.finished()


class _Reading:
    """A walk over a workload: what is there now since when, and what has a fault."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.there: dict[Thing, float] = {}
        self.wrong: dict[tuple[Thing, str], float] = {}  # (what, its fault) -> since

    def pass_by(self, s: st.Statement) -> None:
        match s:
            case st.AddBroker():
                self.there[broker(s.broker)] = s.at
            case st.RemoveBroker():
                for thing in [t for t in self.there if t.kind == "link" and s.broker in t]:
                    self._leave(thing, s.at)
                self._leave(broker(s.broker), s.at)
            case st.AddLink():
                self.there[link(s.a, s.b)] = s.at
            case st.MoveLink():
                self._leave(link(s.mover, s.middle), s.at)
                self.there[link(s.mover, s.anchor)] = s.at
            case st.RemoveLink():
                self._leave(link(s.a, s.b), s.at)
            case st.AddPublisher():
                self.there[client(s.publisher)] = s.at
            case st.AddSubscriber() | st.AddDurableSubscriber():
                self.there[client(s.subscriber)] = s.at
            case st.RemovePublisher():
                self._leave(client(s.publisher), s.at)
            case st.RemoveSubscriber():
                self._leave(client(s.subscriber), s.at)
            case st.RestartSubscriber():
                self._pause(client(s.subscriber), s.at)
            case st.RedirectClient():
                # Who is gone cannot be told to go elsewhere.
                self._pause(client(s.client), s.at)
            case _:
                self._pass_by_fault(s)

    def _pass_by_fault(self, s: st.Statement) -> None:
        match s:
            case st.CrashBroker():
                self._begin(broker(s.broker), "crash", s.at)
            case st.RestartBroker():
                self._end(broker(s.broker), "crash", s.at)
            case st.FailNode():
                self.stage.take(broker(s.broker), s.at, s.at + s.duration_s)
            case st.SlowBroker():
                self._end(broker(s.broker), "slow", s.at)
                if s.factor != 1:
                    self._begin(broker(s.broker), "slow", s.at)
            case st.FillStore():
                self._begin(broker(s.broker), "full", s.at)
            case st.FreeStore():
                self._end(broker(s.broker), "full", s.at)
            case st.CutLink():
                self._begin(link(s.a, s.b), "cut", s.at)
            case st.HealLink():
                self._end(link(s.a, s.b), "cut", s.at)
            case st.DelayLink():
                self.stage.take(link(s.a, s.b), s.at, s.at + s.duration_s)
            case st.Partition():
                self._end(NETWORK, "cut", s.at)
                self._begin(NETWORK, "cut", s.at)
            case st.HealPartition():
                self.stage.heals.append(s.at)
                for thing, fault in [key for key in self.wrong if key[1] == "cut"]:
                    self._end(thing, fault, s.at)
            case st.VanishClient():
                self._begin(client(s.client), "vanish", s.at)
            case st.ReturnClient():
                self._end(client(s.client), "vanish", s.at)

    def finished(self) -> Stage:
        for thing in list(self.there):
            self._leave(thing, inf)
        for thing, fault in list(self.wrong):
            self._end(thing, fault, inf)
        return self.stage

    def _leave(self, thing: Thing, at: float) -> None:
        since = self.there.pop(thing)
        self.stage.spells.setdefault(thing, []).append((since, at))
        for key in [key for key in self.wrong if key[0] == thing]:
            self._end(*key, at)

    def _pause(self, thing: Thing, at: float) -> None:
        self.stage.spells.setdefault(thing, []).append((self.there[thing], at))
        self.there[thing] = at

    def _begin(self, thing: Thing, fault: str, at: float) -> None:
        self.wrong[thing, fault] = at

    def _end(self, thing: Thing, fault: str, at: float) -> None:
        since = self.wrong.pop((thing, fault), None)
        if since is not None:
            self.stage.take(thing, since, at)
            if thing.kind == "link":
                self.stage.cuts.append((since, at))


# --- planning ---------------------------------------------------------------------------------------


class Faults:
    """Draws faults on a stage, all over before `end`. Without durability no store outlives a crash."""

    def __init__(
        self, draws: random.Random, profile: str, stage: Stage, *, durability: bool, end: float
    ) -> None:
        self.statements: list[st.Statement] = []
        self._random = draws
        self._kinds = PROFILES[profile]
        self._stage = stage
        self._durability = durability
        self._end = end
        self._things: dict[str, list[Thing]] = {}
        for thing in stage.spells:
            self._things.setdefault(thing.kind, []).append(thing)

    def fault(self, at: float, until: float) -> None:
        """One that lasts for about this time, of a thing that can have one then, if any is found."""
        if self._kinds:
            kind = self._random.choice(self._kinds)
            PLANS[kind](self, round(at, 3), round(until, 3))

    def _find(self, kind: str, at: float, until: float) -> Thing | None:
        """A thing that is now taken for this time."""
        things = self._things.get(kind)
        if not things or not 0 <= at < until < self._end:
            return None
        for _ in range(TRIES):
            thing = self._random.choice(things)
            if self._stage.free(thing, at, until):
                self._stage.take(thing, at, until)
                return thing
        return None

    def _crash(self, at: float, until: float) -> None:
        self._crash_one(at, until, keep_store=self._durability)

    def _amnesia(self, at: float, until: float) -> None:
        self._crash_one(at, until, keep_store=False)

    def _crash_one(self, at: float, until: float, *, keep_store: bool) -> None:
        if found := self._find("broker", at, until):
            self._say(st.CrashBroker(at=at, broker=found.name, keep_store=keep_store))
            self._say(st.RestartBroker(at=until, broker=found.name))

    def _node(self, at: float, until: float) -> None:
        """Of a pair. Some more follow, on the same one, as a fault comes rarely alone."""
        if found := self._find("broker", at, until):
            for _ in range(self._random.choice([1, 1, 2, 3])):
                node, fault = self._random.choice(NODE_FAULTS)
                begins = round(self._random.uniform(at, until), 3)
                lasts_s = round(self._random.uniform(0.05, until - begins + 0.05), 3)
                self._say(
                    st.FailNode(
                        at=begins, broker=found.name, node=node, fault=fault, duration_s=lasts_s
                    )
                )

    def _full(self, at: float, until: float) -> None:
        if self._durability and (found := self._find("broker", at, until)):
            self._say(st.FillStore(at=at, broker=found.name))
            self._say(st.FreeStore(at=until, broker=found.name))

    def _slow(self, at: float, until: float) -> None:
        if found := self._find("broker", at, until):
            factor = self._random.choice(SLOWNESS)
            self._say(st.SlowBroker(at=at, broker=found.name, factor=factor))
            self._say(st.SlowBroker(at=until, broker=found.name, factor=1.0))

    def _cut(self, at: float, until: float) -> None:
        if meets(((time, time) for time in self._stage.heals), at, until):
            return
        if found := self._find("link", at, until):
            self._stage.cuts.append((at, until))
            self._say(st.CutLink(at=at, a=found.name, b=found.other))
            self._say(st.HealLink(at=until, a=found.name, b=found.other))

    def _silence(self, at: float, until: float) -> None:
        """As a cut, which the two ends notice at different times."""
        until = round(max(until, at + SILENCE_S[1]), 3)
        if meets(((time, time) for time in self._stage.heals), at, until):
            return
        if found := self._find("link", at, until):
            self._stage.cuts.append((at, until))
            notices = [round(self._random.uniform(*SILENCE_S), 3) for _ in range(2)]
            self._say(st.CutLink(found.name, found.other, *notices, at=at))
            self._say(st.HealLink(at=until, a=found.name, b=found.other))

    def _delay(self, at: float, until: float) -> None:
        if found := self._find("link", at, until):
            extra_ms = self._random.choice(EXTRA_MS)
            lasts_s = round(until - at, 3)
            self._say(
                st.DelayLink(
                    at=at, a=found.name, b=found.other, extra_ms=extra_ms, duration_s=lasts_s
                )
            )

    def _partition(self, at: float, until: float) -> None:
        there = [t.name for t in self._things.get("broker", ()) if self._stage.is_there(t, at)]
        if len(there) < 2 or meets(self._stage.cuts, until, until):
            return
        if self._find("network", at, until):
            self._stage.heals.append(until)
            some = self._random.sample(there, self._random.randint(1, len(there) - 1))
            self._say(st.Partition(at=at, brokers=tuple(some)))
            self._say(st.HealPartition(at=until))

    def _vanish(self, at: float, until: float) -> None:
        back = round(until + self._random.choice(AWAY_LONGER_S), 3)
        if found := self._find("client", at, back):
            self._say(st.VanishClient(at=at, client=found.name))
            self._say(st.ReturnClient(at=back, client=found.name))

    def _say(self, statement: st.Statement) -> None:
        self.statements.append(statement)


PLANS: dict[str, Callable[[Faults, float, float], None]] = {
    "node": Faults._node,
    "crash": Faults._crash,
    "amnesia": Faults._amnesia,
    "slow": Faults._slow,
    "full": Faults._full,
    "cut": Faults._cut,
    "silence": Faults._silence,
    "delay": Faults._delay,
    "partition": Faults._partition,
    "vanish": Faults._vanish,
}


def merged(
    statements: Sequence[st.Statement], faults: Iterable[st.Statement]
) -> list[st.Statement]:
    """Both in the order of time; where times are equal the workload comes first."""
    return sorted([*statements, *faults], key=lambda statement: statement.at)


def with_faults(workload: Workload, profile: str, seed: int, until: float) -> Workload:
    """The workload with faults all over the time until then; the same for the same seed."""
    if profile not in PROFILES:
        raise UserError(f"no profile of faults is called {profile!r}; there are {names()}")
    draws = random.Random(f"{seed}/{profile}")
    faults = Faults(
        draws,
        profile,
        stage_of(workload.statements),
        durability=workload.settings.durability,
        end=until,
    )
    longest_s = min(LONGEST_S, until / 4)
    for _ in range(max(FAULTS_MIN, round(until / FAULT_EVERY_S))):
        at = draws.uniform(0, until - longest_s)
        faults.fault(at, at + draws.uniform(min(SHORTEST_S, longest_s / 2), longest_s))
    statements = merged(workload.statements, faults.statements)
    check_workload(statements, workload.name)
    return msgspec.structs.replace(workload, statements=tuple(statements))


def names() -> str:
    """The profiles, for a message."""
    return ", ".join(PROFILES)
