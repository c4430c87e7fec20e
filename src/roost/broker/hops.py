"""Where messages come from and go to: a neighbour, a client's session, or an optimiser inside the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.broker.channel import Channel
from roost.broker.told import Told
from roost.matching import OverlapIndex

if TYPE_CHECKING:
    from roost.broker.journal import Journal
    from roost.broker.permissions import Permission
    from roost.broker.routing import Entry


class Hop:
    """A side that subscriptions and advertisements come from."""

    __slots__ = ("advertisements", "expected", "matched", "name", "subscriptions", "visit")

    kind: str
    is_link = False
    is_session = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: dict[str, Entry] = {}
        self.advertisements: dict[str, Entry] = {}
        self.expected: dict[str, Entry] = {}  # advertisements that are about to come from here
        # Marks of `Routing.route`: the last event that was for this hop, and what of here it matched.
        self.visit = 0
        self.matched: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What names it in the store."""
        return (self.kind, self.name)


class Peer(Hop):
    """A hop at the other end of a connection that comes and goes, and of a channel that stays."""

    __slots__ = ("channel", "congested", "connection", "open", "released")

    channel: Channel

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.connection: int | None = None
        # Of `flow`: whether data goes out as it comes; if not, the last number that went out, and
        # whether that is because the peer does not read.
        self.open = False
        self.released = 0
        self.congested = False


class Link(Peer):
    """A neighbour: the channel to it, what it is told, and what it told us."""

    __slots__ = (
        "advertisements_told",
        "advertises",
        "announcements",
        "attempts",
        "dials",
        "full",
        "greeted",
        "peer_incarnation",
        "subscriptions_told",
    )

    kind = "link"
    is_link = True

    def __init__(
        self,
        name: str,
        dials: bool,
        covering: bool,
        advertisement_covering: bool,
        journal: Journal | None,
    ) -> None:
        super().__init__(name)
        self.dials = dials  # whether it is on us to connect
        self.attempts = 0  # in vain, since it was last open
        self.greeted = False  # the neighbour has greeted back on this connection: it is open
        self.peer_incarnation = ""
        self.full = False  # its outbox is at the bound
        self.begin(covering, advertisement_covering, journal)

    def begin(self, covering: bool, advertisement_covering: bool, journal: Journal | None) -> None:
        """From nothing: a new channel, nothing told, nothing heard."""
        self.channel = Channel(self.key, journal)
        self.subscriptions_told = Told(covering)
        self.advertisements_told = Told(advertisement_covering)
        self.announcements: dict[str, int] = {}  # advertisement told -> its number
        self.advertises = OverlapIndex()  # the advertisements that came from it, by handle


class Session(Peer):
    """A client, also while it is away."""

    __slots__ = (
        "client",
        "dropped",
        "durable",
        "ended",
        "ending",
        "fetching",
        "held_bytes",
        "leaving",
        "permission",
        "process",
        "published",
        "publisher",
    )

    kind = "session"
    is_session = True

    def __init__(self, name: str, client: str, journal: Journal | None) -> None:
        super().__init__(name)
        self.client = client
        self.channel = Channel(self.key, journal)
        self.durable = False  # it waits for its client's next process
        self.process = ""  # the one that has it now
        self.publisher = client  # whose events it may publish
        # Of a durable publisher the number of the last one that was accepted; for others nobody counts.
        self.published: int | None = None
        self.permission: Permission | None = None  # None: of whoever nobody asked who they are
        self.fetching = False  # what waits for it in the store only has been asked for
        self.held_bytes = 0  # of what came while it was not open
        self.ending = False  # it has said goodbye, or was told to go
        self.leaving = False  # it has said goodbye
        self.ended = False  # it was told so: nothing else will be said
        self.dropped = 0  # deliveries that were not kept, and that it has not been told of


class Inside(Hop):
    """An optimiser: a module of this broker, which publishes and subscribes like a client."""

    __slots__ = ("sequence",)

    kind = "inside"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sequence = 0  # of the last event that it published
