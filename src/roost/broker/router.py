"""Where events go, and who has to be told what for that (001 section 2.1.3).

Two tables: advertisements and subscriptions, each entry with the hop that it came from. An event goes
to the hops whose subscriptions it matches, except back over the link that it came by. A neighbour is told
every subscription that did not come from it and *concerns* it, less what is covered, when covering is on
(`told`). Every operation changes a table, works out the difference that makes to what each neighbour should
have been told, and says that: announcements first, withdrawals after. Nothing else is ever sent, so a table
always equals what the neighbours' tables say it should be, as soon as everything has arrived; the checkers
compare it with tables that are computed from scratch.

A **router** is a strategy: which neighbour is told what, and where an event goes on to. There are two here,
and a user may bring another, by deriving from one of them and overriding what is different:

    Flooding (this module)                  subscriptions concern every neighbour
    AdvertisementBased (`advertisements`)   they concern those from whom an overlapping advertisement came
    Clustered, Tree (`hierarchy`)           of brokers with ranks: they go up only, and events go up to meet
                                            them; or they go everywhere. Brokers can change between the two

What differs is said by a few words (`Strategy`), from which the checkers and the oracle know what to expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from roost.broker.demands import meets
from roost.broker.handles import Follower, Handles
from roost.broker.hops import Entry, Hop, Inside, Link
from roost.broker.journal import Journal
from roost.broker.messages import Message, Subscribe, Unsubscribe
from roost.broker.names import Rank
from roost.broker.spares import Kind, Spares
from roost.language import Advertisement, Event, Interest, Subscription
from roost.matching import Index, Poset

Tell = Callable[[Link, Message], None]

# Up to so many advertisements of a client are looked at one by one.
FEW = 8
# What routers say to their like: notes in this name, which no module has. Who does not know them passes over
# them, so that brokers of different versions can be neighbours.
ROUTER = "/router"


class Strategy(Struct, frozen=True):
    """What can be expected of a router."""

    # Neighbours are told of advertisements, and of the subscriptions that overlap those that came from them;
    # a client publishes what it has advertised. Otherwise subscriptions go everywhere.
    advertises: bool
    # Whether a broker passes on to one neighbour what came from another one, by their ranks; in a tree it
    # does. And whether it tells the one of the subscriptions that came from the other.
    passes: Callable[[Rank, Rank], bool] = lambda source, target: True  # noqa: ARG005
    tells: Callable[[Rank, Rank], bool] = lambda source, target: True  # noqa: ARG005
    # Neighbours of these ranks are told of the subscriptions that are made here.
    hears: Callable[[Rank], bool] = lambda target: True  # noqa: ARG005
    # Whether neighbours have ranks; and which way brokers begin to go, if they can change it (`hierarchy`).
    ranks: bool = False
    way: str = ""


class Flooding:
    """Subscriptions flood. Advertisements are known where they are made, and needed nowhere."""

    strategy: ClassVar[Strategy] = Strategy(advertises=False)
    way: str = ""  # the one it goes, if there is another

    def __init__(
        self,
        links: Mapping[str, Link],
        tell: Tell,
        journal: Journal | None,
        *,
        stranded: Callable[[Entry], None] = lambda _: None,
        announced: Callable[[Link], None] = lambda _: None,
    ) -> None:
        self._links = links
        self._tell = tell
        self._stranded = stranded  # an advertisement is gone before it came from where it was to
        self._announced = announced  # a neighbour was told of an advertisement
        self._journal = journal
        # Neighbours that get every event, whoever wants it; see `absence`.
        self.greedy: Sequence[Link] = ()
        # While a link is moved: what comes from the one of a pair is not told to the other; see `rewiring`.
        self.barred: set[tuple[Hop, Link]] = set()
        self.subscriptions: dict[str, Entry] = {}
        self.advertisements: dict[str, Entry] = {}
        self._index = Index()
        self._subscription_handles = Handles()
        self._advertisement_handles = Handles()
        # For an event of a client: the advertisements of all clients here.
        self._offered = Index()
        self._spares = Spares(journal)
        self._second: dict[tuple[Hop, str], Entry] = {}  # the spare subscriptions, for the matcher
        self._visit = 0  # the number of the last event
        self._covering: Poset | None = None  # of `covering_set`, as long as somebody wants it
        # In a tree an event goes on to whoever wants it, other than where it came from; `route` knows that.
        self._is_tree = type(self).passes is Flooding.passes

    # --- what a strategy decides ----------------------------------------------------------------------

    def passes(self, source: Hop, link: Link) -> bool:
        """Whether what came from a hop, be it an event or a request, goes on to a neighbour."""
        return link is not source

    def passes_now(self, source: Hop, link: Link) -> bool:
        """The same, while a link is moved."""
        return (source, link) not in self.barred and self.passes(source, link)

    def _is_told(self, source: Hop, link: Link) -> bool:
        """Whether a neighbour is told of what came from a hop, if it concerns it."""
        return not link.closing and not link.unmet and self.passes_now(source, link)

    def objection_to(self, hop: Hop, event: Event) -> str:  # noqa: ARG002
        """To an event that a client publishes."""
        return ""

    def _concerns(self, link: Link, subscription: Interest) -> bool:  # noqa: ARG002
        """Whether events for this subscription may come from that neighbour."""
        return True

    def _wanted_more(self, entry: Entry) -> None:
        """A subscription is in the table."""

    def _wanted_no_more(self, entry: Entry) -> None:
        """A subscription is not in the table any more."""

    def _advertised(self, entry: Entry, cause: str) -> None:
        """An advertisement is in the table: tell whoever has to know."""

    def _unadvertised(self, hop: Hop, entries: Sequence[Entry], cause: str) -> None:
        """Advertisements of one hop are not in the table any more."""

    def objection_to_way(self, way: str) -> str:  # noqa: ARG002
        """To going another way from now on (see `hierarchy`)."""
        return "its routing has one way only; expected cluster or tree, of brokers with ranks"

    def switch(self, way: str, cause: str) -> None:
        """Go another way from now on, if there is nothing against it."""

    def figures(self) -> Mapping[str, Any]:
        """What operators see of it, besides tables."""
        return {}

    def noted(self, link: Link, body: bytes, cause: str) -> None:
        """The router of a neighbour says something to ours."""

    # --- events -------------------------------------------------------------------------------------

    def route(self, event: Event, source: Hop) -> tuple[list[Link], list[Hop]]:
        """The neighbours that an event goes to; the sessions and modules, with `matched` set, it is for.

        Each hop is marked with the number of the event, which tells quicker than a set whether it is
        among them already.
        """
        self._visit = visit = self._visit + 1
        links: list[Link] = []
        local: list[Hop] = []
        entries = self._subscription_handles.entries
        for handle in self._index.match(event).tolist():
            entry = entries[handle]
            hop = entry.hop
            if hop.visit == visit:
                if not hop.is_link:
                    hop.matched += entry.ids
                continue
            hop.visit = visit
            if type(hop) is not Link:
                hop.matched = entry.ids
                local.append(hop)
            elif hop is not source:
                links.append(hop)
        if not self._is_tree:
            links = [link for link in links if self.passes(source, link)]
        return links, local

    def behind(self, event: Event, source: Hop) -> dict[str, list[str]]:
        """For each neighbour that an event goes to, the subscriptions from there that it matches.

        It is matched once more for that: `route`, which every event takes, pays nothing for who asks.
        """
        found: dict[str, list[str]] = {}
        entries = self._subscription_handles.entries
        for handle in self._index.match(event).tolist():
            hop = entries[handle].hop
            if isinstance(hop, Link) and self.passes(source, hop):
                found.setdefault(hop.name, []).append(entries[handle].id)
        return found

    @property
    def index(self) -> Index:
        """The matcher of subscriptions, by handle."""
        return self._index

    def entry(self, handle: int) -> Entry:
        """The subscription of this handle."""
        return self._subscription_handles.entries[handle]

    @property
    def routes_plainly(self) -> bool:
        """Whether an event goes to whoever wants it, except back, if its client offers it, or need not.

        A router of one's own may say otherwise.
        """
        return self._routes_like(Flooding)

    def _routes_like(self, known: type[Flooding]) -> bool:
        kind = type(self)
        return (
            self._is_tree
            and kind.route is Flooding.route
            and kind.offered is Flooding.offered
            and kind.objection_to is known.objection_to
        )

    def watch(self, follower: Follower, of_advertisements: Follower) -> None:
        """Tell these whose each subscription and each advertisement is."""
        self._subscription_handles.follow(follower)
        self._advertisement_handles.follow(of_advertisements)

    @property
    def spare_entries(self) -> int:
        """How many ids are known from a second side: none, once everything has settled."""
        return len(self._spares)

    @property
    def expected_entries(self) -> int:
        """How many advertisements are about to come from elsewhere: none, once everything has settled."""
        return 0

    def offered(self, hop: Hop, event: Event) -> bool:
        """Whether a client here has advertised events like this.

        Most clients have a few advertisements, for which the matcher is a long way: see `demands`.
        """
        if len(hop.advertisements) <= FEW:
            attributes = event.attributes
            for entry in hop.advertisements.values():
                answer = None if entry.demands is None else meets(entry.demands, attributes)
                if answer is None:
                    break
                if answer:
                    return True
            else:
                return False
        entries = self._advertisement_handles.entries
        return any(entries[h].hop is hop for h in self._offered.match(event).tolist())

    # --- subscriptions ------------------------------------------------------------------------------

    def subscribe(self, hop: Hop, id_: str, subscription: Subscription, cause: str) -> None:
        """A subscription from a hop."""
        there = self.subscriptions.get(id_)
        if there is not None:
            if there.hop is not hop:  # see `spares`
                self._keep_second(hop, id_, subscription)
                return
            if there.interest == subscription:
                return
            self._remove_subscriptions([there], cause)
            self.subscribe(hop, id_, subscription, cause)  # it may be known from elsewhere
            return
        entry = self._add_subscription(hop, id_, subscription)
        for link in self._links.values():
            if self._is_told(hop, link) and self._concerns(link, subscription):
                self._say_subscriptions(link, [entry], [], cause)

    def unsubscribe(self, hop: Hop, id_: str, cause: str) -> None:
        """A hop withdraws a subscription; one that is not there is no matter."""
        entry = self.subscriptions.get(id_)
        if entry is not None and entry.hop is hop:
            self._remove_subscriptions([entry], cause)
        else:
            self._spares.drop("sub", id_, hop, 0)
            self._drop_second(hop, id_)

    def _keep_second(self, hop: Hop, id_: str, subscription: Subscription) -> None:
        """It came from a second side. Until one of them is withdrawn, events go to both.

        Which of the two leads to the subscriber nobody can tell, and in a tree what goes the other way comes
        to nobody twice.
        """
        self._drop_second(hop, id_)
        self._spares.keep("sub", id_, hop, subscription, 0)
        self._second[hop, id_] = entry = self._subscription_handles.new(id_, subscription, hop)
        self._index.add(entry.handle, subscription)

    def _drop_second(self, hop: Hop, id_: str) -> None:
        entry = self._second.pop((hop, id_), None)
        if entry is not None:
            self._index.remove(entry.handle)
            self._subscription_handles.free(entry)

    def _add_subscription(self, hop: Hop, id_: str, subscription: Subscription) -> Entry:
        entry = self._subscription_handles.new(id_, subscription, hop)
        self.subscriptions[id_] = hop.subscriptions[id_] = entry
        self._index.add(entry.handle, subscription)
        if self._covering is not None and not isinstance(hop, Inside):
            self._covering.insert(entry.handle, subscription)
        self._wanted_more(entry)
        if self._journal is not None:
            self._journal.put("sub", id_, value=(*hop.key, subscription, 0))
        return entry

    def _remove_subscriptions(self, entries: Sequence[Entry], cause: str) -> None:
        entries = [entry for entry in entries if not self._turned_to_spare(entry, cause)]
        for entry in entries:
            del self.subscriptions[entry.id], entry.hop.subscriptions[entry.id]
            self._index.remove(entry.handle)
            if self._covering is not None and entry.handle in self._covering:
                self._covering.remove(entry.handle)
            self._wanted_no_more(entry)
            if self._journal is not None:
                self._journal.delete("sub", entry.id)
        for link in self._links.values():
            told = link.subscriptions_told
            self._say_subscriptions(link, [], [e for e in entries if e.handle in told], cause)
        for entry in entries:
            self._subscription_handles.free(entry)
        for entry in entries:
            spare = self._spares.next("sub", entry.id)
            if spare is not None:
                hop, interest, _ = spare
                assert isinstance(interest, Subscription)
                self._drop_second(hop, entry.id)
                self.subscribe(hop, entry.id, interest, cause)

    def _turned_to_spare(self, entry: Entry, cause: str) -> bool:
        """Whether the same is known from a second side: then it comes from there, and was never gone."""
        spare = self._spares.like("sub", entry.id, entry.interest)
        if spare is None:
            return False
        hop, _ = spare
        self._drop_second(hop, entry.id)
        del entry.hop.subscriptions[entry.id]
        hop.subscriptions[entry.id] = entry
        self._subscription_handles.move(entry, hop)
        if self._journal is not None:
            self._journal.put("sub", entry.id, value=(*hop.key, entry.interest, 0))
        for link in self._links.values():
            told = entry.handle in link.subscriptions_told
            wanted = self._is_told(hop, link) and self._concerns(link, entry.interest)
            if wanted != told:
                change = ([entry], []) if wanted else ([], [entry])
                self._say_subscriptions(link, *change, cause)
        return True

    def _say_subscriptions(
        self,
        link: Link,
        add: Sequence[Entry],
        remove: Sequence[Entry],
        cause: str,
    ) -> None:
        if not add and not remove:
            return
        announce, withdraw = link.subscriptions_told.change(
            [(e.handle, e.interest) for e in add], [e.handle for e in remove]
        )
        entries = self._subscription_handles.entries
        for entry in (entries[handle] for handle in announce):
            assert isinstance(entry.interest, Subscription)
            self._tell(link, Subscribe(entry.id, entry.interest, cause))
            if self._journal is not None:
                self._journal.put("told", link.name, "sub", entry.id, value=True)
        for entry in (entries[handle] for handle in withdraw):
            if not link.closing:
                self._tell(link, Unsubscribe(entry.id, cause))
            if self._journal is not None:
                self._journal.delete("told", link.name, "sub", entry.id)

    def covering_set(self) -> dict[str, Subscription]:
        """The subscriptions of clients and neighbours that no other one covers: see `module`."""
        if self._covering is None:
            self._covering = Poset()
            for entry in self.subscriptions.values():
                if not isinstance(entry.hop, Inside):
                    self._covering.insert(entry.handle, entry.interest)
        found = (self._subscription_handles.entries[handle] for handle in self._covering.css())
        return {e.id: e.interest for e in found if isinstance(e.interest, Subscription)}

    def drop_covering_set(self) -> None:
        """Whoever wants it again will ask."""
        self._covering = None

    # --- advertisements -----------------------------------------------------------------------------

    def advertise(
        self,
        hop: Hop,
        id_: str,
        advertisement: Advertisement,
        cause: str,
        announcement: int = 0,
    ) -> None:
        """An advertisement from a hop."""
        there = self.advertisements.get(id_)
        if there is not None:
            if there.hop is not hop:  # see `spares`
                self._spares.keep("adv", id_, hop, advertisement, announcement)
                return
            if there.interest == advertisement:
                self._note(there, announcement)
                return
            self._remove_advertisements([there], cause)
            self.advertise(hop, id_, advertisement, cause, announcement)
            return
        self._advertised(self._add_advertisement(hop, id_, advertisement, announcement), cause)

    def unadvertise(self, hop: Hop, id_: str, cause: str, announcement: int = 0) -> None:
        """A hop withdraws an announcement; one that is not there, or was made again, is no matter."""
        entry = self.advertisements.get(id_)
        if entry is None or entry.hop is not hop:
            self._spares.drop("adv", id_, hop, announcement)
        elif entry.announcement == announcement:
            self._remove_advertisements([entry], cause)

    def _add_advertisement(
        self, hop: Hop, id_: str, advertisement: Advertisement, announcement: int
    ) -> Entry:
        entry = self._advertisement_handles.new(id_, advertisement, hop)
        self.advertisements[id_] = hop.advertisements[id_] = entry
        if isinstance(hop, Link):
            hop.advertises.add(entry.handle, advertisement)
        else:
            self._offered.add(entry.handle, advertisement)
        self._note(entry, announcement)
        return entry

    def _note(self, entry: Entry, announcement: int) -> None:
        entry.announcement = announcement
        if self._journal is not None:
            record = (*entry.hop.key, entry.interest, announcement)
            self._journal.put("adv", entry.id, value=record)

    def _remove_advertisements(self, entries: Sequence[Entry], cause: str) -> None:
        """Entries of one hop."""
        hop = entries[0].hop
        entries = [e for e in entries if e.next is not None or not self._adopted(e, cause)]
        for entry in entries:
            if entry.next is not None:
                self._stranded(entry)
                self.stay(entry, cause)
            del self.advertisements[entry.id], hop.advertisements[entry.id]
            if isinstance(hop, Link):
                hop.advertises.remove(entry.handle)
            else:
                self._offered.remove(entry.handle)
            if self._journal is not None:
                self._journal.delete("adv", entry.id)
        self._unadvertised(hop, entries, cause)
        for entry in entries:
            self._advertisement_handles.free(entry)
        for entry in entries:
            spare = self._spares.next("adv", entry.id)
            if spare is not None:
                other, interest, announcement = spare
                assert isinstance(interest, Advertisement)
                self.advertise(other, entry.id, interest, cause, announcement)

    def _adopted(self, entry: Entry, cause: str) -> bool:
        """Whether the same is known from a second side: then it comes from there, and was never gone."""
        spare = self._spares.like("adv", entry.id, entry.interest)
        if spare is None:
            return False
        self._change_hop(entry, *spare, cause)
        return True

    def _change_hop(self, entry: Entry, hop: Hop, announcement: int, cause: str) -> None:  # noqa: ARG002
        """An advertisement comes from another hop from now on."""
        old = entry.hop
        del old.advertisements[entry.id]
        hop.advertisements[entry.id] = entry
        for one, index in ((old, "remove"), (hop, "add")):
            offers = one.advertises if isinstance(one, Link) else self._offered
            if index == "add":
                offers.add(entry.handle, entry.interest)
            else:
                offers.remove(entry.handle)
        self._advertisement_handles.move(entry, hop)
        self._note(entry, announcement)

    def stay(self, entry: Entry, cause: str) -> None:
        """An advertisement will not come from elsewhere after all."""

    def answered(self, link: Link, number: int) -> None:
        """The neighbour has said what it wants of the announcements up to this number (see `absence`)."""

    # --- hops that come and go ----------------------------------------------------------------------

    def introduce(self, link: Link, cause: str) -> None:
        """Tell a neighbour that knows nothing all that it should know."""
        self.reconcile(link, cause)

    def reconcile(self, link: Link, cause: str) -> None:
        """Tell a neighbour what it lacks and what is void, whatever it has been told so far."""
        told, entries = link.subscriptions_told, self._subscription_handles.entries
        concerned = {
            e.handle: e
            for e in self.subscriptions.values()
            if self._is_told(e.hop, link) and self._concerns(link, e.interest)
        }
        lacks = [entry for handle, entry in concerned.items() if handle not in told]
        void = [entries[handle] for handle in told.candidates() if handle not in concerned]
        self._say_subscriptions(link, lacks, void, cause)

    def succeed(self, old: Link, new: Link) -> None:
        """What was presumed to be wanted by one neighbour is wanted by another from now on."""

    def forget(self, hop: Hop, cause: str) -> None:
        """Take out all that came from a hop, as if it had withdrawn it."""
        self._spares.forget(hop)
        for id_ in [id_ for other, id_ in self._second if other is hop]:
            self._drop_second(hop, id_)
        if isinstance(hop, Link):
            self.answered(hop, hop.announced)
        for entry in list(hop.expected.values()):
            self.stay(entry, cause)
        if hop.subscriptions:
            self._remove_subscriptions(list(hop.subscriptions.values()), cause)
        if hop.advertisements:
            self._remove_advertisements(list(hop.advertisements.values()), cause)

    def untell(self, link: Link) -> None:
        """What a neighbour has been told is void; the store forgets it, too."""
        if self._journal is not None:
            for kind, id_ in self._told(link):
                self._journal.delete("told", link.name, kind, id_)

    def _told(self, link: Link) -> list[tuple[str, str]]:
        """Kinds and ids of what a neighbour has been told, and is still there."""
        found = []
        for told, table, kind in (
            (link.subscriptions_told, self.subscriptions, "sub"),
            (link.advertisements_told, self.advertisements, "adv"),
        ):
            ids = {entry.handle: entry.id for entry in table.values()}
            found += [(kind, ids[handle]) for handle in told if handle in ids]
        return found

    # --- coming back from a store -------------------------------------------------------------------

    def restore_way(self, record: Any, asked: Mapping[str, int]) -> None:
        """Which way a router went, and who had asked for everything; before entries are."""

    def started(self, cause: str) -> None:
        """All that the store holds has been restored."""

    def restore_entry(self, hop: Hop, id_: str, interest: Interest, announcement: int) -> None:
        """An entry that the store holds; nobody is told."""
        if isinstance(interest, Subscription):
            self._add_subscription(hop, id_, interest)
        else:
            assert isinstance(interest, Advertisement)
            self._add_advertisement(hop, id_, interest, announcement)

    def restore_spare(
        self, kind: Kind, hop: Hop, id_: str, interest: Interest, announcement: int
    ) -> None:
        if isinstance(interest, Subscription):
            self._keep_second(hop, id_, interest)
        else:
            self._spares.keep(kind, id_, hop, interest, announcement)

    def restore_next(self, id_: str, hop: Hop, announcement: int) -> None:
        """An advertisement that was about to come from elsewhere; nobody is told."""

    def restore_told(
        self,
        link: Link,
        subscriptions: list[str],
        announcements: dict[str, int],  # noqa: ARG002
    ) -> None:
        """What a neighbour has been told, in the order in which it was."""
        # What was told goes first: of equal ones the poset takes the first for the others.
        first = [self.subscriptions[id_] for id_ in subscriptions]
        link.subscriptions_told.change([(e.handle, e.interest) for e in first])
        followers = [
            e
            for e in self.subscriptions.values()
            if self._is_told(e.hop, link)
            and e.handle not in link.subscriptions_told
            and self._concerns(link, e.interest)
        ]
        link.subscriptions_told.change([(e.handle, e.interest) for e in followers])
