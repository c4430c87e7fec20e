"""Benchmark of 003's two topologies, live: what publications and subscriptions cost the brokers of each.

Brokers are processes on this machine; all clients are in this one. Two processors can't show what five
machines would do in a second, but they do show what each broker has to do: so what is measured is the
processor's time of each broker.

    a processor second of all   messages, by the time of all brokers: what the topology costs altogether
    borne                       what brokers on machines of their own would bear: publications, by the time of
                                the busiest; subscriptions, at each broker by its own time, added up

From all runs the **costs** of single steps are fitted (least squares): what it takes a broker to take a
publication from a client and from a neighbour, to send it on to one, to deliver it; and to take a
subscription, and to compare it with what a neighbour was told. `experiments.topologies` simulates with
these.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop

from roost.bench.loads.processes import cpu_s
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.sizes import (
    TOPOLOGIES_BROKERS,
    TOPOLOGIES_NOTIFIED,
    TOPOLOGIES_PUBLICATIONS,
    TOPOLOGIES_SHARED,
    TOPOLOGIES_SUBSCRIPTIONS,
)
from roost.bench.timing import Say, silent
from roost.bench.topologies_ws import EARLY, SINKS, Notified
from roost.bench.topologies_ws import played as notify
from roost.client import Subscription, connect
from roost.experiments.topologies.cell import measured
from roost.experiments.topologies.costs import MEASURED, STEPS, US
from roost.experiments.topologies.load import (
    MACHINES,
    Asked,
    Said,
    Spread,
    publications,
    subscriptions,
)
from roost.experiments.topologies.shapes import Shape, ShapeName, shape_of
from roost.pipeline.sweeps.tasks import Row
from roost.pipeline.workload.topics import TOPIC
from roost.runtime import federation
from roost.runtime.federation import Member

# Nobody waits longer than this for anything.
PATIENCE_S = 120.0
TOPICS, SUBSCRIPTION_TOPICS = 100, 1_000
SHAPES: tuple[ShapeName, ...] = ("tree", "cluster")
WHATS = ("publications", "subscriptions")
# The same, to one listener a broker: so that what it takes to match and to deliver can be told apart.
NARROW = "publications to one"
# And subscriptions to few topics, which go no farther: what is compared, and what is passed on.
REPEATED, FEW_TOPICS = "subscriptions to few topics", 10
# By SOAP, and of brokers and gateways together.
NOTIFIED = "notified"
# So many of everything before what counts: a broker's first messages have it compile.
WARM_UP = 20
# Of the clock by which processes are charged.
TICK_S = 0.01


class Used(NamedTuple):
    """What a phase took each broker, in seconds of a processor; how many messages it was of, and lost."""

    cpu_s: dict[str, float]
    sent: int
    lost: int = 0


class Sizes(NamedTuple):
    """How large it is."""

    brokers: int = TOPOLOGIES_BROKERS
    publications: int = TOPOLOGIES_PUBLICATIONS  # of each machine
    subscriptions: int = TOPOLOGIES_SUBSCRIPTIONS
    shared: float = TOPOLOGIES_SHARED
    notified: int = TOPOLOGIES_NOTIFIED  # publications of each machine by WS-Eventing; 0: none


def run(seed: int, sizes: Sizes, say: Say = silent) -> Result:
    """Measure both topologies, from one broker to so many."""
    results: dict[str, float] = {}
    used_s: list[float] = []
    steps: list[list[float]] = []
    lost = 0
    for shape_name in SHAPES:
        for count in range(1, sizes.brokers + 1):
            shape = shape_of(shape_name, count)
            for what, used in _played(shape, sizes, seed, say):
                if isinstance(used, Notified):
                    lost += used.lost
                    took_s = max(TICK_S, used.brokers_s + used.gateways_s)
                    results[f"{shape_name}/{count}/{NOTIFIED}/per_processor_s"] = used.sent / took_s
                    results[f"{shape_name}/{count}/{NOTIFIED}/brokers_share"] = (
                        used.brokers_s / took_s
                    )
                    continue
                if what in WHATS:
                    results |= _figures(f"{shape_name}/{count}", what, used)
                lost += used.lost
                counted = _counted(what, shape_name, count, sizes, seed)
                for name, took_s in used.cpu_s.items():
                    used_s.append(took_s)
                    steps.append([float(counted[f"{step}_{name}"] or 0) for step in STEPS])
    costs = fitted(steps, used_s)
    results |= {f"cost_us/{step}": cost for step, cost in zip(STEPS, costs, strict=True)}
    results["lost"] = lost
    return {
        "bench": "topologies",
        "config": {
            "workload": "hierarchy",
            **sizes._asdict(),
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": results,
        "ratios": _ratios(results, sizes.brokers),
    }


def fitted(steps: Sequence[Sequence[float]], used_s: Sequence[float]) -> list[float]:
    """What a step of each kind costs, in microseconds, so that all runs are explained best.

    Each run counts as much as any other: errors are relative to what it took.
    """
    took = np.array(used_s)
    weights = 1 / np.maximum(took, 1e-9)
    matrix = np.array(steps) * weights[:, np.newaxis]
    found, *_ = np.linalg.lstsq(matrix, took * weights, rcond=None)
    return [float(cost) / US for cost in found]


def _counted(what: str, shape: ShapeName, brokers: int, sizes: Sizes, seed: int) -> Row:
    """What each broker has to do under the same load, counted where nothing is in a hurry."""
    if what in ("subscriptions", REPEATED):
        return measured(
            seed,
            what="subscriptions",
            topology=shape,
            brokers=brokers,
            topics=FEW_TOPICS if what == REPEATED else SUBSCRIPTION_TOPICS,
            each=sizes.subscriptions,
        )
    return measured(
        seed,
        what="publications",
        topology=shape,
        brokers=brokers,
        topics=TOPICS,
        shared=sizes.shared,
        each=sizes.publications,
        listeners=1 if what == NARROW else MACHINES,
    )


# --- live -----------------------------------------------------------------------------------------------


@contextmanager
def running(shape: Shape) -> Iterator[Sequence[Member]]:
    """Brokers of that shape, as processes."""
    with tempfile.TemporaryDirectory(prefix="roost-topologies-") as folder:
        state = Path(folder) / "state"
        started = federation.start(
            state,
            shape.brokers,
            [(link.a, link.b) for link in shape.links],
            title="bench topologies",
            peers=[(link.a, link.b) for link in shape.peers],
            routing=shape.routing,
        )
        try:
            yield started.members
        finally:
            federation.end(state)


def _played(
    shape: Shape, sizes: Sizes, seed: int, say: Say
) -> Iterator[tuple[str, Used | Notified]]:
    brokers = len(shape.brokers)
    title = f"{brokers} brokers, routing {shape.routing}"
    spread = Spread(brokers, TOPICS, sizes.shared)

    def publish(each: int, listeners: int) -> Used:
        said = list(publications(seed, spread, each))
        return uvloop.run(_publish(members, spread, said, listeners))

    def subscribe(each: int, topics: int) -> Used:
        asked = list(subscriptions(seed, brokers, each, topics))
        return uvloop.run(_subscribe(members, asked))

    with running(shape) as members:
        publish(WARM_UP, MACHINES)
        subscribe(WARM_UP, FEW_TOPICS)
        say(f"{title}: publications")
        yield "publications", publish(sizes.publications, MACHINES)
        yield NARROW, publish(sizes.publications, 1)
        say(f"{title}: subscriptions")
        yield "subscriptions", subscribe(sizes.subscriptions, SUBSCRIPTION_TOPICS)
        yield REPEATED, subscribe(sizes.subscriptions, FEW_TOPICS)
        if sizes.notified:
            say(f"{title}: WS-Eventing")
            said = list(publications(seed, spread, EARLY + sizes.notified))
            yield NOTIFIED, notify(members, spread, said)


async def _publish(
    members: Sequence[Member], spread: Spread, said: Sequence[Said], each: int
) -> Used:
    """All machines publish what they have to say as quickly as they can, to so many listeners a broker."""
    topics: dict[int, list[str]] = defaultdict(list)
    for one in said:
        topics[one.machine].append(one.topic)
    async with AsyncExitStack() as stack:
        listeners = []
        for broker, member in enumerate(members):
            for _ in range(each):
                client = await stack.enter_async_context(connect(f"roost://{member.address}"))
                listeners.append((broker, client.subscribe(spread.filter_at(broker))))
        for _, subscription in listeners:
            await subscription.ready(PATIENCE_S)
        wanted = [_wanted(spread, broker, said) for broker in range(len(members))]
        publishers = {
            number: await stack.enter_async_context(
                connect(f"roost://{members[number // MACHINES].address}")
            )
            for number in topics
        }
        before = _cpu(members)
        listening = [
            asyncio.create_task(_listen(subscription, wanted[broker]))
            for broker, subscription in listeners
        ]

        async def publish(number: int) -> None:
            for topic in topics[number]:
                await publishers[number].publish({TOPIC: topic})
            await publishers[number].flush(PATIENCE_S)

        await asyncio.gather(*map(publish, topics))
        missing = sum(await asyncio.gather(*listening))
        return Used(_since(before, members), len(said), missing)


def _wanted(spread: Spread, broker: int, said: Sequence[Said]) -> int:
    """How many of these a listener of that broker gets."""
    every = Counter(each.topic for each in said)
    return sum(every[f"topic{t + 1}"] for t in (*range(spread.common), *spread.own(broker)))


async def _listen(subscription: Subscription, wanted: int) -> int:
    """Until all has come; how many are missing when nothing does any more."""
    try:
        while wanted > 0:
            async with asyncio.timeout(PATIENCE_S):
                wanted -= len(await subscription.batch())
    except TimeoutError:
        pass
    return wanted


async def _subscribe(members: Sequence[Member], asked: Sequence[Asked]) -> Used:
    """All machines subscribe as quickly as they can, until all is in effect at every broker."""
    filters: dict[int, list[str]] = defaultdict(list)
    for each in asked:
        filters[each.machine].append(each.filter)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connect(f"roost://{members[number // MACHINES].address}")
            )
            for number in filters
        ]
        before = _cpu(members)
        kept = [
            [client.subscribe(text) for text in filters[number]]
            for number, client in zip(filters, clients, strict=True)
        ]
        await asyncio.gather(*(some[-1].ready(PATIENCE_S) for some in kept))
        return Used(_since(before, members), len(asked))


def _cpu(members: Sequence[Member]) -> dict[str, float]:
    """The processor's time of each broker so far."""
    return {m.name: cpu_s([m.process.pid]) for m in members if m.process is not None}


def _since(before: Mapping[str, float], members: Sequence[Member]) -> dict[str, float]:
    return {name: now - before[name] for name, now in _cpu(members).items()}


# --- what came of it ------------------------------------------------------------------------------------


def _figures(prefix: str, what: str, used: Used) -> dict[str, float]:
    """As in `experiments.topologies.cell`: what the busiest broker lets pass, or each takes of its own."""
    took_s = [max(TICK_S, each) for each in used.cpu_s.values()]
    if what == "publications":
        bears = used.sent / max(took_s)
    else:
        bears = sum(used.sent / len(took_s) / each for each in took_s)
    return {
        f"{prefix}/{what}/per_processor_s": used.sent / sum(took_s),
        f"{prefix}/{what}/bears_per_s": bears,
    }


def _ratios(results: Mapping[str, float], brokers: int) -> dict[str, float]:
    """What more brokers bring, and one topology beside the other."""
    found = {}
    for what in WHATS:
        for shape in SHAPES:
            bears = f"{what}/bears_per_s"
            found[f"{shape}/{what}/{brokers}_to_1"] = (
                results[f"{shape}/{brokers}/{bears}"] / results[f"{shape}/1/{bears}"]
            )
        every = f"{brokers}/{what}/per_processor_s"
        found[f"{what}/tree_to_cluster"] = results[f"tree/{every}"] / results[f"cluster/{every}"]
    return found


def is_clean(result: Result) -> bool:
    """Whether every event arrived."""
    return not result["results"]["lost"]


def table(result: Result) -> Table:
    """The figures for people."""
    figures, config = result["results"], result["config"]
    rows = []
    for what in WHATS:
        for count in range(1, config["brokers"] + 1):
            row = [f"{what}, {count}"]
            for figure in ("per_processor_s", "bears_per_s"):
                row += [f"{figures[f'{shape}/{count}/{what}/{figure}']:,.0f}" for shape in SHAPES]
            rows.append(row)
    for count in range(1, config["brokers"] + 1) if config["notified"] else ():
        names = (f"{shape}/{count}/{NOTIFIED}/per_processor_s" for shape in SHAPES)
        rows.append(
            [f"by WS-Eventing, {count}", *(f"{figures[name]:,.0f}" for name in names), "", ""]
        )
    costs = ", ".join(
        f"{step.replace('_', ' ')} {figures[f'cost_us/{step}']:.1f}"
        f" (simulated with {asdict(MEASURED)[step]:g})"
        for step in STEPS
    )
    return Table(
        key="topologies",
        title="Topologies: a tree and a cluster of brokers, live",
        columns=[
            "brokers",
            "tree: a processor second of all",
            "cluster",
            "tree: borne a second",
            "cluster",
        ],
        rows=rows,
        notes=[
            f"{MACHINES} clients a broker that publish {config['publications']:,} events each, to"
            f" {MACHINES} listeners a broker; {100 * config['shared']:g} % of all topics are wanted at every"
            f" broker, the others at one. Then {MACHINES} clients a broker, with"
            f" {config['subscriptions']:,} subscriptions each to {SUBSCRIPTION_TOPICS:,} topics.",
            f"By WS-Eventing {MACHINES} machines a broker post {config['notified']:,} events each to its"
            f" gateway, and {SINKS} sinks a broker are notified; the time is that of brokers and gateways.",
            f"What a step costs a broker, us of a processor, fitted: {costs}.",
            f"{figures['lost']:.0f} lost.",
        ],
    )
