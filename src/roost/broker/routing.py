"""The routing tables, and who has to be told what when they change (001 section 2.1.3).

Two tables: advertisements and subscriptions, each entry with the hop that it came from. An event goes
to the hops whose subscriptions it matches, except back over the link that it came by. A neighbour is
told

    an advertisement    that did not come from it;
    a subscription      that did not come from it and, unless subscriptions flood, overlaps an advertisement
                        that did;

less what is covered, when covering is on (`told`). Every operation changes a table, works out the
difference that makes to what each neighbour should have been told, and says that: announcements first,
withdrawals after. Nothing else is ever sent, so a table always equals what the neighbours' tables say
it should be, as soon as everything has arrived; the checkers compare it with tables that are computed
from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from roost.broker.demands import demands_of, meets
from roost.broker.hops import Hop, Link
from roost.broker.journal import Journal
from roost.broker.messages import (
    Advertise,
    Message,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roost.broker.spares import Kind, Spares
from roost.language import Advertisement, Event, Interest, Subscription
from roost.matching import Index, OverlapIndex

Tell = Callable[[Link, Message], None]

# Up to so many advertisements of a client are looked at one by one.
FEW = 8


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


class Handles:
    """Entries by handle; a handle that is free again is used again, so that a list is enough."""

    __slots__ = ("_free", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._free: list[int] = []

    def new(self, id_: str, interest: Interest, hop: Hop) -> Entry:
        handle = self._free.pop() if self._free else len(self.entries)
        entry = Entry(id_, handle, interest, hop)
        if handle == len(self.entries):
            self.entries.append(entry)
        else:
            self.entries[handle] = entry
        return entry

    def free(self, entry: Entry) -> None:
        self._free.append(entry.handle)


class Routing:
    """The tables of one broker. `tell` sends a message to a neighbour."""

    def __init__(
        self,
        links: dict[str, Link],
        tell: Tell,
        *,
        flooding: bool,
        journal: Journal | None,
        stranded: Callable[[Entry], None],
        announced: Callable[[Link], None],
    ) -> None:
        self._links = links
        self._tell = tell
        self._stranded = stranded  # an advertisement is gone before it came from where it was to
        self._announced = announced  # a neighbour was told of an advertisement
        self._flooding = flooding
        self._journal = journal
        # Neighbours that get every event, whoever wants it; see `absence`.
        self.greedy: Sequence[Link] = ()
        self.subscriptions: dict[str, Entry] = {}
        self.advertisements: dict[str, Entry] = {}
        self._index = Index()
        self._subscription_handles = Handles()
        self._advertisement_handles = Handles()
        # For a new advertisement: which subscriptions it concerns.
        self._wanted = OverlapIndex()
        # For an event of a client: the advertisements of all clients here.
        self._offered = Index()
        self._spares = Spares(journal)
        self._visit = 0  # the number of the last event

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
            if not isinstance(hop, Link):
                hop.matched = entry.ids
                local.append(hop)
            elif hop is not source:
                links.append(hop)
        return links, local

    @property
    def spare_entries(self) -> int:
        """How many ids are known from a second side: none, once everything has settled."""
        return len(self._spares)

    @property
    def expected_entries(self) -> int:
        """How many advertisements are about to come from elsewhere: none, once everything has settled."""
        return sum(entry.next is not None for entry in self.advertisements.values())

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
                self._spares.keep("sub", id_, hop, subscription, 0)
                return
            if there.interest == subscription:
                return
            self._remove_subscriptions([there], cause)
        entry = self._add_subscription(hop, id_, subscription)
        for link in self._links.values():
            if link is not hop and self._concerns(link, subscription):
                self._say_subscriptions(link, [entry], [], cause)

    def unsubscribe(self, hop: Hop, id_: str, cause: str) -> None:
        """A hop withdraws a subscription; one that is not there is no matter."""
        entry = self.subscriptions.get(id_)
        if entry is not None and entry.hop is hop:
            self._remove_subscriptions([entry], cause)
        else:
            self._spares.drop("sub", id_, hop, 0)

    def _add_subscription(self, hop: Hop, id_: str, subscription: Subscription) -> Entry:
        entry = self._subscription_handles.new(id_, subscription, hop)
        self.subscriptions[id_] = hop.subscriptions[id_] = entry
        self._index.add(entry.handle, subscription)
        if not self._flooding:
            self._wanted.add(entry.handle, subscription)
        if self._journal is not None:
            self._journal.put("sub", id_, value=(*hop.key, subscription, 0))
        return entry

    def _remove_subscriptions(self, entries: Sequence[Entry], cause: str) -> None:
        for entry in entries:
            del self.subscriptions[entry.id], entry.hop.subscriptions[entry.id]
            self._index.remove(entry.handle)
            if not self._flooding:
                self._wanted.remove(entry.handle)
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
                self.subscribe(hop, entry.id, interest, cause)

    def _concerns(self, link: Link, subscription: Interest) -> bool:
        """Whether events for this subscription may come from that neighbour."""
        return self._flooding or link.advertises.any_overlapping(subscription)

    def _say_subscriptions(
        self, link: Link, add: Sequence[Entry], remove: Sequence[Entry], cause: str
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
            self._tell(link, Unsubscribe(entry.id, cause))
            if self._journal is not None:
                self._journal.delete("told", link.name, "sub", entry.id)

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
        entry = self._add_advertisement(hop, id_, advertisement, announcement)
        if self._flooding:
            return
        for link in self._links.values():
            if link is not hop:
                self._say_advertisements(link, [entry], [], cause)
        if isinstance(hop, Link):
            self._follow(hop, advertisement, cause)

    def _follow(self, link: Link, advertisement: Advertisement, cause: str) -> None:
        """Tell a neighbour the subscriptions that an advertisement from there concerns."""
        entries = self._subscription_handles.entries
        told = link.subscriptions_told
        follow = [
            entries[handle]
            for handle in self._wanted.overlapping(advertisement)
            if entries[handle].hop is not link and handle not in told
        ]
        self._say_subscriptions(link, follow, [], cause)

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
        if not self._flooding:
            for link in self._links.values():
                told = link.advertisements_told
                self._say_advertisements(link, [], [e for e in entries if e.handle in told], cause)
            if isinstance(hop, Link):
                self._recall(hop, entries, cause)
        for entry in entries:
            self._advertisement_handles.free(entry)
        for entry in entries:
            spare = self._spares.next("adv", entry.id)
            if spare is not None:
                other, interest, announcement = spare
                assert isinstance(interest, Advertisement)
                self.advertise(other, entry.id, interest, cause, announcement)

    def _recall(self, link: Link, gone: Iterable[Entry], cause: str) -> None:
        """Withdraw from a neighbour the subscriptions that followed only these advertisements."""
        concerned = {handle: None for e in gone for handle in self._wanted.overlapping(e.interest)}
        entries = self._subscription_handles.entries
        told = link.subscriptions_told
        recalled = [
            entries[handle]
            for handle in concerned
            if handle in told and not link.advertises.any_overlapping(entries[handle].interest)
        ]
        self._say_subscriptions(link, [], recalled, cause)

    # --- advertisements that come from elsewhere (000 section 3.3) -----------------------------------

    def expect(self, entry: Entry, hop: Hop, announcement: int, cause: str) -> None:
        """An advertisement is about to come from another hop: that is told what it concerns (operation 3).

        The hop that it comes from now still is, too: events may come from either.
        """
        entry.next = hop
        entry.next_announcement = announcement
        hop.expected[entry.id] = entry
        if self._journal is not None:
            self._journal.put("next", entry.id, value=(*hop.key, announcement))
        if isinstance(hop, Link):
            assert isinstance(entry.interest, Advertisement)
            hop.advertises.add(entry.handle, entry.interest)
            self._follow(hop, entry.interest, cause)

    def stay(self, entry: Entry, cause: str) -> None:
        """It will not come from there after all."""
        hop = self._expected_no_more(entry)
        if isinstance(hop, Link):
            hop.advertises.remove(entry.handle)
            self._recall(hop, [entry], cause)

    def turn(self, entry: Entry, announcement: int, cause: str) -> None:
        """It comes from there now (operation 1), and no longer from where it came (operation 2).

        The neighbours on both sides turn too, so they are not told. `announcement` is the number under which
        the one that it came from has it from us.
        """
        old, new = entry.hop, self._expected_no_more(entry)
        del old.advertisements[entry.id]
        new.advertisements[entry.id] = entry
        entry.hop = new
        if isinstance(new, Link):
            self._say_advertisements(new, [], [entry], cause, known=entry)
        else:
            self._offered.add(entry.handle, entry.interest)
        self._note(entry, entry.next_announcement)
        if isinstance(old, Link):
            old.advertises.remove(entry.handle)
            self._say_advertisements(old, [entry], [], cause, known=entry, number=announcement)
            self._recall(old, [entry], cause)
        else:
            self._offered.remove(entry.handle)

    def _expected_no_more(self, entry: Entry) -> Hop:
        hop = entry.next
        assert hop is not None
        entry.next = None
        del hop.expected[entry.id]
        if self._journal is not None:
            self._journal.delete("next", entry.id)
        return hop

    def drop_advertisement(self, entry: Entry, cause: str) -> None:
        """Its hop has it from us, or from nobody: take it out."""
        self._remove_advertisements([entry], cause)

    def _say_advertisements(
        self,
        link: Link,
        add: Sequence[Entry],
        remove: Sequence[Entry],
        cause: str,
        *,
        known: Entry | None = None,
        number: int = 0,
    ) -> None:
        """`known`: the neighbour knows already what becomes of this one, under that number if it is added."""
        if not add and not remove:
            return
        announce, withdraw = link.advertisements_told.change(
            [(e.handle, e.interest) for e in add], [e.handle for e in remove]
        )
        entries = self._advertisement_handles.entries
        for entry in (entries[handle] for handle in announce):
            assert isinstance(entry.interest, Advertisement)
            if entry is known:
                link.announcements[entry.id] = number
            else:
                # The number of the message that carries it: nothing else has had it on this channel.
                link.announcements[entry.id] = number = link.number + 1
                self._tell(link, Advertise(entry.id, entry.interest, cause, number))
                self._presume(link, entry.interest, number)
            if self._journal is not None:
                record = link.announcements[entry.id]
                self._journal.put("told", link.name, "adv", entry.id, value=record)
        for entry in (entries[handle] for handle in withdraw):
            announcement = link.announcements.pop(entry.id)
            if entry is not known:
                self._tell(link, Unadvertise(entry.id, cause, announcement))
            if self._journal is not None:
                self._journal.delete("told", link.name, "adv", entry.id)
        if known is not None and add and known.handle not in announce:
            self._tell(link, Unadvertise(known.id, cause, number))  # it is covered there

    # --- advertisements that have not been answered (see `absence`) ----------------------------------

    def _presume(self, link: Link, advertisement: Advertisement, number: int) -> None:
        """Until the neighbour has answered, it may want all of this."""
        entry = self._subscription_handles.new("", advertisement, link)
        self._index.add(entry.handle, advertisement)
        link.presumed.setdefault(number, []).append(entry)
        link.announced = number
        self._announced(link)

    def answered(self, link: Link, number: int) -> None:
        """What the neighbour wants of the announcements up to this number it has said."""
        for announcement in [n for n in link.presumed if n <= number]:
            for entry in link.presumed.pop(announcement):
                self._index.remove(entry.handle)
                self._subscription_handles.free(entry)

    # --- hops that come and go ----------------------------------------------------------------------

    def introduce(self, link: Link, cause: str) -> None:
        """Tell a neighbour that knows nothing all that it should know."""
        if not self._flooding:
            self._say_advertisements(
                link, [e for e in self.advertisements.values() if e.hop is not link], [], cause
            )
        concerned = [
            e
            for e in self.subscriptions.values()
            if e.hop is not link and self._concerns(link, e.interest)
        ]
        self._say_subscriptions(link, concerned, [], cause)

    def forget(self, hop: Hop, cause: str) -> None:
        """Take out all that came from a hop, as if it had withdrawn it."""
        self._spares.forget(hop)
        if isinstance(hop, Link):
            self.answered(hop, hop.announced)
        for entry in list(hop.expected.values()):
            self.stay(entry, cause)
        if hop.subscriptions:
            self._remove_subscriptions(list(hop.subscriptions.values()), cause)
        if hop.advertisements:
            self._remove_advertisements(list(hop.advertisements.values()), cause)

    # --- coming back from a store -------------------------------------------------------------------

    def restore_entry(self, hop: Hop, id_: str, interest: Interest, announcement: int) -> None:
        """An entry that the store holds; nobody is told."""
        if isinstance(interest, Subscription):
            self._add_subscription(hop, id_, interest)
        else:
            assert isinstance(interest, Advertisement)
            self._add_advertisement(hop, id_, interest, announcement)

    def restore_next(self, id_: str, hop: Hop, announcement: int) -> None:
        """An advertisement that was about to come from there; nobody is told."""
        entry = self.advertisements[id_]
        entry.next, entry.next_announcement = hop, announcement
        hop.expected[id_] = entry
        if isinstance(hop, Link):
            hop.advertises.add(entry.handle, entry.interest)

    def restore_spare(
        self, kind: Kind, hop: Hop, id_: str, interest: Interest, announcement: int
    ) -> None:
        self._spares.keep(kind, id_, hop, interest, announcement)

    def restore_told(
        self, link: Link, subscriptions: list[str], announcements: dict[str, int]
    ) -> None:
        """What a neighbour has been told, in the order in which it was."""
        link.announcements.update(announcements)
        for id_, number in sorted(announcements.items(), key=lambda item: item[1]):
            interest = self.advertisements[id_].interest
            assert isinstance(interest, Advertisement)
            self._presume(link, interest, number)
        # What was told goes first: of equal ones the poset takes the first for the others.
        for told, table, ids in (
            (link.subscriptions_told, self.subscriptions, subscriptions),
            (link.advertisements_told, self.advertisements, list(announcements)),
        ):
            first = [table[id_] for id_ in ids]
            told.change([(e.handle, e.interest) for e in first])
        followers = [
            e
            for e in self.subscriptions.values()
            if e.hop is not link
            and e.handle not in link.subscriptions_told
            and self._concerns(link, e.interest)
        ]
        link.subscriptions_told.change([(e.handle, e.interest) for e in followers])
        if not self._flooding:
            rest = [
                e
                for e in self.advertisements.values()
                if e.hop is not link and e.handle not in link.advertisements_told
            ]
            link.advertisements_told.change([(e.handle, e.interest) for e in rest])
