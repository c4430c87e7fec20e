"""Two brokers agree that subscribers move from one to the other (001 sections 3.4.1 and 3.4.2).

A broker takes part in one session at a time. The *offloading* side:

    asking      a request is on its way to the first broker of the broker-action list
                -> OK: sampling      anything else, or no answer in time: asking the next, if there is one
    sampling    PRESS looks at what passes (`press`); then an offload is chosen
                -> somebody is to move: migrating      nobody: over
    migrating   the chosen clients were redirected
                -> DONE, or the time is up: over

The *accepting* side:

    promised    an OK has gone out
                -> these clients are coming: receiving      nobody is, or nothing is heard in time: over
    receiving   -> all are here, or the time is up: DONE, and over

Whoever crashes, the other's time runs out, and the session is over there, too. Nobody is lost by that: each
client moves by itself, make before break (`broker.moving`), under a lease of the arbiter, and is attached
where it was until it is attached where it goes. A session only says who is busy, and when both may be
judged again.

The time to receive N clients is N times the migration time-out, as in the thesis, but no longer than a
lease may last: who has not come by then has given up. A client has come when it is subscribed here. Its
session at the other broker may go on for as long as that has deliveries for it; in the thesis, too, DONE
does not wait for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict

from roost.balancing.cards import LoadReport, Offload, Spectrum
from roost.balancing.control import (
    BalanceReply,
    BalanceRequest,
    Done,
    Migrating,
    Post,
    Withdrawn,
)
from roost.balancing.detection import BrokerAction
from roost.balancing.indices import Action, BrokerIndices
from roost.balancing.press import Press
from roost.balancing.settings import BalancingConfig
from roost.balancing.states import Status
from roost.broker.names import Address

if TYPE_CHECKING:
    from roost.broker.module import Surroundings, Visit

# A client that was redirected has left by then, or is leaving, or stays.
GOING_S = 120.0
# How often it is looked who has come.
POLL_S = 1.0
# An operator who wants a broker emptied need not wait for publications that don't come.
DRAIN_SAMPLING_S = 5.0
OFFLOADING, ACCEPTING, POLL = "offloading", "accepting", "poll"
# Cards that a record shows; the others are counted.
CARDS_SHOWN = 20


class OffloadSession(Struct):
    """At the broker whose clients move."""

    id: str
    partner: str
    action: Action
    urgency: str
    since: float
    stage: Literal["asking", "sampling", "migrating"] = "asking"
    address: Address = Address("")
    report: LoadReport | None = None
    press: Press | None = None
    waiting: dict[str, None] = field(default_factory=dict)  # clients that have not left
    moved: int = 0
    decision: str = ""

    @property
    def is_overloaded(self) -> bool:
        return self.urgency == "overload"

    @property
    def drains(self) -> bool:
        return self.urgency == "drain"


class AcceptSession(Struct):
    """At the broker that they move to."""

    id: str
    partner: str
    since: float
    stage: Literal["promised", "receiving"] = "promised"
    waiting: dict[str, None] = field(default_factory=dict)
    count: int = 0  # of those that were announced
    decision: str = ""
    predicted: Mapping[str, float] = {}


class Balancer(Protocol):
    """Who has the sessions: what it knows, and what it is told."""

    def status(self, now: float) -> Status:
        """As PIE says it."""

    def report(self) -> LoadReport | None:
        """How this broker fares; None if nothing is known yet."""

    def choose(self, session: OffloadSession, spectrum: Spectrum) -> Offload | None:
        """Who is to move to the partner; None if that can't be said."""

    def begun(self, now: float) -> None:
        """A session has begun, on either side."""

    def offloaded(self, session: OffloadSession, offload: Offload | None, now: float) -> None:
        """It is over. Without an offload nothing was decided."""

    def accepted(self, session: AcceptSession, now: float) -> None:
        """It is over."""

    def nobody_left(self, now: float) -> None:
        """All brokers of the list have refused."""


class Mediator:
    """The sessions of one broker."""

    def __init__(
        self, around: Surroundings, config: BalancingConfig, post: Post, balancer: Balancer
    ) -> None:
        self._around = around
        self._config = config
        self._post = post
        self._balancer = balancer
        self._count = 0
        self._list: list[BrokerAction] = []
        self._offload: Offload | None = None
        self.offloading: OffloadSession | None = None
        self.accepting: AcceptSession | None = None
        self._going: dict[
            str, float
        ] = {}  # clients that were redirected: until when they count as going
        self._coming: dict[str, float] = {}  # clients that were announced

    # --- what others may know -------------------------------------------------------------------------

    @property
    def in_session(self) -> bool:
        """Whether the broker is BUSY: who only asks is not."""
        asks = self.offloading is not None and self.offloading.stage == "asking"
        return self.accepting is not None or (self.offloading is not None and not asks)

    @property
    def is_free(self) -> bool:
        """Whether there is neither a session nor a request."""
        return self.offloading is None and self.accepting is None

    def may_move(self, client: str, now: float) -> bool:
        """Whether a client is neither on its way from here, nor on its way here."""
        return now >= self._going.get(client, 0.0) and now >= self._coming.get(client, 0.0)

    def is_going(self, client: str) -> bool:
        """Whether it was redirected, and has not left yet."""
        return client in self._going

    # --- the offloading side --------------------------------------------------------------------------

    def ask(self, candidates: Sequence[BrokerAction], urgency: str, now: float) -> None:
        """Go through a broker-action list, until one says yes."""
        if self.is_free:
            self._list = list(candidates)
            self._ask_next(urgency, now)

    def _ask_next(self, urgency: str, now: float) -> None:
        if not self._list:
            self.offloading = None
            self._around.cancel_timer(OFFLOADING)
            self._balancer.nobody_left(now)
            return
        first = self._list.pop(0)
        self._count += 1
        id_ = f"{self._around.broker}@{now:.6f}/{self._count}"
        self.offloading = OffloadSession(id_, first.broker, first.action, urgency, now)
        self._around.set_timer(OFFLOADING, self._config.reply_timeout_s)
        request = BalanceRequest(id_, self._around.broker, first.action, urgency == "drain")
        self._post(first.broker, request)

    def replied(self, reply: BalanceReply, now: float) -> None:
        session = self.offloading
        if session is None or session.id != reply.session or session.stage != "asking":
            if reply.status is Status.OK:  # it has waited long enough
                self._post(reply.sender, Migrating(reply.session, self._around.broker, ()))
            return
        if reply.status is not Status.OK or reply.report is None:
            self._ask_next(session.urgency, now)
            return
        self._list = []
        session.stage, session.since = "sampling", now
        session.address, session.report = reply.address, reply.report
        session.press = Press(self._around, self._config.press_samples)
        session.press.begin(reply.report.css)
        sampling_s = self._config.press_timeout_s
        if session.drains:
            sampling_s = min(sampling_s, DRAIN_SAMPLING_S)
        self._around.set_timer(OFFLOADING, sampling_s)
        self._balancer.begun(now)

    def routed(self, visit: Visit, now: float) -> None:
        session = self.offloading
        if session is not None and session.press is not None and session.press.routed(visit):
            self._choose(session, now)

    def heard_sample(self) -> None:
        """What was routed last matches what the partner is subscribed to."""
        if self.offloading is not None and self.offloading.press is not None:
            self.offloading.press.heard()

    def _choose(self, session: OffloadSession, now: float) -> None:
        """The samples are taken."""
        assert session.press is not None
        load = self._around.load
        spectrum = session.press.end(
            load.input_rate if load is not None else 0.0,
            lambda client: self.may_move(client, now),
        )
        session.press = None
        offload = self._offload = self._balancer.choose(session, spectrum)
        granted = self._propose(session, offload, spectrum) if offload is not None else []
        predicted = {} if offload is None else indices_dict(offload.other_predicted)
        migrating = Migrating(
            session.id, self._around.broker, tuple(granted), session.decision, predicted
        )
        self._post(session.partner, migrating)
        if not granted:
            self._end_offload(now)
            return
        session.stage = "migrating"
        session.waiting = dict.fromkeys(granted)
        for client in granted:
            self._going[client] = now + GOING_S
            self._around.redirect(client, session.address, session.decision)
        waiting_s = self._receiving_s(len(granted)) + self._config.reply_timeout_s
        self._around.set_timer(OFFLOADING, waiting_s)

    def _propose(self, session: OffloadSession, offload: Offload, spectrum: Spectrum) -> list[str]:
        """The clients that may go: all of them, or those to whose going nobody objects."""
        about = {
            "session": session.id,
            "partner": session.partner,
            "index": offload.action.value,
            "clients": len(offload.clients),
            "considered": offload.considered,
            "chosen": [asdict(card) for card in offload.cards[:CARDS_SHOWN]],
            "ended": offload.ended,
            "own": indices_dict(offload.own),
            "other": indices_dict(offload.other),
            "samples": spectrum.samples,
        }
        predicted = {
            **{f"own_{k}": v for k, v in indices_dict(offload.own_predicted).items()},
            **{f"other_{k}": v for k, v in indices_dict(offload.other_predicted).items()},
        }
        if not offload.clients:
            self._around.decide(
                "no offload", session.id, session.partner, evidence=about, predicted=predicted
            )
            return []
        cause = self._proposed(session, offload.clients, about, predicted)
        if cause is not None:
            session.decision = cause
            return list(offload.clients)
        granted = []
        if self._around.acting:  # somebody has a hand on one of them: the others may go
            for client in offload.clients:
                cause = self._proposed(session, (client,), {"session": session.id}, {})
                if cause is not None:
                    session.decision = session.decision or cause
                    granted.append(client)
        return granted

    def _proposed(
        self,
        session: OffloadSession,
        clients: tuple[str, ...],
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
    ) -> str | None:
        return self._around.propose(
            session.urgency,
            "offload",
            clients[0] if len(clients) == 1 else f"{len(clients)} subscribers",
            session.partner,
            subjects=clients,
            evidence=evidence,
            predicted=predicted,
        )

    def done(self, message: Done, now: float) -> None:
        session = self.offloading
        if session is not None and session.id == message.session and session.stage == "migrating":
            session.moved = message.arrived
            self._end_offload(now)

    def left(self, client: str, *, moved: bool) -> None:
        """A client is not here any more."""
        self._going.pop(client, None)
        session = self.offloading
        if session is not None and client in session.waiting:
            del session.waiting[client]
            if not moved:
                self._post(session.partner, Withdrawn(session.id, self._around.broker, (client,)))

    def _end_offload(self, now: float) -> None:
        session, offload = self.offloading, self._offload
        assert session is not None
        if session.press is not None:
            session.press.cancel()
        self.offloading = self._offload = None
        self._around.cancel_timer(OFFLOADING)
        self._balancer.offloaded(session, offload, now)

    # --- the accepting side ---------------------------------------------------------------------------

    def requested(self, request: BalanceRequest, now: float) -> None:
        around, status = self._around, self._balancer.status(now)
        if status is Status.STABILIZING and not self._config.rules.stabilising_refuses:
            status = Status.OK
        if status is Status.OK and not self.is_free:
            status = Status.BUSY  # it asks somebody itself
        report = self._balancer.report() if status is Status.OK else None
        if report is None:
            # Without any load there is nothing to choose by.
            status = Status.NOT_AVAILABLE if status is Status.OK else status
            self._post(request.sender, BalanceReply(request.session, around.broker, status))
            return
        reply = BalanceReply(request.session, around.broker, status, around.address, report)
        self.accepting = AcceptSession(request.session, request.sender, now)
        config = self._config
        around.set_timer(ACCEPTING, config.press_timeout_s + 2 * config.reply_timeout_s)
        self._post(request.sender, reply)
        self._balancer.begun(now)

    def migrating(self, message: Migrating, now: float) -> None:
        session = self.accepting
        if session is None or session.id != message.session or session.stage != "promised":
            return
        session.stage, session.count = "receiving", len(message.clients)
        session.decision, session.predicted = message.decision, message.predicted
        session.waiting = dict.fromkeys(message.clients)
        self._coming = {client: until for client, until in self._coming.items() if until > now}
        for client in message.clients:
            self._coming[client] = now + self._config.migration_max_s
        self._around.set_timer(ACCEPTING, self._receiving_s(session.count))
        self._look_who_came(now)

    def withdrawn(self, message: Withdrawn, now: float) -> None:
        session = self.accepting
        if session is not None and session.id == message.session:
            for client in message.clients:
                session.waiting.pop(client, None)
                self._coming.pop(client, None)
                session.count -= 1
            self._look_who_came(now)

    def arrived(self, client: str, now: float) -> None:
        """A client was moved here, and is nowhere else any more; or it stays, as it could not move."""
        self._coming.pop(client, None)
        self._going.pop(client, None)
        session = self.accepting
        if session is not None and client in session.waiting:
            del session.waiting[client]
            self._look_who_came(now)

    def _look_who_came(self, now: float) -> None:
        session = self.accepting
        if session is None or session.stage != "receiving":
            return
        if session.waiting:
            here = self._around.clients()
            session.waiting = {client: None for client in session.waiting if not here.get(client)}
        if not session.waiting:
            self._end_accept(now)
        else:
            self._around.set_timer(POLL, POLL_S)

    def _end_accept(self, now: float) -> None:
        session = self.accepting
        assert session is not None
        self.accepting = None
        self._around.cancel_timer(ACCEPTING)
        self._around.cancel_timer(POLL)
        if session.count:
            came = session.count - len(session.waiting)
            self._post(session.partner, Done(session.id, self._around.broker, came))
        self._balancer.accepted(session, now)

    # --- time -----------------------------------------------------------------------------------------

    def timer(self, name: str, now: float) -> bool:
        """Whether it was one of these."""
        if name == OFFLOADING and self.offloading is not None:
            session = self.offloading
            if session.stage == "asking":
                self._ask_next(session.urgency, now)
            elif session.stage == "sampling":
                self._choose(session, now)
            else:
                self._end_offload(now)
        elif name == ACCEPTING and self.accepting is not None:
            self._end_accept(now)
        elif name == POLL:
            self._look_who_came(now)
        else:
            return name in (OFFLOADING, ACCEPTING)
        return True

    def give_up(self, now: float) -> None:
        """The broker has no part in this any more: its role is another."""
        self._list = []
        if self.offloading is not None:
            asked = self.offloading.stage == "asking"
            if self.offloading.stage != "migrating":
                self._post(
                    self.offloading.partner,
                    Migrating(self.offloading.id, self._around.broker, ()),
                )
            if asked:
                self.offloading = None
                self._around.cancel_timer(OFFLOADING)
            else:
                self._end_offload(now)
        if self.accepting is not None:
            self._end_accept(now)

    def _receiving_s(self, count: int) -> float:
        return min(count * self._config.migration_timeout_s, self._config.migration_max_s)


def indices_dict(indices: BrokerIndices) -> dict[str, float]:
    """For records."""
    return {name: float(getattr(indices, name)) for name in indices.__struct_fields__}
