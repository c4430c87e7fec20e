"""The contract between a broker and its optimisers.

An optimiser is a *module*: it is registered with a broker, hears of what passes through it, talks to
its like in other brokers, and decides. The broker knows this contract and none of the modules. A module
is

    off         it hears nothing
    observing   it hears, talks and decides, and its decisions are recorded, but nothing is done
    acting      its decisions are carried out

Modules talk in two ways. As the papers have it, they publish events of *reserved classes* (the value of
the attribute `class`) and subscribe to them, through the broker that they live in; those travel ahead of
data, and nobody else may publish them. And they send *notes* to their like at a neighbour, ahead of data
or behind it, which takes no subscription: whoever asks the brokers along a path, or those that an event
went to, has no use for a table of all of them. Like any other machine, a module gets the time as an
argument and keeps no clock.

What it hears of, besides:

    events       `routed`: each one that passes, where it came from and went to; `heard`: those that its own
                 subscriptions match, which may be *local*: then no neighbour is told of them, and they
                 match what passes here anyhow
    clients      `place` before one is let in; `first_advertised` and `first_subscribed`, when it is known
                 what it is here for; `arrived`; `left`, and before that `moved` or `given_up`
    operators    `asked`: a request by its name, such as `drain`, and an answer

What it costs is paid for by those who want it: `traces` and `wants_behind` say so once and for all.

To write one: derive from `Module` and override what it needs. Brokers find it by name (`registry`), and
programs pass it to `Broker(config, modules=[...])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from roost.broker.arbiter import Proposal
    from roost.broker.events import LoadIndices
    from roost.broker.hops import Hop
    from roost.broker.messages import Publication
    from roost.broker.names import Address
    from roost.language import Advertisement, Subscription, Value


class ModuleState(Enum):
    OFF = "off"
    OBSERVING = "observing"
    ACTING = "acting"


class Visit(Struct, frozen=True):
    """A publication that was routed here."""

    publication: Publication
    hops: int
    source: str  # the neighbour or client that it came from
    from_client: bool
    neighbours: Sequence[str]  # where it went on to
    matches: Mapping[str, Sequence[str]]  # client -> its subscriptions that it matched, here
    # Neighbour -> the subscriptions from there that it matched; only if a module `wants_behind`.
    behind: Mapping[str, Sequence[str]] = {}


class Way(NamedTuple):
    """Where a publication went."""

    hops: int  # so far
    links: Sequence[Hop]
    local: Sequence[Hop]
    matched: Sequence[tuple[str, ...]]  # by each of those


class Passage(Protocol):
    """Publications that passed together, from one source: columns, a row for each (see `roost.chunks`).

    Columns are there while it is told of; whoever wants to keep them copies them.
    """

    source: Hop

    # The ways of these and of others; with the same epoch they are the same, and maybe more.
    ways: Sequence[Way]
    epoch: int

    @property
    def way(self) -> NDArray[np.int64]:
        """Which of the ways each has gone."""

    @property
    def publishers(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        """Their names, and for each row the place of its publisher's among them."""

    @property
    def sequence(self) -> NDArray[np.int64]: ...

    @property
    def published_at(self) -> NDArray[np.float64]: ...

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Of the publication's own part."""

    def __len__(self) -> int: ...

    def publication(self, event: int) -> Publication:
        """The publication itself, which has to be read for that."""


class Surroundings(Protocol):
    """What a module can see and do: the broker, from inside."""

    broker: str

    @property
    def address(self) -> Address:
        """Where clients find this broker: what `redirect` and `probe` of any broker take."""

    def address_of(self, broker: str) -> Address | None:
        """The same of a neighbour, or of this broker; None if it has not said so."""

    @property
    def acting(self) -> bool:
        """Whether decisions are to be carried out."""

    @property
    def neighbours(self) -> Sequence[str]:
        """All of them, whether their link is up or not."""

    @property
    def load(self) -> LoadIndices | None:
        """The last sample of the load indices."""

    def clients(self) -> Mapping[str, Mapping[str, Subscription]]:
        """The clients here, and their subscriptions."""

    def subscriptions_from(self, neighbour: str) -> Mapping[str, Subscription]:
        """What a neighbour has asked for: for those behind it, so far as nothing covers it."""

    def advertisements_from(self, neighbour: str) -> Mapping[str, Advertisement]:
        """What those behind a neighbour have advertised, in the same way."""

    def publishers(self) -> Mapping[str, Mapping[str, Advertisement]]:
        """Those of them that have advertised, and what."""

    def covering_set(self) -> Mapping[str, Subscription]:
        """The subscriptions here that no other one covers (CSS, 001 section 2.1.2), by their ids.

        Those of clients and neighbours; of equal ones, one. It is kept at hand from the first question on.
        """

    def is_movable(self, client: str) -> bool:
        """Whether a client here would follow a redirection: durable sessions stay, and who leaves is gone."""

    def movable(self) -> Collection[str]:
        """All clients here of which that is so."""

    def publish(self, attributes: Mapping[str, Value], payload: bytes = b"") -> None:
        """Publish an event of a reserved class."""

    def advertise(self, name: str, advertisement: Advertisement) -> None: ...

    def unadvertise(self, name: str) -> None: ...

    def subscribe(self, name: str, subscription: Subscription, *, local: bool = False) -> None:
        """Be told of events (`Module.heard`). Local: of those of clients that pass here, and of no others."""

    def unsubscribe(self, name: str) -> None: ...

    def tell(self, neighbour: str, body: bytes, cause: str, *, behind: bool = False) -> None:
        """Send a note to the module of the same name at a neighbour; `behind` all data sent so far.

        Nothing is kept for a neighbour that is away: what modules ask has had its time by then.
        """

    def probe(self, client: str, addresses: Sequence[Address]) -> bool:
        """Have a client measure how far brokers are; see `Module.probed`. False: it is not there."""

    def set_timer(self, name: str, delay_s: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...

    def decide(
        self,
        kind: str,
        subject: str,
        choice: str,
        *,
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
    ) -> str | None:
        """Record a decision that changes nothing. Its id; None while only observing."""

    def propose(
        self,
        urgency: str,
        kind: str,
        subject: str,
        choice: str,
        *,
        subjects: Sequence[str],
        evidence: Mapping[str, Any],
        predicted: Mapping[str, float],
    ) -> str | None:
        """Record a decision that changes something, if nobody objects; see `arbiter`.

        Its id, to be the cause of what follows, and a lease on these subjects: clients, or links
        (`link_between`). None while only observing, or if it is refused: that is recorded, too, and why.
        """

    def objection_to(self, urgency: str, kind: str, subjects: Sequence[str], choice: str) -> str:
        """What speaks here against a change that is proposed at another broker; "" for nothing."""

    def expect(
        self,
        client: str,
        decision: str,
        predicted: Mapping[str, float],
        publishes_per_s: float = 0.0,
    ) -> None:
        """A client is on its way here, by a decision of this module elsewhere: all modules count it."""

    def expected_per_s(self) -> float:
        """What those publish that were sent here so lately that the load does not show it yet."""

    def since_moved_s(self, client: str) -> float | None:
        """How long ago a client was sent here, by whatever module; None if it was not."""

    def awaits_outcome(self, client: str) -> bool:
        """Whether this module has sent it here, and has not said what came of it."""

    def outcome(self, client: str, measured: Mapping[str, float]) -> None:
        """What came of a move here: recorded once, next to what was predicted; nothing if there was none."""

    def redirect(self, client: str, address: Address, cause: str) -> None:
        """Ask a client to move there, which has to be leased. Only for a cause, which a proposal gives."""

    def rewire(self, mover: str, anchor: str, cause: str) -> str:
        """Have one neighbour become another's (`rewiring`); the link to it has to be leased.

        What speaks against it here, or "". What becomes of it is recorded, and told by `Module.rewired`, at
        once if something does.
        """


class Module:
    """An optimiser. Every hook may be left out."""

    # Names its timers, its events and its decisions; unique in a broker.
    name: str = ""
    # The values of `class` that only modules publish.
    reserved: Sequence[str] = ()
    # Whether it knows trees only, and so is refused in a hierarchy (`broker.hierarchy`).
    trees_only: bool = False
    # Whether it is asked which publications to trace.
    traces: bool = False
    # Whether it is told what events match behind neighbours (`Visit.behind`): each is matched once more.
    wants_behind: bool = False
    # What it is made with, if it has settings that people can say; see `registry`.
    Config: type[Struct] | None = None
    # For a driver that records, which can't afford a `Visit` for each event. It is told instead of `routed`:
    # source, publication, hops, links, local, now, as the router has them; local ones have `matched`.
    tap: Callable[..., None] | None = None
    # The same for many at a time (`Passage`), if it has a way of its own for that.
    tap_many: Callable[[Passage], None] | None = None
    # For the same: what the module measures goes there, as (time, kind, subject, other, value).
    measured: list[tuple[float, str, str, str, float]] | None = None

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def measures(
        self, now: float, kind: str, subject: str, value: float, *, other: str = ""
    ) -> None:
        """Note what was measured, for whoever wants to decide again what it was used for."""
        if self.measured is not None:
            self.measured.append((now, kind, subject, other, value))

    def started(self, around: Surroundings, now: float) -> None:
        """The broker runs, and the module is no longer off. Keep `around`."""

    def stopped(self, now: float) -> None:
        """The module is off; its subscriptions, advertisements and timers are gone."""

    def routed(self, visit: Visit, now: float) -> None:
        """A publication of a client has been routed (not those of modules)."""

    def routed_many(self, passage: Passage, visits: Iterable[Visit], now: float) -> None:  # noqa: ARG002
        """Publications have been routed together; `visits` are made as they are asked for.

        Who can do with columns looks at the passage, which costs a fraction.
        """
        for visit in visits:
            self.routed(visit, now)

    def hears_every(self, source: Hop, now: float) -> int | None:  # noqa: ARG002
        """How many publications from there may pass before it hears of them (`routed_many`).

        Up to one whose number is a multiple of this. With 1 it hears of each before the next; with 0 any
        number may pass; with None it need not hear of them.
        """
        return 1

    def is_traced(self, publication: Publication, now: float) -> bool:  # noqa: ARG002
        """Whether to mark a publication of a client here, before it is routed (`Publication.traced`)."""
        return False

    def heard(self, publication: Publication, subscriptions: Sequence[str], now: float) -> None:
        """An event for subscriptions of this module. For local ones it comes right behind `routed`."""

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        """A note of a neighbour."""

    def rewired(self, mover: str, anchor: str, objection: str, now: float) -> None:
        """A link of this broker has moved to the anchor; or not, and why."""

    def probed(self, client: str, round_trips_s: Mapping[str, float], now: float) -> None:
        """What `probe` has found, by address; those who did not answer are missing."""

    def timer(self, name: str, now: float) -> None:
        """A timer has run out."""

    def sampled(self, load: LoadIndices, now: float) -> None:
        """New load indices."""

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        """A client that is new here had better go to the broker there; None: it can stay."""
        return None

    def first_advertised(self, client: str, now: float) -> None:
        """A client here has advertised, and had no advertisement here so far: it is going to publish.

        Not of one that is being moved here, with all that it has: see `arrived`.
        """

    def first_subscribed(self, client: str, now: float) -> None:
        """A client here has subscribed, and had no subscription here so far; not one that is being moved."""

    def objection_to(self, proposal: Proposal, now: float) -> str:  # noqa: ARG002
        """What speaks against what another module proposes here; "" for nothing."""
        return ""

    def left(self, client: str, now: float) -> None:
        """A client is not here any more: it has moved, or said goodbye, or was given up."""

    def moved(self, client: str, now: float) -> None:
        """A client is at another broker now; `left` follows."""

    def given_up(self, client: str, now: float) -> None:
        """A client stayed away too long, was too slow, or an operator has ended it; `left` follows."""

    def arrived(self, client: str, now: float) -> None:
        """A client was moved here."""

    def neighbours_changed(self, now: float) -> None:
        """A neighbour has come or gone for good."""

    def asked(
        self,
        request: str,  # noqa: ARG002
        arguments: Mapping[str, Any],  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> Mapping[str, Any] | None:
        """An operator asks for something. The answer, as JSON can have it; None: it is not for this module.

        UserError says what is wrong with the arguments. What takes its time is begun, and the answer says so:
        what becomes of it, decisions tell, or the answer to the next question.
        """
        return None
