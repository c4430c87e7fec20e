"""Telling when everything that is on the way has arrived: markers, not waiting times.

A marker is a message of the data class. The broker that begins sends it to all neighbours, each of
which passes it on to all others (but not from peer to peer: as it does with events), behind whatever it has
to forward. A broker without anybody else to pass it to sends an echo back; one that has heard the echo of
all that it passed it to does the same.
When the echo is back at the beginning, every event that was ahead of the marker has been handled by
every broker that it had to reach. If a session is to be handed over, the echo is of the data class, too:
then every event that was on the way to the beginning has come as well.

**Ahead of data.** Who only subscribes, or moves as a subscriber, need not wait for the longest queue
anywhere. Its requests are control, and so is a marker behind them: where it has passed, they are in effect.
To hand a session over, only what is on the way back has to be waited for, and the echo still comes behind
that. (The way to the old session stays until it ends. To withdraw it with the echo would spare the old
broker some events, and break what the client relies on: that up to its end the old session gets all that the
new one gets, so what comes there later is no earlier. Links that heal bring what nobody asked for.)

**Shared.** While a marker is under way from here, requests for the next gather, and that one is for all of
them: those that go ahead of data with those of all sessions, the others with those of the same session. So
twenty subscribers that leave together cost two markers each way, not twenty, and one who asks a thousand
times no more than one that asks twice. What a session has asked for is forgotten with it: a neighbour that
never answers must not make the markers of those who have left pile up.

    begin                 -> waiting for all neighbours
    marker                -> waiting for the others       | nobody else: echo
    echo                  -> one less to wait for         | the last: echo to where the marker came from, or
                                                            drained, where it began
    neighbour gone        -> as if it had echoed: what it had on the way is not coming any more
    link begins anew      -> the marker is sent again, behind the events that will still arrive
    neighbour excused     -> as if it had echoed, if this is about what a client has asked for: it is queued
                             there, and nothing is missed (see `absence`)

The echo says who was excused, here and further away.

**While a link is moved** (`rewiring`), what a marker would prove of the three brokers may be untrue by the
time that its echo is back. One that comes meanwhile is held, and answered when the move is over; that answer,
and those of all markers that were under way here, say that another has to be sent (`again`), from where it
began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, structs
from msgspec.structs import replace

from roost.broker.commands import StoreKey
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.journal import Journal
from roost.broker.messages import ASKS_BACK, DrainEcho, Marker, MarkerEcho, Message

# What a marker is for, in its id: that a session can be handed over, or that what a client has asked for has
# settled.
HAND_OVER = "hand over"
SETTLE = "settle"
PURPOSES = (HAND_OVER, SETTLE)
# So many of those who are away are named.
MISSING_MAX = 20


def marker_id(life: str, number: int, purpose: str, argument: str, session: str) -> str:
    """Nobody else's. The life of the broker keeps it apart from the markers of an earlier one."""
    return f"{life}/{number}/{purpose}/{argument}/{session}"


def read_marker_id(id_: str) -> tuple[str, str, str]:
    """The purpose, its argument and the session. (A life is a broker and its incarnation.)"""
    *_, purpose, argument, session = ("", "", "", *id_.split("/", 5))
    return purpose, argument, session


def group_of(purpose: str, session: str, *, ahead: bool) -> str:
    """Which requests share a marker."""
    return purpose if ahead else f"{purpose}/{session}"


class Request(Struct, frozen=True):
    """Who waits for a marker that began here."""

    argument: str
    session: str


class Drain(Struct, frozen=True):
    """A marker that has passed here."""

    id: str
    cause: str
    parent: str  # the neighbour that it came from; "" here is where it began
    waiting: tuple[str, ...]
    missing: tuple[str, ...] = ()  # who was excused
    ahead: bool = False
    again: bool = False  # it proves nothing


class Draining:
    """The markers that this broker waits for.

    `drained(purpose, argument, session, missing)` is called where one began, for each who asked for it.
    """

    def __init__(
        self,
        links: Mapping[str, Link],
        identity: Identity,
        tell: Callable[[Link, Message], None],
        drained: Callable[[str, str, str, tuple[str, ...]], None],
        journal: Journal | None,
        passes: Callable[[Link, Link], bool],
    ) -> None:
        self._links = links
        self._identity = identity
        self._passes = passes  # whether what comes from the one goes on to the other
        self._begun = 0  # markers that began here
        self._tell = tell
        self._drained = drained
        self._journal = journal
        self._drains: dict[str, Drain] = {}
        # By group: the id of the marker that is under way from here, and who waits for it; who for the next.
        self._shared: dict[str, tuple[str, list[Request]]] = {}
        self._gathering: dict[str, list[Request]] = {}
        self._holds = False  # while a link is moved

    def __len__(self) -> int:
        return len(self._drains)

    def begin(
        self, purpose: str, argument: str, session: str, cause: str, *, ahead: bool = False
    ) -> None:
        """Have a marker pass everywhere, for a session here."""
        group = group_of(purpose, session, ahead=ahead)
        self._gathering.setdefault(group, []).append(Request(argument, session))
        if group in self._shared:
            self._keep_requests(group)
        else:
            self._begin_shared(group, purpose, cause, ahead=ahead)

    def _begin_shared(self, group: str, purpose: str, cause: str, *, ahead: bool) -> None:
        """For all that have gathered."""
        asked = self._gathering.pop(group)
        # It goes by the first of them.
        id_ = self._new_id(purpose, asked[0].argument, asked[0].session)
        self._shared[group] = (id_, asked)
        self._keep_requests(group)
        waiting, missing = self._neighbours(id_)
        self._spread(Drain(id_, cause, "", waiting, missing, ahead=ahead))

    def ended(self, session: str) -> None:
        """A session is over, and waits for nothing any more."""
        for purpose in PURPOSES:
            alone = group_of(purpose, session, ahead=False)
            id_, _ = self._shared.pop(alone, ("", []))
            if id_ in self._drains:
                self._forget(self._drains[id_])
            if id_:
                self._gathering.pop(alone, None)
                self._keep_requests(alone)
            together = group_of(purpose, session, ahead=True)
            id_, asked = self._shared.get(together, ("", []))
            gathering = self._gathering.get(together, [])
            if any(request.session == session for request in (*asked, *gathering)):
                self._shared[together] = (id_, [r for r in asked if r.session != session])
                gathering = [r for r in gathering if r.session != session]
                if gathering:
                    self._gathering[together] = gathering
                else:
                    self._gathering.pop(together, None)
                self._keep_requests(together)

    def _new_id(self, purpose: str, argument: str, session: str) -> str:
        self._begun += 1
        if self._journal is not None:
            self._journal.put("drains", value=self._begun)
        return marker_id(self._identity.memory, self._begun, purpose, argument, session)

    def _keep_requests(self, group: str) -> None:
        if self._journal is None:
            return
        id_, asked = self._shared.get(group, ("", []))
        next_ = self._gathering.get(group, [])
        if not id_ and not next_:
            self._journal.delete("shared", group)
            return
        record = (
            id_,
            [[r.argument, r.session] for r in asked],
            [[r.argument, r.session] for r in next_],
        )
        self._journal.put("shared", group, value=record)

    def hold(self) -> None:
        """A link is about to be moved: what is under way proves nothing, and nothing new is begun."""
        self._holds = True
        for drain in list(self._drains.values()):
            self._keep(replace(drain, again=True))

    def release(self) -> None:
        """It is where it belongs."""
        self._holds = False
        for drain in list(self._drains.values()):
            if not drain.waiting and drain.id in self._drains:
                self._finish_if_heard(drain)

    def marker(self, link: Link, marker: Marker) -> None:
        if marker.id in self._drains:
            # It is under way here, or has begun here: links were moved while it travelled. Whoever sent it
            # a second way has nobody behind us to wait for.
            self._echo(Drain(marker.id, marker.cause, link.name, ()))
            return
        if self._holds:
            self._keep(Drain(marker.id, marker.cause, link.name, (), (), marker.ahead, again=True))
            return
        others, missing = self._neighbours(marker.id)
        others = tuple(name for name in others if self._passes(link, self._links[name]))
        self._spread(Drain(marker.id, marker.cause, link.name, others, missing, marker.ahead))

    def _neighbours(self, id_: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that a marker goes to, and those that are excused."""
        settles = read_marker_id(id_)[0] == SETTLE
        excused = tuple(name for name, link in self._links.items() if settles and link.excused)
        return tuple(name for name in self._links if name not in excused), excused

    def echo(self, link: Link, echo: MarkerEcho | DrainEcho) -> None:
        drain = self._drains.get(echo.id)
        if drain is not None:
            missing = () if isinstance(echo, DrainEcho) else echo.missing
            self._heard(drain, link.name, missing, again=echo.again)

    def excuse(self, link: Link) -> None:
        """It is away for too long to be waited for."""
        for drain in list(self._drains.values()):
            if link.name in drain.waiting and read_marker_id(drain.id)[0] == SETTLE:
                self._heard(drain, link.name, (link.name,))

    def gone(self, link: Link) -> None:
        """The neighbour has left."""
        self.forgotten(link)
        for drain in list(self._drains.values()):
            self._heard(drain, link.name)

    def forgotten(self, link: Link) -> None:
        """It has lost its memory, or we what it knew of us: nobody is left who waits for its markers."""
        for drain in [drain for drain in self._drains.values() if drain.parent == link.name]:
            self._forget(drain)

    def again(self, link: Link) -> None:
        """What was told over the link has been told again, and the markers are to come behind that."""
        for drain in self._drains.values():
            if link.name in drain.waiting:
                self._send(link, drain)

    def restore(
        self,
        begun: int,
        records: Mapping[StoreKey, tuple[str, str, tuple[str, ...]]],
        shared: Mapping[StoreKey, tuple[str, list[list[str]], list[list[str]]]],
    ) -> None:
        """Records of an earlier version end before `missing`, `ahead` or `again`, and not all were shared."""
        self._begun = begun
        for (id_,), record in records.items():
            self._drains[str(id_)] = Drain(str(id_), *record)
        for (group,), (marker, asked, next_) in shared.items():
            self._shared[str(group)] = (marker, [Request(*each) for each in asked])
            if next_:
                self._gathering[str(group)] = [Request(*each) for each in next_]

    def _spread(self, drain: Drain) -> None:
        if self._holds:
            self._keep(replace(drain, waiting=(), missing=(), again=True))
            return
        self._keep(drain)
        for name in drain.waiting:
            self._send(self._links[name], drain)
        self._finish_if_heard(drain)

    def _send(self, link: Link, drain: Drain) -> None:
        # One of the version before knows only those of the data class: they are later, and as good.
        ahead = drain.ahead and link.version >= ASKS_BACK
        self._tell(link, Marker(drain.id, drain.cause, ahead))

    def _heard(
        self, drain: Drain, name: str, missing: tuple[str, ...] = (), *, again: bool = False
    ) -> None:
        waiting = tuple(other for other in drain.waiting if other != name)
        # Behind a star of brokers that are away there may be many: enough to say that, and some of whom.
        missing = (*drain.missing, *missing)[:MISSING_MAX]
        again = again or drain.again
        drain = replace(drain, waiting=waiting, missing=missing, again=again)
        self._keep(drain)
        self._finish_if_heard(drain)

    def _finish_if_heard(self, drain: Drain) -> None:
        if drain.waiting or self._holds:
            return
        self._forget(drain)
        if drain.parent:
            self._echo(drain)
        else:
            self._is_drained(drain)

    def _is_drained(self, drain: Drain) -> None:
        purpose, argument, session = read_marker_id(drain.id)
        group = group_of(purpose, session, ahead=drain.ahead)
        id_, asked = self._shared.get(group, ("", []))
        if id_ == drain.id:
            del self._shared[group]
        else:  # one of an earlier version, which nobody shares
            asked = [Request(argument, session)]
        if drain.again:
            self._gathering[group] = [*asked, *self._gathering.get(group, ())]
            asked = []
        if self._gathering.get(group) and group not in self._shared:
            self._begin_shared(group, purpose, drain.cause, ahead=drain.ahead)
        else:
            self._keep_requests(group)
        for request in asked:
            self._drained(purpose, request.argument, request.session, drain.missing)

    def _echo(self, drain: Drain) -> None:
        link = self._links[drain.parent]
        if read_marker_id(drain.id)[0] == HAND_OVER:
            self._tell(link, DrainEcho(drain.id, drain.cause, drain.again))
        else:
            missing = drain.missing if link.version >= ASKS_BACK else ()
            self._tell(link, MarkerEcho(drain.id, drain.cause, missing, drain.again))

    def _keep(self, drain: Drain) -> None:
        self._drains[drain.id] = drain
        if self._journal is not None:
            _, *record = structs.astuple(drain)
            self._journal.put("drain", drain.id, value=record)

    def _forget(self, drain: Drain) -> None:
        del self._drains[drain.id]
        if self._journal is not None:
            self._journal.delete("drain", drain.id)
