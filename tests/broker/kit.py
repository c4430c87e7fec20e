"""A federation of real brokers and clients in one place, without time: what the broker's tests play with.

`Federation` joins `Broker` and `Client` machines by connections in memory. A connection is reliable and keeps
the order of each class; control may overtake data, and what is on it when it is cut is lost. Nothing happens
by itself: `settle` moves parcels, the oldest first, until nobody has anything to say, `step` moves one of the
test's choice, and `advance` lets time pass and timers fire. So a test can hold data back while control goes
on (`hold_data`), transactions from becoming safe (`hold_commits`), what is asked of the store from being
answered (`hold_fetches`), cut connections and crash brokers.

`expected_tables` computes what the routing tables should be by the definitions of 001 section 2.1.3, the
obvious way, from nothing but the overlay and what clients ask for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.config import BrokerConfig, ClientConfig, Leases
from roost.broker.core import Broker
from roost.broker.hierarchy import WAYS
from roost.broker.messages import DATA, PROTOCOL_VERSION, Frame, Message, Parcel
from roost.broker.module import Module
from roost.broker.names import Address, Rank
from roost.broker.story import Storybook
from roost.language import (
    Event,
    Interest,
    Value,
    covers,
    overlaps,
    parse_advertisement,
    parse_subscription,
)

# More steps than any test needs: somebody talks without end.
STEPS_MAX = 5_000

Edge = tuple[str, str]


class Said(NamedTuple):
    """A message that somebody sent, in the order of sending."""

    who: str
    to: str
    message: Message


class Handed(NamedTuple):
    """An event that reached an application."""

    id: str  # of the publication
    names: tuple[str, ...]


class Connection:
    """A connection between two machines. Queues by sender and class, each parcel with its ticket."""

    def __init__(self, id_: int, dialler: str, called: str) -> None:
        self.id = id_
        self.ends = (dialler, called)
        self.queues: dict[tuple[str, int], deque[tuple[int, Parcel]]] = {
            (end, class_): deque() for end in self.ends for class_ in (0, 1)
        }
        self.closed_by = ""
        self.reason = ""

    def other(self, end: str) -> str:
        return self.ends[1] if end == self.ends[0] else self.ends[0]

    def waiting(self, sender: str) -> int:
        return sum(len(self.queues[sender, class_]) for class_ in (0, 1))


class Federation:
    """Brokers, joined as the edges say (the first of an edge dials), and their clients."""

    def __init__(
        self,
        *edges: Edge,
        modules: Callable[[str], Sequence[Module]] = lambda _: (),
        start: bool = True,
        peers: Collection[Edge] = (),
        **config: Any,
    ) -> None:
        self.edges = list(edges)
        self.peers = peers  # edges of a mesh, where brokers have ranks
        self.now = 0.0
        self.brokers: dict[str, Broker] = {}
        self.clients: dict[str, Client] = {}
        self.stores: dict[str, dict[do.StoreKey, Any]] = {}
        self.connections: dict[int, Connection] = {}
        self.storybook = Storybook()
        self.said: list[Said] = []
        self.handed: dict[str, list[Handed]] = {}
        self.news: dict[str, list[do.Tell]] = {}
        self.decisions: list[do.Decision] = []
        self.answers: list[tuple[str, do.Answered]] = []  # to operators
        self.reports: list[tuple[str, do.Report]] = []
        self.closed: list[tuple[str, str]] = []  # (who closed a connection, why)
        self.paused: set[tuple[str, int]] = set()
        self.rests: set[tuple[str, int]] = set()  # of these, who need not be read at all
        self.severed: set[frozenset[str]] = set()  # pairs that can't connect
        self.hold_data: set[Edge] = set()  # (sender, receiver) whose data stays on the way
        self.hold_commits: set[str] = set()
        self.commits: dict[str, deque[do.Persist]] = {}
        self.hold_fetches: set[str] = set()
        self.fetches: dict[str, deque[do.Fetch]] = {}
        self.timers: dict[tuple[str, str], tuple[float, float]] = {}  # (due, delay)
        self.version_of: dict[str, int] = {}  # brokers that speak an earlier one
        # Tests close circles for a moment, and count what is said.
        # And most of them move clients without a rest.
        self._config = {"members": False, "leases": Leases(rest_s=0.0), **config}
        self._modules = modules
        self._lives: dict[str, int] = {}
        self._dials: deque[tuple[int, str, str]] = deque()
        self._tickets = 0
        self._ids = 0
        for name in dict.fromkeys(end for edge in edges for end in edge):
            self.stores[name] = {}
            self.start(name)
        if start:
            self.settle()

    # --- brokers ------------------------------------------------------------------------------------

    def start(self, name: str) -> Broker:
        """A life of a broker begins, with what its store holds."""
        self.stores.setdefault(name, {})
        self._lives[name] = self._lives.get(name, 0) + 1
        version = self.version_of.get(name, PROTOCOL_VERSION)
        config = BrokerConfig(
            broker=name,
            incarnation=f"{name}~{self._lives[name]}",
            version=version,
            **self._config,
        )
        broker = self.brokers[name] = Broker(config, self._modules(name))
        self.commits[name] = deque()
        self.fetches[name] = deque()
        self.handle(name, ev.Started(dict(self.stores[name])))
        for dialler, called in self.edges:
            if name in (dialler, called):
                neighbour = called if name == dialler else dialler
                rank = self._rank(name, dialler, called) if config.routing in WAYS else ""
                self.handle(name, ev.LinkAdded(neighbour, dial=name == dialler, rank=rank))
        return broker

    def _rank(self, name: str, dialler: str, called: str) -> Rank:
        """What the other end of a link is: whoever dials is below."""
        if (dialler, called) in self.peers:
            return "peer"
        return "super" if name == dialler else "sub"

    def crash(self, name: str, *, keep_store: bool = False) -> None:
        """The broker is gone, with whatever was not safe."""
        del self.brokers[name]
        self.commits[name].clear()
        self.fetches[name].clear()
        if not keep_store:
            self.stores[name].clear()
        for key in [key for key in self.timers if key[0] == name]:
            del self.timers[key]
        self._dials = deque(dial for dial in self._dials if dial[1] != name)
        for connection in [c for c in self.connections.values() if name in c.ends]:
            self._cut(connection)

    def restart(self, name: str, *, keep_store: bool = False) -> None:
        """Crash, start, and give the others time to dial again."""
        self.crash(name, keep_store=keep_store)
        self.start(name)
        self.advance(1.0)

    def join(self, dialler: str, called: str) -> None:
        """A new link."""
        self.edges.append((dialler, called))
        self.handle(dialler, ev.LinkAdded(called, dial=True))
        self.handle(called, ev.LinkAdded(dialler, dial=False))

    def part(self, a: str, b: str) -> None:
        """A link less."""
        self.edges = [edge for edge in self.edges if set(edge) != {a, b}]
        self.handle(a, ev.LinkRemoved(b, f"{a} and {b} part"))
        self.handle(b, ev.LinkRemoved(a, f"{a} and {b} part"))

    def neighbours(self, name: str) -> list[str]:
        return [b if a == name else a for a, b in self.edges if name in (a, b)]

    # --- clients ------------------------------------------------------------------------------------

    def client(self, name: str, broker: str | None = None, **config: Any) -> Client:
        """A new client; with a broker, it attaches there."""
        config.setdefault("session", f"{name}-session")
        client = self.clients[name] = Client(ClientConfig(client=name, **config))
        self.handed[name] = []
        self.news[name] = []
        if broker is not None:
            self.attach(name, broker)
        return client

    def attach(self, name: str, broker: str) -> None:
        self.handle(name, ev.AttachRequested(Address(broker)))

    def subscribe(self, client: str, text: str, name: str | None = None) -> None:
        self.handle(client, ev.SubscribeRequested(name or text, parse_subscription(text)))

    def unsubscribe(self, client: str, name: str) -> None:
        self.handle(client, ev.UnsubscribeRequested(name))

    def advertise(self, client: str, text: str, name: str | None = None) -> None:
        self.handle(client, ev.AdvertiseRequested(name or text, parse_advertisement(text)))

    def unadvertise(self, client: str, name: str) -> None:
        self.handle(client, ev.UnadvertiseRequested(name))

    def publish(self, client: str, **attributes: Value) -> str:
        """Publish an event; its id."""
        self.handle(client, ev.PublishRequested(Event(attributes)))
        return f"{client}:{self.clients[client].published}"

    def redirect(self, client: str, broker: str) -> None:
        at = self.clients[client].address
        self.handle(at, ev.ClientRedirected(client, Address(broker), f"{client} had better move"))

    def got(self, client: str) -> list[str]:
        """The events that have reached a client, in order."""
        return [handed.id for handed in self.handed[client]]

    def state(self, client: str) -> str:
        return self.clients[client].state

    def heard(self, client: str, what: str) -> list[do.Tell]:
        """What a client was told of one kind."""
        return [tell for tell in self.news[client] if tell.what == what]

    # --- what happens -------------------------------------------------------------------------------

    def handle(self, name: str, event: Any) -> None:
        """Something happens to a machine, and what it wants done is done."""
        machine = self.brokers.get(name) or self.clients.get(name)
        if machine is not None:
            self._execute(name, machine.handle(event, self.now))

    def settle(self) -> None:
        """Until nobody has anything to say."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError("they talk without end")

    def step(self, choice: int | None = None) -> bool:
        """The oldest thing on the way arrives, or one of the test's choice; False if there is none."""
        ready = sorted(self._ready(), key=lambda item: item[0])
        if not ready:
            return False
        _, arrive = ready[0 if choice is None else choice % len(ready)]
        arrive()
        return True

    def _ready(self) -> Iterable[tuple[int, Callable[[], None]]]:
        if self._dials:
            yield self._dials[0][0], self._dial
        for connection in self.connections.values():
            for (sender, class_), queue in connection.queues.items():
                receiver = connection.other(sender)
                if class_ == DATA and (
                    (sender, receiver) in self.hold_data or (receiver, connection.id) in self.paused
                ):
                    continue
                control = connection.queues[sender, 0]
                if class_ == DATA and control and queue and control[0][0] < queue[0][0]:
                    continue  # control may overtake data, and never the other way round
                if queue:
                    yield queue[0][0], self._arrival(connection, sender, class_)
            if connection.closed_by and not connection.waiting(connection.closed_by):
                yield self._tickets, self._closing(connection)

    def _arrival(self, connection: Connection, sender: str, class_: int) -> Callable[[], None]:
        def arrive() -> None:
            _, parcel = connection.queues[sender, class_].popleft()
            self.handle(connection.other(sender), ev.Received(connection.id, (parcel,)))

        return arrive

    def _closing(self, connection: Connection) -> Callable[[], None]:
        def close() -> None:
            del self.connections[connection.id]
            # Why, the other end has not heard unless it was told.
            event = ev.ConnectionClosed(connection.id, "the other end has closed it")
            self.handle(connection.other(connection.closed_by), event)

        return close

    def _dial(self) -> None:
        _, dialler, called = self._dials.popleft()
        if called not in self.brokers or frozenset((dialler, called)) in self.severed:
            self.handle(dialler, ev.LinkRefused(called, "nobody answers"))
            return
        self._ids += 1
        self.connections[self._ids] = Connection(self._ids, dialler, called)
        id_ = self._ids
        self.handle(called, ev.ConnectionAccepted(id_))
        self.handle(dialler, ev.LinkOpened(called, id_))

    def advance(self, seconds: float) -> None:
        """Time passes: whatever is on the way arrives, and timers fire when they are due."""
        self.settle()
        end = self.now + seconds
        while due := [(when, key) for key, (when, _) in self.timers.items() if when <= end]:
            when, (who, name) = min(due)
            self.now = max(self.now, when)
            del self.timers[who, name]
            self.handle(who, ev.TimerFired(name))
            self.settle()
        self.now = end

    def cut(self, a: str, b: str, *, unnoticed_by: str = "") -> None:
        """Cut the connections of two; what is on the way is lost. One end may not notice."""
        for connection in [c for c in self.connections.values() if set(c.ends) == {a, b}]:
            self._cut(connection, unnoticed_by)

    def _cut(self, connection: Connection, unnoticed_by: str = "") -> None:
        del self.connections[connection.id]
        for end in connection.ends:
            if end not in (unnoticed_by, connection.closed_by):
                self.handle(end, ev.ConnectionClosed(connection.id, "cut"))

    def commit(self, name: str, count: int | None = None) -> None:
        """So many of the transactions that a broker waits for are safe; None: all."""
        waiting = self.commits[name]
        for _ in range(len(waiting) if count is None else min(count, len(waiting))):
            persist = waiting.popleft()
            store = self.stores[name]
            for key, value in persist.writes.items():
                if value is None:
                    store.pop(key, None)
                else:
                    store[key] = value
            self.handle(name, ev.Persisted(persist.token))

    def fetch(self, name: str, count: int | None = None) -> None:
        """So many of the questions to a store are answered, in their order; None: all."""
        waiting = self.fetches[name]
        for _ in range(len(waiting) if count is None else min(count, len(waiting))):
            fetch = waiting.popleft()
            records = [self.stores[name].get(key) for key in fetch.records]
            self.handle(name, ev.Fetched(fetch, records))

    # --- what machines want done --------------------------------------------------------------------

    def _execute(self, who: str, wanted: Sequence[do.Command]) -> None:
        for command in wanted:
            match command:
                case do.Send():
                    self._send(who, command.connection, command.parcel)
                case do.Deliver():
                    for connection, frame in command.frames:
                        self._send(who, connection, frame)
                case do.SetTimer():
                    due = self.now + command.delay_s
                    self.timers[who, command.name] = (due, command.delay_s)
                case do.CancelTimer():
                    self.timers.pop((who, command.name), None)
                case do.OpenLink():
                    self._dials.append((self._ticket(), who, command.broker))
                case do.Close():
                    self._close(who, command)
                case do.Persist():
                    self.commits[who].append(command)
                    if who not in self.hold_commits:
                        self.commit(who)
                case do.Fetch():
                    self.fetches[who].append(command)
                    if who not in self.hold_fetches:
                        self.fetch(who)
                case do.PauseReading():
                    self.paused.add((who, command.connection))
                    (self.rests.add if command.briefly else self.rests.discard)(
                        (who, command.connection)
                    )
                case do.ResumeReading():
                    self.paused.discard((who, command.connection))
                    self.rests.discard((who, command.connection))
                case do.Record():
                    self.decisions.append(command.decision)
                    self.storybook.decided(self.now, who, command)
                case do.Answered():
                    self.answers.append((who, command))
                case do.Hand():
                    handed = Handed(command.publication.id, command.subscriptions)
                    self.handed[who].append(handed)
                case do.Report():
                    self.reports.append((who, command))
                case do.Tell():
                    self.news[who].append(command)
                case do.Rewired():
                    pass  # who draws the overlay would hear of it
                case _:
                    raise AssertionError(f"nobody does {command}")

    def _send(self, who: str, connection_id: int, parcel: Parcel) -> None:
        connection = self.connections.get(connection_id)
        if connection is None or connection.closed_by:
            return
        to = connection.other(who)
        if isinstance(parcel, Frame):
            self.said.append(Said(who, to, parcel.message))
        self.storybook.said(self.now, who, to, parcel)
        class_ = parcel.priority if isinstance(parcel, Frame) else 0
        connection.queues[who, class_].append((self._ticket(), parcel))

    def _close(self, who: str, command: do.Close) -> None:
        connection = self.connections.get(command.connection)
        if connection is not None and not connection.closed_by:
            self.closed.append((who, command.reason))
            connection.closed_by = who
            connection.reason = command.reason
            for class_ in (0, 1):
                connection.queues[connection.other(who), class_].clear()

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    # --- looking at it ------------------------------------------------------------------------------

    def between(self, who: str, to: str, *kinds: type[Message], since: int = 0) -> list[Message]:
        """What one has sent to the other, of these kinds."""
        return [
            said.message
            for said in self.said[since:]
            if (said.who, said.to) == (who, to) and (not kinds or isinstance(said.message, kinds))
        ]

    def table(self, broker: str, kind: str = "subscriptions") -> dict[str, str]:
        """A routing table: id -> where it came from."""
        entries = getattr(self.brokers[broker].router, kind).values()
        return {e.id: e.hop.client if e.hop.is_session else e.hop.name for e in entries}

    def show(self) -> str:
        """All routing tables, for a failing test to print."""
        lines = []
        for name, broker in self.brokers.items():
            for kind in ("advertisements", "subscriptions"):
                for entry in getattr(broker.router, kind).values():
                    hop = entry.hop.name
                    lines.append(f"{name:>6}  {kind[:3]}  {entry.id:<8} {hop:<10} {entry.interest}")
        return "\n".join(lines)

    def check_tables(self) -> None:
        """Every table is what it should be, by definition, and no more."""
        told = expected_tables(self)
        for (teller, hearer), (advertisements, subscriptions) in told.items():
            link = self.brokers[hearer].links[teller]
            for want, have in (
                (advertisements, [e.interest for e in link.advertisements.values()]),
                (subscriptions, [e.interest for e in link.subscriptions.values()]),
            ):
                assert same(want, have), (
                    f"{hearer} should have of {teller} {list(map(str, want))},"
                    f" and has {list(map(str, have))}\n{self.show()}"
                )
        for name, broker in self.brokers.items():
            hops = [*broker.links.values(), *broker.sessions.values()]
            assert len(broker.router.subscriptions) == sum(len(h.subscriptions) for h in hops)
            assert len(broker.router.advertisements) == sum(len(h.advertisements) for h in hops)
            for kind in ("subscriptions", "advertisements"):
                here = [
                    e.interest for h in broker.sessions.values() for e in getattr(h, kind).values()
                ]
                assert sorted(map(str, here)) == sorted(map(str, local(self, name, kind)))

    def check_quiet(self) -> None:
        """Nothing waits for anything, but a session whose client did not say that it had its last word."""
        for name, broker in self.brokers.items():
            assert not broker.node.work.waits, name
            assert not len(broker.draining), name
            sessions = broker.sessions.values()
            current = [s for s in sessions if self.clients[s.client].session == s.name]
            peers: list[Any] = [*broker.links.values(), *current]
            for peer in peers:
                for lane in peer.channel.lanes:
                    assert not lane.outbox, (name, peer.name, list(lane.outbox))
        for client_name, client in self.clients.items():
            assert client.pending == 0 or client.state == "idle", client_name


# --- the tables from scratch ------------------------------------------------------------------------


def local(federation: Federation, broker: str, kind: str) -> list[Interest]:
    """What the clients at a broker ask for."""
    return [
        interest
        for client in federation.clients.values()
        if client.address == broker and client.state == "attached"
        for interest in getattr(client, kind)().values()
    ]


def expected_tables(
    federation: Federation,
) -> Mapping[Edge, tuple[list[Interest], list[Interest]]]:
    """(teller, hearer) -> the advertisements and the subscriptions that it should have been told."""
    config = next(iter(federation.brokers.values())).config
    flooding = config.routing == "flooding"

    def candidates(kind: str, told: Callable[[str, str], list[Interest]], x: str, y: str) -> Any:
        behind = [told(z, x) for z in federation.neighbours(x) if z != y]
        return [*local(federation, x, kind), *(i for part in behind for i in part)]

    def advertisements(x: str, y: str) -> list[Interest]:
        if flooding:
            return []
        found = candidates("advertisements", advertisements, x, y)
        return uncovered(found) if config.advertisement_covering else found

    def subscriptions(x: str, y: str) -> list[Interest]:
        found = candidates("subscriptions", subscriptions, x, y)
        if not flooding:
            offered = advertisements(y, x)
            found = [s for s in found if any(overlaps(s, a) for a in offered)]
        return uncovered(found) if config.covering else found

    both_ways = [way for a, b in federation.edges for way in ((a, b), (b, a))]
    return {way: (advertisements(*way), subscriptions(*way)) for way in both_ways}


def uncovered(interests: Sequence[Interest]) -> list[Interest]:
    """Those that no other covers, and the first of those that are equal."""
    return [
        mine
        for i, mine in enumerate(interests)
        if not any(
            covers(other, mine) and (not covers(mine, other) or j < i)
            for j, other in enumerate(interests)
            if j != i
        )
    ]


def same(these: Sequence[Interest], those: Sequence[Interest]) -> bool:
    """Whether two lists mean the same, one by one and in any order."""
    left = list(those)
    for mine in these:
        twin = next((i for i, o in enumerate(left) if covers(mine, o) and covers(o, mine)), None)
        if twin is None:
            return False
        del left[twin]
    return not left
