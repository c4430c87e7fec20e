"""Checkers that watch from outside, at the end of every run. (`oracle` watches deliveries while it goes.)

**Routing.** The tables that brokers ought to have are computed from scratch: from the overlay, and from
what clients subscribe to and advertise. Along every link, what one side should tell the other is worked
out by the definitions of 001 section 2.1.3, with nothing of the brokers' own bookkeeping. With
covering, equal subscriptions stand for each other, so tables are compared by what they mean. (Machines that
are no brokers have no such tables.)

**Accounts.** Messages are conserved: on every channel the receiver has had what the sender has sent,
less what is still waiting; and every parcel that was put on the network has arrived, was lost by a cut,
or is on the way.

**Queues.** When all is done nothing waits anywhere.

Routing and queues can be judged only when a run has come to rest: every link up, every client attached,
nothing on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from roost.broker.channel import Lane
from roost.broker.commands import StoreKey
from roost.broker.hops import Session
from roost.broker.messages import DATA, Delivery, Message, Publication
from roost.broker.runs import Run
from roost.language import Interest, covers, overlaps
from roost.matching import Poset
from roost.simulation.addresses import name_at

if TYPE_CHECKING:
    from roost.broker.core import Broker
    from roost.simulation.host import Host
    from roost.simulation.world import World

# Up to here the covering set is found by comparing all with all.
BRUTE_FORCE_MAX = 100

Identified = tuple[str, Interest]


def lanes(world: World) -> Iterator[tuple[str, Lane, Lane | None]]:
    """Every lane of every channel, with the one at its other end, if there is one now."""
    machines = {n: h.life.machine for n, h in world.hosts.items() if h.life is not None}
    for name, machine in machines.items():
        for link in machine.links.values():
            other = machines.get(link.name)
            back = other.links.get(name) if other is not None else None
            for i, lane in enumerate(link.channel.lanes):
                yield f"{name} -> {link.name}", lane, back.channel.lanes[i] if back else None
        for session in machine.sessions.values():
            attachments = world.clients[session.client].machine.attachments()
            here = [
                a for a in attachments if (a.session, name_at(a.address)) == (session.name, name)
            ]
            for i, lane in enumerate(session.channel.lanes):
                other_lane = here[0].channel.lanes[i] if here else None
                yield f"{name} -> {session.client}", lane, other_lane
                if other_lane is not None:
                    yield f"{session.client} -> {name}", other_lane, lane
    for client_name, simulated in world.clients.items():
        for attachment in simulated.machine.attachments():
            if simulated.gone and attachment.state == "idle":
                continue  # it has left, and nobody listens any more
            broker = name_at(attachment.address)
            at = machines.get(broker)
            if at is None or attachment.session not in at.sessions:
                for lane in attachment.channel.lanes:
                    yield f"{client_name} -> {broker}", lane, None


def in_transit(world: World) -> set[tuple[str, int]]:
    """The publications that somebody still has to send, or to receive."""
    found = set()
    for _, lane, other in lanes(world):
        arrived = other.received if other is not None else lane.acked
        for frame in lane.outbox:
            publication = publication_of(frame.message)
            if frame.sequence > arrived and publication is not None:
                found.add((publication.publisher, publication.sequence))
    for message in (*kept_back(world), *stored(world)):
        publication = publication_of(message)
        if publication is not None:
            found.add((publication.publisher, publication.sequence))
    return found


def kept_back(world: World) -> Iterator[Message]:
    """The events that clients have not sent yet."""
    for client in world.clients.values():
        yield from (m for m in client.machine.kept_back if isinstance(m, Publication))


def stored(world: World) -> Iterator[Message]:
    """What brokers that are down will send when they are back."""
    for host in world.hosts.values():
        if host.life is None:
            for waiting in outboxes(host.store).values():
                yield from waiting.values()


def outboxes(store: Mapping[StoreKey, Any]) -> dict[StoreKey, dict[int, Message]]:
    """What waits for whom, by the key of the lane and the number of the message (see `broker.kept`)."""
    found: dict[StoreKey, dict[int, Message]] = {}
    for kind in ("run", "out"):  # what was replaced has a record of its own
        for key, value in store.items():
            if key[0] != kind:
                continue
            _, *lane, number = key
            waiting = found.setdefault(tuple(lane), {})
            if isinstance(value, Run):
                acked = store.get(("acked", *lane), 0)
                waiting |= {frame.sequence: frame.message for frame in value.frames(acked)}
            else:
                waiting[int(number)] = value[0]
    return found


def kept_for(host: Host, session: str) -> tuple[list[Publication], list[Publication] | None]:
    """What a broker has to send to the next process of a durable session, and what it may send.

    The second is what a crash would bring back: acknowledged, and not yet safe; None if the broker does not
    know the session any more.
    """
    known = host.store if host.life is None else host.life.machine.sessions
    if (session if host.life is not None else ("session", session)) not in known:
        return [], None
    in_store = outboxes(host.store).get((Session.kind, session, DATA), {})
    must = dict(in_store)
    if host.life is not None:
        there = host.life.machine.sessions.get(session)
        lane = there.channel.data if there is not None else None
        must = {n: m for n, m in in_store.items() if lane is not None and n > lane.acked}
        must |= {frame.sequence: frame.message for frame in (lane.outbox if lane else ())}
    return _publications(must), _publications(in_store)


def _publications(messages: Mapping[int, Message]) -> list[Publication]:
    found = (publication_of(messages[number]) for number in sorted(messages))
    return [publication for publication in found if publication is not None]


def publication_of(message: Message) -> Publication | None:
    if isinstance(message, Delivery):
        return message.publication
    return message if isinstance(message, Publication) else None


# --- accounts and queues ----------------------------------------------------------------------------


def check_accounts(world: World) -> list[str]:
    """Whether messages are conserved, at any time."""
    wrong = []
    for name, lane, other in lanes(world):
        if lane.sent - lane.acked != len(lane.outbox):
            wrong.append(
                f"{name}: {lane.sent} sent and {lane.acked} acknowledged,"
                f" but {len(lane.outbox)} are kept"
            )
        if other is not None and not lane.acked <= other.received <= lane.sent:
            wrong.append(
                f"{name}: {lane.sent} sent, {lane.acked} acknowledged, {other.received} received"
            )
    network = world.network
    on_the_way = network.sent - network.arrived - network.lost
    if on_the_way != network.planned():
        wrong.append(
            f"network: {network.sent} sent, {network.arrived} arrived, {network.lost} lost,"
            f" {network.planned()} on the way"
        )
    return wrong


def check_queues(world: World) -> list[str]:
    """Whether nothing is left to do."""
    wrong = []
    for name, host in world.hosts.items():
        if host.life is None:
            wrong.append(f"{name} is down")
            continue
        if host.life.queued:
            wrong.append(f"{name}: {host.life.queued} messages wait to be handled")
        wrong += [f"{name}: {what}" for what in host.life.machine.unfinished()]
        if host.life.machine.node.work.waits:
            wrong.append(f"{name}: commands wait for the store")
    for client_name, client in world.clients.items():
        if client.machine.kept_back:
            wrong.append(f"{client_name}: events are kept back")
        if client.machine.moving:
            wrong.append(f"{client_name} is moving")
        if not client.gone and client.machine.state != "attached":
            wrong.append(f"{client_name} is {client.machine.state}")
    wrong += [
        f"{name}: {len(lane.outbox)} messages wait" for name, lane, _ in lanes(world) if lane.outbox
    ]
    return wrong


# --- routing ----------------------------------------------------------------------------------------


def check_routing(world: World) -> list[str]:
    """Whether every table is the one that it should be."""
    expected = Expected(world)
    wrong = []
    for name in world.overlay.brokers():
        host = world.hosts[name]
        if host.life is None:
            continue
        machine = host.life.broker
        for neighbour in world.overlay.neighbours(name):
            if neighbour not in machine.links:
                wrong.append(f"{name}: {neighbour} should be a neighbour")
                continue
            wrong += compare(
                f"{name}: subscriptions from {neighbour}",
                expected.subscriptions(neighbour, name),
                [(e.id, e.interest) for e in machine.links[neighbour].subscriptions.values()],
                exact=not world.settings.covering,
            )
            wrong += compare(
                f"{name}: advertisements from {neighbour}",
                expected.advertisements(neighbour, name),
                [(e.id, e.interest) for e in machine.links[neighbour].advertisements.values()],
                exact=not world.settings.advertisement_covering,
            )
        wrong += check_local(world, name, machine)
    return wrong


def check_local(world: World, name: str, machine: Broker) -> list[str]:
    """Whether a broker has of its clients just what they asked for, and of others nothing."""
    wrong = []
    asked = {c: s for c, s in world.clients.items() if s.broker == name and not s.gone}
    for kind in ("subscriptions", "advertisements"):
        want = Counter(
            (c, str(what)) for c, s in asked.items() for what in getattr(s.machine, kind)().values()
        )
        have = Counter(
            (session.client, str(entry.interest))
            for session in machine.sessions.values()
            for entry in getattr(session, kind).values()
        )
        if want != have:
            wrong.append(
                f"{name}: {kind} of clients: missing {dict(want - have)}, stale {dict(have - want)}"
            )
        table = getattr(machine.router, kind)
        hops = [*machine.links.values(), *machine.sessions.values()]
        known = sum(len(getattr(hop, kind)) for hop in hops)
        inside = sum(not (e.hop.is_link or e.hop.is_session) for e in table.values())
        if len(table) != known + inside:
            wrong.append(f"{name}: {len(table)} {kind} in the table, {known + inside} have a hop")
    return wrong


class Expected:
    """What each broker should have told each neighbour, by definition."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._strategy = world.strategy
        self._advertisements: dict[tuple[str, str], list[Identified]] = {}
        self._subscriptions: dict[tuple[str, str], list[Identified]] = {}
        edges = list(self._edges())
        if self._strategy.advertises:
            for edge in edges:
                self._advertisements[edge] = self._told_advertisements(*edge)
        for edge in edges:
            self._subscriptions[edge] = self._told_subscriptions(*edge)

    def advertisements(self, teller: str, hearer: str) -> list[Identified]:
        return self._advertisements.get((teller, hearer), [])

    def subscriptions(self, teller: str, hearer: str) -> list[Identified]:
        return self._subscriptions[teller, hearer]

    def _edges(self) -> Iterable[tuple[str, str]]:
        """Every link both ways, each after those that lead to its beginning."""
        overlay = self._world.overlay
        sorter: TopologicalSorter[tuple[str, str]] = TopologicalSorter()
        for here in overlay.brokers():
            neighbours = overlay.neighbours(here)
            for hearer in neighbours:
                before = [(n, here) for n in neighbours if self._passes(n, here, hearer)]
                sorter.add((here, hearer), *before)
        return sorter.static_order()

    def _passes(self, source: str, here: str, hearer: str) -> bool:
        """Whether what comes from one neighbour goes on to another."""
        rank = self._world.overlay.rank
        ranks = rank(here, source), rank(here, hearer)
        return source != hearer and self._strategy.passes(*ranks)

    def _told_advertisements(self, teller: str, hearer: str) -> list[Identified]:
        candidates = self._candidates("advertisements", self._advertisements, teller, hearer)
        covering = self._world.settings.advertisement_covering
        return uncovered(candidates) if covering else candidates

    def _has_asked(self, teller: str, hearer: str) -> bool:
        """Whether it is told everything by the one above it, as it goes the way of the tree."""
        life = self._world.hosts[hearer].life
        is_below = self._world.overlay.rank(teller, hearer) == "sub"
        return is_below and life is not None and life.broker.router.way == "tree"

    def _told_subscriptions(self, teller: str, hearer: str) -> list[Identified]:
        rank = self._world.overlay.rank
        if not (self._has_asked(teller, hearer) or self._strategy.hears(rank(teller, hearer))):
            return []
        candidates = self._candidates("subscriptions", self._subscriptions, teller, hearer)
        if self._strategy.advertises:
            offered = [interest for _, interest in self._advertisements[hearer, teller]]
            candidates = [
                (id_, wanted)
                for id_, wanted in candidates
                if any(overlaps(wanted, interest) for interest in offered)
            ]
        return uncovered(candidates) if self._world.settings.covering else candidates

    def _candidates(
        self,
        kind: str,
        told: dict[tuple[str, str], list[Identified]],
        teller: str,
        hearer: str,
    ) -> list[Identified]:
        life = self._world.hosts[teller].life
        here = [] if life is None else getattr(life.broker.router, kind).values()
        local = [(entry.id, entry.interest) for entry in here if not entry.hop.is_link]
        rank, tells = self._world.overlay.rank, self._strategy.tells
        tells_all = self._has_asked(teller, hearer)
        heard = (
            told[neighbour, teller]
            for neighbour in self._world.overlay.neighbours(teller)
            if self._passes(neighbour, teller, hearer)
            and (tells_all or tells(rank(teller, neighbour), rank(teller, hearer)))
        )
        return [*local, *(identified for part in heard for identified in part)]


def uncovered(candidates: list[Identified]) -> list[Identified]:
    """Those that no other one covers, and one of those that are equal."""
    if len(candidates) > BRUTE_FORCE_MAX:
        poset = Poset()
        for number, (_, interest) in enumerate(candidates):
            poset.insert(number, interest)
        return [candidates[number] for number in poset.css()]
    kept: list[Identified] = []
    for id_, interest in candidates:
        if not any(covers(other, interest) for _, other in kept):
            kept = [item for item in kept if not covers(interest, item[1])]
            kept.append((id_, interest))
    return kept


def compare(what: str, want: list[Identified], have: list[Identified], *, exact: bool) -> list[str]:
    """What is wrong with a table. Not `exact`: equal subscriptions may stand for each other."""
    if exact:
        missing = [id_ for id_ in dict(want) if id_ not in dict(have)]
        stale = [id_ for id_ in dict(have) if id_ not in dict(want)]
    else:
        missing = unmatched(want, have)
        stale = unmatched(have, want)
    if not missing and not stale and len(want) == len(have):
        return []
    return [f"{what}: missing {missing}, stale {stale}, {len(have)} instead of {len(want)}"]


def unmatched(these: Iterable[Identified], those: Iterable[Identified]) -> list[str]:
    """Ids of those that have no equal on the other side."""
    texts = {str(interest) for _, interest in those}
    return [
        id_
        for id_, interest in these
        if str(interest) not in texts
        and not any(covers(interest, other) and covers(other, interest) for _, other in those)
    ]
