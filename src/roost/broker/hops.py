"""Where messages come from and go to: a neighbour, a client's session, or an optimiser inside the broker.

And what came from there: a subscription or an advertisement is an *entry* of a table, with its hop.
"""

from __future__ import annotations

from roost.broker.backlog import Backlog
from roost.broker.channel import Channel, Marks
from roost.broker.demands import demands_of
from roost.broker.journal import Journal
from roost.broker.messages import PROTOCOL_VERSION
from roost.broker.names import Address, Rank
from roost.broker.permissions import Permission
from roost.broker.told import Told
from roost.language import Advertisement, Interest
from roost.matching import OverlapIndex


class Entry:
    """A row of a table. The handle is its number in this broker, for the matcher and the poset."""

    __slots__ = (
        "announcement",
        "demands",
        "handle",
        "hop",
        "id",
        "ids",
        "interest",
        "next",
        "next_announcement",
    )

    def __init__(self, id_: str, handle: int, interest: Interest, hop: Hop) -> None:
        self.id = id_
        self.ids = (id_,)  # at hand for a delivery
        self.announcement = 0  # of an advertisement: which one of its announcements this is
        self.handle = handle
        self.interest = interest
        self.hop = hop
        # Of an advertisement that migrates: where it is going to come from, and that announcement.
        self.next: Hop | None = None
        self.next_announcement = 0
        self.demands = demands_of(interest) if isinstance(interest, Advertisement) else None


class Trail:
    """Of these, who are gone, events may still come from a neighbour (see `trails`)."""

    __slots__ = ("gone", "over")

    def __init__(self, gone: frozenset[str]) -> None:
        self.gone = gone
        self.over = False


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

    __slots__ = (
        "channel",
        "congested",
        "connection",
        "dropped",
        "fetching",
        "open",
        "released",
        "version",
    )

    channel: Channel

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.connection: int | None = None
        # Of `flow`: whether data goes out as it comes; if not, the last number that went out, and
        # whether that is because the peer does not read.
        self.open = False
        self.dropped = 0  # deliveries that were not kept, and that it has not been told of
        self.released = 0
        self.congested = False
        self.fetching = False  # what waits for it in the store only has been asked for
        self.version = PROTOCOL_VERSION  # that both of us speak


class Link(Peer):
    """A neighbour: the channel to it, what it is told, and what it told us."""

    __slots__ = (
        "_journal",
        "address",
        "advertisements_told",
        "advertises",
        "announced",
        "announcements",
        "answered",
        "asked_all",
        "attempts",
        "away",
        "away_since",
        "before",
        "behind",
        "beside",
        "closing",
        "dials",
        "epoch",
        "excused",
        "follows",
        "gave_up",
        "greeted",
        "greeted_at",
        "inquired",
        "joined",
        "markers",
        "number_base",
        "past_lives",
        "peer_incarnation",
        "peer_life",
        "presumed",
        "rank",
        "speaks",
        "standby",
        "subscriptions_told",
        "told_path",
        "trails",
        "unmet",
        "wants_path",
        "withheld",
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
        self._journal = journal
        self.dials = dials  # whether it is on us to connect
        self.rank: Rank = ""
        self.asked_all = 0  # of `hierarchy`: the number under which it has asked for everything
        self.address = Address("")  # where it is found, if it or somebody else has said so
        self.epoch = 0  # of `epochs`: who speaks for it, ...
        self.beside = ""  # ... and where the other one of two would be
        self.attempts = 0  # in vain, since it was last open
        self.greeted = False  # the neighbour has greeted back on this connection: it is open
        self.peer_incarnation = ""
        self.peer_life = ""  # the last one that we have greeted
        self.past_lives: dict[str, None] = {}  # those before, the last first
        self.speaks = PROTOCOL_VERSION  # what we greet it with
        self.joined = False  # it has said who is behind it:
        self.behind: dict[str, None] = {}
        self.trails: dict[str, list[Trail]] = {}  # that are to come from it, by name
        # It joins two federations, and has not greeted yet: it is told nothing, and nothing is kept for it.
        self.unmet = False
        self.greeted_at = 0.0  # when the link came up, the last time
        # Of `rewiring`: it is not in use yet, or no longer; ...
        self.standby = False
        self.withheld = False  # ... events wait, until the neighbour says that it may have them
        self.closing = False  # nothing more is told
        self.follows: Link | None = None  # it is told what concerns that one, too
        # Of `absence`: see there.
        self.away = True
        self.away_since = 0.0
        self.excused = False  # away for so long that nobody waits for it
        self.gave_up = False
        self.wants_path: tuple[str, ...] = ()  # it has told us that it wants everything ...
        self.told_path: tuple[str, ...] | None = None  # ... and we it
        self.announced = 0  # the last number of an announcement to it,
        self.inquired = 0  # of an inquiry,
        self.answered = 0  # and of an answer
        self.markers: dict[str, int] = {}  # inquiries of one of the version before
        self.presumed: dict[int, list[Entry]] = {}  # by the number of the announcement
        self.number_base = 0
        self.channel = Channel(self.key, journal)
        self.before = Marks.of(self.channel)  # how far the channel was when the broker started
        self.begin_tables(covering, advertisement_covering)

    def begin_tables(self, covering: bool, advertisement_covering: bool) -> None:
        """Nothing told, nothing heard."""
        self.subscriptions_told = Told(covering)
        self.advertisements_told = Told(advertisement_covering)
        self.announcements: dict[str, int] = {}  # advertisement told -> its number
        self.advertises = OverlapIndex()  # the advertisements that came from it, by handle

    def keep(self) -> None:
        """Its record, for the store."""
        if self._journal is not None:
            record = (
                self.dials,
                self.peer_incarnation,
                self.peer_life,
                self.number_base,
                self.address,
                self.rank,
                self.unmet,
            )
            self._journal.put("link", self.name, value=record)

    @property
    def number(self) -> int:
        """Of the last control message to it, in all channels that we have had: no two have the same."""
        return self.number_base + self.channel.control.sent

    @property
    def greedy(self) -> bool:
        """Whether it is to get every event, whoever wants it."""
        return bool(self.wants_path) or (self.away and not self.gave_up and not self.standby)


class Session(Peer):
    """A client, also while it is away."""

    __slots__ = (
        "_journal",
        "answers_held",
        "backlog",
        "barred",
        "client",
        "departure",
        "durable",
        "ended",
        "ending",
        "held_bytes",
        "leaving",
        "owner",
        "permission",
        "process",
        "published",
        "publisher",
        "read_at",
        "redirected",
    )

    kind = "session"
    is_session = True

    def __init__(self, name: str, client: str, journal: Journal | None) -> None:
        super().__init__(name)
        self.client = client
        self._journal = journal
        self.channel = Channel(self.key, journal)
        self.durable = False  # it waits for its client's next process
        self.process = ""  # the one that has it now
        self.publisher = client  # whose events it may publish
        # Of a durable publisher the number of the last one that was accepted; for others nobody counts.
        self.published: int | None = None
        self.barred = 0  # ... and the one that it was told has to come first
        self.permission: Permission | None = None  # None: of whoever nobody asked who they are
        self.owner = client  # the user that it counts for
        self.backlog = Backlog()  # of one that spills
        self.answers_held = 0  # how many waited for it when it was read no further
        self.held_bytes = 0  # of what came while it was not open
        self.read_at = 0.0  # when it was last seen to read
        self.ending = False  # it has said goodbye, or was told to go
        self.leaving = False  # it has said goodbye
        self.ended = False  # it was told so: nothing else will be said
        self.redirected = ""  # the cause of which it was asked to move
        self.departure = ""  # how it leaves, if not by a goodbye: "moved" or "given up"
        self.dropped = 0  # deliveries that were not kept, and that it has not been told of

    def keep(self) -> None:
        """Its record, for the store."""
        if self._journal is not None:
            record = (self.client, self.ending, self.durable, self.process, self.owner)
            self._journal.put("session", self.name, value=record)

    def count(self, number: int) -> None:
        """The last event of a durable publisher that was accepted."""
        self.published = number
        if self._journal is not None:
            self._journal.put("published", self.name, value=(self.publisher, number))

    def drop(self, count: int) -> None:
        """So many deliveries were not kept that its client has not been told of; also after a crash."""
        self.dropped = count
        if self._journal is not None:
            self._journal.put("dropped", self.name, value=count)

    def forget(self) -> None:
        """Nothing of it stays in the store."""
        self.channel.forget()
        if self._journal is not None:
            self._journal.delete("session", self.name)
            if self.dropped:
                self._journal.delete("dropped", self.name)
            if self.published is not None:
                self._journal.delete("published", self.name)

    @property
    def is_blank(self) -> bool:
        """Nothing was asked for in it, and nothing waits."""
        data = self.channel.data
        return not self.subscriptions and not self.advertisements and data.acked == data.sent

    @property
    def kept_bytes(self) -> int:
        """Of what waits for it."""
        return self.backlog.bytes_behind(self.channel.data.acked)


class Inside(Hop):
    """An optimiser: a module of this broker, which publishes and subscribes like a client."""

    __slots__ = ("sequence",)

    kind = "inside"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sequence = 0  # of the last event that it published
