"""Random scenarios with faults: whatever the seed, every promise has to hold.

A scenario is a small federation of a random shape and random settings. It is built up, is given time to settle, and then
lives through some phases. In each there is churn (clients, subscriptions and advertisements come and go), or faults, or
both, while events are published all the time; each ends with everything healed, and sometimes with time to settle, so
that the next has promises to break. Values are few and small, so that filters cover and overlap each other often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from roost.language import Advertisement, Event, Filter, Operator, Predicate, Subscription
from roost.simulation import statements as st
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.settings import Settings
from roost.simulation.topologies import (
    Topology,
    balanced_tree,
    chain,
    random_tree,
    scale_free_tree,
    star,
)
from roost.simulation.world import World

BROKERS_MIN, BROKERS_MAX = 3, 40
CLASSES = ("c0", "c1")
ATTRIBUTES = ("a", "b")
VALUES = 8
PHASE_S = 6.0
SETTLE_S = 4.0
EVENTS_PER_S = 6.0
# The faults of a profile, by how likely each is in a phase that has faults.
PROFILES: dict[str, tuple[str, ...]] = {
    "none": (),
    "network": ("cut", "cut", "partition", "delay", "vanish", "slow"),
    "all": ("crash", "crash", "amnesia", "cut", "cut", "partition", "delay", "vanish", "slow"),
}


class Scenario:
    """What a seed makes: settings and statements."""

    def __init__(self, seed: int, profile: str = "all") -> None:
        self.random = random.Random(f"{seed}/{profile}")
        self.statements: list[st.Statement] = []
        self._faults = PROFILES[profile]
        self._names = 0
        self._now = 0.0
        self._publishers: dict[str, dict[str, Advertisement]] = {}
        self._subscribers: dict[str, list[str]] = {}
        self._homes: dict[str, str] = {}  # client -> broker
        self._busy_until: dict[str, float] = {}  # what has a fault -> when it may have another
        self._brokers: list[str] = []
        self._links: list[tuple[str, str]] = []
        self.settings = self._settings()
        self._build()
        for _ in range(self.random.randint(1, 3)):
            self._phase()
        self.until = self._now + SETTLE_S

    # --- the beginning ------------------------------------------------------------------------------

    def _settings(self) -> Settings:
        r = self.random
        return Settings(
            routing="flooding" if r.random() < 0.25 else "advertisement",
            covering=r.random() < 0.75,
            advertisement_covering=r.random() < 0.4,
            durability=r.random() < 0.65,
            commit_ms=r.choice([0.0, 2.0, 50.0]),
            linger_s=r.choice([2.0, 10.0, 60.0]),
            ack_delay_s=r.choice([0.0, 0.05, 1.0]),
            client_latency_ms=r.choice([0.0, 1.0, 20.0]),
            link_latency_ms=r.choice([0.0, 5.0, 50.0]),
            link_outbox_max=r.choice([8, 100_000, 100_000]),
            load_period_s=5.0,
        )

    def _build(self) -> None:
        r = self.random
        size = r.randint(BROKERS_MIN, r.choice([6, 15, BROKERS_MAX]))
        topology = self._topology(size)
        self._brokers = list(topology.brokers)
        for name in self._brokers:
            mhz = r.choice([1.0, 20.0, 1000.0])
            mbps = r.choice([0.5, 5.0, 50.0])
            self._say(
                st.AddBroker(at=0.0, broker=name, cpu_mhz=mhz, memory_mb=16, bandwidth_mbps=mbps)
            )
        for link in topology.links:
            self._links.append((link.a, link.b))
            self._say(st.AddLink(at=0.0, a=link.a, b=link.b))
        self._now = 0.5
        for _ in range(r.randint(1, 5)):
            self._add_publisher(self._soon(1.0))
        for _ in range(r.randint(2, 14)):
            self._add_subscriber(self._soon(1.0))
        self._now += 1.0 + SETTLE_S

    def _topology(self, size: int) -> Topology:
        r = self.random
        makers: list[Callable[[], Topology]] = [
            lambda: chain(min(size, 12)),
            lambda: star(size),
            lambda: balanced_tree(size, r.choice([2, 3])),
            lambda: random_tree(size, r.randrange(1000)),
            lambda: scale_free_tree(size, r.randrange(1000)),
        ]
        return r.choice(makers)()

    # --- phases -------------------------------------------------------------------------------------

    def _phase(self) -> None:
        r = self.random
        kind = r.choice(["faults", "faults", "churn", "both"])
        plan = [(self._soon(PHASE_S), self._publish) for _ in range(int(EVENTS_PER_S * PHASE_S))]
        if kind != "churn" and self._faults:
            plan += [(self._soon(PHASE_S / 2), self._fault) for _ in range(r.choice([1, 1, 2, 3]))]
        if kind != "faults":
            plan += [(self._soon(PHASE_S), self._churn) for _ in range(r.randint(2, 10))]
        # In the order of time, so that each sees what there is by then.
        for at, action in sorted(plan, key=lambda item: item[0]):
            action(at)
        self._say(st.HealPartition(at=self._now + PHASE_S))
        self._now += PHASE_S + r.choice([0.0, SETTLE_S, 3 * SETTLE_S])

    def _churn(self, at: float) -> None:
        choices = [
            self._add_publisher,
            self._add_subscriber,
            self._subscribe,
            self._subscribe,
            self._unsubscribe,
            self._unsubscribe,
            self._advertise,
            self._unadvertise,
            self._remove_client,
            self._redirect,
        ]
        self.random.choice(choices)(at)

    def _add_publisher(self, at: float) -> None:
        name = self._name("P")
        broker = self._homes[name] = self.random.choice(self._brokers)
        advertisement = Advertisement([self._filter(0.5)])
        self._publishers[name] = {"main": advertisement}
        self._say(
            st.AddPublisher(
                at=at,
                publisher=name,
                symbol=None,
                rate_per_min=0.0,
                broker=broker,
                advertisement=advertisement,
            )
        )

    def _add_subscriber(self, at: float) -> None:
        name = self._name("S")
        broker = self._homes[name] = self.random.choice(self._brokers)
        self._subscribers[name] = ["main"]
        self._say(
            st.AddSubscriber(
                at=at, subscriber=name, broker=broker, subscription=self._subscription()
            )
        )

    def _subscribe(self, at: float) -> None:
        if self._subscribers:
            subscriber = self.random.choice(list(self._subscribers))
            name = self._name("s")
            self._subscribers[subscriber].append(name)
            self._say(
                st.Subscribe(
                    at=at, subscriber=subscriber, name=name, subscription=self._subscription()
                )
            )

    def _unsubscribe(self, at: float) -> None:
        some = [s for s, names in self._subscribers.items() if names]
        if some:
            subscriber = self.random.choice(some)
            names = self._subscribers[subscriber]
            name = names.pop(self.random.randrange(len(names)))
            self._say(st.Unsubscribe(at=at, subscriber=subscriber, name=name))

    def _advertise(self, at: float) -> None:
        if self._publishers:
            publisher = self.random.choice(list(self._publishers))
            name = self._name("a")
            advertisement = Advertisement([self._filter(0.5)])
            self._publishers[publisher][name] = advertisement
            self._say(
                st.Advertise(at=at, publisher=publisher, name=name, advertisement=advertisement)
            )

    def _unadvertise(self, at: float) -> None:
        some = [p for p, advertisements in self._publishers.items() if advertisements]
        if some:
            publisher = self.random.choice(some)
            # Something must be on the way for it to overtake.
            for _ in range(3):
                self._publish_from(publisher, at)
            name = self.random.choice(list(self._publishers[publisher]))
            del self._publishers[publisher][name]
            self._say(st.Unadvertise(at=at, publisher=publisher, name=name))

    def _remove_client(self, at: float) -> None:
        publishers, subscribers = self._present(self._publishers), self._present(self._subscribers)
        if self.random.random() < 0.5 and len(publishers) > 1:
            name = self.random.choice(publishers)
            for _ in range(3):
                self._publish_from(name, at)
            del self._publishers[name]
            self._say(st.RemovePublisher(at=at, publisher=name))
        elif subscribers:
            name = self.random.choice(subscribers)
            del self._subscribers[name]
            self._say(st.RemoveSubscriber(at=at, subscriber=name))

    def _redirect(self, at: float) -> None:
        clients = self._present([*self._publishers, *self._subscribers])
        if clients:
            name = self.random.choice(clients)
            for _ in range(3):
                self._publish_from(name, at)
            self._homes[name] = self.random.choice(self._brokers)
            self._say(st.RedirectClient(at=at, client=name, broker=self._homes[name]))
            for _ in range(3):
                self._publish_from(name, at)

    # --- events -------------------------------------------------------------------------------------

    def _publish(self, at: float) -> None:
        if self._publishers:
            self._publish_from(self.random.choice(list(self._publishers)), at)

    def _publish_from(self, publisher: str, at: float) -> None:
        """An event that one of its advertisements matches, as far as a few tries find one."""
        advertisements = list(self._publishers.get(publisher, {}).values())
        if not advertisements:
            return
        for _ in range(10):
            event = Event(
                {
                    "class": self.random.choice(CLASSES),
                    **{name: self.random.randrange(VALUES) for name in ATTRIBUTES},
                }
            )
            if any(a.matches(event) for a in advertisements):
                self._say(st.Publish(at=at, publisher=publisher, event=event))
                return

    def _subscription(self) -> Subscription:
        filters = [self._filter(0.7)]
        if self.random.random() < 0.1:
            filters.append(self._filter(0.7))
        return Subscription(filters)

    def _filter(self, narrow: float) -> Filter:
        r = self.random
        predicates = []
        if r.random() < narrow:
            predicates.append(Predicate("class", Operator.EQ, r.choice(CLASSES)))
        for name in ATTRIBUTES:
            if r.random() < narrow / 2:
                operator = r.choice([Operator.GT, Operator.LT, Operator.EQ, Operator.GE])
                predicates.append(Predicate(name, operator, r.randrange(VALUES)))
        return Filter(predicates or [Predicate("a", Operator.GE, 0)])

    # --- faults -------------------------------------------------------------------------------------

    def _fault(self, at: float) -> None:
        until = round(at + self.random.uniform(0.2, PHASE_S / 2), 3)
        FAULTS[self.random.choice(self._faults)](self, at, until)

    def _crash(self, at: float, until: float) -> None:
        self._crash_one(at, until, keep_store=self.settings.durability)

    def _amnesia(self, at: float, until: float) -> None:
        self._crash_one(at, until, keep_store=False)

    def _crash_one(self, at: float, until: float, *, keep_store: bool) -> None:
        broker = self.random.choice(self._brokers)
        if not self._clear(until, "broker", broker):
            return
        self._say(st.CrashBroker(at=at, broker=broker, keep_store=keep_store))
        self._say(st.RestartBroker(at=until, broker=broker))

    def _cut(self, at: float, until: float) -> None:
        a, b = self.random.choice(self._links)
        if self._clear(until, "link", f"{a}-{b}"):
            self._say(st.CutLink(at=at, a=a, b=b))
            self._say(st.HealLink(at=until, a=a, b=b))

    def _partition(self, at: float, until: float) -> None:
        if self._clear(until, "partition", ""):
            some = self.random.sample(self._brokers, self.random.randint(1, len(self._brokers) - 1))
            self._say(st.Partition(at=at, brokers=tuple(some)))

    def _delay(self, at: float, until: float) -> None:
        a, b = self.random.choice(self._links)
        extra = self.random.choice([20.0, 300.0, 2000.0])
        self._say(st.DelayLink(at=at, a=a, b=b, extra_ms=extra, duration_s=until - at))

    def _slow(self, at: float, until: float) -> None:
        broker = self.random.choice(self._brokers)
        self._say(st.SlowBroker(at=at, broker=broker, factor=self.random.choice([3.0, 30.0])))
        self._say(st.SlowBroker(at=until, broker=broker, factor=1.0))

    def _vanish(self, at: float, until: float) -> None:
        clients = [*self._publishers, *self._subscribers]
        name = self.random.choice(clients)
        if self._clear(until, "client", name):
            self._say(st.VanishClient(at=at, client=name))
            self._say(st.ReturnClient(at=until + self.random.choice([0.0, 4.0]), client=name))

    def _present(self, clients: Iterable[str]) -> list[str]:
        """Those of the clients that do not vanish in this phase."""
        return [c for c in clients if self._busy_until.get(f"client {c}", 0.0) < self._now]

    def _clear(self, until: float, kind: str, name: str) -> bool:
        """Whether a thing has no fault planned in this phase; from now on it has."""
        key = f"{kind} {name}"
        free = self._busy_until.get(key, 0.0) < self._now
        if free:
            self._busy_until[key] = until + PHASE_S
        return free

    # --- helpers ------------------------------------------------------------------------------------

    def _say(self, statement: st.Statement) -> None:
        self.statements.append(statement)

    def _soon(self, within_s: float) -> float:
        return round(self._now + self.random.random() * within_s, 3)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"


FAULTS: dict[str, Callable[[Scenario, float, float], None]] = {
    "crash": Scenario._crash,
    "amnesia": Scenario._amnesia,
    "cut": Scenario._cut,
    "partition": Scenario._partition,
    "delay": Scenario._delay,
    "vanish": Scenario._vanish,
    "slow": Scenario._slow,
}


def fuzz(seed: int, profile: str = "all") -> tuple[Scenario, World, Checks]:
    """Run the scenario of a seed to its end, let it come to rest, and judge."""
    scenario = Scenario(seed, profile)
    world = World(scenario.settings, scenario.statements, seed=seed)
    run(world, scenario.until)
    rested = rest(world)
    return scenario, world, check(world, rested=rested, must_rest=True)
