"""GRAPE for subscribers, on-line: groups of them move nearer to their publishers (000 section 6).

A group is the subscribers at a broker that ask for the same. Its broker knows what each of them was delivered
of the last session of a publisher, and not what the rest of the federation was: that, the publisher's broker
has collected for its own decision. So

    now and then    a broker takes the group that has waited longest for a decision, and asks for the last
                    session of each publisher that it hears of (a request goes back the way that publications
                    have come)
    all have come   `subscribers.choose_broker_for_group`, from the statistics of all these trees; the broker
                    is never one whose input or output utilisation would pass the limit
    it pays         every member is redirected, and hands itself over (`broker.moving`)

Clients that publish here are no members: what moves them is what they publish. So are those that stay for
good, as durable sessions do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from roost.optimising.bitvector import BitVector
from roost.optimising.groups import Wanted, called, groups_of
from roost.relocation.notes import SessionAnswer, SessionRequest, body_of
from roost.relocation.sessions import PUBLISHERS_MAX, TraceSession
from roost.relocation.statistics import Answer
from roost.relocation.subscribers import Source

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

TIMER = "groups"
GIVE_UP = "groups give up"


class Group(Struct):
    """Subscribers of the same, and what is known of their publishers."""

    filters: Wanted
    members: tuple[str, ...]
    sessions: Mapping[str, TraceSession]  # publisher -> what of it was delivered here
    asked_at: float
    missing: dict[str, None]
    answers: dict[str, SessionAnswer]

    @property
    def name(self) -> str:
        """What a decision calls it."""
        return called(self.members, self.filters)

    def brokers(self) -> list[Answer]:
        """One answer a broker, of all trees together."""
        found: dict[str, Answer] = {}
        for told in self.answers.values():
            for answer in told.answers:
                found.setdefault(answer.broker, answer)
        return list(found.values())

    def sources(self, here: str) -> list[Source]:
        """What each publisher means to them, and to all others."""
        return [
            self._source(here, told, self.sessions[publisher])
            for publisher, told in self.answers.items()
        ]

    def _source(self, here: str, told: SessionAnswer, session: TraceSession) -> Source:
        wanted, rest = BitVector(), BitVector()
        deliveries = 0
        for client, bits in session.clients.items():
            if client in self.members:
                wanted |= bits
                deliveries += bits.count()
            else:
                rest |= bits
        others = {answer.broker: answer.bits for answer in told.answers}
        others[here] = rest.to_bytes()
        return Source(told.broker, told.trace, others, wanted.to_bytes(), deliveries)


class Groups:
    """The groups at one broker; `ready` gets one whose statistics are all there."""

    def __init__(
        self,
        around: Surroundings,
        period_s: float,
        timeout_s: float,
        ready: Callable[[Group], None],
    ) -> None:
        self._around = around
        self._period_s = period_s
        self._timeout_s = timeout_s
        self._ready = ready
        self._heard: dict[str, TraceSession] = {}  # publisher -> its last session, as it was here
        self._whole: dict[str, SessionAnswer] = {}  # of publishers here, as it was everywhere
        self._decided: dict[Wanted, float] = {}  # filters -> when they had their turn
        self._asking: Group | None = None
        around.set_timer(TIMER, period_s)

    # --- what has happened ----------------------------------------------------------------------------

    def over(self, publisher: str, session: TraceSession) -> None:
        """A session is over, and this is what of it was delivered here."""
        _keep(self._heard, publisher, session)

    def collected(self, publisher: str, whole: SessionAnswer) -> None:
        """... of a publisher here, and what of it was delivered everywhere."""
        _keep(self._whole, publisher, whole)

    # --- asking ---------------------------------------------------------------------------------------

    def timer(self, name: str, now: float) -> bool:
        """Whether it was one of ours."""
        if name == GIVE_UP:
            self._asking = None
            return True
        if name != TIMER:
            return False
        self._around.set_timer(TIMER, self._period_s)
        group = self._next(now) if self._asking is None else None
        if group is not None:
            self._decided[group.filters] = now
            self._asking = group
            self._around.set_timer(GIVE_UP, self._timeout_s)
            for publisher in list(group.missing):
                self._ask(publisher)
        return True

    def _next(self, now: float) -> Group | None:
        """The group that has waited longest, if there is news for it; of those the one that hears most."""
        members = groups_of(
            self._around.clients(),
            lambda client: client not in self._whole and self._around.is_movable(client),
        )
        self._decided = {f: at for f, at in self._decided.items() if f in members}
        groups = []
        for filters, clients in members.items():
            sessions = {
                publisher: session
                for publisher, session in self._heard.items()
                if any(client in session.clients for client in clients)
            }
            had_turn_at = self._decided.get(filters, float("-inf"))
            if any(session.last > had_turn_at for session in sessions.values()):
                missing = dict.fromkeys(sessions)
                groups.append(Group(filters, tuple(clients), sessions, now, missing, {}))
        return min(groups, key=self._urgency, default=None)

    def _urgency(self, group: Group) -> tuple[float, int, Wanted]:
        heard = sum(
            session.clients[client].count()
            for session in group.sessions.values()
            for client in group.members
            if client in session.clients
        )
        return self._decided.get(group.filters, float("-inf")), -heard, group.filters

    def _ask(self, publisher: str) -> None:
        here = self._whole.get(publisher)
        if here is not None:
            self.answered(here)
            return
        request = SessionRequest(publisher, (self._around.broker,))
        upstream = self._heard[publisher].upstream
        self._around.tell(upstream, body_of(request), f"the last session of {publisher}?")

    def asked(self, neighbour: str, request: SessionRequest) -> None:
        """A request on its way: answer it if the publisher is here, else send it on."""
        publisher = request.publisher
        whole, heard = self._whole.get(publisher), self._heard.get(publisher)
        if whole is not None and heard is not None and heard.from_client:
            self.answered(replace(whole, path=request.path))
        elif heard is not None and not heard.from_client and heard.upstream != neighbour:
            onward = replace(request, path=(self._around.broker, *request.path))
            self._around.tell(heard.upstream, body_of(onward), f"the last session of {publisher}?")

    def answered(self, answer: SessionAnswer) -> None:
        """On its way back, or here."""
        if answer.path:
            onward = replace(answer, path=answer.path[1:])
            cause = f"the last session of {answer.publisher}"
            self._around.tell(answer.path[0], body_of(onward), cause)
            return
        group = self._asking
        if group is None or answer.publisher not in group.missing:
            return
        if answer.first != group.sessions[answer.publisher].first:
            return  # the next session is over by now: another time
        del group.missing[answer.publisher]
        group.answers[answer.publisher] = answer
        if not group.missing:
            self._asking = None
            self._around.cancel_timer(GIVE_UP)
            self._ready(group)


def _keep(
    table: dict[str, TraceSession] | dict[str, SessionAnswer], name: str, value: object
) -> None:
    """The newest last; the one that is kept longest is forgotten first."""
    table.pop(name, None)
    if len(table) >= PUBLISHERS_MAX:
        del table[next(iter(table))]
    table[name] = value  # type: ignore[assignment]
