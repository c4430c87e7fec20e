"""What brokers and clients say to each other.

A *message* is part of the protocol: it is numbered, acknowledged and sent again until it has arrived (see
`channel`), in one of two classes. **Control** goes ahead of **data** in every queue, and each class keeps its
order on a link. What must not overtake an event travels in the data class, behind it: the event's publisher
withdrawing its advertisement, or leaving, and the markers that tell when everything ahead of them has passed.

Messages are plain values that never form a cycle, so the collector need not know of them (`gc=False`).

A *greeting* opens a connection, is not numbered, and tells the other side what has arrived so far. Both kinds
and acknowledgements are what a connection carries; `roost.wire` writes them as bytes.

Every control message names its *cause*: the request of a client, the decision of an optimiser or the fault
that it follows from, however far away that was. A publication is its own cause. `storybook` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from roost.language import Advertisement, Event, Subscription

CONTROL: Final = 0
DATA: Final = 1

Priority: TypeAlias = Literal[0, 1]

# Said in the greeting. Raised whenever somebody of an earlier version could misunderstand us ...
PROTOCOL_VERSION: Final = 4
# ... whom we go on talking to from here on, in words that they know (`ASKS_BACK` says which are new).
PROTOCOL_VERSION_MIN: Final = 3
# From this version on: `Inquiry`, `Wants`, `is_new`, `missing`, and a `Ping` at any time.
ASKS_BACK: Final = 4
# What clients greet with, and brokers understand of them; who is refused for it steps down. From the latest
# on: `Done`. Neighbours say nothing that is new in it.
SESSION_VERSION: Final = 5
SAYS_DONE: Final = 5

# Numbers from the first to the last.
Span: TypeAlias = tuple[int, int]


class Message(Struct, frozen=True, gc=False):
    """Numbered, acknowledged and sent again until it has arrived."""


class Publication(Message, frozen=True):
    """An event on its way. (publisher, sequence) is its identity, wherever it goes."""

    publisher: str
    sequence: int  # of its publisher: rising, and without gaps at the source
    event: Event
    payload: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = {}
    published_at: float = 0.0  # by the publisher's clock
    # Control for the reserved classes of the optimisers, data for all else.
    priority: Priority = DATA
    # Its first broker wants to know where it is delivered (000 section 3.1).
    traced: bool = False
    # Its bytes, once somebody has made them: it is encoded once, however many links it goes to.
    # Never part of what it says.
    encoded: bytes = b""

    @property
    def id(self) -> str:
        return f"{self.publisher}:{self.sequence}"


class Advertise(Message, frozen=True):
    """Events like this may come from here.

    A broker may announce an advertisement, withdraw it (another covers it) and announce it again. The
    withdrawal travels behind data, so it can come after the second announcement: it says which one it means.
    """

    id: str
    advertisement: Advertisement
    cause: str
    announcement: int = 0  # a number of the teller's, new each time


class Unadvertise(Message, frozen=True):
    """No event will come for this announcement any more (data class: behind the last of them)."""

    id: str
    cause: str
    announcement: int = 0


class Subscribe(Message, frozen=True):
    """Events like this are wanted here."""

    id: str
    subscription: Subscription
    cause: str


class Unsubscribe(Message, frozen=True):
    """No longer. (Control class, in order behind the subscriptions that it uncovers.)"""

    id: str
    cause: str


class Marker(Message, frozen=True):
    """Goes to every neighbour in the data class, behind all that is on the way; see `draining`.

    `ahead`: in the control class, ahead of it.
    """

    id: str
    cause: str
    ahead: bool = False


class Inquiry(Message, frozen=True):
    """Has all that was said ahead of this been answered, here and behind here?

    Answered by `Answer` of the same number, behind the subscriptions that follow from it; see `absence`.
    """

    number: int
    cause: str


class Answer(Message, frozen=True):
    """It has."""

    number: int
    cause: str


class MarkerEcho(Message, frozen=True):
    """Everything ahead of the marker has passed here and everywhere behind here."""

    id: str
    cause: str
    missing: tuple[str, ...] = ()  # neighbours of brokers here and behind here that are away
    again: bool = False  # a link was moved meanwhile: that proves nothing, begin another


class Wants(Message, frozen=True):
    """Somebody behind here is away, and may want anything when it is back: send me everything, or no longer.

    (Control class, in order behind the subscriptions of whoever is back.) See `absence`.
    """

    # The brokers between here and one whose neighbour is away, both among them; nobody: no longer.
    path: tuple[str, ...]
    cause: str


class DrainEcho(Message, frozen=True):
    """The same, and behind all that was on the way from there to here (data class)."""

    id: str
    cause: str
    again: bool = False


class Members(Message, frozen=True):
    """These brokers are here and behind here, or no longer; see `membership`."""

    complete: bool  # all of them, or what has changed
    added: tuple[str, ...]
    gone: tuple[str, ...]
    trail: str = ""  # of that some are gone: a note of this name will follow, behind all data


class MigrationUpdate(Message, frozen=True):
    """MUM (000 section 3.3): these advertisements of a client are about to come from here.

    Travels from the target broker to the source, along the way that the advertisements came.
    """

    client: str
    advertisements: tuple[str, ...]  # their ids
    path: tuple[str, ...]  # the brokers that it has passed, the target first
    cause: str
    announcement: int  # the number under which the teller announces them, once they come from it


class MigrationComplete(Message, frozen=True):
    """MCM: they do now. (Data class: behind the last event that comes the old way.)"""

    client: str
    advertisements: tuple[str, ...]
    cause: str
    announcement: int  # of the `MigrationUpdate` that it answers


class Rewire(Message, frozen=True):
    """A link is moved from one broker to another; see `rewiring`."""

    id: str  # of the rewiring
    step: str  # what has happened, or is to
    brokers: tuple[str, ...]  # the middle, the mover and the anchor
    cause: str
    behind: bool = False  # all data that has been sent so far (data class), or ahead of it
    about: tuple[str, ...] = ()  # an address, a reason, or names


class Note(Message, frozen=True):
    """What a module says to its like at the neighbour; nobody else reads it."""

    module: str
    body: bytes
    cause: str
    behind: bool = False  # all data that has been sent so far (data class), or ahead of it


# --- between a client and its broker only -----------------------------------------------------------


class Migrate(Message, frozen=True):
    """The client asks the target broker to take over advertisements that it has elsewhere.

    The migration advertisement of 000 section 3.3. Answered by `Migrated`, or by `MigrationFailed`.
    """

    advertisements: tuple[str, ...]
    cause: str


class Migrated(Message, frozen=True):
    """All that was published at the old broker has passed: go on here."""


class MigrationFailed(Message, frozen=True):
    """It will not come to that."""

    reason: str


class PausePlease(Message, frozen=True):
    """The way to the target is ready: publish no more here, and say when that is so."""

    cause: str


class Paused(Message, frozen=True):
    """The client's answer, behind its last event (data class)."""

    cause: str


class EndSession(Message, frozen=True):
    """The client leaves, behind all that it has published; answered by `SessionEnded`."""

    cause: str


class HandOver(Message, frozen=True):
    """The client has a session elsewhere, and leaves this one; answered by `SessionEnded` in its time.

    That is when all that it has published here has passed every broker, and all that was on the way to it
    by then has come: so nothing is lost, and nothing that it publishes elsewhere can overtake.

    `ahead`: it has published nothing here, or all of that has passed. So nobody needs to wait for the longest
    queue on the way out (control class), only for what is on the way back.
    """

    cause: str
    ahead: bool = False


# A session has ended as its client wanted: it left, or has another one elsewhere.
GOODBYE: Final = "goodbye"
HANDED_OVER: Final = "all that was on the way has passed"


class SessionEnded(Message, frozen=True):
    """The last message of a session, behind the last delivery."""

    reason: str


class Redirect(Message, frozen=True):
    """Please move to the broker there."""

    address: str
    cause: str


class Arrived(Message, frozen=True):
    """The client is here: it has moved, and its last session is over; or it was to move, and stays.

    It may be moved again.
    """

    cause: str


class Probe(Message, frozen=True):
    """How long is the way to these brokers and back? Answered by `Probed`."""

    id: int
    brokers: tuple[str, ...]  # as `Redirect` names them


class Probed(Message, frozen=True):
    """So long. A broker that is not among them did not answer."""

    id: int
    brokers: tuple[str, ...]
    round_trips_s: tuple[float, ...]


class Refused(Message, frozen=True):
    """A request of the client was not carried out."""

    request: str  # the id of the subscription, advertisement or publication
    reason: str


class Settle(Message, frozen=True):
    """The client asks when all that it has asked for so far has come into effect everywhere.

    Answered by `Settled` when a marker that went behind it has passed every broker. By then an advertisement
    is known and the subscriptions that it concerns have come; a subscription has reached all that publish
    for it.

    `ahead`: the client has only subscribed, so the marker may go ahead of data.
    """

    id: str
    cause: str
    ahead: bool = False


class Settled(Message, frozen=True):
    """It has; at those that are away it will have when they are back, and until then nothing is missed."""

    id: str
    missing: tuple[str, ...] = ()  # the brokers that are away, by name


class Delivery(Message, frozen=True):
    """An event for the client, and which of its subscriptions it matches.

    If they are too many for a frame, the next delivery is of the same event, for the rest of them.
    """

    publication: Publication
    subscriptions: tuple[str, ...]


class Done(Message, frozen=True):
    """The application is done with these deliveries of a durable session, and not with all before them.

    How far it is with all of them an acknowledgement says. These must not come again either, whichever
    process has the session next.
    """

    spans: tuple[Span, ...]


class Dropped(Message, frozen=True):
    """So many deliveries were not kept, by the policy of a full queue.

    0 stands in the place of one that somebody was `Done` with.
    """

    count: int


# --- greetings, and what carries messages -----------------------------------------------------------


class LinkHello(Struct, frozen=True, gc=False):
    """A broker greets its neighbour, who answers with the same.

    The two *incarnations* tell whether both still have the state of the last connection. If each knows the
    other's, they go on where they were, and send again what had not arrived. If not, they start from nothing.
    """

    version: int
    broker: str
    incarnation: str  # new whenever a broker starts without its store
    known_incarnation: str  # what we know of the neighbour; "" for nothing
    control_received: int
    data_received: int
    # Whether the memory of either is older than what the other has heard of it (a backup was put back):
    life: str = ""  # new at each start
    known_life: str = ""  # the last one of the neighbour's that we have greeted
    # How far both lanes had come, control and data, when this life began, and what was acknowledged by now.
    control_sent_before: int = 0
    control_received_before: int = 0
    control_acked: int = 0
    data_sent_before: int = 0
    data_received_before: int = 0
    data_acked: int = 0
    address: str = ""  # where clients find us
    rank: str = ""  # what the neighbour is to us, where brokers have ranks
    # Of a broker that has a standby (`overlay.twin`): which of the two this is, and where the other would be.
    epoch: int = 0
    known_epoch: int = 0  # the last that we know of the neighbour's
    beside: str = ""


class Attach(Struct, frozen=True, gc=False):
    """A client greets a broker: a new session, or the one it had, if the broker still has it."""

    version: int
    client: str
    session: str
    resume: bool
    control_received: int
    data_received: int
    # The session waits for the client without end, and for its next process if that one has died: a process
    # that does not resume takes over the subscriptions, and what has not been acknowledged.
    durable: bool = False
    process: str = ""  # tells the processes that share a durable session apart
    # A durable session may be that of a *durable publisher*, whose events are numbered across its processes.
    # This is the publisher, and the number of its last event that was accepted, for a broker that knows of
    # none.
    publisher: str = ""
    published: int = 0
    cause: str = ""  # why it comes here, if it was asked to move
    # If its broker has a standby: which broker that was, and the last epoch of it that is known.
    broker: str = ""
    epoch: int = 0


class Login(Struct, frozen=True, gc=False):
    """Ahead of a greeting: who is calling, for drivers that ask. Machines never see it."""

    user: str
    token: str


class Attached(Struct, frozen=True, gc=False):
    """The broker's answer. Not `resumed`: start from nothing, with a new channel.

    Somebody who asked to resume a session that is not known is not attached by this answer: it has to
    greet once more, for a new session under another name. So no broker ever holds a session whose client
    may not know that it is new.
    """

    session: str
    resumed: bool
    control_received: int
    data_received: int
    data_from: int = 0  # of a new channel: the number before that of the first delivery
    # Of a durable publisher: whose events they are, and the number of the last one that was accepted.
    publisher: str = ""
    published: int = 0
    # The session began with this greeting, or nobody has said anything in it: nothing has waited. (A durable
    # one was lost, or is over.)
    is_new: bool = False
    # Of a broker that has a standby: who this is, which of the two, and where the other would be.
    broker: str = ""
    epoch: int = 0
    beside: str = ""


class AttachRefused(Struct, frozen=True, gc=False):
    """Not here: try at `redirect` if it says one, else see the reason."""

    reason: str
    redirect: str = ""
    transient: bool = False  # it may be otherwise before long: try again


class Ping(Struct, frozen=True, gc=False):
    """Are you there? No greeting is needed, and machines never see one behind it: drivers answer."""

    number: int


class Pong(Struct, frozen=True, gc=False):
    """The answer."""

    number: int


class Locate(Struct, frozen=True, gc=False):
    """Where had a client better connect? No greeting is needed; drivers answer, and machines never see it."""

    by: str  # see `roost.entry`


class Located(Struct, frozen=True, gc=False):
    """The answer: addresses, the best first; or why there are none."""

    addresses: tuple[str, ...]
    reason: str = ""


class Frame(Struct, frozen=True, gc=False):
    """A message with its number on this link and in its class."""

    priority: Priority
    sequence: int
    message: Message
    hops: int = 0  # links between brokers that a publication has passed


class Ack(Struct, frozen=True, gc=False):
    """All up to these numbers has arrived, and is as safe as this broker makes things."""

    control: int
    data: int


Greeting: TypeAlias = (
    LinkHello | Login | Attach | Attached | AttachRefused | Ping | Pong | Locate | Located
)
# All that a connection carries.
Parcel: TypeAlias = Frame | Ack | Greeting

# Messages of the data class, other than publications, which say it themselves.
DATA_MESSAGES: Final = (
    Unadvertise,
    Marker,
    DrainEcho,
    MigrationComplete,
    Paused,
    EndSession,
    HandOver,
    SessionEnded,
    Delivery,
    Dropped,
)


# Of these, those that do not say otherwise.
MAY_GO_AHEAD: Final = (Marker, HandOver)


def priority_of(message: Message) -> Priority:
    """The class that a message travels in."""
    if type(message) is Publication:
        return message.priority
    if type(message) is Note or type(message) is Rewire:
        return DATA if message.behind else CONTROL
    if type(message) in MAY_GO_AHEAD and message.ahead:  # type: ignore[attr-defined]
        return CONTROL
    return DATA if isinstance(message, DATA_MESSAGES) else CONTROL
