"""The demo's federation from its start to the verdict, in phases that the traces are compared by.

    before    GRAPE is off: publishers are where they are, and their quotes cross the whole tree
    watch     GRAPE observes: it says what it would do, and does nothing
    move      GRAPE acts: publishers go to their audience, while everybody publishes on
    after     they are there; GRAPE goes on

Brokers are two processes and clients one. This one watches them, and tells whoever shows it what it sees.
Who is to read the traces may still be starting: the first phase waits for that, which would be measured as
well.
"""

from __future__ import annotations

import multiprocessing.connection
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from roost.bench.demo.brokers import HOST, Beat, Switch, Up, brokers_main, parts_of
from roost.bench.demo.child import started
from roost.bench.demo.clients import Begin, Finish, Judged, Pulse, Ready, clients_main
from roost.bench.demo.plan import Plan
from roost.bench.loads.harness import Child
from roost.overlay.topologies import Topology
from roost.runtime.federation import free_ports

RUN = "demo"
ANSWER_S = 60.0
LOOK_S = 0.1
END_S = 15.0
# Until what happened first (kernels, caches, connections) is over.
WARM_S = 1.0
# For whoever is to read the traces.
JOIN_S_MAX = 60.0
HISTORY = 120

T = TypeVar("T")


class Pace(Struct, frozen=True):
    """How long it takes."""

    session: int  # publications that GRAPE traces before it decides
    steady_s: float  # before and after
    watch_s: float  # two sessions, of which the first may have begun before
    move_s_max: float
    settle_s: float  # once all have moved

    @property
    def longest_s(self) -> float:
        """What the clients need events for."""
        steady_s = 2 * self.steady_s
        play_s = steady_s + self.watch_s + self.move_s_max + self.settle_s
        return WARM_S + JOIN_S_MAX + play_s + END_S


USUAL = Pace(session=100, steady_s=15.0, watch_s=6.0, move_s_max=20.0, settle_s=2.0)
FAST = Pace(session=40, steady_s=3.0, watch_s=2.5, move_s_max=10.0, settle_s=1.0)


class Phase(Struct):
    """A part of the run; times in seconds since the epoch, as in traces."""

    name: str
    began: float
    ended: float = 0.0


class Move(Struct, frozen=True):
    """A publisher that was moved, or would have been."""

    at: float
    publisher: str
    source: str
    target: str
    reason: str
    acted: bool


class Scene(Struct):
    """What can be seen just now."""

    topology: Topology
    began: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # the broker of each publisher
    moves: list[Move] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    between_per_s: float = 0.0
    routed_per_s: dict[str, float] = field(default_factory=dict)
    published_per_s: float = 0.0
    arrived_per_s: float = 0.0
    delay_ms: float | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    delays: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    @property
    def phase(self) -> str:
        return self.phases[-1].name if self.phases else ""

    def span(self, phase: str) -> Phase:
        return next(each for each in self.phases if each.name == phase)


class Played(Struct, frozen=True):
    """The whole of it."""

    scene: Scene
    judged: Judged
    lake: Path


Watch = Callable[[Scene], None]


class Stage:
    """Brokers and clients, while they run; `end` leaves nothing of them."""

    def __init__(self, topology: Topology, pace: Pace, lake: Path) -> None:
        self._pace = pace
        self._lake = lake
        self._ports = dict(zip(topology.brokers, free_ports(len(topology.brokers)), strict=True))
        self._brokers: list[Child] = []
        self._clients: Child | None = None
        self._scene = Scene(topology)
        self._beats: dict[Child, Beat] = {}
        self._between_per_s: dict[Child, float] = {}
        self._pulsed_at = 0.0
        try:
            for part in parts_of(topology):
                arguments = (topology, part, self._ports, pace.session, lake, RUN)
                self._brokers.append(started(brokers_main, *arguments))
        except BaseException:
            self.end()
            raise

    @property
    def longest_s(self) -> float:
        """For so long there have to be events."""
        return self._pace.longest_s

    def play(self, plan: Plan, watch: Watch, joined: Callable[[], bool]) -> Played:
        """All phases; the first begins when everybody has `joined`."""
        scene, pace = self._scene, self._pace
        for child in self._brokers:
            child.answer(Up, ANSWER_S)
        addresses = {name: f"{HOST}:{port}" for name, port in self._ports.items()}
        clients = self._clients = started(clients_main, plan, addresses)
        self._until(Ready)
        clients.pipe.send(Begin())
        scene.began = self._pulsed_at = time.time()
        self._watch(watch, WARM_S)
        self._watch(watch, JOIN_S_MAX, joined)
        self._phase(watch, "before", "off", pace.steady_s)
        self._phase(watch, "watch", "observing", pace.watch_s)
        self._phase(watch, "move", "acting", pace.move_s_max, self._everyone_decided)
        self._watch(watch, pace.settle_s)
        self._phase(watch, "after", "", pace.steady_s)
        clients.pipe.send(Finish())
        judged = self._until(Judged)
        self.end()
        return Played(scene, judged, self._lake)

    def end(self) -> None:
        """Clients first, so that brokers record all of their traffic; what they recorded is then complete."""
        clients = [] if self._clients is None else [self._clients]
        for child in (*clients, *self._brokers):
            if not child.pipe.closed:
                child.end(within_s=END_S)

    # --- phases -----------------------------------------------------------------------------------------

    def _phase(
        self,
        watch: Watch,
        name: str,
        state: str,
        within_s: float,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        if state:
            for child in self._brokers:
                child.pipe.send(Switch(state))
        phase = Phase(name, time.time())
        self._scene.phases.append(phase)
        self._watch(watch, within_s, is_over)
        phase.ended = time.time()

    def _everyone_decided(self) -> bool:
        """Whether GRAPE, since it acts, has decided for every publisher."""
        began = self._scene.phases[-1].began
        decided = {
            str(each["subject"])
            for each in self._scene.decisions
            if each["time"] > began and each["kind"] in ("move", "stay")
        }
        return decided >= set(self._scene.places)

    def _watch(
        self, watch: Watch, within_s: float, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        until = time.monotonic() + within_s
        while (left := until - time.monotonic()) > 0 and not is_over():
            self._listen(min(LOOK_S, left))
            watch(self._scene)

    def _until(self, kind: type[T]) -> T:
        """Until the clients say that; RuntimeError if they don't."""
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            for said in self._listen(LOOK_S):
                if isinstance(said, kind):
                    return said
        raise RuntimeError(f"the clients say no {kind.__name__} within {ANSWER_S:.0f} s")

    # --- what they say ----------------------------------------------------------------------------------

    def _listen(self, within_s: float) -> list[object]:
        """What all of them say, if somebody does in time."""
        children = [*self._brokers, *([] if self._clients is None else [self._clients])]
        multiprocessing.connection.wait([child.pipe for child in children], within_s)
        said = []
        for child in children:
            while child.pipe.poll():
                said.append(child.answer(object, 0))
                self._heard(child, said[-1])
        return said

    def _heard(self, child: Child, said: object) -> None:
        scene = self._scene
        if isinstance(said, Beat):
            self._see(child, said)
        elif isinstance(said, Pulse):
            seconds, self._pulsed_at = said.at - self._pulsed_at, said.at
            scene.published_per_s = said.published / seconds
            scene.arrived_per_s = said.arrived / seconds
            scene.delay_ms = said.delay_ms
            if said.delay_ms is not None:
                scene.delays.append(said.delay_ms)

    def _see(self, child: Child, beat: Beat) -> None:
        scene, before = self._scene, self._beats.get(child)
        self._beats[child] = beat
        if before is not None and before.at >= scene.began > 0:
            seconds = beat.at - before.at
            self._between_per_s[child] = (beat.between - before.between) / seconds
            scene.between_per_s = sum(self._between_per_s.values())
            for name, count in beat.routed.items():
                scene.routed_per_s[name] = (count - before.routed[name]) / seconds
            if child is self._brokers[0]:
                scene.rates.append(scene.between_per_s)
        scene.places.update(beat.places)
        scene.decisions += beat.decisions
        scene.moves += moves_of(beat.decisions)


def moves_of(decisions: Sequence[dict[str, Any]]) -> list[Move]:
    """Those of them that move somebody, or would."""
    return [
        Move(
            decision["time"],
            decision["subject"],
            decision["broker"],
            decision["choice"],
            decision["evidence"]["worth"]["reason"],
            decision["acted"],
        )
        for decision in decisions
        if decision["kind"] == "move"
    ]
