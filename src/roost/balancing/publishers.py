"""A cluster-head that is overloaded is relieved by publishers that move (001 section 6.2).

The thesis leaves this to the future: heads serve no subscribers, so that its offloads have nothing to move,
and what loads a head is what passes. But of what its own publishers publish, some leaves it by one link
only, to the next cluster-head. If the publisher were there, these events would not pass here at all.

    through N   events of a publisher that go to the neighbouring head N, and maybe elsewhere
    only N      those that go nowhere else, neither to clients here

A publisher may move to N if N gets all of its events anyhow: then N has no more to match than before. What
that relieves the head of are the events that go *only* to N. The most first, until the overload would be
over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from roost.balancing.detection import Overload, overload_of
from roost.balancing.indices import BrokerIndices, indices_of, smoothed
from roost.balancing.peer import Peer
from roost.balancing.settings import BalancingConfig

if TYPE_CHECKING:
    from roost.broker.module import Surroundings, Visit

# N gets all of a publisher's events, but for so many.
STRAY_SHARE = 0.02
# From so few events nothing follows.
EVENTS_MIN = 10
# The one that came first is forgotten first.
PUBLISHERS_MAX = 10_000


class Published(Struct):
    """What a publisher has published here, and where it went."""

    events: int = 0
    through: dict[str, int] = field(default_factory=dict)
    only: dict[str, int] = field(default_factory=dict)


class PublisherMove(Struct, frozen=True):
    """A publisher that is to move, and what that takes off the head."""

    client: str
    head: str
    relief_per_s: float


class PublisherTraffic:
    """What the publishers of one head publish, since it was begun anew."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._by_client: dict[str, Published] = {}

    def routed(self, visit: Visit) -> None:
        """An event has been routed; only those of clients here count."""
        if not visit.from_client:
            return
        published = self._by_client.get(visit.source)
        if published is None:
            if len(self._by_client) >= PUBLISHERS_MAX:
                del self._by_client[next(iter(self._by_client))]
            published = self._by_client[visit.source] = Published()
        published.events += 1
        for neighbour in visit.neighbours:
            published.through[neighbour] = published.through.get(neighbour, 0) + 1
        if len(visit.neighbours) == 1 and not visit.matches:
            (neighbour,) = visit.neighbours
            published.only[neighbour] = published.only.get(neighbour, 0) + 1

    def so_far(self, now: float) -> tuple[Mapping[str, Published], float]:
        """All of it, and over how many seconds."""
        return self._by_client, now - self._since

    def begin_anew(self, now: float) -> None:
        self._by_client, self._since = {}, now


def choose_publishers(
    published: Mapping[str, Published], seconds: float, heads: Sequence[str], excess_per_s: float
) -> list[PublisherMove]:
    """Who is to move to which of the neighbouring heads, so that so many events a second less pass here."""
    moves = []
    for client, of_client in published.items():
        if of_client.events < EVENTS_MIN or seconds <= 0:
            continue
        able = [
            PublisherMove(client, head, of_client.only[head] / seconds)
            for head in heads
            if of_client.only.get(head, 0)
            and of_client.through[head] >= (1 - STRAY_SHARE) * of_client.events
        ]
        if able:
            moves.append(max(able, key=lambda move: move.relief_per_s))
    moves.sort(key=lambda move: (-move.relief_per_s, move.client))
    chosen: list[PublisherMove] = []
    for move in moves:
        if sum(each.relief_per_s for each in chosen) >= excess_per_s:
            break
        chosen.append(move)
    return chosen


class PublisherRelief:
    """What a cluster-head does about its own overload."""

    def __init__(
        self, around: Surroundings, config: BalancingConfig, peer: Peer, now: float
    ) -> None:
        self._around = around
        self._config = config
        self._peer = peer
        self._smooth: BrokerIndices | None = None
        self.traffic = PublisherTraffic(now)

    def look(self, now: float) -> None:
        """If the head is overloaded, have publishers go to where their events go."""
        around, load = self._around, self._around.load
        if load is None:
            return
        self._smooth = own = smoothed(self._smooth, indices_of(load), self._config.smoothing)
        overload = overload_of(own, self._config)
        if overload is None or not load.input_rate:
            self.traffic.begin_anew(now)
            return
        published, seconds = self.traffic.so_far(now)
        # What one event less a second takes off the ratio that is too high.
        each = overload.ratio / load.input_rate
        excess_per_s = (overload.ratio - self._config.overload_low) / each
        movable = around.movable()
        able = {client: of for client, of in published.items() if client in movable}
        moves = choose_publishers(able, seconds, self._peer.heads, excess_per_s)
        for move in moves:
            self._send(move, overload)
        if moves:  # else it is looked at for longer
            self.traffic.begin_anew(now)

    def _send(self, move: PublisherMove, overload: Overload) -> None:
        around = self._around
        address = around.address_of(move.head)
        if address is None:
            return
        cause = around.propose(
            "overload",
            "publisher",
            move.client,
            move.head,
            subjects=(move.client,),
            evidence={"resource": overload.resource, "ratio": overload.ratio},
            predicted={"relief_per_s": move.relief_per_s},
        )
        if cause is not None:
            around.redirect(move.client, address, cause)
