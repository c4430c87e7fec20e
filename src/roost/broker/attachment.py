"""One session of a client at one broker: dialling, greeting, what is said in it, and acknowledgements.

    idle        dial -> connecting
    connecting  opened -> greeting         refused -> waiting
    greeting    Attached -> attached       AttachRefused -> connecting elsewhere | refused
    waiting     the timer -> connecting
    any         the connection is closed -> waiting

Mostly a client has one of them. While it moves it has two (see `moving`), and the deliveries of the second
are *held* until there will be no more of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

from roost.broker.channel import Channel
from roost.broker.commands import Close, Command, OpenLink, Send, SetTimer
from roost.broker.config import ClientConfig
from roost.broker.errors import RemoteProtocolError
from roost.broker.messages import (
    ASKS_BACK,
    DATA,
    SAYS_DONE,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Done,
    EndSession,
    Frame,
    HandOver,
    Message,
    Parcel,
    Span,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    priority_of,
)
from roost.broker.names import IS_SUPERSEDED, Address
from roost.broker.naming import Naming
from roost.language import Advertisement, Subscription

# What becomes of them: the application gets them; they wait; nobody needs them.
Deliveries: TypeAlias = Literal["handed", "held", "dropped"]
State: TypeAlias = Literal["idle", "connecting", "greeting", "attached", "waiting", "refused"]

GOODBYES = (EndSession, HandOver)
# A frame has room for more of the longest ids.
MANY_IDS = 8


class Owner(Protocol):
    """Whose sessions these are: what they say goes out through it, and what they hear is for it."""

    config: ClientConfig
    naming: Naming

    @property
    def publisher(self) -> str: ...

    @property
    def accepted(self) -> int: ...

    def command(self, command: Command) -> None: ...

    def attached(self, attachment: Attachment, greeting: Attached) -> None: ...

    def attach_refused(self, attachment: Attachment, answer: AttachRefused) -> None: ...

    def delivered(self, attachment: Attachment, delivery: Delivery, number: int) -> None: ...

    def heard(self, attachment: Attachment, message: Message) -> None: ...


class Attachment:
    """A session, from the client's side."""

    __slots__ = (
        "_acks_timer",
        "_client",
        "_dial_timer",
        "acks_timed",
        "address",
        "advertisement_ids",
        "begun",
        "cause",
        "channel",
        "connection",
        "deliveries",
        "epoch",
        "greeted_by",
        "held",
        "last",
        "names",
        "number",
        "outstanding",
        "quiet_until",
        "refused_transiently",
        "session",
        "speaks",
        "spoken",
        "state",
        "subscription_ids",
        "withdrawn",
    )

    def __init__(self, client: Owner, number: int, address: Address) -> None:
        self._client = client
        self.number = number  # among those of the client: what its timers are called by
        self._dial_timer, self._acks_timer = f"dial:{number}", f"acks:{number}"
        self.session = client.naming.session
        self.address = address
        self.cause = ""  # why it is begun, if somebody has asked for it
        self.state: State = "idle"
        self.connection: int | None = None
        self.speaks = client.config.version  # what we greet with
        # If the broker has a standby: who it is, and the last epoch of it that has answered us.
        self.greeted_by = ""
        self.epoch = 0
        self.refused_transiently = False  # the last refusal may not be the last word
        self.begun = False  # the broker knows the session
        self.spoken = False  # a broker has heard of us: to begin is to say it again
        self.acks_timed = False
        # Deliveries below this number are only noted: see `Client.take`, which asks for nothing else.
        self.quiet_until = 0
        self.outstanding: deque[int] = deque()  # deliveries that the application is not done with
        self.deliveries: Deliveries = "handed"
        self.last: tuple[Delivery, int] | None = None  # the last delivery, and its number
        self.held: deque[tuple[Delivery, int]] = deque()
        # By the application's names; the ids are new in every session.
        self.subscription_ids: dict[str, str] = {}
        self.names: dict[str, tuple[str, ...]] = {}  # subscription id -> its name
        self.advertisement_ids: dict[str, str] = {}
        self.withdrawn: dict[str, Advertisement] = {}  # ids whose Unadvertise is on the way
        self.new_channel()

    def begin_another(self) -> None:
        """It goes on as another session: the broker may not know that the old one is over."""
        self.begun = False
        self._client.naming.new_session()
        self.session = self._client.naming.session

    def new_channel(self) -> None:
        self.channel = Channel(("client", self._client.config.client), None)
        self.quiet_until = 0
        self.outstanding.clear()

    # --- connections --------------------------------------------------------------------------------

    def dial(self) -> None:
        self.state = "connecting"
        self._client.command(OpenLink(self.address))

    def opened(self, connection: int) -> None:
        self.connection = connection
        self.quiet_until = 0
        self.state = "greeting"
        self.greet()

    def greet(self) -> None:
        assert self.connection is not None
        client, config = self._client, self._client.config
        greeting = Attach(
            version=self.speaks,
            client=config.client,
            session=self.session,
            resume=self.begun,
            control_received=self.channel.control.received,
            data_received=self.done_with,
            durable=config.durable,
            process=config.process,
            publisher=client.publisher if config.publisher else "",
            published=client.accepted if config.publisher else 0,
            cause=self.cause if self.knows_ahead else "",
            broker=self.greeted_by,
            epoch=self.epoch,
        )
        client.command(Send(self.connection, greeting))

    def wait(self) -> None:
        if self.state not in ("idle", "refused"):
            self.state = "waiting"
            self._client.command(SetTimer(self._dial_timer, self._client.config.redial_s))

    def hang_up(self, reason: str) -> None:
        if self.connection is not None:
            self._client.command(Close(self.connection, reason))
            self.connection = None

    def attached(self, greeting: Attached) -> None:
        """The broker has answered: send what it has not got."""
        self.state = "attached"
        if not greeting.resumed:
            self.channel.data.received = self.channel.data.reported = greeting.data_from
        self.begun = self.spoken = True
        received = (greeting.control_received, greeting.data_received)
        self.channel.resume(*received if greeting.resumed else (0, 0))

    def send_waiting(self) -> None:
        for frame in (*self.channel.control.outbox, *self.channel.data.outbox):
            self._put(frame)

    # --- what is received ---------------------------------------------------------------------------

    def received(self, parcels: Iterable[Parcel]) -> None:
        client, connection = self._client, self.connection
        try:
            for parcel in parcels:
                if connection != self.connection:
                    return  # we have hung up: the rest is of a session that is over
                if type(parcel) is not Frame:
                    self._greeting_or_ack(parcel)
                    continue
                channel = self.channel
                lane = channel.data if parcel.priority == DATA else channel.control
                if not lane.accept(parcel.sequence):
                    continue  # it has been here before
                message = parcel.message
                if type(message) is not Delivery:
                    client.heard(self, message)
                elif self.deliveries == "handed":
                    client.delivered(self, message, parcel.sequence)
                elif self.deliveries == "held":
                    self.held.append((message, parcel.sequence))
                    self.outstanding.append(parcel.sequence)
        except RemoteProtocolError as error:
            self.hang_up(str(error))
            self.wait()
            return
        # Once a timer runs, only the bound can make it more urgent.
        if not self.acks_timed or self._unreported() >= client.config.ack_every:
            self.owe_ack()
        self._be_quiet()

    def _be_quiet(self) -> None:
        """Work out how far deliveries need no more than to be noted: nothing is due but by the timer."""
        config = self._client.config
        if self.acks_timed and not config.waits_for_application:
            control, data = self.channel.lanes
            self.quiet_until = (
                data.reported + config.ack_every - control.received + control.reported
            )

    def timed(self) -> None:
        """The time is over that acknowledgements may wait."""
        self.acks_timed = False
        self.quiet_until = 0
        self.send_ack()

    def _greeting_or_ack(self, parcel: Parcel) -> None:
        if isinstance(parcel, Ack):
            self.channel.acknowledged(parcel)
        elif isinstance(parcel, Attached):
            self._know(parcel)
            self._client.attached(self, parcel)
        elif isinstance(parcel, AttachRefused):
            self._client.attach_refused(self, parcel)
        else:
            raise RemoteProtocolError(f"{type(parcel).__name__} is not for a client to hear")

    def _know(self, greeting: Attached) -> None:
        """Who answers; an error if another has spoken for the same broker since."""
        if greeting.broker == self.greeted_by and greeting.epoch < self.epoch:
            raise RemoteProtocolError(
                f"epoch {greeting.epoch} of {greeting.broker} {IS_SUPERSEDED}{self.epoch}"
            )
        self.greeted_by, self.epoch = greeting.broker, greeting.epoch

    def goes_on(self, delivery: Delivery, number: int) -> bool:
        """Whether it is the rest of the last one, which was for more subscriptions than fit into a frame.

        The same once more would be for the same subscriptions, and mostly for few.
        """
        if self.last is None or self.last[1] != number - 1:
            return False
        before = self.last[0]
        return (
            len(before.subscriptions) >= MANY_IDS
            and before.publication.publisher == delivery.publication.publisher
            and before.publication.sequence == delivery.publication.sequence
            and before.subscriptions[-1] not in delivery.subscriptions
        )

    @property
    def done_with(self) -> int:
        """Nobody here needs deliveries up to this number any more."""
        return self.outstanding[0] - 1 if self.outstanding else self.channel.data.received

    def _unreported(self) -> int:
        """How many messages we are done with and have not acknowledged."""
        control, data = self.channel.lanes
        return control.received - control.reported + self.done_with - data.reported

    def owe_ack(self) -> None:
        unreported = self._unreported()
        config = self._client.config
        if unreported >= config.ack_every or (unreported and config.ack_delay_s <= 0):
            self.send_ack()
        elif unreported:
            self.acks_timed = True
            self._client.command(SetTimer(self._acks_timer, config.ack_delay_s))

    def send_ack(self) -> None:
        """Not while greeting: the greeting says it, and the answer may be that it is another session."""
        if self.state == "attached" and self.connection is not None and self._unreported():
            self._client.command(Send(self.connection, self.channel.ack(self.done_with)))

    def handled(self, number: int, beyond: tuple[Span, ...] = ()) -> None:
        """The application is done with all deliveries up to this one, and with these."""
        if beyond and self.speaks >= SAYS_DONE:
            self.send(Done(beyond))
        while self.outstanding and self.outstanding[0] <= number:
            self.outstanding.popleft()
        if not self.acks_timed or self._unreported() >= self._client.config.ack_every:
            self.owe_ack()

    # --- what is said -------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Number a message and send it, or have it sent once we are attached."""
        frame = self.push(message)
        if self.state == "attached":
            self._put(frame)

    def push(self, message: Message) -> Frame:
        lane = self.channel.data if priority_of(message) == DATA else self.channel.control
        return lane.push(message, 0)

    def _put(self, frame: Frame) -> None:
        assert self.connection is not None
        self._client.command(Send(self.connection, frame))

    @property
    def knows_ahead(self) -> bool:
        """Whether the broker understands that something may go ahead of data."""
        return self.speaks >= ASKS_BACK

    def is_unheard(self, kind: type[Message]) -> bool:
        """Whether the broker has not acknowledged a message of this kind, which is data."""
        return any(type(frame.message) is kind for frame in self.channel.data.outbox)

    def subscribe(self, name: str, subscription: Subscription, cause: str) -> None:
        id_ = self._client.naming.subscription(name)
        self.subscription_ids[name] = id_
        self.names[id_] = (name,)
        self.send(Subscribe(id_, subscription, f"{cause} {id_}"))

    def unsubscribe(self, name: str) -> None:
        id_ = self.subscription_ids.pop(name, None)
        if id_ is not None:
            del self.names[id_]
            self.send(Unsubscribe(id_, f"{self._client.config.client} unsubscribes {id_}"))

    def advertise(self, name: str, advertisement: Advertisement, cause: str) -> None:
        id_ = self._client.naming.advertisement(self._client.publisher, advertisement)
        self.advertisement_ids[name] = id_
        self.send(Advertise(id_, advertisement, f"{cause} {id_}"))

    def withdrawal(self, name: str, advertisement: Advertisement) -> Unadvertise | None:
        """What is to be said, behind the events published so far, when an advertisement goes."""
        id_ = self.advertisement_ids.pop(name, None)
        if id_ is None:
            return None
        self.withdrawn[id_] = advertisement
        return Unadvertise(id_, f"{self._client.config.client} unadvertises {id_}")

    def rename_advertisement(self, old: str, new: str) -> None:
        if old in self.advertisement_ids:
            self.advertisement_ids[new] = self.advertisement_ids.pop(old)

    def begin(
        self,
        advertisements: Mapping[str, Advertisement],
        subscriptions: Mapping[str, Subscription],
        goodbye: Message | None,
    ) -> None:
        """The broker knows nothing of us: say again all that counts, in order.

        Withdrawals that are on the way are of advertisements that it has to know first.
        """
        unaccepted = [frame.message for frame in self.channel.data.outbox]
        if goodbye is not None and not any(isinstance(m, GOODBYES) for m in unaccepted):
            unaccepted.append(goodbye)  # the broker that had heard it has forgotten
        self.new_channel()
        cause = f"{self._client.config.client} begins anew"
        withdrawn, self.withdrawn = self.withdrawn, {}
        renamed: dict[str, str] = {}
        for message in unaccepted:
            if isinstance(message, Unadvertise):
                id_ = renamed[message.id] = self._client.naming.new_id()
                self.withdrawn[id_] = withdrawn[message.id]
                self.push(Advertise(id_, withdrawn[message.id], cause))
        self.advertisement_ids.clear()
        for name, advertisement in advertisements.items():
            id_ = self._client.naming.advertisement(self._client.publisher, advertisement)
            self.advertisement_ids[name] = id_
            self.push(Advertise(id_, advertisement, cause))
        self.subscription_ids.clear()
        names = self.names
        self.names = {}
        for name, subscription in subscriptions.items():
            id_ = self._client.naming.subscription(name)
            self.subscription_ids[name] = id_
            self.names[id_] = (name,)
            self.push(Subscribe(id_, subscription, cause))
        # What is held came under the old ids, and is still wanted under the new ones.
        for place, (delivery, number) in enumerate(self.held):
            ids = [
                self.subscription_ids[n] for i in delivery.subscriptions for n in names.get(i, ())
            ]
            known = tuple(ids) or delivery.subscriptions
            self.held[place] = (Delivery(delivery.publication, known), number)
        for message in unaccepted:
            if isinstance(message, Unadvertise):
                self.push(Unadvertise(renamed[message.id], message.cause))
            else:
                self.push(message)
