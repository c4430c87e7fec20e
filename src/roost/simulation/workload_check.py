"""Whether a workload makes sense as a whole: a walk over its statements in the order of time.

The walk keeps what is there at each moment (brokers, links, clients, faults) and nothing of what they do.
It knows what the file says and not what the run will do: a client that a balancer moves sits, for the
check, where the file put it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from roost.broker.machines import kind_of
from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.simulation.statements import (
    AddBroker,
    AddDurableSubscriber,
    AddLink,
    AddPeerLink,
    AddPublisher,
    AddSubscriber,
    Advertise,
    AskBroker,
    ChangeRate,
    CrashBroker,
    CutLink,
    DelayLink,
    End,
    FailNode,
    FillStore,
    FreeStore,
    HealLink,
    HealPartition,
    MoveLink,
    Partition,
    PermitClient,
    Publish,
    RedirectClient,
    RemoveBroker,
    RemoveLink,
    RemovePublisher,
    RemoveSubscriber,
    RestartBroker,
    RestartSubscriber,
    ReturnClient,
    SlowBroker,
    Statement,
    Subscribe,
    SwitchBroker,
    Unadvertise,
    Unsubscribe,
    VanishClient,
)

# What a client was added with goes by this name.
MAIN = "main"
CLIENTS = ("publisher", "subscriber")


class WorkloadError(UserError):
    """A workload that cannot be run; the message starts with the file and the line."""


def refusal(name: str, line: int, what: str, shown: str = "") -> WorkloadError:
    """The error for a line (0: for no line of a file), with what is to be shown below it."""
    place = f"{name}:{line}" if line else name
    return WorkloadError(f"{place}: {what}" + (f"\n{shown}" if shown else ""))


def check_workload(statements: Sequence[Statement], name: str, lines: Sequence[str] = ()) -> None:
    """Refuse statements, sorted by time, that do not follow from those before them.

    `lines` is the text that they were read from, for the messages.
    """
    moment = _Moment(statements)
    for statement in statements:
        try:
            moment.pass_by(statement)
        except _StepError as wrong:
            shown = lines[statement.line - 1].strip() if lines and statement.line else ""
            raise refusal(name, statement.line, str(wrong), shown and f"  {shown[:120]}") from None


class _StepError(Exception):
    """A statement that does not follow from those before it."""


class _Moment:
    """What is there, at the time that the walk has come to."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements
        # Everything that ever came and went, by id.
        self.added: dict[str, tuple[str, Statement]] = {}
        self.removed: dict[str, Statement] = {}
        # Broker -> neighbours, and -> clients. Dictionaries, because they keep their order.
        self.links: dict[str, dict[str, None]] = {}
        self.clients: dict[str, dict[str, None]] = {}
        self.broker_of: dict[str, str] = {}
        self.others: dict[str, str] = {}  # machines that are no brokers, and what they are
        # Client -> the names of its advertisements or subscriptions.
        self.names: dict[str, set[str]] = {}
        # What is not as it should be, since when: brokers that are down, clients that are gone, links.
        self.down: dict[str, Statement] = {}
        self.gone: dict[str, Statement] = {}
        self.cut: dict[frozenset[str], Statement] = {}
        self.peers: set[frozenset[str]] = set()  # links of a mesh, and so no part of a tree
        self.end: End | None = None

    def pass_by(self, statement: Statement) -> None:
        """Go on behind a statement, or refuse it."""
        match statement:
            case AddSubscriber(subscriber, broker):
                self._add_client("subscriber", subscriber, broker, {MAIN}, statement)
            case AddDurableSubscriber(subscriber, broker):
                self._add_client("subscriber", subscriber, broker, {MAIN}, statement)
            case RestartSubscriber(client):
                self._need_durable(client)
                self._need_here(client)
            case PermitClient(client):
                self._need(CLIENTS, client)
            case AddPublisher(publisher, symbol, _, broker, advertisement):
                names = {MAIN} if symbol is not None or advertisement is not None else set()
                self._add_client("publisher", publisher, broker, names, statement)
            case AddBroker(broker, machine=machine):
                self._add("broker", broker, statement)
                if machine is not None and not self._is_broker(machine):
                    self.others[broker] = machine
                self.links[broker], self.clients[broker] = {}, {}
            case RemoveBroker(broker):
                self._remove_broker(broker, statement)
            case AddLink(a, b):
                self._add_link(a, b, peers=isinstance(statement, AddPeerLink))
            case RemoveLink(a, b):
                self._need_link(a, b)
                self._remove_link(a, b)
            case MoveLink(mover, middle, anchor):
                self._need_link(mover, middle)
                self._need_link(middle, anchor)
                self._remove_link(mover, middle)
                self._add_link(anchor, mover)
            case ChangeRate(publisher):
                self._need(("publisher",), publisher)
                added = self.added[publisher][1]
                if isinstance(added, AddPublisher) and added.symbol is None:
                    raise _StepError(
                        f"the publisher {publisher} has no symbol ({_place(added)}), and so no rate;"
                        " expected a publisher of quotes"
                    )
            case Publish(publisher):
                self._need(("publisher",), publisher)
            case Advertise(client, name):
                self._name("publisher", "advertisement", client, name)
            case Unadvertise(client, name):
                self._unname("publisher", "advertisement", client, name)
            case Subscribe(client, name):
                self._name("subscriber", "subscription", client, name)
            case Unsubscribe(client, name):
                self._unname("subscriber", "subscription", client, name)
            case RemovePublisher(client):
                self._remove_client("publisher", client, statement)
            case RemoveSubscriber(client):
                self._remove_client("subscriber", client, statement)
            case RedirectClient(client, broker):
                self._need(CLIENTS, client)
                self._need(("broker",), broker)
                self._need_here(client)
                del self.clients[self.broker_of[client]][client]
                self.clients[broker][client] = None
                self.broker_of[client] = broker
            case CrashBroker(broker):
                self._need(("broker",), broker)
                self._need_up(broker)
                self.down[broker] = statement
            case RestartBroker(broker):
                self._need(("broker",), broker)
                if self.down.pop(broker, None) is None:
                    raise _StepError(f"{broker} has not crashed; expected a broker that is down")
            case (
                SlowBroker(broker)
                | FailNode(broker)
                | FillStore(broker)
                | FreeStore(broker)
                | AskBroker(broker)
                | SwitchBroker(broker)
            ):
                self._need(("broker",), broker)
            case CutLink(a, b):
                self._need_link(a, b)
                if before := self.cut.get(frozenset((a, b))):
                    raise _StepError(
                        f"the link {a} - {b} is cut already ({_place(before)}); heal it first"
                    )
                self.cut[frozenset((a, b))] = statement
            case HealLink(a, b):
                self._need_link(a, b)
                if self.cut.pop(frozenset((a, b)), None) is None:
                    raise _StepError(
                        f"the link {a} - {b} is not cut; expected one that `link cut` cut"
                        " (`partition heal` ends a partition)"
                    )
            case DelayLink(a, b):
                self._need_link(a, b)
            case Partition(brokers):
                for broker in brokers:
                    self._need(("broker",), broker)
            case HealPartition():
                self.cut.clear()
            case VanishClient(client):
                self._need(CLIENTS, client)
                self._need_here(client)
                self.gone[client] = statement
            case ReturnClient(client):
                self._need(CLIENTS, client)
                if self.gone.pop(client, None) is None:
                    raise _StepError(f"{client} has not vanished; expected a client that is gone")
            case End():
                if self.end is not None:
                    raise _StepError(f"a second end, after {_place(self.end)}; expected only one")
                self.end = statement

    # --- who is there -----------------------------------------------------------------------------

    def _add(self, noun: str, id_: str, statement: Statement) -> None:
        if id_ in self.added:
            before, added = self.added[id_]
            # Results go by id, so that one id stands for one thing in the whole run.
            raise _StepError(
                f"the id {id_} is that of a {before} already ({_place(added)}); expected a new id:"
                " brokers and clients have no id in common, and none is used again"
            )
        self.added[id_] = noun, statement

    def _is_broker(self, machine: str) -> bool:
        try:
            return kind_of(machine).is_broker
        except UserError as error:
            raise _StepError(str(error)) from None

    def _need(self, nouns: Sequence[str], id_: str) -> None:
        wanted = " or ".join(nouns)
        if id_ not in self.added:
            for later in self.statements:
                if _added_by(later) == id_:
                    raise _StepError(
                        f"{id_} is used before it is added ({_place(later)});"
                        f" expected a {wanted} that is there"
                    )
            raise _StepError(f"there is no {wanted} {id_}; expected one that was added before")
        noun, added = self.added[id_]
        if noun not in nouns:
            raise _StepError(f"{id_} is a {noun} ({_place(added)}); expected a {wanted}")
        if id_ in self.removed:
            raise _StepError(
                f"the {noun} {id_} was removed ({_place(self.removed[id_])});"
                " expected one that is still there"
            )

    def _need_up(self, broker: str) -> None:
        if before := self.down.get(broker):
            raise _StepError(f"{broker} is down ({_place(before)}); restart it first")

    def _need_here(self, client: str) -> None:
        if before := self.gone.get(client):
            raise _StepError(f"{client} is gone ({_place(before)}); let it return first")

    def _need_durable(self, client: str) -> None:
        self._need(("subscriber",), client)
        added = self.added[client][1]
        if not isinstance(added, AddDurableSubscriber):
            raise _StepError(
                f"the subscriber {client} is not durable ({_place(added)}); expected one that was"
                " added by `subscriber durable`"
            )

    def _add_client(
        self, noun: str, client: str, broker: str, names: set[str], statement: Statement
    ) -> None:
        self._need(("broker",), broker)
        self._add(noun, client, statement)
        self.clients[broker][client] = None
        self.broker_of[client] = broker
        self.names[client] = names

    def _remove_client(self, noun: str, client: str, statement: Statement) -> None:
        self._need((noun,), client)
        self._need_here(client)  # else it could not say goodbye
        del self.clients[self.broker_of[client]][client]
        self.removed[client] = statement

    def _remove_broker(self, broker: str, statement: Statement) -> None:
        self._need(("broker",), broker)
        self._need_up(broker)  # else it could not tell anyone
        if clients := self.clients[broker]:
            shown = ", ".join(islice(clients, 3)) + (", ..." if len(clients) > 3 else "")
            raise _StepError(
                f"the broker {broker} still has {len(clients):,}"
                f" client{'s' if len(clients) > 1 else ''} ({shown});"
                " remove or redirect its clients first"
            )
        for neighbour in list(self.links[broker]):
            self._remove_link(broker, neighbour)
        self.removed[broker] = statement

    def _name(self, noun: str, what: str, client: str, name: str) -> None:
        self._need((noun,), client)
        if name in self.names[client]:
            raise _StepError(f"{client} has the {what} {name!r} already; expected a new name")
        self.names[client].add(name)

    def _unname(self, noun: str, what: str, client: str, name: str) -> None:
        self._need((noun,), client)
        if name not in self.names[client]:
            there = abbreviate(", ".join(sorted(self.names[client]))) or "none"
            raise _StepError(
                f"{client} has no {what} {name!r}; expected one of those it has: {there}"
            )
        self.names[client].remove(name)

    # --- the overlay: a forest --------------------------------------------------------------------

    def _add_link(self, a: str, b: str, *, peers: bool = False) -> None:
        self._need(("broker",), a)
        self._need(("broker",), b)
        if a == b:
            raise _StepError(f"a link from {a} to itself; expected two brokers")
        if b in self.links[a]:
            raise _StepError(f"there is a link {a} - {b} already; expected two that are not linked")
        if (a in self.others) != (b in self.others):
            other = a if a in self.others else b
            raise _StepError(
                f"the link {a} - {b} is of a broker with a machine that is none"
                f" ({other}: {abbreviate(self.others[other])}); expected two brokers, or two that are none"
            )
        # Only brokers form an overlay. In step from both ends, so that it costs no more than the smaller
        # tree: n log n for n links.
        if peers:
            self.peers.add(frozenset((a, b)))
        elif a not in self.others and any(
            b == x or a == y for (x, _), (y, _) in zip(self._walk(a), self._walk(b), strict=False)
        ):
            raise _StepError(
                f"the link {a} - {b} would close a cycle, {self._cycle(a, b)};"
                " expected an overlay that is a tree"
            )
        self.links[a][b] = self.links[b][a] = None

    def _need_link(self, a: str, b: str) -> None:
        self._need(("broker",), a)
        self._need(("broker",), b)
        if b not in self.links[a]:
            there = abbreviate(", ".join(self.links[a])) or "none"
            raise _StepError(
                f"there is no link {a} - {b}; expected one that was added, {a} is linked to: {there}"
            )

    def _remove_link(self, a: str, b: str) -> None:
        del self.links[a][b], self.links[b][a]
        self.cut.pop(frozenset((a, b)), None)
        self.peers.discard(frozenset((a, b)))

    def _walk(self, start: str) -> Iterator[tuple[str, str]]:
        """The other brokers of a tree, each with the one before it; none is looked up in advance."""
        reached = [(start, start)]
        for broker, before in reached:  # which grows meanwhile
            for neighbour in self.links[broker]:
                if neighbour != before and not self._are_peers(broker, neighbour):
                    reached.append((neighbour, broker))
                    yield neighbour, broker

    def _are_peers(self, a: str, b: str) -> bool:
        return bool(self.peers) and frozenset((a, b)) in self.peers

    def _cycle(self, a: str, b: str) -> str:
        """From a to b over the links that are there, and back over the new one."""
        before = dict(self._walk(b))
        path = [a]
        while path[-1] != b:
            path.append(before[path[-1]])
        if len(path) > 12:
            path[6:-5] = ["..."]
        return " - ".join([*path, a])


def _added_by(statement: Statement) -> str | None:
    match statement:
        case AddBroker(id_) | AddPublisher(id_) | AddSubscriber(id_) | AddDurableSubscriber(id_):
            return id_
    return None


def _place(statement: Statement) -> str:
    return f"line {statement.line}, " * bool(statement.line) + f"at {statement.at:g} s"
