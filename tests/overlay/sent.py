"""The obvious way to know what a tree carries: send every message over it, and count at every broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from roost.overlay.rewiring.counters import LOCAL, Passages, Rewiring, Training
from roost.overlay.topologies import random_tree
from roost.overlay.trees import neighbours

Near = dict[str, set[str]]
# Broker -> the subscriptions of its clients; a subscription is the topics that it asks for.
Interests = Mapping[str, list[frozenset[int]]]
Messages = Iterable[tuple[str, int]]  # where it is published, and its topic


class Sent(NamedTuple):
    """What was counted."""

    training: dict[str, Training]
    passages: dict[str, Passages]
    links: Counter[tuple[str, str]]  # from, to
    hops: int  # over all deliveries

    @property
    def total(self) -> int:
        return sum(self.links.values())


def text(subscription: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(subscription)))


def send(near: Near, interests: Interests, messages: Messages) -> Sent:
    """Subscription forwarding: a message goes to a neighbour if somebody behind it wants it."""
    training = {broker: Training() for broker in near}
    passages = {broker: Passages() for broker in near}
    links: Counter[tuple[str, str]] = Counter()
    hops = 0
    everything = {each for some in interests.values() for each in some}
    for origin, topic in messages:
        matched = sorted(text(each) for each in everything if topic in each)
        waiting = [(origin, LOCAL, 0)]
        while waiting:
            broker, source, far = waiting.pop()
            gets = {}
            here = _wanting(interests, [broker], topic)
            if here:
                gets[LOCAL] = here
                hops += here * far
            for other in sorted(near[broker] - {source}):
                behind = _wanting(interests, side(near, other, broker), topic)
                if behind:
                    gets[other] = behind
                    links[broker, other] += 1
                    waiting.append((other, broker, far + 1))
            training[broker].passed(source, gets, matched)
            passages[broker].passed(source, gets)
    return Sent(training, passages, links, hops)


def _wanting(interests: Interests, brokers: Iterable[str], topic: int) -> int:
    """Clients are one a subscription."""
    return sum(topic in each for broker in brokers for each in interests.get(broker, ()))


def side(near: Near, start: str, behind: str) -> list[str]:
    """All brokers that are reached from `start` without `behind`."""
    found, waiting = [], [(start, behind)]
    while waiting:
        broker, before = waiting.pop()
        found.append(broker)
        waiting += [(other, broker) for other in near[broker] - {before}]
    return found


def rewired(near: Near, rewiring: Rewiring) -> Near:
    """The tree after it."""
    after = {broker: set(others) for broker, others in near.items()}
    middle, mover, anchor = rewiring
    after[middle].remove(mover)
    after[mover].remove(middle)
    after[mover].add(anchor)
    after[anchor].add(mover)
    return after


def rewirings(near: Near) -> list[Rewiring]:
    """All that there are."""
    return [
        Rewiring(middle, mover, anchor)
        for middle in sorted(near)
        for mover in sorted(near[middle])
        for anchor in sorted(near[middle] - {mover})
    ]


def tree(brokers: int, seed: int) -> Near:
    return {name: set(some) for name, some in neighbours(random_tree(brokers, seed)).items()}


class World(NamedTuple):
    """A tree, what is wanted, and what is published."""

    near: Near
    interests: Interests
    messages: list[tuple[str, int]]


@st.composite
def worlds(draw: st.DrawFn, topics_a_subscription: int, brokers_max: int = 9) -> World:
    """By topic, if a subscription asks for one."""
    n = draw(st.integers(3, brokers_max))
    near = tree(n, draw(st.integers(0, 10_000)))
    names = sorted(near)
    topic = st.integers(1, 4)
    subscription = st.frozensets(topic, min_size=1, max_size=topics_a_subscription)
    interests = {name: draw(st.lists(subscription, max_size=3)) for name in names}
    messages = draw(st.lists(st.tuples(st.sampled_from(names), topic), min_size=1, max_size=25))
    return World(near, interests, messages)
