"""A simulated broker that has a standby: two nodes with a disk each, one of which is the broker.

The same machine decides who that is as in a live pair (`overlay.twin`). What is between the two takes time
and can be cut; a node can be killed, lose its disk, or be stopped: then whatever happens to it happens when
it wakes up, and the others find it silent. Whoever dials the broker reaches whichever node takes itself for
it; if both do, either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roost.broker.commands import Command, Persist, Superseded
from roost.broker.events import Persisted
from roost.broker.machine import Happening
from roost.broker.messages import Frame, Parcel
from roost.overlay import twin_words as tw
from roost.overlay.twin import Twin
from roost.overlay.twin_settings import TwinSettings
from roost.overlay.twin_words import Membership, Position
from roost.simulation.host import Host, Life
from roost.simulation.network import Connection

if TYPE_CHECKING:
    from roost.broker.commands import StoreKey
    from roost.broker.config import BrokerConfig

TAKEOVER_S = 1.0
BEAT_S = 0.2
DIAL_S = 0.1
BETWEEN_S = 0.001
# When those who talk to a node that was stopped take it for dead.
SILENT_S = 1.2
SHIPPED: StoreKey = ("shipped",)
# Lives of the two nodes have different numbers.
SECOND = 1_000_000


class NodeLife(Life):
    """A node while it is the broker. What happens to it while it is stopped happens when it wakes up."""

    __slots__ = ("_base", "_safe_at", "node", "run")

    def __init__(self, host: Node, config: BrokerConfig) -> None:
        super().__init__(host, config)
        self.node = host
        self.run = config.incarnation
        self._safe_at = 0.0
        identity = self.machine.identity
        identity.epoch = host.twin.epoch
        identity.beside = f"@{host.name}"
        position = Position(*host.store.get(SHIPPED, ()))
        self._base = position.number
        host.happens(tw.Began(self.run, position))

    def receive(self, connection: Connection, parcel: Parcel) -> None:
        self.node.awake(super().receive, connection, parcel)

    def notice(self, event: Happening) -> None:
        self.node.awake(super().notice, event)

    def _served(self, arrived: float, begun: float, connection: int, frame: Frame) -> None:
        self.node.awake(super()._served, arrived, begun, connection, frame)

    def _resumed(self) -> None:
        self.node.awake(super()._resumed)

    def _fire(self, name: str, token: int) -> None:
        self.node.awake(super()._fire, name, token)

    def _execute_rare(self, command: Command) -> None:
        if isinstance(command, Persist):
            number = self._base + command.token
            batch = {**command.writes, SHIPPED: (self.run, number)}
            self.node.happens(tw.Wrote(number, batch))
            self.clock.after(self.world.commit_s, self._is_written, number, batch)
        elif isinstance(command, Superseded):
            self.node.happens(tw.Superseded(command.epoch))
        else:
            super()._execute_rare(command)

    def _is_written(self, number: int, batch: dict[StoreKey, Any]) -> None:
        self.node.awake(self._written, number, batch)

    def _written(self, number: int, batch: dict[StoreKey, Any]) -> None:
        if not self.over:
            apply(batch, self.node.store)
            self.node.happens(tw.Safe(number))

    def released(self, number: int) -> None:
        """What has waited for this transaction may be said."""
        if not self.over:
            self.handle(Persisted(number - self._base))


class Node(Host):
    """One of the two, through all its lives; `process` counts those of its process."""

    def __init__(self, pair: PairedHost, place: int) -> None:
        self.__dict__.update(pair.basics)
        self.pair = pair
        self.place = place
        self.store = {}
        self.lives = SECOND * place
        self.disks = 0
        self.process = 0
        self.up = False
        self.stopped = False
        self.membership: Membership | None = None
        self._late: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self._loaded: dict[StoreKey, Any] = {}
        self.twin: Twin

    @property
    def label(self) -> str:
        """Of its disk."""
        return f"{self.name}.{self.place}.{self.disks}"

    # --- its process --------------------------------------------------------------------------------

    def begin(self) -> None:
        """The process starts."""
        self.process += 1
        self.up, self.stopped = True, False
        settings = TwinSettings(
            broker=self.name,
            node=self.label,
            first=self.place == 0,
            alone=self.world.settings.standbys_alone,
            witness="W" if self.world.settings.standbys_alone else "",
            takeover_s=TAKEOVER_S,
        )
        position = Position(*self.store.get(SHIPPED, ()))
        self.twin = self.pair.twin(settings, self.membership, position)
        self.later(0.0, self._tick)

    def kill(self, *, lose: bool) -> None:
        self.process += 1
        self.up = self.stopped = False
        self._late.clear()
        self._end_life("does not answer")
        self.pair.hang_up(None)
        if lose:
            self.disks += 1
            self.store = {}
            self.membership = None

    def stop(self) -> None:
        """It does nothing, until it wakes up; those who wait for it notice after a while."""
        self.stopped = True
        for connection in self.connections():
            notices = {end.name: SILENT_S for end in connection.ends}
            self.world.network.cut(connection, f"nothing was heard of {self.name}", notices)

    def wake(self) -> None:
        self.stopped = False
        late, self._late = self._late, []
        for process, do, args in late:
            if process == self.process:
                self.awake(do, *args)

    def awake(self, do: Callable[..., None], *args: Any) -> None:
        """Now, or when it wakes up."""
        if self.stopped:
            self._late.append((self.process, do, args))
        else:
            do(*args)

    def later(self, delay_s: float, do: Callable[..., None], *args: Any) -> None:
        self.world.clock.after(delay_s, self._then, self.process, do, *args)

    def _then(self, process: int, do: Callable[..., None], *args: Any) -> None:
        if process == self.process:
            self.awake(do, *args)

    def connections(self) -> list[Connection]:
        """Of the broker that it is."""
        life = self.life
        found = self.world.network.of(self.name)
        return [c for c in found if life is not None and life in c.ends]

    def _end_life(self, why: str) -> None:
        for connection in self.connections():
            self.world.network.cut(connection, f"{self.name} {why}")
        if self.life is not None:
            self.life.over = True
            self.life = None

    def _tick(self) -> None:
        self.happens(tw.Ticked())
        self.later(BEAT_S, self._tick)

    # --- its machine --------------------------------------------------------------------------------

    def happens(self, event: tw.Happening) -> None:
        for command in self.twin.handle(event, self.world.clock.now):
            self._execute(command)

    def _execute(self, command: tw.Command) -> None:
        commit_s = self.world.commit_s
        match command:
            case tw.Say(word):
                self.pair.say(self, word)
            case tw.HangUp():
                self.pair.hang_up(self)
            case tw.Note(membership):
                self.later(commit_s, self._noted, membership)
            case tw.Serve(membership):
                self.later(commit_s, self._serve, membership)
            case tw.Quit():
                self._end_life("has fallen silent")
                self.later(0.0, self._has_stopped)
            case tw.Promoted(epoch):
                if self.life is not None:
                    self.life.machine.identity.epoch = epoch
            case tw.Release(number):
                if isinstance(self.life, NodeLife):
                    self.life.released(number)
            case tw.SendSnapshot():
                self.later(commit_s, self._snapshot)
            case tw.Clear():
                self._loaded = {}
            case tw.Load(batch):
                apply(batch, self._loaded)
            case tw.Adopt(position, membership):
                self.later(commit_s, self._adopted, self._loaded, position, membership)
            case tw.Keep(position, batch):
                self.later(commit_s, self._kept, batch, position)
            case tw.AskWitness(epoch):
                self.later(BETWEEN_S, self._ask, epoch)
            case tw.Tell():
                pass

    def _noted(self, membership: Membership) -> None:
        self.membership = membership
        self.happens(tw.Noted(membership))

    def _serve(self, membership: Membership) -> None:
        del membership
        self.pair.relive(self)

    def make_life(self, config: BrokerConfig) -> Life:
        return NodeLife(self, config)

    def _has_stopped(self) -> None:
        self.happens(tw.Stopped(Position(*self.store.get(SHIPPED, ()))))

    def _snapshot(self) -> None:
        if self.life is not None:
            self.pair.say(self, tw.Part(dict(self.store)))
            self.happens(tw.SnapshotRead(Position(*self.store.get(SHIPPED, ()))))

    def _adopted(
        self, store: dict[StoreKey, Any], position: Position, membership: Membership | None
    ) -> None:
        self.store, self.membership = store, membership
        self.happens(tw.Kept(position))

    def _kept(self, batch: dict[StoreKey, Any], position: Position) -> None:
        apply(batch, self.store)
        self.happens(tw.Kept(position))

    def _ask(self, epoch: int) -> None:
        known, holder = self.pair.register
        granted = epoch > known or (epoch, self.label) == (known, holder)
        if granted:
            self.pair.register = (epoch, self.label)
        self.happens(tw.Witnessed(epoch, granted))


class PairedHost(Host):
    """A broker with a standby, where there would be a broker: whichever node is that just now."""

    twin: type[Twin] = Twin  # planted bugs have another

    def __init__(self, *args: Any, **options: Any) -> None:
        self.nodes: tuple[Node, ...] = ()
        self._slowness = 1.0
        super().__init__(*args, **options)
        taken = ("nodes", "_slowness", "basics")
        self.basics = {k: v for k, v in self.__dict__.items() if k not in taken}
        self.basics |= {"slowness": 1.0, "life": None}
        self.nodes = (Node(self, 0), Node(self, 1))
        self.register = (0, "")  # of the witness: the last epoch that was given, and to whom
        self._cut = False
        self._connection = 0
        self._connections = 0
        self._ended = False

    # --- what others see of it ------------------------------------------------------------------------

    @property
    def life(self) -> Life | None:
        """The node that is the broker; of two that take themselves for it, the one whose epoch is later."""
        lives = [(node.twin.epoch, node.place) for node in self.nodes if node.life is not None]
        return self.nodes[max(lives)[1]].life if lives else None

    @life.setter
    def life(self, life: Life | None) -> None:
        """There is none before there are nodes."""

    @property
    def store(self) -> dict[StoreKey, Any]:
        members = [(n.twin.epoch, n.place) for n in self.nodes if n.process and n.twin.is_member]
        return self.nodes[max(members)[1]].store if members else {}

    @store.setter
    def store(self, store: dict[StoreKey, Any]) -> None:
        """Each node has one."""

    @property
    def slowness(self) -> float:
        return self._slowness

    @slowness.setter
    def slowness(self, slowness: float) -> None:
        self._slowness = slowness
        for node in self.nodes:
            node.slowness = slowness

    def answering(self) -> Life | None:
        """Whoever is reached by dialling: one that takes itself for the broker, and is not stopped."""
        lives = [n.life for n in self.nodes if n.life is not None and not n.stopped]
        return self.world.random.choice(lives) if len(lives) > 1 else lives[0] if lives else None

    # --- faults ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """The nodes that do not run start."""
        if not self._connections:
            self.world.clock.after(0.0, self._dial)
        for node in self.nodes:
            if not node.up:
                node.begin()

    def crash(self, keep_store: bool) -> None:
        """The node that is the broker is killed; without its disk if the other has all."""
        self.fail("leader", "kill" if keep_store else "lose")

    def end(self) -> None:
        """The broker leaves, with both."""
        self._ended = True
        for node in self.nodes:
            node.kill(lose=True)

    def fail(self, which: str, how: str) -> Callable[[], None]:
        """Something fails; what is to be done when that is over."""
        leads = [node for node in self.nodes if node.up and node.life is self.life]
        leader = leads[0] if leads and self.life is not None else self.nodes[0]
        other = self.nodes[1 - leader.place]
        if how == "cut":
            self._cut = True
            self.hang_up(None)
            return self._heal
        nodes = (leader, other) if which == "both" else (leader if which == "leader" else other,)
        for node in nodes:
            self._fail_one(node, how)
        return lambda: self._recover(nodes)

    def _fail_one(self, node: Node, how: str) -> None:
        other = self.nodes[1 - node.place]
        if not node.up:
            return
        if how == "stop":
            if not node.stopped:
                node.stop()
            return
        has_all = other.process and other.membership is not None and other.twin.is_member
        later = other.twin.epoch >= node.twin.epoch if has_all else False
        node.kill(lose=how == "lose" and bool(has_all) and later)

    def _recover(self, nodes: tuple[Node, ...]) -> None:
        if not self._ended:
            for node in nodes:
                if not node.up:
                    node.begin()
                elif node.stopped:
                    node.wake()

    def _heal(self) -> None:
        self._cut = False

    def relive(self, node: Node) -> None:
        """A node begins to be the broker."""
        if node.life is None and not self._ended:
            Host.start(node)
            self.world.linked_anew(node)

    # --- between the two ------------------------------------------------------------------------------

    def _dial(self) -> None:
        one, two = self.nodes
        if self._ended:
            return
        ready = one.up and two.up and not two.stopped
        if not self._connection and not self._cut and ready:
            self._connections += 1
            self._connection = self._connections
            for node in (two, one):
                node.later(BETWEEN_S, self._opened, node, self._connection)
        self.world.clock.after(DIAL_S, self._dial)

    def _opened(self, node: Node, connection: int) -> None:
        if connection == self._connection:
            node.happens(tw.Opened())

    def hang_up(self, by: Node | None) -> None:
        """The connection is gone; whoever has closed it knows."""
        if self._connection:
            self._connection = 0
            for node in self.nodes:
                if node is not by and node.up:
                    node.later(BETWEEN_S, node.happens, tw.Closed("gone"))

    def say(self, node: Node, word: tw.Word) -> None:
        if self._connection and not self._cut:
            other = self.nodes[1 - node.place]
            other.later(BETWEEN_S, self._arrive, other, self._connection, word)

    def _arrive(self, node: Node, connection: int, word: tw.Word) -> None:
        if connection == self._connection:
            node.happens(tw.Heard(word))


def apply(batch: dict[StoreKey, Any], store: dict[StoreKey, Any]) -> None:
    """Write a transaction; None deletes."""
    for key, value in batch.items():
        if value is None:
            store.pop(key, None)
        else:
            store[key] = value
