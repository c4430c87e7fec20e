"""A pair of nodes without a broker: each writes numbered lines while it leads; what it may say is noted.

Time, delays, crashes, lost disks, processes that are stopped and wake up, and cuts between the two come from
a seed. Checked is what a pair is for: whoever leads knows all that was ever said, and nobody says anything
that the one who speaks in a later epoch does not know.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from roost.overlay import twin_words as tw
from roost.overlay.twin import Twin
from roost.overlay.twin_settings import TwinSettings
from roost.overlay.twin_words import Membership, Position

BEAT_S = 0.2
TAKEOVER_S = 1.0
DIAL_S = 0.1
COMMIT_S = 0.005


class Disk:
    """What outlives a crash."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.lines: dict[int, str] = {}
        self.position = Position()
        self.membership: Membership | None = None


class Node:
    """A process with a twin in it, or none."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.disk = Disk(f"{name}.{next(lab.ids)}")
        self.life = 0
        self.up = False
        self.stopped = False
        self.late: list[Callable[[], None]] = []
        self.serves = False
        self.twin: Twin
        self.run = ""
        self.number = 0
        self.safe_at = 0.0  # the last commit
        self.loaded: Disk | None = None

    def start(self) -> None:
        self.life += 1
        self.up, self.stopped, self.serves, self.loaded = True, False, False, None
        self.late.clear()
        settings = TwinSettings(
            broker="B",
            node=self.disk.node,
            first=self.name == "a",
            alone=self.lab.alone,
            witness=self.lab.witness,
            takeover_s=TAKEOVER_S,
        )
        self.twin = self.lab.twin(settings, self.disk.membership, self.disk.position)
        self.after(0.0, self.tick)

    def has_all(self) -> bool:
        """Whether the other's disk may go."""
        twin, said = self.twin, self.lab.said
        counts = twin.is_member and twin.epoch == self.lab.epoch
        return counts and all(self.disk.lines.get(n) == line for n, line in said.items())

    def crash(self, *, lose: bool) -> None:
        self.up = self.serves = self.stopped = False
        self.life += 1
        if lose:
            self.disk = Disk(f"{self.name}.{next(self.lab.ids)}")
        self.lab.cut_connection()

    def after(self, delay_s: float, do: Callable[..., None], *args: Any) -> None:
        life = self.life

        def then() -> None:
            if self.life != life:
                return
            if self.stopped:
                self.late.append(then)
            else:
                do(*args)

        self.lab.at(self.lab.now + delay_s, then)

    def wake(self) -> None:
        self.stopped = False
        late, self.late = self.late, []
        for then in late:
            then()

    def tick(self) -> None:
        self.handle(tw.Ticked())
        self.after(BEAT_S, self.tick)

    def handle(self, event: Any) -> None:
        for command in self.twin.handle(event, self.lab.now):
            self.execute(command)

    def write(self) -> None:
        """The broker changes something."""
        if self.serves:
            self.number += 1
            line = f"{self.run}:{self.number}"
            batch = {self.number: line}
            self.handle(tw.Wrote(self.number, batch))
            now = self.lab.now
            self.safe_at = max(self.safe_at, now + self.lab.random.uniform(0, 2 * COMMIT_S))
            self.after(self.safe_at - now, self.written, self.number, batch)

    def written(self, number: int, batch: dict[int, str]) -> None:
        if self.serves and batch[number].startswith(self.run):
            self.store(batch, Position(self.run, number))
            self.handle(tw.Safe(number))

    def store(self, batch: dict[int, str], position: Position) -> None:
        self.disk.lines.update(batch)
        self.disk.position = position

    def execute(self, command: Any) -> None:
        lab = self.lab
        match command:
            case tw.Say(word):
                lab.say(self, word)
            case tw.HangUp():
                lab.cut_connection(heard_by=self)
            case tw.Note(membership):
                self.after(COMMIT_S, self.noted, membership)
            case tw.Serve(membership):
                self.after(COMMIT_S, self.begin, membership)
            case tw.Quit():
                self.serves = False
                self.after(0.0, lambda: self.handle(tw.Stopped(self.disk.position)))
            case tw.Release(number):
                lab.released(self, number)
            case tw.SendSnapshot():
                self.after(COMMIT_S, self.snapshot)
            case tw.Clear():
                self.loaded = Disk(f"{self.name}.{next(lab.ids)}")
            case tw.Load(batch):
                assert self.loaded is not None
                self.loaded.lines.update(batch)
            case tw.Adopt(position, membership):
                assert self.loaded is not None
                self.after(COMMIT_S, self.adopted, self.loaded, position, membership)
            case tw.Keep(position, batch):
                self.after(COMMIT_S, self.kept, batch, position)
            case tw.AskWitness(epoch):
                self.after(lab.random.uniform(0, 0.1), self.ask, epoch)

    def noted(self, membership: Membership) -> None:
        self.disk.membership = membership
        self.handle(tw.Noted(membership))

    def begin(self, membership: Membership) -> None:
        lab = self.lab
        lab.began(self, membership.epoch)
        self.serves = True
        self.run = f"{self.name}{next(lab.ids)}"
        self.number = self.disk.position.number
        self.handle(tw.Began(self.run, self.disk.position))

    def snapshot(self) -> None:
        self.handle_after_parts(dict(self.disk.lines), self.disk.position)

    def handle_after_parts(self, lines: dict[int, str], position: Position) -> None:
        self.lab.say(self, tw.Part(lines))
        self.handle(tw.SnapshotRead(position))

    def adopted(self, disk: Disk, position: Position, membership: Membership | None) -> None:
        disk.position, disk.membership, disk.node = position, membership, self.disk.node
        self.disk = disk
        self.handle(tw.Kept(position))

    def kept(self, batch: dict[int, str], position: Position) -> None:
        self.store(batch, position)
        self.handle(tw.Kept(position))

    def ask(self, epoch: int) -> None:
        lab = self.lab
        if lab.witness_is_up:
            granted_epoch = lab.register[0]
            granted = epoch > granted_epoch or (epoch, self.disk.node) == lab.register
            if granted:
                lab.register = (epoch, self.disk.node)
            self.handle(tw.Witnessed(epoch, granted))


class Lab:
    """Two nodes, and what happens to them."""

    def __init__(
        self, seed: int, *, alone: bool = False, witness: str = "", twin: type[Twin] = Twin
    ) -> None:
        self.random = random.Random(seed)
        self.alone, self.witness, self.twin = alone, witness, twin
        self.witness_is_up = True
        self.register = (0, "")
        self.now = 0.0
        self.ids = count(1)
        self._order = count()
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self.cut = False
        self.connection = 0  # its number; 0: none
        self._connections = count(1)
        self._arrives = {"a": 0.0, "b": 0.0}
        self.nodes = {name: Node(self, name) for name in ("a", "b")}
        self.said: dict[int, str] = {}  # by number
        self.epoch = 0  # the last that has begun to speak
        self.begun: list[tuple[str, int]] = []
        self.wrong: list[str] = []
        for node in self.nodes.values():
            node.start()
        self.at(0.0, self.dial)
        self.at(0.0, self.write)

    def at(self, time: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (time, next(self._order), do))

    def run(self, until: float) -> None:
        while self._planned and self._planned[0][0] <= until:
            self.now, _, do = heapq.heappop(self._planned)
            do()
        self.now = until

    def write(self) -> None:
        for node in self.nodes.values():
            if node.up and not node.stopped and self.random.random() < 0.7:
                node.write()
        self.at(self.now + self.random.uniform(0.001, 0.05), self.write)

    # --- between the two ----------------------------------------------------------------------------

    def dial(self) -> None:
        a, b = self.nodes.values()
        if not self.connection and not self.cut and a.up and b.up and not b.stopped:
            self.connection = next(self._connections)
            for node in (b, a):
                node.after(0.0, self.opened, node, self.connection)
        self.at(self.now + DIAL_S, self.dial)

    def opened(self, node: Node, connection: int) -> None:
        if self.connection == connection:
            node.handle(tw.Opened())

    def cut_connection(self, heard_by: Node | None = None) -> None:
        if self.connection:
            self.connection = 0
            for node in self.nodes.values():
                if node.up and node is not heard_by:
                    node.after(self.random.uniform(0.001, 0.01), node.handle, tw.Closed("cut"))

    def say(self, node: Node, word: Any) -> None:
        if self.connection and not self.cut:
            other = self.nodes["b" if node.name == "a" else "a"]
            arrival = max(self._arrives[other.name], self.now + self.random.uniform(0.0005, 0.01))
            self._arrives[other.name] = arrival
            other.after(arrival - self.now, self.arrive, other, self.connection, word)

    def arrive(self, node: Node, connection: int, word: Any) -> None:
        if connection == self.connection and not self.cut:
            node.handle(tw.Heard(word))

    # --- what is checked ----------------------------------------------------------------------------

    def began(self, node: Node, epoch: int) -> None:
        self.begun.append((node.name, epoch))
        if epoch < self.epoch:
            # It was stopped amid that; and can say nothing, unless it need not ask.
            if node.twin.alone:
                self.wrong.append(f"{node.name} begins in epoch {epoch} after {self.epoch}")
            return
        self.epoch = max(self.epoch, epoch)
        for number, line in self.said.items():
            if node.disk.lines.get(number) != line:
                self.wrong.append(f"{node.name} leads epoch {epoch} without {number} {line}")
                return

    def released(self, node: Node, number: int) -> None:
        if not node.serves:
            self.wrong.append(f"{node.name} speaks and does not serve")
        for each in range(1, number + 1):
            line = node.disk.lines[each]
            if self.said.setdefault(each, line) != line:
                self.wrong.append(f"{node.name} says {line} where {self.said[each]} was said")
        if node.twin.epoch < self.epoch:
            # It was stopped, and reads only now what its standby had answered: that one knows it.
            lines = self.nodes["b" if node.name == "a" else "a"].disk.lines
            if any(lines.get(each) != node.disk.lines[each] for each in range(1, number + 1)):
                epochs = f"in epoch {node.twin.epoch} after {self.epoch}"
                self.wrong.append(f"{node.name} says {epochs} what the other does not know")


def play(seed: int, lab: Lab, *, until: float = 60.0, lose: bool = False) -> Lab:
    """Faults for a while, and then none."""
    draws = random.Random(f"faults {seed}")
    time = draws.uniform(1.0, 4.0)
    while time < until:
        lab.run(time)
        a, b = lab.nodes.values()
        node = draws.choice((a, b))
        kind = draws.choice(("crash", "crash", "stop", "stop", "cut", "both", "witness"))
        if kind == "crash" and node.up:
            other = b if node is a else a
            # A disk may be lost while the other has all: that is what the other is for.
            node.crash(lose=lose and other.has_all() and draws.random() < 0.5)
            lab.at(time + draws.uniform(0.05, 6.0), node.start)
        elif kind == "both" and a.up and b.up:
            for each in (a, b):
                each.crash(lose=False)
                lab.at(time + draws.uniform(0.05, 6.0), each.start)
        elif kind == "stop" and node.up and not node.stopped:
            node.stopped = True
            life = node.life

            def wake(node: Node = node, life: int = life) -> None:
                if node.life == life:
                    node.wake()

            lab.at(time + draws.uniform(0.1, 6.0), wake)
        elif kind == "cut" and not lab.cut:
            lab.cut = True
            lab.cut_connection()

            def heal() -> None:
                lab.cut = False

            lab.at(time + draws.uniform(0.1, 5.0), heal)
        elif kind == "witness":
            lab.witness_is_up = not lab.witness_is_up
        time += draws.uniform(0.05, 5.0)
    lab.witness_is_up = True
    lab.run(until + 30.0)
    return lab
