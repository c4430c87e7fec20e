"""Random scenarios of a partitioned service (004): whatever the seed, every promise has to hold.

The profile *partition* of `roost sim fuzz`. A small service of dispatchers and matchers, all linked with
each other. While events are published all the time, dimensions change, matchers join, leave and are gone
without a word,
machines crash, links are cut, silent and slow, the network is partitioned, stores are full; and clients
come and go, subscribe, move from dispatcher to dispatcher, and vanish. Values are few and small, so that
much matches, at the borders of segments too.
"""

from __future__ import annotations

import random
from itertools import combinations

from roost.language import Event, Value
from roost.partition.naming import DISPATCHER, MATCHER
from roost.simulation import statements as st
from roost.simulation.faults import SHORTEST_S
from roost.simulation.script import Script
from roost.simulation.settings import Settings
from roost.simulation.words import ATTRIBUTES, CLASSES, VALUES

PROFILE = "partition"
DIMENSIONS = (
    f"a:0:{VALUES - 1}",
    f"b:0:{VALUES - 1}",
    "class:0:1",
)
# Values outside of where a dimension expects them, and of other kinds.
STRANGE: tuple[Value, ...] = (-3, 2.5, 1e9, "x", True)
PHASE_S = 10.0
SETTLE_S = 4.0
EVENTS_PER_S = 8.0
BURST = 5
FAULTS_S = (SHORTEST_S, 6.0)
# One that leaves has so long to hand over what it has.
LEAVES_S = 12.0


class ServiceScenario(Script):
    """What a seed makes. Other machines may take the place of the service's: see `tests/partition`."""

    def __init__(self, seed: int, *, dispatcher: str = DISPATCHER, matcher: str = MATCHER) -> None:
        super().__init__(seed, PROFILE)
        r = self.random
        self._types = (dispatcher, matcher)
        # For what has come later: seeds that have found something stay what they were.
        self._apart = random.Random(f"apart {seed}")
        self.settings = _settings(r)
        self._publishers: list[str] = []
        self._subscribers: dict[str, list[str]] = {}
        self._durables: list[str] = []
        self._build()
        for _ in range(r.randint(1, 3)):
            self._phase()
        last = max(statement.at for statement in self._said)
        self.until = round(max(self._now, last) + SETTLE_S, 3)
        self.statements = self._finished(r.choice(["edges", "rewirings"]), FAULTS_S)

    # --- the beginning ------------------------------------------------------------------------------

    def _build(self) -> None:
        r = self.random
        self._dispatchers = [f"D{n}" for n in range(r.choice([1, 2, 2, 3]))]
        self._matchers = [f"M{n}" for n in range(r.choice([1, 2, 3, 4, 5]))]
        dimensions = r.sample(DIMENSIONS, r.choice([1, 2, 2, 3]))
        policy = r.choice(["amount", "response", "adaptive", "drift", "random"])
        words = (
            f"dispatchers={','.join(self._dispatchers)} dimensions={','.join(dimensions)}"
            f" matchers={','.join(self._matchers)} policy={policy} join={r.choice(['each', 'one'])}"
            f" stride={r.choice([0, 0, 1])} held_max={self._held_max()} {self._choosing()}"
        )
        for name in self._dispatchers:
            self._machine(0.0, name, f"{self._types[0]} {words}")
        self._cost = r.choice(["", "", "message_s=0.002 entry_s=0.001"])
        for name in self._matchers:
            self._machine(0.0, name, self._matcher())
        for a, b in combinations([*self._dispatchers, *self._matchers], 2):
            self._say(st.AddLink(at=0.0, a=a, b=b))
        self._now = 0.5
        for _ in range(r.randint(1, 4)):
            self._add_publisher(self._soon(1.0))
        for _ in range(r.randint(2, 12)):
            self._add_subscriber(self._soon(1.0))
        self._now += 1.0 + SETTLE_S

    def _held_max(self) -> int:
        return random.Random(f"held_max {self.seed}").choice([2, 20, 10_000])

    def _choosing(self) -> str:
        """Whether dimensions change, and how many there may be; and when segments are evened out."""
        r = self._apart
        return r.choice(
            ["", f"choose_s={r.choice([1, 2, 5])} dimensions_max={r.choice([1, 2, 3])}"]
        )

    def _matcher(self) -> str:
        return f"{self._types[1]} dispatchers={','.join(self._dispatchers)} {self._cost}".strip()

    def _machine(self, at: float, name: str, machine: str) -> None:
        mbps = self.random.choice([5.0, 50.0])
        self._say(
            st.AddBroker(
                at=at, broker=name, cpu_mhz=1000, memory_mb=16, bandwidth_mbps=mbps, machine=machine
            )
        )

    # --- phases -------------------------------------------------------------------------------------

    def _phase(self) -> None:
        r = self.random
        plan = [(self._soon(PHASE_S), self._publish) for _ in range(int(EVENTS_PER_S * PHASE_S))]
        times = [self._soon(PHASE_S / 2) for _ in range(r.choice([0, 1, 2, 3]))]
        self._faulty += times
        plan += [(time - r.choice([0.002, 0.05, 0.3]), self._burst) for time in times]
        actions = [
            self._join,
            self._join,
            self._leave,
            self._remove_matcher,
            self._add_publisher,
            self._add_subscriber,
            self._subscribe,
            self._subscribe,
            self._unsubscribe,
            self._remove_client,
            self._redirect,
            self._redirect,
            self._take_over,
        ]
        plan += [(self._soon(PHASE_S), r.choice(actions)) for _ in range(r.randint(2, 12))]
        plan += [
            (self._now + self._apart.random() * PHASE_S, self._reshape)
            for _ in range(self._apart.choice([0, 1, 2, 5]))
        ]
        for at, action in sorted(plan, key=lambda item: item[0]):
            action(round(at, 3))
        self._now += PHASE_S + r.choice([0.0, SETTLE_S, 3 * SETTLE_S])

    # --- matchers come and go -----------------------------------------------------------------------

    def _join(self, at: float) -> None:
        name = self._name("M1")
        others = [*self._dispatchers, *self._matchers]
        self._machine(at, name, self._matcher())
        for other in others:
            self._say(st.AddLink(at=at, a=other, b=name))
        self._matchers.append(name)
        self._burst(round(at + 0.5, 3))

    def _leave(self, at: float) -> None:
        if len(self._matchers) > 1:
            name = self._matchers.pop(self.random.randrange(len(self._matchers)))
            self._say(st.AskBroker(at=at, broker=name, request="leave"))
            self._say(st.RemoveBroker(at=round(at + LEAVES_S, 3), broker=name))
            self._burst(round(at + 0.1, 3))

    def _remove_matcher(self, at: float) -> None:
        """It is gone, and nobody was told."""
        if len(self._matchers) > 1:
            name = self._matchers.pop(self.random.randrange(len(self._matchers)))
            self._burst(at)
            self._say(st.RemoveBroker(at=at, broker=name))
            self._burst(at)

    def _reshape(self, at: float) -> None:
        """A dimension comes, or goes, as an operator says."""
        r = self._apart
        words = ["come=a:0:9", "come=b:0:5", "come=class:0:1", "go=a", "go=b", "go=class"]
        what, front = r.choice(words), r.choice(self._dispatchers)
        self._say(st.AskBroker(at=at, broker=front, request="dimension", arguments=what))

    # --- clients ------------------------------------------------------------------------------------

    def _home(self) -> str:
        return self.random.choice(self._dispatchers)

    def _add_publisher(self, at: float) -> None:
        name = self._name("P")
        self._say(
            st.AddPublisher(
                at=at,
                publisher=name,
                symbol=None,
                rate_per_min=0.0,
                broker=self._home(),
                advertisement=None,
            )
        )
        self._publishers.append(name)
        self._publish_from(name, round(at + 0.5, 3))

    def _add_subscriber(self, at: float) -> None:
        name, broker = self._name("S"), self._home()
        what = self._words.subscription()
        if self.random.random() < 0.3:
            self._durables.append(name)
            self._say(
                st.AddDurableSubscriber(at=at, subscriber=name, broker=broker, subscription=what)
            )
        else:
            self._subscribers[name] = ["main"]
            self._say(st.AddSubscriber(at=at, subscriber=name, broker=broker, subscription=what))

    def _subscribe(self, at: float) -> None:
        if self._subscribers:
            subscriber, name = self.random.choice(list(self._subscribers)), self._name("s")
            self._subscribers[subscriber].append(name)
            what = self._words.subscription()
            self._say(st.Subscribe(at=at, subscriber=subscriber, name=name, subscription=what))
            # It settles in a moment; what is published then has to come.
            for gap in (0.05, 0.1, 0.2, 0.4):
                self._burst(round(at + gap, 3))

    def _unsubscribe(self, at: float) -> None:
        some = [s for s, names in self._subscribers.items() if names]
        if some:
            subscriber = self.random.choice(some)
            names = self._subscribers[subscriber]
            name = names.pop(self.random.randrange(len(names)))
            self._burst(at)
            self._say(st.Unsubscribe(at=at, subscriber=subscriber, name=name))
            self._burst(at)

    def _remove_client(self, at: float) -> None:
        idle = [p for p in self._publishers if self._busy_until.get(p, 0.0) < at]
        if self.random.random() < 0.5 and len(self._publishers) > 1 and idle:
            name = self.random.choice(idle)
            self._publishers.remove(name)
            for _ in range(3):
                self._say(st.Publish(at=at, publisher=name, event=self._event()))
            self._say(st.RemovePublisher(at=at, publisher=name))
        elif self._subscribers:
            name = self.random.choice(list(self._subscribers))
            del self._subscribers[name]
            self._say(st.RemoveSubscriber(at=at, subscriber=name))

    def _redirect(self, at: float) -> None:
        clients = [*self._publishers, *self._subscribers]
        if clients:
            name = self.random.choice(clients)
            if name in self._publishers:
                for _ in range(3):
                    self._publish_from(name, at)
            self._say(st.RedirectClient(at=at, client=name, broker=self._home()))
            self._burst(round(at + self.random.random() / 4, 3))

    def _take_over(self, at: float) -> None:
        if self._durables:
            self._burst(at)
            self._say(st.RestartSubscriber(at=at, subscriber=self.random.choice(self._durables)))

    # --- events -------------------------------------------------------------------------------------

    def _event(self) -> Event:
        r = self.random
        found: dict[str, Value] = {
            name: r.choice([r.randrange(VALUES), r.randrange(VALUES), r.choice(STRANGE)])
            for name in ATTRIBUTES
            if r.random() < 0.9
        }
        return Event({"class": r.choice(CLASSES), **found})

    def _publish(self, at: float) -> None:
        if self._publishers:
            self._publish_from(self.random.choice(self._publishers), at)

    def _burst(self, at: float) -> None:
        for _ in range(BURST):
            self._publish(at)

    def _publish_from(self, publisher: str, at: float) -> None:
        self._busy_until[publisher] = max(at, self._busy_until.get(publisher, 0.0))
        self._say(st.Publish(at=at, publisher=publisher, event=self._event()))


def _settings(r: random.Random) -> Settings:
    return Settings(
        durability=r.random() < 0.9,
        commit_ms=r.choice([0.0, 2.0, 20.0]),
        ack_delay_s=r.choice([0.0, 0.05]),
        client_latency_ms=r.choice([0.0, 1.0, 10.0]),
        link_latency_ms=r.choice([0.0, 2.0, 20.0]),
        link_outbox_max=r.choice([50, 1_000, 100_000]),
        session_outbox_max=r.choice([10, 100_000, 100_000]),
        session_outbox_policy=r.choice(["drop", "end"]),
        linger_s=r.choice([10.0, 60.0]),
        load_period_s=5.0,
        asking=True,
        members=True,
    )
