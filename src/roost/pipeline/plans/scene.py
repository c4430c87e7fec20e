"""A recorded run as a workload of the simulator: machines, links, clients, and events at their times.

A *scene* is what a run was, without what it did: who was there with what, and what was published when. From
it a workload file follows (`statements_of`), and so do others, in which something is different (`what_if`).

**Everybody stands where it was at the end**: whether a client had moved meanwhile makes no difference to what
it gets. Optimisers are off, and there are no faults.

**When interests came** is known to a sample of the recorder: between the one at which it was seen and the one
before. The scene has it come as early as the first event needs that was delivered for it, a little ahead, so
that it is in place everywhere; and go after the last. So all that was delivered comes again. What it did not
get in that interval, because it was not there yet, it may get now: such events are counted (`unsure`).

**Machines** of a simulated run are noted. Of a live one they are estimated: a processor that would match as
quickly by the thesis' cost (001 section 5.1), a bandwidth by how busy the output was, and links as long as
the quickest event took.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from roost.broker.server import Costs
from roost.errors import UserError
from roost.language import (
    Event,
    parse_advertisement,
    parse_event,
    parse_subscription,
)
from roost.pipeline.plans.placement import in_order
from roost.pipeline.plans.reading import (
    SIMULATED,
    Tables,
    interests_at_end,
    links_at_end,
)
from roost.simulation import statements as st
from roost.simulation.settings import FIELDS, Settings, settings_changed

# When the first event is published: by then everything is in place.
LEAD_S = 10.0
# How long what is wanted takes to be known everywhere, generously.
SETTLE_S = 2.0
# An interest that was gone for no longer was only on its way to another broker.
MOVING_S = 30.0
AFTERWARDS_S = 5.0
# Of these a recorded run says nothing that matters in a replay.
NOT_KEPT = ("optimiser", "traces", "moves_subscribers", "moves_must_pay", "rest_s", "market_seed")
UNKNOWN_MHZ, UNKNOWN_MB, UNKNOWN_MBPS = 3_000.0, 128.0, 1_000.0
BITS = 8
MS = 1e3

Rows = Sequence[Mapping[str, Any]]


class Machine(NamedTuple):
    """What a broker runs on."""

    cpu_mhz: float
    memory_mb: float
    bandwidth_mbps: float


class Interest(Struct, frozen=True):
    """A subscription or an advertisement, and when it was there."""

    client: str
    kind: str
    text: str
    since: float
    until: float | None


class Published(NamedTuple):
    """An event."""

    at: float
    publisher: str
    event: Event


class Scene(Struct, frozen=True, kw_only=True):
    """What a run was; times are in seconds since the first event."""

    name: str
    settings: Mapping[str, str]
    brokers: Mapping[str, Machine]
    links: tuple[tuple[str, str, float], ...]  # with the latency in ms
    clients: Mapping[str, str]  # client -> broker
    interests: tuple[Interest, ...]
    events: tuple[Published, ...]
    modules: tuple[str, ...] = ()  # optimisers that act, besides the one of the settings
    # Events that were published when somebody's interest may just have come or gone.
    unsure: int = 0

    @property
    def publishers(self) -> list[str]:
        return sorted({event.publisher for event in self.events})


# --- from tables ----------------------------------------------------------------------------------------


def scene_of(tables: Tables, deliveries: Rows, events: Rows, configs: Rows) -> Scene:
    """What the tables of a run say: `tables` without the profiles, and these two as they are."""
    if not events:
        raise UserError(
            f"{tables.run}: no events were published; expected some, recorded with `--content`"
        )
    visits = [row for row in deliveries if row["source"] is not None]
    published_at: dict[tuple[str, int], float] = {
        (str(row["publisher"]), int(row["sequence"])): float(row["time"] - row["age_s"])
        for row in visits
        if row["from_client"]
    }
    client_of: dict[str, str] = {
        row["publisher"]: row["source"] for row in visits if row["from_client"]
    }
    start = min(published_at.get((e["publisher"], e["sequence"]), float(e["time"])) for e in events)
    told = {
        (row["publisher"], row["sequence"]): row
        for row in sorted(events, key=lambda row: (row["publisher"], row["sequence"]))
    }
    published: list[Published] = []
    last: dict[str, float] = {}
    for (publisher, sequence), row in told.items():
        at = published_at.get((publisher, sequence), float(row["time"])) - start
        # In the order of the publisher, whatever its clock says.
        at = last[publisher] = max(at, last.get(publisher, 0.0))
        client = client_of.get(publisher, str(publisher))
        published.append(Published(at, client, parse_event(row["event"])))
    published.sort(key=lambda event: event.at)
    clients, _ = interests_at_end(tables.interests)
    places = places_of(tables.interests, visits)
    wanted = interests_of(tables, visits, start)
    names = {interest.client for interest in wanted} | {event.publisher for event in published}
    where = {client: clients.get(client) or places[client] for client in sorted(names)}
    brokers = machines_of(tables, configs)
    links = tuple(
        (a, b, latency) for a, b, latency in latencies_of(tables, visits) if {a, b} <= set(brokers)
    )
    gone = {client: broker for client, broker in where.items() if broker not in brokers}
    if gone:
        client, broker = next(iter(gone.items()))
        raise UserError(
            f"{tables.run}: {client} is at {broker}, of which nothing else was recorded; expected the traces"
            " of all brokers"
        )
    times = [event.at for event in published]
    unsure = sum(any(low < at <= high for low, high in unsure_of(tables, start)) for at in times)
    return Scene(
        name=tables.run,
        settings=settings_of(tables, configs),
        brokers=brokers,
        links=links,
        clients=where,
        interests=tuple(wanted),
        events=tuple(published),
        unsure=unsure,
    )


def settings_of(tables: Tables, configs: Rows) -> dict[str, str]:
    """Those of the federation that decide what is delivered, or how quickly."""
    (first, *_) = [*configs, {}]
    said = first.get("settings", first)
    known = {key: said[key] for key in FIELDS if key in said and key not in NOT_KEPT}
    if tables.kind != SIMULATED:
        kept = ("routing", "covering", "advertisement_covering")
        known = {key: value for key, value in known.items() if key in kept}
    return settings_changed(Settings(**known))


def machines_of(tables: Tables, configs: Rows) -> dict[str, Machine]:
    """Of each broker."""
    noted: dict[str, Machine] = {}
    for config in configs:
        noted |= {name: Machine(*size) for name, size in config.get("brokers", {}).items()}
    if noted:
        return noted
    samples: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables.loads:
        samples.setdefault(row["broker"], []).append(row)
    return {broker: _estimated(rows) for broker, rows in sorted(samples.items())}


def _estimated(rows: Rows) -> Machine:
    matched = [row for row in rows if row["matching_delay_s"] > 0 and row["subscriptions"]]
    speeds = [
        Costs().entry_s_mhz * row["subscriptions"] / row["matching_delay_s"] for row in matched
    ]
    rates = [
        row["output_bytes_per_s"] * BITS / 1e6 / row["output_utilisation"]
        for row in rows
        if row["output_utilisation"] > 0 and row["output_bytes_per_s"] > 0
    ]
    memory = max((row["memory_total_bytes"] for row in rows), default=0.0) / 1e6
    return Machine(
        round(fmean(speeds), 1) if speeds else UNKNOWN_MHZ,
        round(memory, 1) or UNKNOWN_MB,
        round(fmean(rates), 3) if rates else UNKNOWN_MBPS,
    )


def latencies_of(tables: Tables, visits: Rows) -> Iterator[tuple[str, str, float]]:
    """The links at the end, with their latencies in ms."""
    if tables.overlays:
        for a, b, *latency in tables.overlays[-1][1]:
            yield a, b, float(latency[0]) if latency else 0.0
        return
    left = {(row["publisher"], row["sequence"], row["broker"]): row["time"] for row in visits}
    least: dict[tuple[str, str], float] = {}
    for row in visits:
        before = left.get((row["publisher"], row["sequence"], row["source"]))
        if not row["from_client"] and before is not None:
            taken = row["time"] - row["queueing_s"] - row["matching_s"] - before
            way = (row["source"], row["broker"])
            least[way] = min(least.get(way, taken), taken)
    for a, b in links_at_end(tables):
        # Clocks that differ make one way longer and the other shorter.
        found = [least[way] for way in ((a, b), (b, a)) if way in least]
        yield a, b, round(max(0.0, fmean(found)) * MS, 6) if found else 0.0


def places_of(interests: Rows, visits: Rows) -> dict[str, str]:
    """Where clients were last seen."""
    found = {row["client"]: row["broker"] for row in interests}
    for row in visits:
        if row["from_client"]:
            found[row["source"]] = row["broker"]
    return found


def _samples(tables: Tables) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in tables.loads:
        found.setdefault(row["broker"], []).append(row["time"])
    return {broker: sorted(times) for broker, times in found.items()}


def _before(samples: Mapping[str, Sequence[float]], row: Mapping[str, Any], start: float) -> float:
    """When the sample before a row was taken."""
    earlier = [time for time in samples.get(row["broker"], ()) if time < row["time"] - 1e-6]
    return earlier[-1] if earlier else start - LEAD_S


def unsure_of(tables: Tables, start: float) -> list[tuple[float, float]]:
    """The intervals in which interests came or went, each once."""
    samples = _samples(tables)
    return sorted(
        {(_before(samples, row, start) - start, row["time"] - start) for row in tables.interests}
    )


def interests_of(tables: Tables, visits: Rows, start: float) -> list[Interest]:
    """Each with when it was there, in seconds since the first event."""
    samples = _samples(tables)
    got: dict[tuple[str, str], list[tuple[float, float]]] = {}  # published and delivered
    sent: dict[str, list[tuple[float, float]]] = {}
    for row in visits:
        times = (row["time"] - row["age_s"], row["time"])
        for reached in row["clients"] or ():
            for id_ in reached["subscriptions"]:
                got.setdefault((reached["client"], id_), []).append(times)
        if row["from_client"]:
            sent.setdefault(row["source"], []).append(times)
    by_key: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for row in tables.interests:
        key = (row["client"], row["kind"], row["id"], row["filter"])
        by_key.setdefault(key, []).append(row)
    found: list[Interest] = []
    for (client, kind, id_, text), rows in by_key.items():
        used = got.get((client, id_), []) if kind == "subscription" else sent.get(client, [])
        for came, went in _stays(rows):
            low = _before(samples, came, start)
            first = min((published for published, _ in used if published >= low), default=None)
            since = came["time"] if first is None else min(came["time"], first - SETTLE_S)
            since = max(low, since)
            until = None
            if went is not None:
                gone = _before(samples, went, start)
                last = max((done for _, done in used if done <= went["time"]), default=gone)
                until = max(gone, last) + SETTLE_S - start
            found.append(Interest(client, kind, text, max(since - start, -LEAD_S), until))
    return sorted(found, key=lambda each: (each.since, each.client, each.kind, each.text))


def _stays(rows: Rows) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """When something came, and when it went for good, or for longer than a move takes."""
    there: dict[str, None] = {}
    came: Mapping[str, Any] | None = None
    went: Mapping[str, Any] | None = None
    for row in sorted(rows, key=lambda row: (row["time"], not row["added"])):
        if row["added"]:
            if came is not None and went is not None and row["time"] - went["time"] > MOVING_S:
                yield came, went
                came = None
            came, went = came or row, None
            there[row["broker"]] = None
        else:
            there.pop(row["broker"], None)
            if not there:
                went = row
    if came is not None:
        yield came, went


# --- to a workload --------------------------------------------------------------------------------------


class Names:
    """What a workload file calls clients: it takes fewer letters than a broker does."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self.of: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self.of:
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:56] or "client"
            free, number = plain, 1
            while free in self._taken:
                number += 1
                free = f"{plain}.{number}"
            self._taken.add(free)
            self.of[name] = free
        return self.of[name]


def statements_of(scene: Scene) -> tuple[list[st.Statement], dict[str, str]]:
    """The workload, in order; and what clients are called in it, where that is something else."""
    said: list[st.Statement] = [
        st.Set(at=0.0, key=key, value=value) for key, value in scene.settings.items()
    ]
    said += [st.UseOptimiser(name, at=0.0) for name in scene.modules]
    for name, machine in scene.brokers.items():
        said.append(st.AddBroker(name, *machine, at=0.0))
    said += [st.AddLink(a, b, latency, at=0.0) for a, b, latency in scene.links]
    names = Names(scene.brokers)
    publishers = set(scene.publishers)
    publishers |= {each.client for each in scene.interests if each.kind == "advertisement"}
    later: list[st.Statement] = []
    # Who has gone and come back is one all the same.
    later += [
        st.AddPublisher(names[client], None, 0.0, scene.clients[client], at=1.0)
        for client in sorted(publishers)
    ]
    added: set[str] = set()
    numbers: dict[str, int] = {}
    for each in scene.interests:
        number = numbers[each.client] = numbers.get(each.client, 0) + 1
        at = max(1.0, each.since + LEAD_S)
        until = None if each.until is None else each.until + LEAD_S
        if each.kind == "advertisement":
            who, label = names[each.client], f"a{number}"
            later.append(st.Advertise(who, label, parse_advertisement(each.text), at=at))
            if until is not None:
                later.append(st.Unadvertise(who, label, at=max(at, until)))
            continue
        # A client of a workload publishes or subscribes; one that does both is two.
        who = names[f"{each.client}.in" if each.client in publishers else each.client]
        subscription = parse_subscription(each.text)
        label = f"s{number}"
        if who in added:
            later.append(st.Subscribe(who, label, subscription, at=at))
        else:
            added.add(who)
            label = "main"
            later.append(st.AddSubscriber(who, scene.clients[each.client], subscription, at=at))
        if until is not None:
            later.append(st.Unsubscribe(who, label, at=max(at, until)))
    later += [
        st.Publish(names[each.publisher], each.event, at=each.at + LEAD_S) for each in scene.events
    ]
    end = max((each.at for each in later), default=0.0) + AFTERWARDS_S
    said += sorted(later, key=lambda each: each.at)
    said.append(st.End(at=end))
    renamed = {name: new for name, new in names.of.items() if new != name}
    return said, renamed


def placed(scene: Scene, links: Iterable[tuple[str, str]], clients: Mapping[str, str]) -> Scene:
    """The same with links and clients elsewhere; a new link is as long as the others on average."""
    known = {in_order(a, b): (a, b, latency) for a, b, latency in scene.links}
    usual = fmean([latency for _, _, latency in scene.links]) if scene.links else 0.0
    return replace(
        scene,
        links=tuple(known.get(in_order(a, b), (a, b, usual)) for a, b in links),
        clients={**scene.clients, **{c: b for c, b in clients.items() if c in scene.clients}},
    )
