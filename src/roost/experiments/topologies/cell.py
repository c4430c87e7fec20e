"""The task of 003's experiments: a federation in the simulator, loaded with subscriptions or publications.

    roost sweep roost.experiments.topologies.cell:CELL --set what=publications --set topology=tree,cluster \\
        --set brokers=1,2,3

Brokers are Roost's, and so is every message between them. **Throughput** follows from what each broker has
done in the run and what that costs a live one (`costs`), by the law of utilisation: a load at which the
busiest broker needs a second each second is the most that there can be. So

    publications    bears_per_s: all publications, by the time of the busiest broker. Whatever is published
                    has to pass it in the end
    subscriptions   bears_per_s: what each broker takes from its own subscribers by its own time, added up.
                    A subscriber has its answer from its own broker, and sends the next one; nobody waits for
                    routing (003 section V.C)

and `per_processor_s` is either by the time of all brokers. **Times** are those of the same run, at a tenth of
the load that a single broker bears, so that queues are short. Subscriptions are kept in a store, as in 003,
which takes 5 ms to commit: an answer is a broker's word that it has the subscription safe, and it passes a
subscription on when it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Literal

import numpy as np

from roost.experiments.topologies.costs import MEASURED, MHZ, STEPS, US, Steps
from roost.experiments.topologies.load import MACHINES, Spread, publications, subscriptions
from roost.experiments.topologies.metered import MeteredBroker, Stopwatch, Tally
from roost.experiments.topologies.shapes import Shape, ShapeName, shape_of
from roost.language import Event, parse_subscription
from roost.pipeline.sweeps.tasks import Parameters, Row, Task
from roost.pipeline.workload.topics import TOPIC
from roost.simulation import statements as st
from roost.simulation.generators.parameters import parameters_of, read_values
from roost.simulation.generators.parts import Positive, Share, draws
from roost.simulation.run import check, rest
from roost.simulation.settings import Settings
from roost.simulation.world import World

MACHINE = f"{MeteredBroker.__module__}:{MeteredBroker.__qualname__}"
# Clients join then, and by the other time all that they want is in place.
JOIN_S, BEGIN_S = 1.0, 5.0
# By then the last message has arrived.
SETTLED_S = 5.0
COMMIT_MS = 5.0
# Of what a single broker bears.
LOAD = 0.1
LATENCY_MS = 0.2
# A delivery has about so many bytes; the network card is as quick as a live broker delivers.
DELIVERY_BYTES = 60
BANDWIDTH_MBPS = 8 * DELIVERY_BYTES / MEASURED.delivered
NOTHING = parse_subscription(f"{TOPIC} = 'none'")
MS = 1e3
SHOWN = ("bears_per_s", "per_processor_s", "answer_ms", "effect_ms", "delivered_ms")


def measured(
    seed: int,
    *,
    what: Literal["publications", "subscriptions"] = "publications",
    topology: ShapeName = "tree",
    brokers: Positive = 3,
    topics: Positive = 100,
    shared: Share = 0.0,
    each: Positive = 50,
    listeners: Positive = MACHINES,
) -> Row:
    """A federation of 003's, and what it bears.

    `each` is how many messages a machine sends, `listeners` how many of a broker's want its topics.
    """
    shape = shape_of(topology, brokers)
    if what == "publications":
        return _publications(seed, shape, Spread(brokers, topics, shared), each, listeners)
    return _subscriptions(seed, shape, topics, each)


# --- graphs 2 and 5 -------------------------------------------------------------------------------------


def _publications(seed: int, shape: Shape, spread: Spread, each: int, listeners: int) -> Row:
    brokers = shape.brokers
    alone = Steps(from_clients=1, delivered=listeners).times(MEASURED)
    said = list(publications(seed, spread, each))
    times = _times(seed, len(said), len(brokers) * LOAD / alone)
    world = World(
        Settings(routing=shape.routing, link_latency_ms=LATENCY_MS),
        [
            *_federation(shape),
            *(
                st.AddSubscriber(
                    at=JOIN_S,
                    subscriber=f"S{number}",
                    broker=broker,
                    subscription=parse_subscription(spread.filter_at(number // listeners)),
                )
                for number, broker in _machines(shape, listeners)
            ),
            *(
                st.AddPublisher(
                    at=JOIN_S, publisher=f"P{number}", symbol=None, rate_per_min=0.0, broker=broker
                )
                for number, broker in _machines(shape)
            ),
            *(
                st.Publish(at=at, publisher=f"P{s.machine}", event=Event({TOPIC: s.topic}))
                for at, s in zip(times, said, strict=True)
            ),
        ],
        seed=seed,
    )
    tallies = _run(world, times[-1])
    checks = check(world, rested=rest(world))
    busy_s = [tally.steps.times(MEASURED) for tally in tallies.values()]
    return {
        "bears_per_s": len(said) / max(busy_s),
        "per_processor_s": len(said) / sum(busy_s),
        "delivered_ms": MS * world.delays.mean,
        "delivered_p99_ms": MS * world.delays.quantile(0.99),
        **_steps_row(tallies),
        "delivered": checks.delivered,
        "lost": checks.lost,
        "doubled": checks.doubled,
        "reordered": checks.reordered,
        "unwanted": checks.unwanted,
        "routing_errors": checks.routing_errors,
        "violations": checks.broken,
        "first_violation": next(iter(checks.violations), None),
    }


# --- graphs 1, 3 and 4 ----------------------------------------------------------------------------------


def _subscriptions(seed: int, shape: Shape, topics: int, each: int) -> Row:
    brokers = shape.brokers
    asked = list(subscriptions(seed, len(brokers), each, topics))
    times = _times(seed, len(asked), len(brokers) * LOAD / (US * MEASURED.subscriptions))
    names = [f"S{number}" for number, _ in _machines(shape)]
    watch = Stopwatch(names)
    parsed = {text: parse_subscription(text) for text in {a.filter for a in asked}}
    world = World(
        Settings(
            routing=shape.routing,
            link_latency_ms=LATENCY_MS,
            durability=True,
            commit_ms=COMMIT_MS,
            ack_delay_s=0.0,
        ),
        [
            *_federation(shape),
            *(
                st.AddSubscriber(
                    at=JOIN_S, subscriber=f"S{number}", broker=broker, subscription=NOTHING
                )
                for number, broker in _machines(shape)
            ),
            *(
                st.Subscribe(
                    at=at,
                    subscriber=f"S{a.machine}",
                    name=f"s{number}",
                    subscription=parsed[a.filter],
                )
                for number, (at, a) in enumerate(zip(times, asked, strict=True))
            ),
        ],
        seed=seed,
        storybook=watch,
    )
    tallies = _run(world, times[-1], watch)
    checks = check(world, rested=rest(world))
    busy_s = {name: tally.steps.times(MEASURED) for name, tally in tallies.items()}
    effects_s = list(_effects(watch, tallies))
    return {
        "bears_per_s": sum(t.steps.subscriptions / busy_s[n] for n, t in tallies.items()),
        "busiest_per_s": len(asked) / max(busy_s.values()),
        "per_processor_s": len(asked) / sum(busy_s.values()),
        "answer_ms": MS * fmean(watch.answers_s),
        "answered": len(watch.answers_s),
        "effect_ms": MS * fmean(effects_s),
        "routed": len(effects_s),
        **_steps_row(tallies),
        "routing_errors": checks.routing_errors,
        "account_errors": checks.account_errors,
        "violations": checks.broken,
        "first_violation": next(iter(checks.violations), None),
    }


def _effects(watch: Stopwatch, tallies: Mapping[str, Tally]) -> Iterator[float]:
    """Of each subscription that went on to another broker: until the last broker was done with it.

    Where there is one broker only, it is the last one.
    """
    for id_, asked_at in watch.asked_at.items():
        done = [t.done_at[id_] for t in tallies.values() if id_ in t.done_at]
        if len(done) > 1 or len(tallies) == 1:
            yield max(done) - asked_at


# --- both -----------------------------------------------------------------------------------------------


def _federation(shape: Shape) -> Iterator[st.Statement]:
    for broker in shape.brokers:
        yield st.AddBroker(
            at=0.0,
            broker=broker,
            cpu_mhz=MHZ,
            memory_mb=512.0,
            bandwidth_mbps=BANDWIDTH_MBPS,
            machine=MACHINE,
        )
    for link in shape.links:
        yield st.AddLink(at=0.0, a=link.a, b=link.b)
    for link in shape.peers:
        yield st.AddPeerLink(at=0.0, a=link.a, b=link.b)


def _machines(shape: Shape, each: int = MACHINES) -> Iterator[tuple[int, str]]:
    """Their numbers, and the broker of each; so many at each broker."""
    for number in range(len(shape.brokers) * each):
        yield number, shape.brokers[number // each]


def _times(seed: int, count: int, rate_per_s: float) -> list[float]:
    """When machines send, at random, so often together."""
    gaps = draws(seed, "topologies times").exponential(1 / rate_per_s, count)
    times: list[float] = (BEGIN_S + np.cumsum(gaps)).tolist()
    return times


def _run(world: World, until: float, watch: Stopwatch | None = None) -> dict[str, Tally]:
    """Lets it happen; what brokers have done from the moment on at which everybody is there."""
    world.run(BEGIN_S)
    if watch is not None:
        watch.forget()
    for broker in _brokers(world).values():
        broker.tally = Tally()
    world.run(until + SETTLED_S)
    return {name: broker.tally for name, broker in _brokers(world).items()}


def _brokers(world: World) -> dict[str, MeteredBroker]:
    lives = {name: host.life for name, host in world.hosts.items() if host.life is not None}
    machines = {name: life.machine for name, life in lives.items()}
    return {name: each for name, each in machines.items() if isinstance(each, MeteredBroker)}


def _steps_row(tallies: Mapping[str, Tally]) -> Row:
    """The steps of all brokers, and of each."""
    return {
        f"{name}_{broker}": getattr(tally.steps, name)
        for broker, tally in tallies.items()
        for name in STEPS
    }


# --- as a task of a sweep -------------------------------------------------------------------------------

PARAMETERS = parameters_of(measured)


def read(texts: Mapping[str, str]) -> Parameters:
    """Parameters from texts."""
    return dict(read_values("topologies", PARAMETERS, texts))


def cost(parameters: Parameters) -> float:
    """In proportion to the messages."""
    return float(parameters.get("brokers", 1)) * float(parameters.get("each", 1))


def run(parameters: Parameters, seed: int) -> Row:
    """A federation of 003's experiments: what it bears, and how long things take."""
    return measured(seed, **parameters)  # type: ignore[arg-type]


CELL = Task(run, read=read, cost=cost, show=SHOWN)
