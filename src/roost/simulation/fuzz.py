"""Random scenarios with faults: whatever the seed, every promise has to hold.

A scenario is a small federation of a random shape and random settings. It is built up, is given time to
settle, and then lives through some phases. In each there is churn (clients, subscriptions,
advertisements, links and brokers come and go), or faults (see `faults`), or both, while events are
published all the time; each ends with everything healed, but for clients that stay away longer, and
sometimes with time to settle, so that the next has promises to break. Values are few and small, so that
filters cover and overlap each other often.

In the profile *edges* faults last, and while they do clients begin and end, publishers all leave and others
come, and what is published then has to arrive when all are back.

In the profile *moves* clients are sent from broker to broker all the time, mostly publishers, while they
publish, with faults of all kinds and some churn; brokers are quick enough for a move to be over before long.

In the profile *rewirings* links are moved all the time (see `broker.rewiring`), and clients too, with the
same faults; nobody else changes the overlay. In the profile *overlay* it is the brokers that move links, by
what passes through them (`overlay.organising`), in federations of up to 63 of them.

In the profile *balancing* brokers balance load all the time (see `roost.balancing`), with the same faults as
in *all*, in clusters of edge-brokers or in any other shape; some are asked to be emptied.

In the profile *clusters* brokers form a hierarchy with a mesh at the top (see `broker.hierarchy`), and change
between the ways of the tree and of the cluster, with the churn and the faults of *all*, or of *edges* in
every other scenario.

In the profile *standbys* every broker has a standby (see `standbys`), and nodes of them are killed, lose
their disks, are stopped and wake up, or lose sight of each other, besides other faults; nothing is forgiven
for it.

A scenario is a workload like any other: `Scenario.text` is the file from which it runs in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roost.broker.hierarchy import WAYS
from roost.broker.story import Storybook
from roost.language import Advertisement, Filter, Operator, Predicate, Subscription
from roost.overlay.hierarchies import Hierarchy
from roost.simulation import statements as st
from roost.simulation.faults import SHORTEST_S
from roost.simulation.optimisers import Modules, modules_of
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.scenario_overlay import BROKERS_MIN, machine_of, part_of, shape_of
from roost.simulation.scenario_settings import (
    BALANCING,
    CLUSTERS,
    EDGES,
    MOVES,
    OVERLAY,
    REWIRINGS,
    STANDBYS,
    is_edgy,
    settings_of,
)
from roost.simulation.script import Script
from roost.simulation.service_scenario import PROFILE as PARTITION
from roost.simulation.service_scenario import ServiceScenario
from roost.simulation.world import World

PHASE_S = 6.0
SETTLE_S = 4.0
# What came over a link that is removed is withdrawn from broker to broker. A link that joins the parts
# again may come before that is done, or after.
RELINK_AFTER_S = (0.0, 0.05, 1.0)
HEARS_TWICE = 0.7
# Events that come together, where one of them could be lost.
BURST = 6
# Events that come one close behind the other.
STREAM = 80
STREAM_GAP_S = 0.004
PRIVATE = "private"
EVENTS_PER_S = 6.0
EVERYTHING = Subscription([Filter([])])
EDGE_FAULTS_S = (1.0, 12.0)
MOVES_PER_S = 6.0
REWIRINGS_PER_S = 2.0
# By what passes through them brokers decide: there has to be something.
OVERLAY_EVENTS_PER_S = 30.0
MOVED_PUBLISHERS = 0.8  # their share
CROWDED = 0.6  # the share of clients that begin at the same broker
DRAINS = 0.4


class Scenario(Script):
    """What a seed makes: settings and statements."""

    def __init__(self, seed: int, profile: str = "all") -> None:
        super().__init__(seed, profile)
        self.settings = settings_of(seed, profile, self.random)
        self._is_edgy = is_edgy(seed, profile)
        self._publishers: dict[str, dict[str, Advertisement]] = {}
        self._subscribers: dict[str, list[str]] = {}
        self._durables: list[str] = []  # subscribers whose session outlives their process
        self._hosted: dict[str, None] = {}  # brokers that had a client at any time
        self._brokers: list[str] = []
        self._links: list[tuple[str, str]] = []
        self._whole_at = 0.0  # when the overlay is, or was last, joined again
        self._away_until: dict[str, float] = {}  # clients that vanish while they move
        self._build()
        for _ in range(self.random.randint(1, 3)):
            self._phase()
        self.until = self._now + SETTLE_S
        self.statements = self._finished(*self._faults())

    # --- the beginning ------------------------------------------------------------------------------

    def _build(self) -> None:
        r = self.random
        topology = shape_of(self.profile, r, is_edgy=self._is_edgy)
        self._brokers = list(topology.brokers)
        for name in self._brokers:
            self._say(machine_of(self.profile, r, 0.0, name, is_edgy=self._is_edgy))
        for link in topology.links:
            self._links.append((link.a, link.b))
            self._say(st.AddLink(at=0.0, a=link.a, b=link.b))
        for link in topology.peers if isinstance(topology, Hierarchy) else ():
            self._links.append((link.a, link.b))
            self._say(st.AddPeerLink(at=0.0, a=link.a, b=link.b))
        self._now = 0.5
        for _ in range(r.randint(1, 5)):
            self._add_publisher(self._soon(1.0))
        for _ in range(r.randint(*((8, 20) if self.profile == BALANCING else (2, 14)))):
            self._add_subscriber(self._soon(1.0))
        self._now += 1.0 + SETTLE_S

    # --- phases -------------------------------------------------------------------------------------

    def _phase(self) -> None:
        r = self.random
        if self._is_edgy:
            self._phase_of_edges()
            return
        kind = r.choice(
            ["faults", "faults", "both" if self.profile == STANDBYS else "churn", "both"]
        )
        per_s = OVERLAY_EVENTS_PER_S if self.profile == OVERLAY else EVENTS_PER_S
        plan = [(self._soon(PHASE_S), self._publish) for _ in range(int(per_s * PHASE_S))]
        if kind != "churn":
            faults = [3, 4, 6] if self.profile == STANDBYS else [1, 1, 2, 3]
            times = [self._soon(PHASE_S / 2) for _ in range(r.choice(faults))]
            self._faulty += times
            plan += [(time - r.choice([0.002, 0.05, 0.3]), self._burst) for time in times]
        if kind != "faults":
            plan += [(self._soon(PHASE_S), self._churn) for _ in range(r.randint(2, 10))]
        if self.profile == MOVES:
            moves = int(MOVES_PER_S * PHASE_S)
            plan += [(self._soon(PHASE_S), self._move) for _ in range(moves)]
        elif self.profile == BALANCING:
            # Of quotes there are never enough: sessions wait for samples.
            more = int(2 * EVENTS_PER_S * PHASE_S)
            plan += [(self._soon(PHASE_S), self._publish) for _ in range(more)]
            if r.random() < DRAINS:
                plan.append((self._soon(PHASE_S / 2), self._empty))
        elif self.profile == REWIRINGS:
            rewirings = int(REWIRINGS_PER_S * PHASE_S)
            plan += [(self._soon(PHASE_S), self._shuffle) for _ in range(rewirings)]
            plan += [(self._soon(PHASE_S), self._move) for _ in range(rewirings // 2)]
        elif self.profile == OVERLAY:
            plan += [(self._soon(PHASE_S), self._move) for _ in range(int(MOVES_PER_S))]
        elif self.profile == CLUSTERS:
            plan += [(self._soon(PHASE_S), self._switch) for _ in range(r.choice([0, 1, 3]))]
        # In the order of time, so that each sees what there is by then.
        for at, action in sorted(plan, key=lambda item: item[0]):
            action(at)
        self._now += PHASE_S + r.choice([0.0, SETTLE_S, 3 * SETTLE_S])

    def _phase_of_edges(self) -> None:
        """Some faults that last; before, during and after them clients come and go, and publish."""
        r = self.random
        length_s = EDGE_FAULTS_S[1] + PHASE_S
        plan = [(self._soon(length_s), self._publish) for _ in range(int(3 * length_s))]
        times = [self._soon(2.0) for _ in range(r.choice([1, 1, 2, 3]))]
        self._faulty += times
        plan += [(round(time + r.choice([0.3, 1.0, 2.5]), 3), self._rush) for time in times]
        actions = [
            self._everybody_leaves,
            self._begin_publishing,
            self._begin_publishing,
            self._add_subscriber,
            self._add_subscriber,
            self._subscribe,
            self._unsubscribe,
            self._advertise,
            self._unadvertise,
            self._remove_client,
            self._add_durable,
            self._take_over,
            self._permit,
        ]
        plan += [(self._soon(length_s), r.choice(actions)) for _ in range(r.randint(4, 14))]
        if self.profile == CLUSTERS:
            plan += [(self._soon(length_s), self._switch) for _ in range(r.choice([0, 1, 3]))]
        for at, action in sorted(plan, key=lambda item: item[0]):
            action(at)
        self._now += length_s + r.choice([0.0, SETTLE_S])

    def _switch(self, at: float) -> None:
        """Some brokers, or all, go another way, while events pass and some links are slow."""
        r = self.random
        way = r.choice(WAYS)
        everybody = r.random() < 0.4
        for broker in self._brokers:
            if everybody or r.random() < 0.5:
                self._say(st.SwitchBroker(at=at, broker=broker, way=way))
        if at > self._whole_at:
            for a, b in r.sample(self._links, min(2, len(self._links))):
                extra_ms = r.choice([100.0, 300.0, 1000.0])
                self._say(st.DelayLink(at=at, a=a, b=b, extra_ms=extra_ms, duration_s=1.5))
        for _ in range(BURST):
            self._publish(round(at + r.random() * r.choice([0.05, 1.5]), 3))

    def _rush(self, at: float) -> None:
        """Somebody subscribes when not everybody has noticed yet what is lost, and events go on."""
        name, broker = self._name("S"), self._home()
        self._subscribers[name] = ["main"]
        everything = Subscription([Filter([Predicate("a", Operator.GE, 0)])])
        self._say(st.AddSubscriber(at=at, subscriber=name, broker=broker, subscription=everything))
        for number in range(STREAM // 2):
            self._publish(round(at + number * STREAM_GAP_S * 10, 3))

    def _begin_publishing(self, at: float) -> None:
        """A publisher that says what it has to say at once."""
        self._add_publisher(at)
        publisher = next(reversed(self._publishers))
        for number in range(BURST):
            self._publish_from(publisher, round(at + number * self.random.choice([0, 0.3]), 3))

    def _everybody_leaves(self, at: float) -> None:
        """No publisher is left: the subscriptions that followed them go back."""
        for name in list(self._publishers):
            if self._is_idle(name, at):
                del self._publishers[name]
                self._say(st.RemovePublisher(at=at, publisher=name))

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
            self._uncover,
            self._remove_client,
            self._redirect,
            self._add_durable,
            self._take_over,
            self._take_over,
            self._permit,
            self._change_overlay,
            self._change_overlay,
            self._change_overlay,
        ]
        self.random.choice(choices)(at)

    def _add_publisher(self, at: float) -> None:
        name = self._name("P")
        broker = self._home()
        advertisement = Advertisement([self._words.filter(0.5)])
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
        broker = self._home()
        self._subscribers[name] = ["main"]
        self._say(
            st.AddSubscriber(
                at=at, subscriber=name, broker=broker, subscription=self._words.subscription()
            )
        )

    def _add_durable(self, at: float) -> None:
        name = self._name("D")
        self._durables.append(name)
        self._say(
            st.AddDurableSubscriber(
                at=at, subscriber=name, broker=self._home(), subscription=self._words.subscription()
            )
        )

    def _take_over(self, at: float) -> None:
        """A durable subscriber is killed amid events, and another process goes on."""
        if self._durables:
            name = self.random.choice(self._durables)
            for _ in range(self.random.choice([1, 1, 2])):
                self._burst(at)
                self._say(st.RestartSubscriber(at=at, subscriber=name))
                at = round(at + self.random.choice([0.001, 0.05, 0.3, 1.0]), 3)

    def _permit(self, at: float) -> None:
        """A client may do less for a while, amid events; then it may do everything again, and does more."""
        r = self.random
        some = list(self._publishers if r.random() < 0.5 else self._subscribers)
        if not some:
            return
        name = r.choice(some)
        until = round(at + r.choice([0.001, 0.1, 1.0, 4.0]), 3)
        if not self._is_idle(name, at):
            return
        self._burst(at)
        less = Subscription([self._words.filter(0.7)])
        self._say(st.PermitClient(at=at, client=name, filter=less))
        self._burst(at)
        self._say(st.PermitClient(at=until, client=name, filter=EVERYTHING))
        if name in self._subscribers:
            new = self._name("s")
            self._subscribers[name].append(new)
            more = self._words.subscription()
            self._say(st.Subscribe(at=until, subscriber=name, name=new, subscription=more))

    def _subscribe(self, at: float) -> None:
        if self._subscribers:
            subscriber = self.random.choice(list(self._subscribers))
            name = self._name("s")
            self._subscribers[subscriber].append(name)
            self._say(
                st.Subscribe(
                    at=at, subscriber=subscriber, name=name, subscription=self._words.subscription()
                )
            )

    def _unsubscribe(self, at: float) -> None:
        some = [s for s, names in self._subscribers.items() if names]
        if some:
            subscriber = self.random.choice(some)
            names = self._subscribers[subscriber]
            name = names.pop(self.random.randrange(len(names)))
            # Whoever it covered must not miss any of these.
            self._burst(at)
            self._say(st.Unsubscribe(at=at, subscriber=subscriber, name=name))
            self._burst(at)

    def _uncover(self, at: float) -> None:
        """A wide subscription goes, from under which a narrow one has to come out, in a stream of events.

        They speak of an attribute of their own, so that no other covers either.
        """
        if not self._publishers:
            return
        publisher = self.random.choice(list(self._publishers))
        name, broker = self._name("S"), self._home()
        wide = Subscription([Filter([Predicate(PRIVATE, Operator.GE, 0)])])
        narrow = Subscription([Filter([Predicate(PRIVATE, Operator.EQ, 1)])])
        self._say(st.AddSubscriber(at=at, subscriber=name, broker=broker, subscription=wide))
        self._say(st.Subscribe(at=at, subscriber=name, name="narrow", subscription=narrow))
        gone_at = round(at + SETTLE_S, 3)
        self._say(st.Unsubscribe(at=gone_at, subscriber=name, name="main"))
        for number in range(STREAM):
            time = round(gone_at + number * STREAM_GAP_S, 3)
            self._publish_from(publisher, time, private=1)

    def _advertise(self, at: float) -> None:
        if self._publishers:
            publisher = self.random.choice(list(self._publishers))
            name = self._name("a")
            advertisement = Advertisement([self._words.filter(0.5)])
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
        publishers = [p for p in self._here(self._publishers, at) if self._is_idle(p, at)]
        subscribers = self._here(self._subscribers, at)
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
        clients = self._here([*self._publishers, *self._subscribers], at)
        if clients:
            name = self.random.choice(clients)
            for _ in range(3):
                self._publish_from(name, at)
            self._say(st.RedirectClient(at=at, client=name, broker=self._home()))
            # What it publishes from now on must not arrive before that, although some of it is late.
            if at > self._whole_at:
                a, b = self.random.choice(self._links)
                extra = self.random.choice([300.0, 1000.0])
                self._say(st.DelayLink(at=at, a=a, b=b, extra_ms=extra, duration_s=0.5))
            for _ in range(BURST):
                self._publish_from(name, round(at + self.random.random(), 3))

    def _move(self, at: float) -> None:
        """A client is sent elsewhere, and publishes. Some vanish then, and some links are slow just then."""
        r = self.random
        some = self._publishers if r.random() < MOVED_PUBLISHERS else self._subscribers
        clients = self._here(some, at)
        if not clients:
            return
        name = r.choice(clients)
        self._publish_from(name, at)
        self._say(st.RedirectClient(at=at, client=name, broker=self._home()))
        for _ in range(3):
            self._publish_from(name, round(at + r.random() / 4, 3))
        what = r.random()
        if what < 0.1:
            gone_at = round(at + r.choice([0.001, 0.02, 0.1, 0.5]), 3)
            back_at = round(gone_at + r.uniform(SHORTEST_S, PHASE_S / 2), 3)
            self._say(st.VanishClient(at=gone_at, client=name))
            self._say(st.ReturnClient(at=back_at, client=name))
            self._away_until[name] = back_at
        elif what < 0.2 and at > self._whole_at:
            a, b = r.choice(self._links)
            extra_ms = r.choice([30.0, 300.0])
            self._say(st.DelayLink(at=at, a=a, b=b, extra_ms=extra_ms, duration_s=0.3))

    def _here(self, clients: Iterable[str], at: float) -> list[str]:
        """Those that have not vanished: who is gone can't be told anything."""
        return [name for name in clients if self._away_until.get(name, -1.0) < at]

    def _is_idle(self, publisher: str, at: float) -> bool:
        return self._busy_until.get(publisher, 0.0) < at

    def _empty(self, at: float) -> None:
        """A broker is asked to be rid of its clients; some time later to take some again."""
        broker = self.random.choice(self._brokers)
        self._say(st.AskBroker(at=at, broker=broker, request="drain"))
        until = round(at + PHASE_S / 2, 3)
        self._say(st.AskBroker(at=until, broker=broker, request="drain", arguments="do=cancel"))

    def _shuffle(self, at: float) -> None:
        self._say(st.ShuffleLinks(at=at))
        for _ in range(self.random.choice([0, 3, BURST])):
            self._publish(round(at + self.random.random() / 4, 3))

    def _home(self) -> str:
        broker = self.random.choice(self._brokers)
        if self.profile == BALANCING and self.random.random() < CROWDED:
            broker = self._brokers[-1]  # in clusters it is an edge-broker
        self._hosted[broker] = None
        return broker

    # --- churn of the overlay -----------------------------------------------------------------------

    def _change_overlay(self, at: float) -> None:
        """One change at a time: while the overlay is in parts it is left so."""
        if at > self._whole_at and self.profile not in (REWIRINGS, OVERLAY):
            choices = [self._relink, self._relink, self._add_broker, self._remove_broker]
            if self.profile == BALANCING:
                del choices[-1]  # subscribers may be at any of them
            elif self.profile in (CLUSTERS, STANDBYS):
                del choices[:2]  # everybody stays where it is
            self.random.choice(choices)(at)

    def _relink(self, at: float) -> None:
        """The overlay comes apart, and is joined again by another link, or by the same."""
        joined_at = round(at + self.random.choice(RELINK_AFTER_S), 3)
        self._whole_at = joined_at
        cut = self._links.pop(self.random.randrange(len(self._links)))
        self._say(st.RemoveLink(at=at, a=cut[0], b=cut[1]))
        a, b = (self.random.choice(part_of(self._links, end)) for end in cut)
        twice = self.random.random() < HEARS_TWICE
        if twice:
            b = self.random.choice(part_of(self._links, cut[1])[1:] or [b])
        self._links.append((a, b))
        self._say(st.AddLink(at=joined_at, a=a, b=b))
        if twice:
            self._hear_twice(at, joined_at, a, b, cut[1])

    def _hear_twice(self, at: float, joined_at: float, a: str, b: str, end: str) -> None:
        """What is withdrawn comes late to a broker that hears of the same over the new link, and crashes.

        It comes back with what it knows from both sides. `b` is where the new link leads, `end` where the old
        one did.
        """
        r = self.random
        ways = [link for link in self._links[:-1] if b in link and b != end]
        for one, other in ways:
            self._say(st.DelayLink(at=at, a=one, b=other, extra_ms=2000.0, duration_s=2.5))
        crashed_at = round(joined_at + r.choice([0.3, 0.6, 1.0]), 3)
        name = b if r.random() < 0.7 else a
        keep = self.settings.durability
        self._say(st.CrashBroker(at=crashed_at, broker=name, keep_store=keep))
        self._whole_at = round(crashed_at + r.choice([0.3, 1.0]), 3)
        self._say(st.RestartBroker(at=self._whole_at, broker=name))

    def _add_broker(self, at: float) -> None:
        name = self._name("N")
        neighbour = self.random.choice(self._brokers)
        self._brokers.append(name)
        self._links.append((neighbour, name))
        machine = machine_of(self.profile, self.random, at, name, is_edgy=self._is_edgy)
        self._say(machine)
        self._say(st.AddLink(at=at, a=neighbour, b=name))

    def _remove_broker(self, at: float) -> None:
        """One at the edge. Nobody ever sat there: a client that was told to go may not have heard it."""
        links = [end for link in self._links for end in link]
        idle = [b for b in self._brokers if b not in self._hosted and links.count(b) == 1]
        if idle and len(self._brokers) > BROKERS_MIN:
            name = self.random.choice(idle)
            self._brokers.remove(name)
            self._links = [link for link in self._links if name not in link]
            self._say(st.RemoveBroker(at=at, broker=name))

    # --- events -------------------------------------------------------------------------------------

    def _publish(self, at: float) -> None:
        if self._publishers:
            self._publish_from(self.random.choice(list(self._publishers)), at)

    def _burst(self, at: float) -> None:
        for _ in range(BURST):
            self._publish(round(at, 3))

    def _publish_from(self, publisher: str, at: float, **more: int) -> None:
        """An event that one of its advertisements matches, as far as a few tries find one."""
        advertisements = list(self._publishers.get(publisher, {}).values())
        if not advertisements:
            return
        event = self._words.event_of(advertisements, **more)
        if event is not None:
            self._busy_until[publisher] = max(at, self._busy_until.get(publisher, 0.0))
            self._say(st.Publish(at=at, publisher=publisher, event=event))

    def _faults(self) -> tuple[str, tuple[float, float]]:
        """Of which kinds they are, and how long they last."""
        if self._is_edgy:
            return EDGES, EDGE_FAULTS_S
        if self.profile == STANDBYS:
            return STANDBYS, (1.0, PHASE_S)
        alike = {MOVES: "all", BALANCING: "all", CLUSTERS: "all", OVERLAY: REWIRINGS}
        return alike.get(self.profile, self.profile), (SHORTEST_S, PHASE_S / 2)


def scenario_of(seed: int, profile: str) -> Scenario | ServiceScenario:
    """What a seed makes in a profile."""
    return ServiceScenario(seed) if profile == PARTITION else Scenario(seed, profile)


def fuzz(
    seed: int,
    profile: str = "all",
    storybook: Storybook | None = None,
    *,
    modules: Modules | None = None,
    routing: str | None = None,
    chunks: bool = False,
) -> tuple[Scenario | ServiceScenario, World, Checks]:
    """Run the scenario of a seed to its end, let it come to rest, and judge.

    `modules` come on top of those of the scenario, and `routing` in place of its own.
    """
    scenario = scenario_of(seed, profile)
    settings = scenario.settings
    if routing is not None:
        settings = msgspec.structs.replace(settings, routing=routing)
    world = World(
        settings,
        scenario.statements,
        seed=seed,
        storybook=storybook,
        modules=modules_of(settings, modules),
        chunks=chunks,
    )
    run(world, scenario.until)
    rested = rest(world)
    return scenario, world, check(world, rested=rested, must_rest=True)
