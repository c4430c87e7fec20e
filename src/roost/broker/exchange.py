"""Publications pass: to neighbours, to clients here, to modules.

**A publication** is routed once: the highest sequence number seen of each publisher tells a second
coming, because an overlay without cycles and channels in order bring the events of a publisher in
order. (Channels already suppress what a connection brings twice. This is the second line, for
neighbours and clients that lost their memory.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roost.broker.commands import Deliver, Send, SendRun
from roost.broker.config import BrokerConfig
from roost.broker.detour import Detour
from roost.broker.flow import Flow, size_in_memory
from roost.broker.hops import Hop, Inside, Link, Session
from roost.broker.messages import DATA, Delivery, Dropped, Frame, Publication
from roost.broker.modules import Modules
from roost.broker.patience import Patience
from roost.broker.pausing import Pausing
from roost.broker.router import Flooding
from roost.broker.runs import Run
from roost.broker.sessions import Sessions
from roost.broker.work import Work

# So many ids fit into the frame of a delivery, however long they are.
FEW_IDS = 15
ID_MARK_BYTES = 3


def parts_of(ids: Sequence[str], bytes_max: int) -> Iterator[tuple[str, ...]]:
    """Ids of subscriptions in parts that fit into a frame each, beside the event."""
    part: list[str] = []
    size = 0
    for id_ in ids:
        length = len(id_.encode()) + ID_MARK_BYTES
        if part and size + length > bytes_max:
            yield tuple(part)
            part, size = [], 0
        part.append(id_)
        size += length
    yield tuple(part)


class Exchange:
    """Where publications come in and go out. `give_up(link)`: too much is kept for one that is away."""

    def __init__(
        self,
        config: BrokerConfig,
        work: Work,
        router: Flooding,
        flow: Flow,
        pausing: Pausing,
        patience: Patience,
        sessions: Sessions,
        modules: Modules,
        give_up: Callable[[Link], None],
    ) -> None:
        self._work = work
        self._router = router
        self._flow = flow
        self._pausing = pausing
        self._patience = patience
        self._sessions = sessions
        self._modules = modules
        self._give_up = give_up
        self.detour: Detour | None = None  # while a link is moved
        self._seen: dict[str, int] = {}  # publisher -> its highest sequence number so far
        self.routed = 0  # publications
        self.duplicates = 0  # publications that came a second time
        self.last_route = (0, 0)  # to how many neighbours, and clients here, the last event went
        self._seen_max = config.watermarks_max
        self._link_bound = config.link_outbox_max
        self._spare_max = config.spare_max
        self._ids_bytes = config.delivery_ids_bytes_max
        self._session_bound = config.session_outbox_max
        self._session_bytes = config.session_outbox_bytes_max

    def publish(self, source: Hop, publication: Publication, hops: int) -> None:
        """Route a publication: to neighbours, clients and modules."""
        publisher = publication.publisher
        seen = self._seen
        last = seen.get(publisher)
        if last is None:
            if len(seen) >= self._seen_max:
                del seen[next(iter(seen))]
        elif publication.sequence <= last:
            self.duplicates += 1
            self.last_route = (0, 0)
            return
        seen[publisher] = publication.sequence
        self.routed += 1

        router = self._router
        links, local = router.route(publication.event, source)
        if self.detour is not None:
            links = self.detour.links(source, links)
        control = publication.priority != DATA
        if router.greedy and not control:
            self._spread(source, links, publication, hops + 1)
        self.last_route = (len(links), len(local))
        commands = self._work.commands
        for link in links:
            lane = link.channel.control if control else link.channel.data
            frame = lane.push(publication, hops + 1)
            if lane.spilled:
                self._flow.spilled(link)
            elif link.open or (control and link.greeted):
                commands.append(Send(link.connection, frame))  # type: ignore[arg-type]
            if frame.sequence - lane.acked >= self._link_bound:
                self._pausing.block(source, link)
        if local:
            self._deliver(source, publication, hops, local)
        if self._modules.listening and not control:
            self._modules.routed(source, publication, hops, links, local, self._work.now)

    # --- what passed as bytes (see `roost.chunks`) ----------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether events take the ways that the table says."""
        return self.detour is None and not self._router.greedy

    def room_for(self, peer: Link | Session, count: int, size: int) -> bool:
        """Whether so many more, of that many bytes, go to a peer, and nobody has to wait or be told for that.

        Whoever is there and does not read gets it later. To a client no more than half of its bounds: from
        there on others may have to wait for it, which is decided one by one. What spills has no other bound.
        """
        if peer.dropped:
            return False
        lane = peer.channel.data
        after = lane.sent + count - lane.acked
        if isinstance(peer, Link):
            there = peer.open or (peer.connection is not None and peer.greeted)
            return there and not peer.withheld and after < self._link_bound
        if lane.memory_max:
            if self._patience.is_due(peer, count):
                return False
            quotas = self._sessions.quotas
            return not self._is_behind(peer) or not quotas.needs_a_look(peer, size)
        if after > self._session_bound // 2:
            return False
        held = 0 if peer.open else peer.held_bytes + size
        return peer.connection is not None and held <= self._session_bytes // 2

    def _is_behind(self, session: Session) -> bool:
        lane = session.channel.data
        return not session.open or lane.sent - lane.acked >= self._session_bound

    def send(self, peer: Link | Session, run: Run) -> None:
        """There is room for these, which are numbered: they go out, or are kept until they can."""
        lane = peer.channel.data
        if lane.memory_max and isinstance(peer, Session):
            peer.backlog.add(run.last, len(run.data), lane.acked)
            if self._is_behind(peer):
                self._sessions.quotas.keeps(peer, len(run.data))
        elif isinstance(peer, Session) and not peer.open:
            peer.held_bytes += len(run.data)
        part = lane.push_run(run)
        if part is not None and peer.open:
            self._work.commands.append(SendRun(peer.connection, part))  # type: ignore[arg-type]
        if lane.spilled:
            self._flow.spilled(peer)

    def are_new(self, published: Sequence[tuple[str, int, int]]) -> bool:
        """Whether none of a run of events has been here before: publisher, first and last number of each."""
        seen = self._seen
        if len(seen) + len(published) > self._seen_max:
            return all(name in seen and first > seen[name] for name, first, _ in published)
        return all(first > seen.get(name, -1) for name, first, _ in published)

    def passed(
        self, published: Sequence[tuple[str, int, int]], count: int, last_route: tuple[int, int]
    ) -> None:
        """They have been routed."""
        for publisher, _, last in published:
            self._seen[publisher] = last
        self.routed += count
        self.last_route = last_route

    def _deliver(
        self, source: Hop, publication: Publication, hops: int, local: Sequence[Hop]
    ) -> None:
        frames: list[tuple[int, Frame]] = []
        bound, half = self._session_bound, self._session_bound // 2
        size = 0  # worked out if anybody spills
        for hop in local:
            if type(hop) is not Session:
                assert isinstance(hop, Inside)
                self._modules.heard(hop, publication, hop.matched, self._work.now)
                continue
            lane = hop.channel.data
            waiting = lane.sent - lane.acked
            if not hop.open or waiting >= half:
                if self._patience.is_due(hop):
                    self._patience.wait(source, hop)
                behind = not hop.open or waiting >= bound
                if behind and not self._sessions.room(hop, publication):
                    self._sessions.overflow(hop)
                    continue
            if hop.dropped:
                self._flow.tell(hop, Dropped(hop.dropped))
                hop.drop(0)
            matched = hop.matched
            if len(matched) > FEW_IDS:
                *others, matched = parts_of(matched, self._ids_bytes)
                for part in others:
                    self._flow.tell(hop, Delivery(publication, part), hops)
            frame = lane.push(Delivery(publication, matched), hops)
            if lane.memory_max:
                size = size or size_in_memory(publication)
                hop.backlog.add(frame.sequence, size, lane.acked)
                if lane.spilled:
                    self._flow.spilled(hop)
                    continue
            if hop.open:
                frames.append((hop.connection, frame))  # type: ignore[arg-type]
        if frames:
            self._work.commands.append(Deliver(publication, frames))

    def _spread(self, source: Hop, links: list[Link], publication: Publication, hops: int) -> None:
        """Add those who may want the event, for all we know; see `absence`."""
        detour = self.detour
        for greedy in self._router.greedy:
            if not self._router.passes(source, greedy):
                continue
            for link in (greedy,) if detour is None else detour.links(source, [greedy]):
                lane = link.channel.data
                if link in links:
                    continue
                if link.connection is not None:
                    links.append(link)
                elif lane.sent - lane.acked < self._spare_max:
                    lane.push(publication, hops)  # and holds nobody up, however much it is
                else:
                    self._give_up(link)  # which makes another list of the greedy
