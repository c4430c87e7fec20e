"""Data goes out no faster than it is read.

What a peer is to get stands in the outbox of its channel. While the peer is *open*, each message goes to the
driver as it comes. A peer that is away, or that does not read what was written (the driver says `Congested`),
is closed: messages stay in the outbox. When it is back (`Relieved`, or a new connection), they are handed
out, a few at a time so that nobody else has to wait for them, and when there are none left it is open again.

So what a slow reader costs is in one place, which has a bound: for a neighbour `link_outbox_max`, at which
whoever could add to it is read no further, and for a client `session_outbox_max` and
`session_outbox_bytes_max`, at which a policy says what happens; before that, whoever publishes for it may be
read no further for a moment (`patience`). A durable session of a broker with a store
*spills*: beyond `session_memory_max` what waits for it is in the store only, and comes back (`Fetch`) as the
client acknowledges. So does what waits for a neighbour that is away, beyond `link_outbox_max`.

Control is little, and goes out at once. For a neighbour that is away it is kept up to the same bound: beyond
it, both start from nothing when it is back, and it is told what there is then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roost.broker.commands import Fetch, Send, SendRun, SetTimer
from roost.broker.events import Fetched
from roost.broker.hops import Link, Session
from roost.broker.messages import DATA, Delivery, Frame, Message, Publication, priority_of
from roost.broker.patience import Patience
from roost.broker.runs import Run
from roost.broker.work import Work

AT_A_TIME = 512
TIMER = "flow"


def size_in_memory(publication: Publication) -> int:
    """Its bytes as they came, and the payload once more."""
    return len(publication.encoded) + len(publication.payload)


def held_size(kept: Frame | Run) -> int:
    """What it counts for, of the bytes that wait for a client."""
    if type(kept) is Run:
        return len(kept.data)
    assert isinstance(kept, Frame)
    message = kept.message
    return size_in_memory(message.publication) if type(message) is Delivery else 0


class Flow:
    """Hands outboxes to connections. `refilled(session, count)`: the last so many came from the store."""

    def __init__(
        self,
        work: Work,
        links: Mapping[str, Link],
        sessions: Mapping[str, Session],
        *,
        link_bound: int,
        patience: Patience,
        refilled: Callable[[Session, int], None],
    ) -> None:
        self._work = work
        self._links = links
        self._sessions = sessions
        self._link_bound = link_bound
        self._patience = patience
        self._refilled = refilled

    def tell(self, peer: Link | Session, message: Message, hops: int = 0) -> None:
        """Send a message to a neighbour or a client, now or when it is back."""
        channel = peer.channel
        if priority_of(message) == DATA:
            frame = channel.data.push(message, hops)
            can_go = peer.open and not channel.data.spilled
            if channel.data.spilled:
                self.spilled(peer)
        elif isinstance(peer, Link) and not self._keeps(peer):
            return  # it will be told all anew
        else:
            frame = channel.control.push(message, hops)
            can_go = peer.is_session or peer.greeted  # type: ignore[union-attr]
        if can_go and peer.connection is not None:
            self._work.command(Send(peer.connection, frame))

    def _keeps(self, link: Link) -> bool:
        """Whether what changes is kept for a neighbour that is away."""
        waiting = link.channel.control.sent - link.channel.control.acked
        # Not between the greetings: what we have said there that we know has to stay true.
        if link.connection is None and waiting >= self._link_bound:
            if link.peer_incarnation:
                link.peer_incarnation = ""
                link.keep()
            return False
        return True

    def begin(self, peer: Link | Session) -> None:
        """A connection is there, and both sides know where they are: send what the peer lacks."""
        assert peer.connection is not None
        for frame in peer.channel.control.outbox:
            self._work.command(Send(peer.connection, frame))
        peer.released = peer.channel.data.acked
        self.go_on(peer)
        self.refill(peer)

    def end(self, peer: Link | Session) -> None:
        """The connection is gone, or is not the peer's any more."""
        peer.open = False
        peer.congested = False
        peer.fetching = False
        if not isinstance(peer, Session):
            return
        self._patience.gone(peer)
        if not peer.channel.data.memory_max:
            # All of it may have to be sent again. (What spills has no bound of bytes.)
            peer.held_bytes = sum(map(held_size, peer.channel.data.outbox))

    def congested(self, peer: Link | Session) -> None:
        peer.congested = True
        if isinstance(peer, Session):
            self._patience.congested(peer)
        if peer.open:
            peer.open = False
            peer.released = peer.channel.data.sent

    def relieved(self, peer: Link | Session) -> None:
        if peer.congested:
            peer.congested = False
            self.go_on(peer)

    def go_on(self, peer: Link | Session) -> None:
        """Hand out the next few messages, and open the peer if they were the last."""
        if peer.connection is None or peer.open or peer.congested:
            return
        if isinstance(peer, Link) and (not peer.greeted or peer.withheld):
            return  # there is no telling yet what it lacks, or it is not to have it yet
        lane = peer.channel.data
        first = max(peer.released, lane.acked)
        for frame in lane.behind(first, AT_A_TIME):
            if type(frame) is Run:
                self._work.command(SendRun(peer.connection, frame))
            else:
                assert isinstance(frame, Frame)
                self._work.command(Send(peer.connection, frame))
            if isinstance(peer, Session):
                peer.held_bytes = max(0, peer.held_bytes - held_size(frame))
        in_memory = lane.sent - lane.spilled
        peer.released = min(in_memory, first + AT_A_TIME)
        if peer.released == lane.sent:
            peer.open = True
        elif peer.released < in_memory:
            self._work.command(SetTimer(f"{TIMER}:{peer.kind}:{peer.name}", 0.0))

    def timer(self, name: str) -> None:
        kind, _, peer_name = name.partition(":")
        peer = self._peer(kind, peer_name)
        if peer is not None:
            self.go_on(peer)

    def _peer(self, kind: str, name: str) -> Link | Session | None:
        return self._links.get(name) if kind == Link.kind else self._sessions.get(name)

    def spilled(self, peer: Link | Session) -> None:
        """What is for it goes to the store only, from now on."""
        if peer.open:
            lane = peer.channel.data
            peer.open = False
            peer.released = lane.sent - lane.spilled

    def refill(self, peer: Link | Session) -> None:
        """Ask for what is in the store only, when half of what may be in memory has gone."""
        lane = peer.channel.data
        room = lane.memory_max - lane.waiting
        if lane.spilled and not peer.fetching and room * 2 >= lane.memory_max:
            peer.fetching = True
            first, count = lane.sent - lane.spilled + 1, min(room, lane.spilled)
            self._work.command(Fetch(lane.key, first, count, lane.to_fetch(count)))

    def fetched(self, event: Fetched) -> None:
        fetch, records = event.fetch, event.records
        kind, name, _ = fetch.key
        peer = self._peer(str(kind), str(name))
        if peer is None or not peer.fetching:
            return  # whoever asked is not there any more
        lane = peer.channel.data
        if fetch.first != lane.sent - lane.spilled + 1:
            return  # asked for by an earlier connection; the answer to the last question is still to come
        peer.fetching = False
        if all(record is not None for record in records):
            lane.refill(fetch.records, records, fetch.count)
            if isinstance(peer, Session):
                self._refilled(peer, fetch.count)
            self.go_on(peer)
            self.refill(peer)
