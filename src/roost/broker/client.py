"""The application's side of a session: `handle(event, now) -> commands`.

The simulator and the client library run this same machine.

    idle        AttachRequested -> connecting
    connecting  LinkOpened -> greeting              LinkRefused -> waiting
    greeting    Attached -> attached                AttachRefused -> connecting elsewhere | refused
    attached    Redirect -> moving                  LeaveRequested -> leaving
    moving      SessionEnded -> connecting elsewhere, with a new session
    leaving     SessionEnded -> idle
    waiting     TimerFired -> connecting
    any         ConnectionClosed -> waiting; what it was up to (moving, leaving) goes on once it is back

What the application asks for is numbered and kept until the broker has it, in the channel of the
session; that is all that being away takes. A broker that no longer knows the session begins a new one:
the client then says again what it advertises and subscribes to, and what it published that was not
accepted.

To **move** is to end the session at the old broker and begin one at the new. What is published
meanwhile is kept back. The old broker answers behind its last delivery, and after everything that was
published has passed all brokers, so that nothing published at the new one can overtake. Between the two
sessions the client is subscribed nowhere.

An event that arrives a second time is known by its number: those of one publisher come in order.

A **durable publisher** goes on with the numbers of the processes before it. The first answer of its broker
says whose events they are and what the last number was; the application publishes from then on. Once an
event is refused, none behind it is accepted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal, TypeAlias

from roost.broker import events as ev
from roost.broker.channel import Channel
from roost.broker.commands import Close, Command, Hand, OpenLink, Send, SetTimer, Tell
from roost.broker.config import ClientConfig
from roost.broker.errors import RemoteProtocolError
from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    Message,
    Parcel,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    priority_of,
)
from roost.broker.naming import Naming
from roost.language import Advertisement, Subscription
from roost.language.values import INT_MAX

State: TypeAlias = Literal["idle", "connecting", "greeting", "attached", "waiting", "refused"]


class Client:
    """One client of a federation."""

    __slots__ = (
        "_accepted_max",
        "_acks_timed",
        "_advertisements",
        "_begun",
        "_commands",
        "_connection",
        "_leaving",
        "_names",
        "_naming",
        "_now",
        "_outstanding",
        "_paused",
        "_seen",
        "_spoken",
        "_subscriptions",
        "_target",
        "_withdrawn",
        "broker",
        "channel",
        "config",
        "duplicates",
        "kept_back",
        "published",
        "publisher",
        "state",
    )

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.state: State = "idle"
        self.broker = ""  # where it is, or is going
        self.duplicates = 0
        self.publisher = config.publisher or config.client
        self.published = config.published  # the sequence number of the last event
        self._accepted_max = INT_MAX  # a durable publisher's: the one behind it was refused
        self._naming = Naming(config)
        self._commands: list[Command] = []
        self._now = 0.0
        self._connection: int | None = None
        self._begun = False  # the broker knows the session
        self._spoken = False  # some broker has heard of us: to begin is to say it again
        self._target: str | None = None  # moving: to this broker
        self._leaving = False
        self._paused = False
        self._acks_timed = False
        self._outstanding: deque[int] = deque()  # deliveries that the application is not done with
        self._seen: dict[str, int] = {}
        # By the application's names: (id, what). The ids are new in every session.
        self._subscriptions: dict[str, tuple[str, Subscription]] = {}
        self._advertisements: dict[str, tuple[str, Advertisement]] = {}
        self._names: dict[str, tuple[str, ...]] = {}  # subscription id -> its name
        self._withdrawn: dict[str, Advertisement] = {}  # ids whose Unadvertise is on the way
        self.kept_back: deque[Message] = deque()  # of the data class, while paused or moving
        self._new_channel()

    @property
    def accepted(self) -> int:
        """The broker has all events up to this sequence number."""
        waiting = chain((frame.message for frame in self.channel.data.outbox), self.kept_back)
        for message in waiting:
            if type(message) is Publication:
                return min(message.sequence - 1, self._accepted_max)
        return min(self.published, self._accepted_max)

    @property
    def pending(self) -> int:
        """Messages that the broker has not acknowledged, and events that are kept back."""
        lanes = self.channel.lanes
        return sum(len(lane.outbox) for lane in lanes) + len(self.kept_back)

    @property
    def moving(self) -> bool:
        return self._target is not None

    def handle(self, event: Any, now: float) -> list[Command]:
        """What there is to do now that this has happened."""
        self._commands = []
        self._now = now
        HANDLERS[type(event)](self, event)
        return self._commands

    # --- what the application asks for --------------------------------------------------------------

    def _publish(self, request: ev.PublishRequested) -> None:
        self.published += 1
        publication = Publication(
            publisher=self.publisher,
            sequence=self.published,
            event=request.event,
            payload=request.payload,
            content_type=request.content_type,
            headers=request.headers,
            published_at=self._now,
        )
        self._send_data(publication)

    def _subscribe(self, request: ev.SubscribeRequested) -> None:
        if request.name in self._subscriptions:
            raise ValueError(f"there is already a subscription called {request.name!r}")
        id_ = self._naming.subscription(request.name)
        self._subscriptions[request.name] = (id_, request.subscription)
        self._names[id_] = (request.name,)
        self._send(Subscribe(id_, request.subscription, f"{self.config.client} subscribes {id_}"))

    def _unsubscribe(self, request: ev.UnsubscribeRequested) -> None:
        id_, _ = self._subscriptions.pop(request.name)
        del self._names[id_]
        self._send(Unsubscribe(id_, f"{self.config.client} unsubscribes {id_}"))

    def _advertise(self, request: ev.AdvertiseRequested) -> None:
        if request.name in self._advertisements:
            raise ValueError(f"there is already an advertisement called {request.name!r}")
        id_ = self._naming.advertisement(self.publisher, request.advertisement)
        self._advertisements[request.name] = (id_, request.advertisement)
        self._send(Advertise(id_, request.advertisement, f"{self.config.client} advertises {id_}"))

    def _unadvertise(self, request: ev.UnadvertiseRequested) -> None:
        id_, advertisement = self._advertisements.pop(request.name)
        if not self.channel.data.outbox and not self.kept_back:
            self._withdrawn.clear()  # all have arrived
        self._withdrawn[id_] = advertisement
        self._send_data(Unadvertise(id_, f"{self.config.client} unadvertises {id_}"))

    def _attach(self, request: ev.AttachRequested) -> None:
        if self.state in ("idle", "refused"):
            self.broker = request.broker
            self._dial()
        elif self.state == "waiting":
            self._dial()  # the application is in a hurry

    def _leave(self, _: ev.LeaveRequested) -> None:
        self._leaving = True
        self._paused = False
        self._release()
        if not self.moving:
            self._send(self._goodbye())

    def _pause(self, _: ev.PauseRequested) -> None:
        self._paused = True

    def _resume(self, _: ev.ResumeRequested) -> None:
        self._paused = False
        self._release()

    def _release(self) -> None:
        """Send what was kept back, in order."""
        while self.kept_back and not self._paused and not self.moving:
            self._send(self.kept_back.popleft())

    def _send_data(self, message: Message) -> None:
        if self._paused or self.moving:
            self.kept_back.append(message)
        else:
            self._send(message)

    def _goodbye(self) -> EndSession:
        """The last word in a session. A client that goes on elsewhere waits for its events to pass."""
        if self._target is None:
            return EndSession(False, f"{self.config.client} leaves")
        return EndSession(self.published > 0, f"{self.config.client} moves to {self._target}")

    # --- the session --------------------------------------------------------------------------------

    def _dial(self) -> None:
        self.state = "connecting"
        self._commands.append(OpenLink(self.broker))

    def _opened(self, event: ev.LinkOpened) -> None:
        self._connection = event.connection
        self.state = "greeting"
        self._greet(event.connection)

    def _greet(self, connection: int) -> None:
        greeting = Attach(
            version=PROTOCOL_VERSION,
            client=self.config.client,
            session=self.session,
            resume=self._begun,
            control_received=self.channel.control.received,
            data_received=self._done_with,
            durable=self.config.durable,
            process=self.config.process,
            publisher=self.publisher if self.config.publisher else "",
            published=self.accepted if self.config.publisher else 0,
        )
        self._commands.append(Send(connection, greeting))

    @property
    def _done_with(self) -> int:
        """Nobody here needs deliveries up to this number any more."""
        return self._outstanding[0] - 1 if self._outstanding else self.channel.data.received

    def _handled(self, event: ev.Handled) -> None:
        while self._outstanding and self._outstanding[0] <= event.number:
            self._outstanding.popleft()
        if not self._acks_timed or self._unreported() >= self.config.ack_every:
            self._owe_ack()

    def _settle(self, request: ev.SettleRequested) -> None:
        self._send(Settle(request.id, f"{self.config.client} waits for its requests"))

    def _refused(self, event: ev.LinkRefused) -> None:
        if event.broker == self.broker:
            self._wait()

    def _closed(self, event: ev.ConnectionClosed) -> None:
        if event.connection == self._connection:
            self._connection = None
            self._commands.append(Tell("detached", self.broker, event.reason))
            self._wait()

    def _wait(self) -> None:
        if self.state not in ("idle", "refused"):
            self.state = "waiting"
            self._commands.append(SetTimer("dial", self.config.redial_s))

    def _timer(self, event: ev.TimerFired) -> None:
        if event.name == "acks":
            self._acks_timed = False
            self._send_ack()
        elif self.state == "waiting":
            self._dial()

    def _attached(self, greeting: Attached) -> None:
        if self._begun and not greeting.resumed:
            # The broker has forgotten us: another session, and all anew.
            self._begun = False
            self._naming.new_session()
            assert self._connection is not None
            self._greet(self._connection)
            return
        if self.config.publisher and not greeting.resumed:
            if self._spoken and greeting.publisher != self.publisher:
                self._attach_refused(AttachRefused("another process has begun the session anew"))
                return
            if not self._spoken:
                self.publisher, self.published = greeting.publisher, greeting.published
        self.state = "attached"
        if not greeting.resumed and self._spoken:
            self._begin()
        if not greeting.resumed:
            self.channel.data.received = self.channel.data.reported = greeting.data_from
        self._begun = self._spoken = True
        self._commands.append(Tell("attached", self.broker, "resumed" if greeting.resumed else ""))
        received = (greeting.control_received, greeting.data_received)
        self.channel.resume(*received if greeting.resumed else (0, 0))
        if self.config.publisher and self.accepted > greeting.published:
            self._accepted_max = greeting.published  # the reason is on the way
        for frame in (*self.channel.control.outbox, *self.channel.data.outbox):
            self._put(frame)
        self._release()

    def _begin(self) -> None:
        """The broker knows nothing of us: say again all that counts, in order."""
        unaccepted = [frame.message for frame in self.channel.data.outbox]
        if (self._leaving or self.moving) and not any(type(m) is EndSession for m in unaccepted):
            unaccepted.append(self._goodbye())  # the broker that had heard it has forgotten
        self._new_channel()
        renamed: dict[str, str] = {}
        for message in (*unaccepted, *self.kept_back):
            if isinstance(message, Unadvertise):
                renamed[message.id] = self._naming.new_id()
                self._announce(renamed[message.id], self._withdrawn[message.id])
        for name, (_, advertisement) in self._advertisements.items():
            id_ = self._naming.advertisement(self.publisher, advertisement)
            self._advertisements[name] = (id_, advertisement)
            self._announce(*self._advertisements[name])
        self._names.clear()
        for name, (_, subscription) in self._subscriptions.items():
            id_ = self._naming.subscription(name)
            self._subscriptions[name] = (id_, subscription)
            self._names[id_] = (name,)
            cause = f"{self.config.client} begins anew"
            self._push(Subscribe(id_, subscription, cause))
        withdrawn, self._withdrawn = self._withdrawn, {}
        for message in unaccepted:
            if isinstance(message, Unadvertise):
                id_ = renamed[message.id]
                self._withdrawn[id_] = withdrawn[message.id]
                self._push(Unadvertise(id_, message.cause))
            else:
                self._push(message)
        for place, message in enumerate(self.kept_back):
            if isinstance(message, Unadvertise):
                id_ = renamed[message.id]
                self._withdrawn[id_] = withdrawn[message.id]
                self.kept_back[place] = Unadvertise(id_, message.cause)

    def _announce(self, id_: str, advertisement: Advertisement) -> None:
        self._push(Advertise(id_, advertisement, f"{self.config.client} begins anew"))

    def _attach_refused(self, answer: AttachRefused) -> None:
        self._hang_up("thank you")
        if answer.redirect:
            self.broker = answer.redirect
            self._dial()
        else:
            self.state = "refused"
            self._commands.append(Tell("refused", self.broker, answer.reason))

    def _redirected(self, message: Redirect) -> None:
        if self._leaving or self.moving or message.broker == self.broker:
            return
        self._target = message.broker
        self._send(self._goodbye())

    def _ended(self, message: SessionEnded) -> None:
        self._outstanding.clear()  # nobody keeps them for us any more
        self._send_ack()
        self._hang_up("goodbye")
        self._begun = False
        if self._target is None:
            self.state = "idle"
            self._commands.append(Tell("ended", self.broker, message.reason))
            return
        self.broker, self._target = self._target, None
        self._naming.new_session()
        # The old broker has all data up to EndSession. The new session begins from the dictionaries,
        # which hold what was asked for since then, and goes on with what was kept back.
        self._new_channel()
        while self.kept_back and not self._paused:
            self._push(self.kept_back.popleft())
        if self._leaving:
            self._push(self._goodbye())
        self._dial()

    def _hang_up(self, reason: str) -> None:
        if self._connection is not None:
            self._commands.append(Close(self._connection, reason))
            self._connection = None

    # --- what the broker says -----------------------------------------------------------------------

    def _received(self, event: ev.Received) -> None:
        if event.connection != self._connection:
            return
        try:
            for parcel in event.parcels:
                if event.connection != self._connection:
                    return  # we have hung up: the rest is of a session that is over
                if type(parcel) is not Frame:
                    self._greeting_or_ack(parcel)
                    continue
                channel = self.channel
                lane = channel.data if parcel.priority == DATA else channel.control
                if not lane.accept(parcel.sequence):
                    continue  # it has been here before
                message = parcel.message
                if type(message) is Delivery:
                    self._delivered(message, parcel.sequence)
                else:
                    self._heard(message)
        except RemoteProtocolError as error:
            self._hang_up(str(error))
            self._wait()
            return
        # Once a timer runs, only the bound can make it more urgent.
        if not self._acks_timed or self._unreported() >= self.config.ack_every:
            self._owe_ack()

    def _unreported(self) -> int:
        """How many messages we are done with and have not acknowledged."""
        control, data = self.channel.lanes
        return control.received - control.reported + self._done_with - data.reported

    def _owe_ack(self) -> None:
        unreported = self._unreported()
        if unreported >= self.config.ack_every or (unreported and self.config.ack_delay_s <= 0):
            self._send_ack()
        elif unreported:
            self._acks_timed = True
            self._commands.append(SetTimer("acks", self.config.ack_delay_s))

    def _greeting_or_ack(self, parcel: Parcel) -> None:
        if isinstance(parcel, Ack):
            self.channel.acknowledged(parcel)
        elif isinstance(parcel, Attached):
            self._attached(parcel)
        elif isinstance(parcel, AttachRefused):
            self._attach_refused(parcel)
        else:
            raise RemoteProtocolError(f"{type(parcel).__name__} is not for a client to hear")

    def take(self, connection: int, frame: Frame) -> tuple[str, ...] | None:
        """The short way for what is most of a client's work: the next delivery, and nothing else to do.

        The application's names of what it is for: what `Hand` says. With None it was not that simple:
        `handle` it. The two ways end in the same state.
        """
        lane = self.channel.data
        if (
            connection != self._connection
            or frame.sequence != lane.received + 1
            or not self._acks_timed
            or self.config.waits_for_application
            or frame.sequence - lane.reported >= self.config.ack_every
            or self._leaving
        ):
            return None
        delivery = frame.message
        if type(delivery) is not Delivery or len(delivery.subscriptions) != 1:
            return None
        publication = delivery.publication
        publisher, sequence = publication.publisher, publication.sequence
        names = self._names.get(delivery.subscriptions[0])
        if names is None or sequence <= self._seen.get(publisher, 0):
            return None
        lane.received = frame.sequence
        self._seen[publisher] = sequence
        return names

    def _delivered(self, delivery: Delivery, number: int) -> None:
        publication = delivery.publication
        publisher, sequence = publication.publisher, publication.sequence
        if sequence <= self._seen.get(publisher, 0):
            self.duplicates += 1
            return
        self._seen[publisher] = sequence
        names = self._names.get(delivery.subscriptions[0], ())
        for id_ in delivery.subscriptions[1:]:
            names += self._names.get(id_, ())
        if names and not self._leaving:
            self._commands.append(Hand(publication, names, number))
            if self.config.waits_for_application:
                self._outstanding.append(number)

    def _heard(self, message: Message) -> None:
        if isinstance(message, Redirect):
            self._redirected(message)
        elif isinstance(message, SessionEnded):
            self._ended(message)
        elif isinstance(message, Refused):
            if self.config.publisher:
                self._bar(message.request)
            self._commands.append(Tell("refused", message.request, message.reason))
        elif isinstance(message, Dropped):
            self._commands.append(Tell("dropped", str(message.count)))
        elif isinstance(message, Settled):
            self._commands.append(Tell("settled", message.id))
        else:
            raise RemoteProtocolError(f"{type(message).__name__} is not for a client to hear")

    def _bar(self, request: str) -> None:
        """If it was an event that was refused, none behind it is accepted."""
        publisher, _, number = request.rpartition(":")
        if publisher == self.publisher:
            self._accepted_max = min(self._accepted_max, int(number) - 1)

    # --- sending ------------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        """Number a message and send it, or have it sent once we are attached."""
        frame = self._push(message)
        if self.state == "attached":
            self._put(frame)

    def _push(self, message: Message) -> Frame:
        lane = self.channel.data if priority_of(message) == DATA else self.channel.control
        return lane.push(message, 0)

    def _put(self, frame: Frame) -> None:
        assert self._connection is not None
        self._commands.append(Send(self._connection, frame))

    def _send_ack(self) -> None:
        if self._connection is not None and self._unreported():
            self._commands.append(Send(self._connection, self.channel.ack(self._done_with)))

    def _new_channel(self) -> None:
        self.channel = Channel(("client", self.config.client), None)
        self._outstanding.clear()

    @property
    def session(self) -> str:
        return self._naming.session

    # --- for the application ------------------------------------------------------------------------

    def subscriptions(self) -> Mapping[str, Subscription]:
        """What the application is subscribed to, by its names."""
        return {name: what for name, (_, what) in self._subscriptions.items()}

    def advertisements(self) -> Mapping[str, Advertisement]:
        """What the application advertises, by its names."""
        return {name: what for name, (_, what) in self._advertisements.items()}


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
