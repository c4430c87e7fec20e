"""Hypothesis strategies for workloads: statements that make sense together.

The author keeps what is there in its own, plain way; what it writes is right by construction.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from roost.simulation import statements as say
from roost.simulation.statements import Statement
from tests.language import strategies as some

IDS = st.text("aZ09_.-", max_size=4)
ABOVE_ZERO = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
FROM_ZERO = st.one_of(st.just(0.0), ABOVE_ZERO)
SYMBOLS = st.one_of(st.none(), st.sampled_from(["YHOO", "BRK.B", "^DJI", "größe", "--"]))
PATHS = st.one_of(st.sampled_from(["quotes.parquet", "a b", "'", "#"]), st.text(max_size=6))


class Author:
    """Writes a workload, statement by statement, of which each follows from those before it."""

    def __init__(self, draw: st.DrawFn, times: list[float]) -> None:
        self.draw = draw
        self.times = iter(times)
        self.ids = 0
        self.written: list[Statement] = []
        self.clients: dict[str, str] = {}  # client -> broker
        self.names: dict[str, list[str]] = {}
        self.brokers: list[str] = []
        self.publishers: list[str] = []
        self.with_symbol: list[str] = []
        self.subscribers: list[str] = []
        self.durables: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.down: list[str] = []
        self.gone: list[str] = []
        self.cut: list[tuple[str, str]] = []

    def one(self, things: list[str]) -> str:
        return self.draw(st.sampled_from(things))

    def link(self, links: list[tuple[str, str]]) -> tuple[str, str]:
        """One of them, either way round."""
        a, b = self.draw(st.sampled_from(links))
        return (a, b) if self.draw(st.booleans()) else (b, a)

    def new(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}{self.ids}-{self.draw(IDS)}"

    def write(self, make: Callable[[float], Statement]) -> None:
        self.written.append(make(next(self.times)))

    def step(self) -> None:
        """Anything that is possible now."""
        draw, write, one = self.draw, self.write, self.one
        up = [b for b in self.brokers if b not in self.down]
        empty = [b for b in up if b not in self.clients.values()]
        here = [c for c in self.clients if c not in self.gone]
        whole = [x for x in self.links if x not in self.cut]
        ends = [(a, b) for link in self.links for a, b in (link, link[::-1])]
        chains = [(m, a, b) for m, a in ends for n, b in ends if m == n and a != b]
        possible = {
            "add broker": True,
            "use": True,
            "add client": self.brokers,
            "slow or partition": self.brokers,
            "add link": self.apart(),
            "link": self.links,
            "cut": whole,
            "move": chains,
            "heal": self.cut,
            "heal all": self.links,
            "crash": up,
            "restart": self.down,
            "remove broker": empty,
            "publisher": self.publishers,
            "chrate": self.with_symbol,
            "subscriber": self.subscribers,
            "client": here,
            "return": self.gone,
        }
        match draw(st.sampled_from([action for action, things in possible.items() if things])):
            case "add broker":
                self.add_broker()
            case "use":
                use, path = draw(st.sampled_from([say.UseBars, say.UseLatencies])), draw(PATHS)
                write(lambda at: use(path, at=at))
            case "heal all":
                self.cut.clear()
                write(lambda at: say.HealPartition(at=at))
            case "add client":
                self.add_client()
            case "slow or partition":
                side = draw(st.lists(st.sampled_from(self.brokers), min_size=1, unique=True))
                factor = draw(ABOVE_ZERO)
                write(lambda at: say.SlowBroker(side[0], factor, at=at))
                fill = draw(st.sampled_from([say.FillStore, say.FreeStore]))
                write(lambda at: fill(side[-1], at=at))
                arguments = draw(st.sampled_from([None, "a=1", "within_s=60 to=B2"]))
                node = draw(
                    st.sampled_from([("leader", "kill"), ("both", "stop"), ("between", "cut")])
                )
                way = draw(st.sampled_from(["cluster", "tree"]))
                one_of_them: list[Callable[[float], Statement]] = [
                    lambda at: say.AskBroker(side[0], "drain", arguments, at=at),
                    lambda at: say.FailNode(side[0], *node, factor, at=at),
                    lambda at: say.SwitchBroker(side[0], way, at=at),
                ]
                write(draw(st.sampled_from(one_of_them)))
                write(lambda at: say.Partition(tuple(side), at=at))
            case "add link":
                self.add_link()
            case "link":
                a, b = self.link(self.links)
                extra, seconds = draw(FROM_ZERO), draw(ABOVE_ZERO)
                write(lambda at: say.DelayLink(a, b, extra, seconds, at=at))
                if draw(st.booleans()):
                    self.forget_links(lambda link: set(link) == {a, b})
                    write(lambda at: say.RemoveLink(a, b, at=at))
            case "move":
                middle, mover, anchor = draw(st.sampled_from(chains))
                self.forget_links(lambda link: set(link) == {middle, mover})
                self.links.append((anchor, mover))
                write(lambda at: say.MoveLink(mover, middle, anchor, at=at))
                write(lambda at: say.ShuffleLinks(at=at))
            case "cut":
                a, b = draw(st.sampled_from(whole))
                self.cut.append((a, b))
                write(lambda at: say.CutLink(b, a, at=at))
            case "heal":
                a, b = draw(st.sampled_from(self.cut))
                self.cut.remove((a, b))
                write(lambda at: say.HealLink(b, a, at=at))
            case "crash":
                broker, keep = one(up), draw(st.booleans())
                self.down.append(broker)
                write(lambda at: say.CrashBroker(broker, keep, at=at))
            case "restart":
                broker = one(self.down)
                self.down.remove(broker)
                write(lambda at: say.RestartBroker(broker, at=at))
            case "remove broker":
                broker = one(empty)
                self.brokers.remove(broker)
                self.forget_links(lambda link: broker in link)
                write(lambda at: say.RemoveBroker(broker, at=at))
            case "publisher":
                self.use_publisher(one(self.publishers))
            case "chrate":
                client, rate = one(self.with_symbol), draw(FROM_ZERO)
                write(lambda at: say.ChangeRate(client, rate, at=at))
            case "subscriber":
                self.use_subscriber(one(self.subscribers))
            case "client":
                self.move_client(one(here))
            case "return":
                client = one(self.gone)
                self.gone.remove(client)
                write(lambda at: say.ReturnClient(client, at=at))

    def add_broker(self) -> None:
        new, (x, y, z) = self.new("B"), self.draw(st.tuples(ABOVE_ZERO, ABOVE_ZERO, ABOVE_ZERO))
        self.brokers.append(new)
        machine = self.draw(st.sampled_from([None, "broker"]))
        self.write(lambda at: say.AddBroker(new, x, y, z, machine, at=at))

    def apart(self) -> list[tuple[str, str]]:
        return [(a, b) for a in self.brokers for b in self.brokers if b not in tree(self.links, a)]

    def add_link(self) -> None:
        a, b = self.draw(st.sampled_from(self.apart()))
        latency = self.draw(st.one_of(st.none(), FROM_ZERO))
        self.links.append((a, b))
        self.write(lambda at: say.AddLink(a, b, latency, at=at))

    def add_client(self) -> None:
        draw, client, broker = self.draw, self.new("C"), self.one(self.brokers)
        self.clients[client] = broker
        if draw(st.booleans()):
            self.subscribers.append(client)
            self.names[client] = ["main"]
            subscription = draw(some.subscriptions())
            if draw(st.booleans()):
                self.durables.append(client)
                self.write(lambda at: say.AddDurableSubscriber(client, broker, subscription, at=at))
            else:
                self.write(lambda at: say.AddSubscriber(client, broker, subscription, at=at))
            return
        symbol, rate = draw(SYMBOLS), draw(FROM_ZERO)
        advertisement = draw(st.one_of(st.none(), some.advertisements()))
        self.publishers.append(client)
        self.with_symbol += [client] if symbol else []
        self.names[client] = ["main"] if symbol or advertisement is not None else []
        self.write(lambda at: say.AddPublisher(client, symbol, rate, broker, advertisement, at=at))

    def use_publisher(self, client: str) -> None:
        event = self.draw(some.events(values=some.values()))
        self.write(lambda at: say.Publish(client, event, at=at))
        if self.draw(st.booleans()) and self.names[client]:
            old = self.names[client].pop()
            self.write(lambda at: say.Unadvertise(client, old, at=at))
        else:
            new, advertisement = self.new(""), self.draw(some.advertisements())
            self.names[client].append(new)
            self.write(lambda at: say.Advertise(client, new, advertisement, at=at))

    def use_subscriber(self, client: str) -> None:
        if self.draw(st.booleans()) and self.names[client]:
            old = self.names[client].pop()
            self.write(lambda at: say.Unsubscribe(client, old, at=at))
        else:
            new, subscription = self.new(""), self.draw(some.subscriptions())
            self.names[client].append(new)
            self.write(lambda at: say.Subscribe(client, new, subscription, at=at))

    def move_client(self, client: str) -> None:
        less = self.draw(some.subscriptions())
        self.write(lambda at: say.PermitClient(client, less, at=at))
        if client in self.durables:
            self.write(lambda at: say.RestartSubscriber(client, at=at))
        match self.draw(st.sampled_from(["redirect", "vanish", "remove"])):
            case "redirect":
                broker = self.clients[client] = self.one(self.brokers)
                self.write(lambda at: say.RedirectClient(client, broker, at=at))
            case "vanish":
                self.gone.append(client)
                self.write(lambda at: say.VanishClient(client, at=at))
            case "remove":
                del self.clients[client]
                published = client in self.publishers
                for group in (self.publishers, self.with_symbol, self.subscribers):
                    if client in group:
                        group.remove(client)
                remove = say.RemovePublisher if published else say.RemoveSubscriber
                self.write(lambda at: remove(client, at=at))

    def forget_links(self, which: Callable[[tuple[str, str]], bool]) -> None:
        self.links = [link for link in self.links if not which(link)]
        self.cut = [link for link in self.cut if not which(link)]


def tree(links: list[tuple[str, str]], broker: str) -> set[str]:
    """The brokers that are connected to one: more and more of them, until there are no more."""
    reached, before = {broker}, 0
    while len(reached) > before:
        before = len(reached)
        reached |= {x for link in links if not reached.isdisjoint(link) for x in link}
    return reached


@st.composite
def workloads(draw: st.DrawFn) -> list[Statement]:
    """Statements that make a workload, sorted by time."""
    steps = draw(st.integers(0, 30))
    # A step writes four statements at most; before them come six, and after them the end.
    times = st.floats(min_value=0, max_value=1e9)
    size = 4 * steps + 7
    author = Author(draw, sorted(draw(st.lists(times, min_size=size, max_size=size))))
    # Three in a row, so that there is always a link that can move.
    for begin in (*[author.add_broker] * 3, *[author.add_link] * 2, author.add_client):
        begin()
    for _ in range(steps):
        author.step()
    author.write(lambda at: say.End(at=at))
    return author.written
