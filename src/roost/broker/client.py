"""The application's side of a session: `handle(event, now) -> commands`.

The simulator and the client library run this same machine. It has a session at one broker (`attachment`),
and while it moves another one at the next (`moving`).

What the application asks for is numbered and kept until the broker has it, in the channel of the
session; that is all that being away takes. A broker that no longer knows the session begins a new one:
the client then says again what it advertises and subscribes to, and what it published that was not
accepted.

An event that arrives a second time is known by its number: those of one publisher come in order.

An advertisement that the application withdraws while events are *kept back* is needed until those are out,
and while the client moves it may be on its way. Until then it stays, under a name of our own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from roost.broker import events as ev
from roost.broker.attachment import Attachment, State
from roost.broker.channel import Channel
from roost.broker.commands import Close, Command, Hand, SetTimer, Tell
from roost.broker.config import ClientConfig
from roost.broker.errors import RemoteProtocolError
from roost.broker.machine import Happening
from roost.broker.messages import (
    PROTOCOL_VERSION_MIN,
    Arrived,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    Message,
    Migrated,
    MigrationFailed,
    Paused,
    PausePlease,
    Probe,
    Probed,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
)
from roost.broker.moving import RESUME_ID, RESUME_TIMER, TIMER, Move, MoveCounts, Withdrawal
from roost.broker.names import IS_SUPERSEDED, Address
from roost.broker.naming import Naming
from roost.broker.numbering import Numbering
from roost.broker.offers import Offers
from roost.broker.probing import TIMER as PROBE_TIMER
from roost.broker.probing import Probing
from roost.broker.questions import Questions
from roost.language import Advertisement, Subscription


class Client:
    """One client of a federation."""

    __slots__ = (
        "_commands",
        "_dismissed",
        "_leaving",
        "_offers",
        "_paused",
        "_questions",
        "_seen",
        "_settles_to_resume",
        "_subscriptions",
        "config",
        "duplicates",
        "home",
        "is_new",
        "kept_back",
        "move",
        "move_counts",
        "naming",
        "now",
        "numbering",
        "outlet",
        "probing",
    )

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.duplicates = 0
        self.is_new = False  # the session that it has now began with its first greeting
        self.numbering = Numbering(config)
        self.naming = Naming(config)
        self._commands: list[Command] = []
        self.now = 0.0
        self._leaving = False
        self._paused = False  # by the application
        self._settles_to_resume = False  # events wait until what was advertised anew has settled
        self._seen: dict[str, int] = {}
        # By the application's names.
        self._subscriptions: dict[str, Subscription] = {}
        self._offers = Offers()
        self.kept_back: deque[Publication | Withdrawal] = deque()
        self._questions = Questions(self)
        self.home = Attachment(self, 0, Address(""))
        self.outlet = self.home  # where events go
        self.move: Move | None = None
        self.move_counts = MoveCounts()
        self.probing: Probing | None = None
        self._dismissed: list[Attachment] = []  # whose last word we wait for

    @property
    def state(self) -> State:
        return self.home.state

    @property
    def address(self) -> Address:
        """Where it is, or is going."""
        return self.home.address

    @property
    def session(self) -> str:
        return self.home.session

    @property
    def channel(self) -> Channel:
        """Of the session that events go to."""
        return self.outlet.channel

    @property
    def moving(self) -> bool:
        return self.move is not None

    def attachments(self) -> Iterator[Attachment]:
        """Its sessions, the one where it is first."""
        yield self.home
        if self.move is not None:
            yield self.move.target
        yield from self._dismissed

    def counting(self) -> Iterator[Attachment]:
        """The sessions whose word counts: of those that it has while it moves, nobody knows which will."""
        yield self.home
        if self.move is not None and self.move.target.spoken:
            yield self.move.target

    @property
    def publisher(self) -> str:
        """Whose events it publishes."""
        return self.numbering.publisher

    @property
    def published(self) -> int:
        """The sequence number of the last of them."""
        return self.numbering.last

    @property
    def accepted(self) -> int:
        """The brokers have all events up to this sequence number."""
        sent = (frame.message for a in self.attachments() for frame in a.channel.data.outbox)
        return self.numbering.accepted(chain(sent, self.kept_back))

    @property
    def pending(self) -> int:
        """Messages that no broker has acknowledged, and events that are kept back."""
        lanes = (lane for a in self.attachments() for lane in a.channel.lanes)
        return sum(len(lane.outbox) for lane in lanes) + len(self.kept_back)

    def handle(self, event: Happening, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        self._commands = []
        self.now = now
        HANDLERS[type(event)](self, event)
        return self._commands

    def command(self, command: Command) -> None:
        """Have the driver do something."""
        self._commands.append(command)

    # --- what the application asks for --------------------------------------------------------------

    def _publish(self, request: ev.PublishRequested) -> None:
        publication = self.numbering.next(request, self.now)
        if (self._paused or self.move is not None or self._settles_to_resume) and self._keeps_back:
            self.kept_back.append(publication)
        else:
            self.outlet.send(publication)

    def _subscribe(self, request: ev.SubscribeRequested) -> None:
        if request.name in self._subscriptions:
            raise ValueError(f"there is already a subscription called {request.name!r}")
        self._subscriptions[request.name] = request.subscription
        cause = f"{self.config.client} subscribes"
        self.home.subscribe(request.name, request.subscription, cause)
        if self.move is not None and self.move.target.spoken:
            # Until the first session is over, what comes to one of them has to come to both.
            self.move.target.subscribe(request.name, request.subscription, cause)

    def _unsubscribe(self, request: ev.UnsubscribeRequested) -> None:
        del self._subscriptions[request.name]
        self.home.unsubscribe(request.name)
        if self.move is not None:
            self.move.target.unsubscribe(request.name)

    def _advertise(self, request: ev.AdvertiseRequested) -> None:
        self._offers.add(request.name, request.advertisement)
        cause = f"{self.config.client} advertises"
        if self.move is None or self.outlet is self.home:
            self.home.advertise(request.name, request.advertisement, cause)
        if self.move is not None and self.move.stage != "joining":
            self.move.target.advertise(request.name, request.advertisement, cause)

    def _unadvertise(self, request: ev.UnadvertiseRequested) -> None:
        name = self.going(self._offers.current.pop(request.name))
        for attachment in self.attachments():
            attachment.rename_advertisement(request.name, name)
        if self._keeps_back:
            self.kept_back.append(Withdrawal(name))
        else:
            self._withdraw(name)

    def going(self, advertisement: Advertisement) -> str:
        """The name of an advertisement that brokers need until they hear that it is withdrawn."""
        return self._offers.going(advertisement)

    def _withdraw(self, name: str) -> None:
        if self.move is not None:
            self._offers.withhold(name)
            return
        advertisement = self._offers.gone(name)
        for attachment in self.attachments():
            withdrawal = attachment.withdrawal(name, advertisement)
            if withdrawal is not None:
                attachment.send(withdrawal)

    def withdraw_withheld(self) -> None:
        """It moves no more."""
        for name in self._offers.withheld():
            self._withdraw(name)

    def _attach(self, request: ev.AttachRequested) -> None:
        if self.state in ("idle", "refused"):
            self.home.address = request.address
            self.home.dial()
        elif self.state == "waiting":
            self.home.dial()  # the application is in a hurry

    def _leave(self, _: ev.LeaveRequested) -> None:
        self._leaving = True
        self._paused = False
        if self.move is not None and self.move.stage != "handing":
            self.move.abandon(f"{self.config.client} leaves")
        self.release()
        if self.move is None and not self._settles_to_resume:
            self.home.send(self._goodbye())

    def _goodbye(self) -> EndSession:
        return EndSession(f"{self.config.client} leaves")

    def _pause(self, _: ev.PauseRequested) -> None:
        self._paused = True

    def _resume(self, _: ev.ResumeRequested) -> None:
        self._paused = False
        self.release()

    @property
    def _keeps_back(self) -> bool:
        moves = self.move is not None and self.move.pauses
        return self._paused or moves or self._settles_to_resume

    def release(self) -> None:
        """Send what was kept back, in order."""
        while self.kept_back and not self._keeps_back:
            message = self.kept_back.popleft()
            if type(message) is Withdrawal:
                self._withdraw(message.name)
            else:
                self.outlet.send(message)  # type: ignore[arg-type]

    def _settle(self, request: ev.SettleRequested) -> None:
        self._questions.ask(request.id)

    def _handled(self, event: ev.Handled) -> None:
        self.home.handled(event.number, event.beyond)

    # --- sessions -----------------------------------------------------------------------------------

    def _opened(self, event: ev.LinkOpened) -> None:
        for attachment in self.attachments():
            if attachment.address == event.broker and attachment.state == "connecting":
                attachment.opened(event.connection)
                return
        if self.probing is not None and self.probing.opened(event):
            return
        self.command(Close(event.connection, "never mind"))  # it was for a move that is off

    def _refused(self, event: ev.LinkRefused) -> None:
        for attachment in self.attachments():
            if attachment.address == event.broker and attachment.state == "connecting":
                attachment.wait()
        if self.probing is not None:
            self.probing.refused(event.broker)

    def _closed(self, event: ev.ConnectionClosed) -> None:
        attachment = self._on(event.connection)
        if attachment is None:
            if self.probing is not None:
                self.probing.closed(event.connection)
            return
        attachment.connection = None
        if attachment in self._dismissed:
            self._dismissed.remove(attachment)
            return
        if attachment is self.home:
            self.command(Tell("detached", attachment.address, event.reason))
        attachment.wait()

    def _on(self, connection: int) -> Attachment | None:
        """The session that has this connection."""
        if connection == self.home.connection:
            return self.home
        return next((a for a in self.attachments() if a.connection == connection), None)

    def _timer(self, event: ev.TimerFired) -> None:
        kind, _, number = event.name.partition(":")
        if kind == TIMER:
            if self.move is not None:
                self.move.timed_out()
            return
        if kind == PROBE_TIMER:
            if self.probing is not None:
                self.probing.finish()
            return
        if kind == RESUME_TIMER:
            if self._settles_to_resume:
                self.resume_when_settled()
            return
        for attachment in self.attachments():
            if str(attachment.number) != number:
                continue
            if kind == "acks":
                attachment.timed()
            elif attachment.state == "waiting":
                attachment.dial()

    def _received(self, event: ev.Received) -> None:
        attachment = self._on(event.connection)
        if attachment is not None:
            attachment.received(event.parcels)
        elif self.probing is not None:
            self.probing.received(event.connection, event.parcels)

    def attached(self, attachment: Attachment, greeting: Attached) -> None:
        """A broker has answered a greeting."""
        move = self.move
        if move is not None and attachment is move.target:
            move.attached(greeting)
            return
        if attachment.begun and not greeting.resumed:
            if move is not None and move.home_forgot():
                return
            # The broker has forgotten us: another session, and all anew.
            attachment.begin_another()
            attachment.greet()
            return
        if self.config.publisher and not greeting.resumed:
            if attachment.spoken and greeting.publisher != self.publisher:
                refusal = AttachRefused("another process has begun the session anew")
                self.attach_refused(attachment, refusal)
                return
            if not attachment.spoken:
                self.numbering.go_on(greeting.publisher, greeting.published)
        if not greeting.resumed and attachment.spoken:
            self.say_all_anew(attachment)
        attachment.attached(greeting)
        if not greeting.resumed:
            self.is_new = greeting.is_new
        self.command(Tell("attached", attachment.address, "resumed" if greeting.resumed else ""))
        if self.config.publisher and self.accepted > greeting.published:
            self.numbering.end_at(greeting.published)
        attachment.send_waiting()
        self.release()

    def say_all_anew(self, attachment: Attachment) -> None:
        goodbye = self._goodbye() if self._leaving else None
        self._settles_to_resume = False
        attachment.begin(self.announced(), self._subscriptions, goodbye)

    def attach_refused(self, attachment: Attachment, answer: AttachRefused) -> None:
        """A broker does not want us."""
        attachment.hang_up("thank you")
        move = self.move
        attachment.refused_transiently = answer.transient
        if IS_SUPERSEDED in answer.reason:
            attachment.wait()  # the one that speaks for it now is elsewhere
            return
        if "protocol version" in answer.reason and attachment.speaks > PROTOCOL_VERSION_MIN:
            attachment.speaks -= 1  # it is of an earlier version: once more, in its words
            attachment.dial()
            return
        if move is not None and attachment is move.target and move.stage != "handing":
            attachment.state = "refused"
            move.abandon(f"{attachment.address} says: {answer.reason}")
        elif answer.redirect:
            attachment.address = Address(answer.redirect)
            attachment.dial()
        elif attachment is self.home:
            attachment.state = "refused"
            self.command(Tell("refused", attachment.address, answer.reason))
        else:
            attachment.wait()

    def dismiss(self, attachment: Attachment) -> None:
        """Say goodbye to a broker that we have a second session at, if it can hear us."""
        self._questions.dismissed(attachment)
        if attachment.state == "attached" and attachment.connection is not None:
            self._dismissed.append(attachment)
            attachment.deliveries = "dropped"
            attachment.held.clear()
            attachment.outstanding.clear()
            attachment.send(self._goodbye())
        else:
            attachment.hang_up("never mind")

    def moved(self, pause_s: float) -> None:
        """The client is at another broker, and was not able to publish for so long."""
        self.command(Tell("moved", self.address, f"{pause_s:.6f}"))
        if self.home.knows_ahead:
            self.home.send(Arrived(self.home.cause))
        self._questions.moved()
        if self._leaving:
            self.home.send(self._goodbye())

    def resume_when_settled(self) -> None:
        """Keep events back until what was said has settled."""
        self._settles_to_resume = True
        self.home.send(Settle(RESUME_ID, f"{self.config.client} stays at {self.address}"))

    # --- what brokers say ---------------------------------------------------------------------------

    def take(self, connection: int, frame: Frame) -> tuple[str, ...] | None:
        """The short way for what is most of a client's work: the next delivery, and nothing else to do.

        The application's names of what it is for: what `Hand` says. With None it was not that simple:
        `handle` it. The two ways end in the same state.
        """
        home = self.home
        number = frame.sequence
        lane = home.channel.data
        if (
            number >= home.quiet_until
            or number != lane.received + 1
            or connection != home.connection
            or self._leaving
        ):
            return None
        delivery = frame.message
        if type(delivery) is not Delivery:
            return None
        subscriptions = delivery.subscriptions
        if len(subscriptions) != 1:
            return None
        publication = delivery.publication
        publisher, sequence = publication.publisher, publication.sequence
        names = home.names.get(subscriptions[0])
        if names is None or sequence <= self._seen.get(publisher, 0):
            return None
        lane.received = number
        self._seen[publisher] = sequence
        return names

    def delivered(self, attachment: Attachment, delivery: Delivery, number: int) -> None:
        """An event, for the application if it has not had it."""
        publication = delivery.publication
        publisher, sequence = publication.publisher, publication.sequence
        if sequence <= self._seen.get(publisher, 0) and not attachment.goes_on(delivery, number):
            self.duplicates += 1
            return
        self._seen[publisher] = sequence
        attachment.last = (delivery, number)
        names = attachment.names.get(delivery.subscriptions[0], ())
        for id_ in delivery.subscriptions[1:]:
            names += attachment.names.get(id_, ())
        if names and not self._leaving:
            self.command(Hand(publication, names, number))
            if self.config.waits_for_application:
                attachment.outstanding.append(number)

    def heard(self, attachment: Attachment, message: Message) -> None:
        """Anything but a delivery."""
        move = self.move
        if attachment in self._dismissed:
            if isinstance(message, SessionEnded):
                attachment.send_ack()
                attachment.hang_up("goodbye")
                self._dismissed.remove(attachment)
            return
        if move is not None:
            mine = move.heard_at_home if attachment is self.home else move.heard_at_target
            if mine(message):
                return
        if isinstance(message, Redirect):
            self._redirected(message)
        elif isinstance(message, Probe):
            self._probe(message)
        elif isinstance(message, SessionEnded):
            self._ended(message)
        elif isinstance(message, Refused) and message.request == RESUME_ID:
            self.command(SetTimer(RESUME_TIMER, self.config.redial_s))
        elif isinstance(message, Refused):
            self._questions.refused(message.request)
            if self.config.publisher:
                self.numbering.refused(message.request)
            self.command(Tell("refused", message.request, message.reason))
        elif isinstance(message, Dropped):
            if message.count:  # else the last process was done with it
                self.command(Tell("dropped", str(message.count)))
        elif isinstance(message, Settled):
            if message.id != RESUME_ID:
                self._questions.answered(attachment, message.id, message.missing)
            elif self._settles_to_resume:
                self._settles_to_resume = False
                self.release()
                if self._leaving:
                    self.home.send(self._goodbye())
        elif type(message) not in STALE:
            raise RemoteProtocolError(f"{type(message).__name__} is not for a client to hear")

    def _redirected(self, message: Redirect) -> None:
        """To where we are, or are going, there is no way; a durable session is where its name is known.

        The pause of a move that is off must not be taken for that of the next.
        """
        busy = self._leaving or self.moving or self._settles_to_resume
        busy = busy or self.home.is_unheard(Paused)
        if not busy and not self.config.durable and message.address != self.address:
            self.move = Move(self, message)

    def _probe(self, message: Probe) -> None:
        if self.probing is not None:
            self.probing.finish()  # they know more by now
        if message.brokers and not self._leaving:
            self.probing = Probing(self, message)

    def measured(self, answer: Probed) -> None:
        """How far brokers are, for ours."""
        self.probing = None
        self.home.send(answer)

    def _ended(self, message: SessionEnded) -> None:
        """The broker has ended the session."""
        if self.move is not None:
            self.move.abandon(f"{self.address} has ended the session: {message.reason}")
        home = self.home
        home.outstanding.clear()  # nobody keeps them for us any more
        home.send_ack()
        home.hang_up("goodbye")
        home.begun = False
        home.state = "idle"
        self.command(Tell("ended", self.address, message.reason))

    # --- for the application ------------------------------------------------------------------------

    def subscriptions(self) -> Mapping[str, Subscription]:
        """What the application is subscribed to, by its names."""
        return self._subscriptions

    def advertisements(self) -> Mapping[str, Advertisement]:
        """What the application advertises, by its names."""
        return self._offers.current

    def announced(self) -> Mapping[str, Advertisement]:
        """What brokers have to know: also what it advertises no longer, as long as that is needed."""
        return self._offers.announced()


# Of a move that is off.
STALE = frozenset((Migrated, MigrationFailed, PausePlease))

HANDLERS: dict[type, Any] = {
    ev.Received: Client._received,
    ev.PublishRequested: Client._publish,
    ev.SubscribeRequested: Client._subscribe,
    ev.UnsubscribeRequested: Client._unsubscribe,
    ev.AdvertiseRequested: Client._advertise,
    ev.UnadvertiseRequested: Client._unadvertise,
    ev.AttachRequested: Client._attach,
    ev.LeaveRequested: Client._leave,
    ev.SettleRequested: Client._settle,
    ev.Handled: Client._handled,
    ev.PauseRequested: Client._pause,
    ev.ResumeRequested: Client._resume,
    ev.LinkOpened: Client._opened,
    ev.LinkRefused: Client._refused,
    ev.ConnectionClosed: Client._closed,
    ev.TimerFired: Client._timer,
}
