"""What clients ask for: checked here, and then routed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roost.broker.accepting import is_next
from roost.broker.commands import Report
from roost.broker.config import BrokerConfig
from roost.broker.draining import HAND_OVER, SETTLE, Draining
from roost.broker.exchange import Exchange
from roost.broker.hops import Entry, Link, Session
from roost.broker.messages import (
    ASKS_BACK,
    DATA,
    GOODBYE,
    HANDED_OVER,
    Advertise,
    EndSession,
    HandOver,
    Message,
    Publication,
    Redirect,
    Refused,
    Settle,
    Settled,
    Subscribe,
)
from roost.broker.modules import Modules
from roost.broker.names import Address
from roost.broker.router import Flooding
from roost.broker.sessions import Sessions
from roost.broker.work import Work
from roost.language import Subscription

SETTLE_ID_LENGTH_MAX = 100


class Requests:
    """The requests of a broker's clients."""

    def __init__(
        self,
        config: BrokerConfig,
        work: Work,
        links: Mapping[str, Link],
        sessions: Mapping[str, Session],
        tell: Callable[[Session, Message], None],
        *,
        hosted: Sessions,
        router: Flooding,
        draining: Draining,
        exchange: Exchange,
        modules: Modules,
    ) -> None:
        self._config = config
        self._work = work
        self._links = links
        self._sessions = sessions
        self._tell = tell
        self._hosted = hosted
        self._router = router
        self._draining = draining
        self._exchange = exchange
        self._modules = modules

    def subscribes(self, session: Session, message: Subscribe) -> None:
        if session.ending or self._taken(session, self._router.subscriptions, message.id):
            return
        objection = self._objection_to_subscription(session, message.subscription)
        if objection:
            self._tell(session, Refused(message.id, objection))
            return
        is_first = self._modules.listening and not (
            session.subscriptions
            or any(other.subscriptions for other in self._hosted.quotas.others(session))
        )
        self._router.subscribe(session, message.id, message.subscription, message.cause)
        if is_first:
            self._modules.first_subscribed(session.client)

    def _objection_to_subscription(self, session: Session, subscription: Subscription) -> str:
        objection = self._hosted.quotas.objection_to_subscription(session)
        if objection or session.permission is None:
            return objection
        return session.permission.objection_to_subscription(subscription)

    def advertises(self, session: Session, message: Advertise) -> None:
        if session.ending or self._taken(session, self._router.advertisements, message.id):
            return
        objection = self._hosted.quotas.objection_to_advertisement(session)
        if not objection and session.permission is not None:
            objection = session.permission.objection_to_advertisement(message.advertisement)
        if objection:
            self._tell(session, Refused(message.id, objection))
            return
        is_first = self._modules.listening and not (
            session.advertisements
            or any(other.advertisements for other in self._hosted.quotas.others(session))
        )
        self._router.advertise(session, message.id, message.advertisement, message.cause)
        if is_first:
            self._modules.first_advertised(session.client)

    def _taken(self, session: Session, table: Mapping[str, Entry], id_: str) -> bool:
        objection = "" if session.permission is None else session.permission.objection_to_name(id_)
        if objection:
            self._tell(session, Refused(id_, objection))
            return True
        there = table.get(id_)
        if there is None or (there.hop is session and session.durable):
            return False  # the next process of a durable session says again what it wants
        self._tell(session, Refused(id_, f"the id {id_!r} is in use"))
        return True

    def ends(self, session: Session, message: EndSession) -> None:
        if session.leaving:
            return  # it has said so before
        session.leaving = True
        if session.redirected and message.cause == session.redirected:
            session.departure = "moved"  # and had nothing here that has to be handed over
        self._hosted.mark_ending(session, message.cause)
        self._hosted.say_ended(session, GOODBYE)

    def hands_over(self, session: Session, message: HandOver) -> None:
        if not session.leaving:
            session.leaving = True
            session.departure = "moved"
            self._draining.begin(HAND_OVER, "", session.name, message.cause, ahead=message.ahead)

    def settles(self, session: Session, message: Settle) -> None:
        links = self._links.values()
        waiting = [link.channel.data for link in links if not link.excused]
        bound = self._config.link_outbox_max
        if "/" in message.id or len(message.id) > SETTLE_ID_LENGTH_MAX:
            reason = f"an id to settle has at most {SETTLE_ID_LENGTH_MAX} characters, and no '/'"
            self._tell(session, Refused(message.id, reason))
        elif not message.ahead and any(lane.sent - lane.acked >= bound for lane in waiting):
            self._tell(session, Refused(message.id, "too much waits for a neighbour"))
        else:
            self._draining.begin(
                SETTLE, message.id, session.name, message.cause, ahead=message.ahead
            )

    def drained(self, purpose: str, argument: str, name: str, missing: tuple[str, ...]) -> None:
        """A marker that was for this session has passed everywhere."""
        session = self._sessions.get(name)
        if session is None:
            return
        if purpose == SETTLE:
            known = session.version >= ASKS_BACK
            self._tell(session, Settled(argument, missing if known else ()))
        else:
            self._hosted.mark_ending(session, f"{session.client} is elsewhere")
            self._hosted.say_ended(session, HANDED_OVER)

    def redirect(self, client: str, address: Address, cause: str) -> None:
        """Ask every session of a client to move to another broker; a durable publisher stays."""
        for session in self._sessions.values():
            if session.client == client and not session.ending and session.published is None:
                session.redirected = cause
                self._tell(session, Redirect(address, cause))
                self._work.command(Report("info", "client redirected", client, address))

    def publishes(self, session: Session, publication: Publication) -> None:
        """From a client: only what it may publish, and has advertised."""
        reason = self._objection(session, publication)
        if session.published is not None:
            new = is_next(session, session.published, publication, reason, self._tell)
            if new:
                self._exchange.publish(session, publication, 0)
            elif new is None:
                self._exchange.duplicates += 1
        elif reason:
            self._tell(session, Refused(publication.id, reason))
        else:
            modules = self._modules
            if modules.tracing:
                publication = modules.traced(publication, self._work.now)
            self._exchange.publish(session, publication, 0)

    def _objection(self, session: Session, publication: Publication) -> str:
        if self._hosted.store_is_full and self._config.store_full_policy == "refuse":
            return "the store of this broker is full"
        if publication.publisher != session.publisher:
            return f"it is in the name of {publication.publisher!r}, not of {session.publisher!r}"
        if publication.priority != DATA or self._modules.reserves(publication.event):
            return "its class is reserved for the brokers themselves"
        if publication.traced:
            return "only brokers say what is traced"
        if session.permission is not None and not self._router.strategy.advertises:
            # Otherwise what it has advertised was permitted.
            return session.permission.objection_to_event(publication.event)
        return self._router.objection_to(session, publication.event)
