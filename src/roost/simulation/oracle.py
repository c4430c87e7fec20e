"""The oracle: what clients did, what they should therefore get, and whether they got it.

It knows nothing of brokers. It is told what clients ask for and what arrives, and says for each event
and each subscription that matches it one of three things:

    must    the event has to arrive
    may     it may arrive or not: the grey zone
    no      it must not: the subscription does not match, or is not there

and for every event that arrives, whatever it is: never twice at a client, and in the order of its
publisher.

**In place.** A subscription is in place when its client has heard that it has settled (`ready`). Where
clients do not ask, which costs a message on every link, it is taken for so at a moment at which every link
was up and nobody had anything of the control class left to say. From then on every event that a broker
accepts has to reach it, whenever its publisher began, and whoever is away: nothing is asked of an
advertisement. It may reach one that is not in place yet, or that is unsubscribed while the event is on the
way. That a client moves is no excuse, nor that a broker crashes, if it has a store.

What ends a promise:

    a broker loses its store    for what is on the way
    a session is over before    the client is told, and what was on the way to it is void; so is what it has
      its client is back          published that was not accepted. Its subscriptions are in place again when
                                  it hears so.
    a queue for a client is     the same: its policy says what is dropped, and the client is told
      full
    a permission is withdrawn   for the subscriptions and the events that it covers no longer
    a store is full             for events that are refused: their publisher is told
    a link is removed           between the two parts: for what is on the way, and until they are joined again
                                  and everybody knows where the new link leads

**Taken over.** When another process takes a durable session over, what the last one has not acknowledged has
to come again, in order; nothing else may.

An event is checked as it goes, and forgotten when it has arrived everywhere: the oracle's memory is
what is on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from roost.broker.messages import Publication
from roost.broker.router import Strategy
from roost.language import Advertisement, Event, Subscription
from roost.matching import Index
from roost.partition.direct import origin_of

VIOLATIONS_KEPT = 20
NOTHING: set[int] = set()  # stays empty


class Wish:
    """A subscription as its client sees it."""

    __slots__ = ("key", "name", "party", "revoked", "settled", "subscription")

    def __init__(self, key: int, party: Party, name: str, subscription: Subscription) -> None:
        self.key = key
        self.party = party
        self.name = name
        self.subscription = subscription
        self.revoked = False  # its client may not have it any more
        self.settled = False


class Offer:
    """An advertisement as its client sees it."""

    __slots__ = ("key", "party")

    def __init__(self, key: int, party: Party) -> None:
        self.key = key
        self.party = party


class Party:
    """A client: what it wants and offers, and the last event that it got of each publisher."""

    __slots__ = ("again", "before", "last", "name", "offers", "publisher", "unasked", "wishes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.publisher = name  # of its events
        self.unasked = (
            False  # it need not advertise what it publishes, whatever the routing: at no broker
        )
        self.wishes: dict[str, Wish] = {}
        self.offers: dict[str, Offer] = {}
        self.last: dict[str, int] = {}
        # Of one whose session was taken over: what may come again, and how far the last process was.
        # (None: anything, as nobody is left who remembers)
        self.again: frozenset[tuple[str, int]] | None = frozenset()
        self.before: dict[str, int] | None = None


class Pending:
    """An event on its way: the subscriptions that it has yet to reach."""

    __slots__ = ("_keys", "missing", "party", "published_at")

    def __init__(self, party: Party, keys: NDArray[np.int32], published_at: float) -> None:
        self.party = party  # who has published it
        # An array until it reaches the first: a tenth of the size of a set, and in front of a broker
        # that is overloaded there are many.
        self._keys: NDArray[np.int32] | None = keys
        self.missing: set[int] | None = None
        self.published_at = published_at

    def open(self) -> set[int]:
        """Those it has not reached, as the set that `missing` is from now on."""
        if self.missing is None:
            assert self._keys is not None
            self.missing = set(self._keys.tolist())
            self._keys = None
        return self.missing

    def __len__(self) -> int:
        return len(self.open() if self._keys is None else self._keys)


class Oracle:
    """Watches clients."""

    def __init__(self, strategy: Strategy) -> None:
        self._advertises = strategy.advertises
        # Whether the overlay connects two clients; None while it connects all.
        self.connected: Callable[[str, str], bool] | None = None
        self._wishes: dict[int, Wish] = {}
        self._next_key = 0
        self._index = Index()  # of the wishes
        self._offers: dict[int, Offer] = {}
        self._offer_index = Index()
        self._unsettled: dict[Wish, None] = {}
        self.pending: dict[tuple[str, int], Pending] = {}
        self.published_count = 0
        self.expected = 0  # deliveries that must be made
        self.delivered = 0
        self.lost = 0
        self.doubled = 0
        self.reordered = 0
        self.unwanted = 0  # that matched no subscription
        # Of what may come in any order: how much was overtaken, and all that has come.
        self.overtaken = 0
        self._had: set[tuple[str, tuple[str, int], str]] = set()
        self.violations: list[str] = []

    # --- what clients do ----------------------------------------------------------------------------

    def subscribed(self, party: Party, name: str, subscription: Subscription) -> None:
        """A client has a subscription more."""
        wish = Wish(self._next_key, party, name, subscription)
        self._next_key += 1
        self._wishes[wish.key] = party.wishes[name] = wish
        self._index.add(wish.key, subscription)
        self._unsettled[wish] = None

    def unsubscribed(self, party: Party, name: str) -> None:
        """A client has a subscription less."""
        wish = party.wishes.pop(name)
        del self._wishes[wish.key]
        if not wish.revoked:
            self._index.remove(wish.key)
        self._unsettled.pop(wish, None)
        if self.pending:
            self.forgive([wish])

    def advertised(self, party: Party, name: str, advertisement: Advertisement) -> None:
        """A client may publish what it says from now on."""
        offer = Offer(self._next_key, party)
        self._next_key += 1
        self._offers[offer.key] = party.offers[name] = offer
        self._offer_index.add(offer.key, advertisement)

    def unadvertised(self, party: Party, name: str) -> None:
        """A client has taken an advertisement back."""
        offer = party.offers.pop(name)
        del self._offers[offer.key]
        self._offer_index.remove(offer.key)

    def published(self, party: Party, sequence: int, event: Event, now: float) -> None:
        """A client has published this: who has to get it is known from now on."""
        self.published_count += 1
        if not self._offered(party, event):
            return
        keys = self._index.match(event).astype(np.int32)
        if self._unsettled or self.connected is not None:
            wishes = self._wishes
            certain = [self._certain(party, wishes[key]) for key in keys.tolist()]
            keys = keys[np.array(certain, dtype=bool)]
        if len(keys):
            self.expected += len(keys)
            self.pending[party.publisher, sequence] = Pending(party, keys, now)

    def _offered(self, party: Party, event: Event) -> bool:
        if not self._advertises or party.unasked:
            return True
        offers = (self._offers[key] for key in self._offer_index.match(event).tolist())
        return any(offer.party is party for offer in offers)

    def _certain(self, publisher: Party, wish: Wish) -> bool:
        if not wish.settled:
            return False
        return self.connected is None or self.connected(publisher.name, wish.party.name)

    def arrived(
        self, party: Party, publication: Publication, names: Collection[str], now: float
    ) -> None:
        """An event reached a client, for its subscriptions of these names."""
        if publication.headers and (origin := origin_of(publication)) is not None:
            self._came_directly(party, publication, origin, names, now)
            return
        publisher, sequence = publication.publisher, publication.sequence
        pending = self.pending.get((publisher, sequence))
        last = party.last
        if sequence <= last.get(publisher, 0):
            self._out_of_place(party, publication, pending, now)
            return
        last[publisher] = sequence
        if party.before is not None and sequence <= party.before.get(publisher, 0):
            self._comes_again(party, publication, now)
        missing = NOTHING if pending is None else pending.missing or pending.open()
        wishes = party.wishes
        for name in names:
            self.delivered += 1
            wish = wishes.get(name)
            if wish is not None and wish.key in missing:
                missing.remove(wish.key)
            elif wish is None or not wish.subscription.matches(publication.event):
                self.unwanted += 1
                self._violation(
                    f"{publication.id} reached {party.name} for its subscription {name!r},"
                    f" which does not match it, at {now:.3f} s"
                )
        if pending is not None and not missing:
            del self.pending[publisher, sequence]

    def _came_directly(
        self,
        party: Party,
        publication: Publication,
        identity: tuple[str, int],
        names: Collection[str],
        now: float,
    ) -> None:
        """One that may come in any order, and still not twice: see `roost.partition.direct`."""
        publisher, sequence = identity
        self.overtaken += sequence < party.last.get(publisher, 0)
        party.last[publisher] = max(sequence, party.last.get(publisher, 0))
        pending = self.pending.get(identity)
        missing = NOTHING if pending is None else pending.open()
        for name in names:
            self.delivered += 1
            wish = party.wishes.get(name)
            if (party.name, identity, name) in self._had:
                self.doubled += 1
                self._violation(
                    f"{publisher}:{sequence} reached {party.name} twice, at {now:.3f} s"
                )
            self._had.add((party.name, identity, name))
            if wish is not None and wish.key in missing:
                missing.remove(wish.key)
            elif wish is None or not wish.subscription.matches(publication.event):
                self.unwanted += 1
                self._violation(
                    f"{publisher}:{sequence} reached {party.name} for its subscription {name!r},"
                    f" which does not match it, at {now:.3f} s"
                )
        if pending is not None and not missing:
            del self.pending[identity]

    def _out_of_place(
        self, party: Party, publication: Publication, pending: Pending | None, now: float
    ) -> None:
        late = pending is not None and any(
            self._wishes[key].party is party for key in pending.open() if key in self._wishes
        )
        if late:
            self.reordered += 1
        else:
            self.doubled += 1
        self._violation(
            f"{publication.id} reached {party.name} {'late' if late else 'twice'}, behind"
            f" {publication.publisher}:{party.last[publication.publisher]}, at {now:.3f} s"
        )

    def _comes_again(self, party: Party, publication: Publication, now: float) -> None:
        identity = (publication.publisher, publication.sequence)
        if party.again is not None and identity not in party.again:
            self.doubled += 1
            self._violation(
                f"{publication.id} reached {party.name} again, which had acknowledged it,"
                f" at {now:.3f} s"
            )

    def taken_over(
        self, party: Party, must: Iterable[Publication], may: Iterable[Publication] | None
    ) -> None:
        """Another process goes on for a client: these have to come again, or may.

        `may` is None if its broker has lost the session together with its store: publishers whose
        acknowledgements were lost with it publish again, and nobody is left who knows what had come.
        """
        must = list(must)
        again = [(p.publisher, p.sequence) for p in (*must, *(may or ()))]
        party.again = None if may is None else frozenset(again)
        before = party.before or {}
        party.before = {p: max(n, before.get(p, 0)) for p, n in party.last.items()}
        if may is None:
            party.last.clear()
        for publisher, sequence in again:
            if sequence <= party.last.get(publisher, 0):
                party.last[publisher] = sequence - 1
        for publication in must:
            self._expect_again(party, publication)

    def _expect_again(self, party: Party, publication: Publication) -> None:
        identity = (publication.publisher, publication.sequence)
        pending = self.pending.get(identity)
        missing = set() if pending is None else pending.open()
        wanted = {
            wish.key
            for wish in party.wishes.values()
            if wish.settled and wish.subscription.matches(publication.event)
        } - missing
        if not wanted:
            return
        self.expected += len(wanted)
        if pending is None:
            keys = np.array(sorted(wanted), dtype=np.int32)
            self.pending[identity] = Pending(party, keys, publication.published_at)
        else:
            missing |= wanted

    # --- what is in place ---------------------------------------------------------------------------

    @property
    def unsettled(self) -> int:
        """How many subscriptions are not known yet wherever they have to be."""
        return len(self._unsettled)

    def settle(self, reached: Callable[[str], bool]) -> None:
        """Nobody has anything left to say. What the brokers of these clients have is in place."""
        self.in_place([wish for wish in self._unsettled if reached(wish.party.name)])

    def in_place(self, wishes: Iterable[Wish]) -> None:
        """From now on every event has to reach these."""
        for wish in wishes:
            if self._unsettled.pop(wish, "not") is None:
                wish.settled = True

    def unsettle(self, parties: Iterable[Party]) -> None:
        """Promises to these clients begin anew."""
        for party in parties:
            for wish in party.wishes.values():
                if not wish.revoked:
                    wish.settled = False
                    self._unsettled[wish] = None

    def revoked(self, wishes: Iterable[Wish]) -> None:
        """Nothing is promised to these any more, though something may still come."""
        wishes = [wish for wish in wishes if not wish.revoked]
        self.forgive(wishes)
        for wish in wishes:
            wish.settled = False
            wish.revoked = True
            self._index.remove(wish.key)
            self._unsettled.pop(wish, None)

    def forgive(self, wishes: Iterable[Wish]) -> None:
        """What is on the way may reach these or not."""
        keys = {wish.key for wish in wishes if wish.settled}  # nothing is promised to others
        if not keys:
            return
        for identity, pending in list(self.pending.items()):
            missing = pending.open()
            self.expected -= len(missing & keys)
            missing -= keys
            if not missing:
                del self.pending[identity]

    def forgive_apart(self, connected: Callable[[str, str], bool]) -> None:
        """What is on the way between clients that are not connected any more has no way."""
        for identity, pending in list(self.pending.items()):
            missing = pending.open()
            apart = {
                key
                for key in missing
                if not connected(pending.party.name, self._wishes[key].party.name)
            }
            self.expected -= len(apart)
            missing -= apart
            if not missing:
                del self.pending[identity]

    def forgive_everything(self) -> None:
        """Nobody can say what becomes of what is on the way."""
        self.expected -= sum(len(pending) for pending in self.pending.values())
        self.pending.clear()

    def not_accepted(self, publisher: str, sequence: int) -> None:
        """The publisher's broker never took this event, or not in the session it was meant for."""
        pending = self.pending.pop((publisher, sequence), None)
        if pending is not None:
            self.expected -= len(pending)

    def refused(self, publisher: str, sequence: int, reason: str) -> None:
        """The broker did not want this event: wrong, if it was promised to anybody."""
        pending = self.pending.pop((publisher, sequence), None)
        if pending is not None:
            self.lost += len(pending)
            self._violation(f"{publisher}:{sequence} was refused ({reason}), though it was offered")

    def not_accepted_after(self, publisher: str, sequence: int) -> None:
        """The same of all that the publisher published after this one."""
        for name, number in [key for key in self.pending if key[0] == publisher]:
            if number > sequence:
                self.not_accepted(name, number)

    # --- the verdict --------------------------------------------------------------------------------

    def finish(self, in_transit: Callable[[str, int], bool]) -> None:
        """Whatever is still missing, and on its way nowhere, is lost."""
        for (publisher, sequence), pending in self.pending.items():
            if in_transit(publisher, sequence):
                continue
            self.lost += len(pending)
            missing = [self._wishes[key] for key in sorted(pending.open())]
            self._violation(
                f"{publisher}:{sequence}, published at {pending.published_at:.3f} s, never reached "
                + ", ".join(f"{wish.party.name} ({wish.name})" for wish in missing[:5])
                + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            )

    def _violation(self, what: str) -> None:
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(what)
