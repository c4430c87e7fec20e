"""Routing by advertisements: subscriptions go only where events for them may come from (001 section 2.1.3).

A neighbour is told

    an advertisement    that did not come from it;
    a subscription      that did not come from it and overlaps an advertisement that did;

less what is covered, when covering is on. An advertisement may turn from one hop to another without being
withdrawn (000 section 3.3), and one that a neighbour has not answered is presumed to be wanted there
(`absence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from roost.broker.hops import Entry, Hop, Link
from roost.broker.journal import Journal
from roost.broker.messages import Advertise, Unadvertise
from roost.broker.router import Flooding, Strategy, Tell
from roost.language import Advertisement, Event, Filter, Interest, Operator
from roost.matching import OverlapIndex


class AdvertisementBased(Flooding):
    """Subscriptions follow advertisements back."""

    strategy: ClassVar[Strategy] = Strategy(advertises=True)

    def __init__(
        self,
        links: Mapping[str, Link],
        tell: Tell,
        journal: Journal | None,
        *,
        stranded: Callable[[Entry], None] = lambda _: None,
        announced: Callable[[Link], None] = lambda _: None,
    ) -> None:
        super().__init__(links, tell, journal, stranded=stranded, announced=announced)
        # For a new advertisement: which subscriptions it concerns.
        self._wanted = OverlapIndex()

    # --- what a strategy decides ----------------------------------------------------------------------

    def objection_to(self, hop: Hop, event: Event) -> str:
        return "" if self.offered(hop, event) else "no advertisement of this client covers it"

    @property
    def routes_plainly(self) -> bool:
        return self._routes_like(AdvertisementBased)

    def _concerns(self, link: Link, subscription: Interest) -> bool:
        if link.advertises.any_overlapping(subscription):
            return True
        return link.follows is not None and link.follows.advertises.any_overlapping(subscription)

    def _wanted_more(self, entry: Entry) -> None:
        self._wanted.add(entry.handle, entry.interest)

    def _wanted_no_more(self, entry: Entry) -> None:
        self._wanted.remove(entry.handle)

    def _advertised(self, entry: Entry, cause: str) -> None:
        hop = entry.hop
        for link in self._links.values():
            if self._is_told(hop, link):
                self._say_advertisements(link, [entry], [], cause)
        if isinstance(hop, Link):
            assert isinstance(entry.interest, Advertisement)
            self._follow(hop, entry.interest, cause)

    def _unadvertised(self, hop: Hop, entries: Sequence[Entry], cause: str) -> None:
        for link in self._links.values():
            told = link.advertisements_told
            self._say_advertisements(link, [], [e for e in entries if e.handle in told], cause)
        if isinstance(hop, Link):
            self._recall(hop, entries, cause)

    def _follow(self, link: Link, advertisement: Advertisement, cause: str) -> None:
        """Tell a neighbour the subscriptions that an advertisement from there concerns."""
        entries = self._subscription_handles.entries
        told = link.subscriptions_told
        follow = [
            entries[handle]
            for handle in self._wanted.overlapping(advertisement)
            if self._is_told(entries[handle].hop, link) and handle not in told
        ]
        self._say_subscriptions(link, follow, [], cause)

    def _recall(self, link: Link, gone: Iterable[Entry], cause: str) -> None:
        """Withdraw from a neighbour the subscriptions that followed only these advertisements."""
        concerned = {handle: None for e in gone for handle in self._wanted.overlapping(e.interest)}
        entries = self._subscription_handles.entries
        told = link.subscriptions_told
        recalled = [
            entries[handle]
            for handle in concerned
            if handle in told and not self._concerns(link, entries[handle].interest)
        ]
        self._say_subscriptions(link, [], recalled, cause)

    def _change_hop(self, entry: Entry, hop: Hop, announcement: int, cause: str) -> None:
        assert isinstance(entry.interest, Advertisement)
        old = entry.hop
        super()._change_hop(entry, hop, announcement, cause)
        for link in self._links.values():
            told, wanted = entry.handle in link.advertisements_told, self._is_told(hop, link)
            if wanted != told:
                change = ([entry], []) if wanted else ([], [entry])
                self._say_advertisements(link, *change, cause)
        # Subscriptions go where it comes from now, ahead of being recalled from where it came.
        if isinstance(hop, Link):
            self._follow(hop, entry.interest, cause)
        if isinstance(old, Link):
            self._recall(old, [entry], cause)

    @property
    def expected_entries(self) -> int:
        """How many advertisements are about to come from elsewhere: none, once everything has settled."""
        return sum(entry.next is not None for entry in self.advertisements.values())

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
        self._advertisement_handles.move(entry, new)
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
            if entry is not known and not link.closing:
                self._tell(link, Unadvertise(entry.id, cause, announcement))
            if self._journal is not None:
                self._journal.delete("told", link.name, "adv", entry.id)
        if known is not None and add and known.handle not in announce:
            self._tell(link, Unadvertise(known.id, cause, number))  # it is covered there

    # --- advertisements that have not been answered (see `absence`) ----------------------------------

    def _presume(self, link: Link, advertisement: Advertisement, number: int) -> None:
        """Until the neighbour has answered, it may want all of this."""
        entry = self._subscription_handles.new("", advertisement, link)
        self._index.add(entry.handle, presumption_of(advertisement))
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
        self.reconcile(link, cause)

    def reconcile(self, link: Link, cause: str) -> None:
        told, entries = link.advertisements_told, self._advertisement_handles.entries
        wanted = {e.handle: e for e in self.advertisements.values() if self._is_told(e.hop, link)}
        lacks = [entry for handle, entry in wanted.items() if handle not in told]
        void = [entries[handle] for handle in told.candidates() if handle not in wanted]
        self._say_advertisements(link, lacks, void, cause)
        super().reconcile(link, cause)

    def succeed(self, old: Link, new: Link) -> None:
        if old.presumed:
            moved = [entry for entries in old.presumed.values() for entry in entries]
            old.presumed.clear()
            for entry in moved:
                self._subscription_handles.move(entry, new)
            new.announced = new.number
            new.presumed.setdefault(new.announced, []).extend(moved)
            self._announced(new)

    def restore_next(self, id_: str, hop: Hop, announcement: int) -> None:
        """An advertisement that was about to come from there; nobody is told."""
        entry = self.advertisements[id_]
        entry.next, entry.next_announcement = hop, announcement
        hop.expected[id_] = entry
        if isinstance(hop, Link):
            hop.advertises.add(entry.handle, entry.interest)

    def restore_told(
        self, link: Link, subscriptions: list[str], announcements: dict[str, int]
    ) -> None:
        link.announcements.update(announcements)
        for id_, number in sorted(announcements.items(), key=lambda item: item[1]):
            interest = self.advertisements[id_].interest
            assert isinstance(interest, Advertisement)
            self._presume(link, interest, number)
        super().restore_told(link, subscriptions, announcements)
        first = [self.advertisements[id_] for id_ in announcements]
        link.advertisements_told.change([(e.handle, e.interest) for e in first])
        rest = [
            e
            for e in self.advertisements.values()
            if self._is_told(e.hop, link) and e.handle not in link.advertisements_told
        ]
        link.advertisements_told.change([(e.handle, e.interest) for e in rest])


def presumption_of(advertisement: Advertisement) -> Advertisement:
    """Hardly more than it says, for a matcher that is to hold it for a moment.

    That an attribute is there at all nobody else may ask: the matcher would begin to look for it, and soon
    stop again, which takes it longer than all the rest.
    """
    return Advertisement(_compared(filter_) for filter_ in advertisement.filters)


def _compared(filter_: Filter) -> Filter:
    kept = [p for p in filter_.predicates if p.operator is not Operator.PRESENT]
    selects = any(p.operator is Operator.EQ for p in kept)
    return Filter(kept) if selects and len(kept) < len(filter_.predicates) else filter_
