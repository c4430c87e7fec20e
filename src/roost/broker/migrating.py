"""Moving the advertisements of a publisher to another broker, along the path only (000 section 3.3).

On a tree of brokers only those between the *source*, where the publisher is, and the *target* see a
difference: there the advertisement comes from the other side afterwards. So it is not withdrawn and made
again, which every broker would hear of; the brokers of the path turn it.

    client -> target    Migrate             the migration advertisement
    target ... source   MigrationUpdate     each broker expects the advertisement from the side that this
                                            came from, and tells that side the subscriptions it concerns
                                            (operation 3)
    source -> client    PausePlease
    client -> source    Paused              behind the last event that is published there
    source ... target   MigrationComplete   behind the same event on every link: each broker turns the
                                            advertisement (operation 1) and recalls from the other side the
                                            subscriptions that are of no use there any more (operation 2)
    target -> client    Migrated            go on

The paper's publisher pauses at the beginning. Here it goes on until the way is ready, so that it pauses for
one way along the path and not for two and a half. On each link the last event goes ahead of
`MigrationComplete`, and the subscriptions ahead of both: when that has come to the target, every
subscription that the source knew of is known there, and whatever is published there can overtake nothing.

**What goes wrong.** `MigrationComplete` is one token: it comes to the target, or it doesn't. A broker that
has lost its memory, or a session that is over, takes the advertisements that came, or were about to come,
from there with it by the ordinary rules (`Routing.forget`). If that strands a migration, the target tells
the client (`MigrationFailed`), who advertises anew where it is. A token that finds nobody to give the
advertisement to withdraws it on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roost.broker.advertisements import AdvertisementBased
from roost.broker.hops import Entry, Hop, Link, Session
from roost.broker.messages import (
    Message,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Paused,
    PausePlease,
    Unadvertise,
)


class Migrating:
    """The migrations that this broker has a part in."""

    def __init__(
        self,
        here: str,
        router: AdvertisementBased,
        tell: Callable[[Link | Session, Message], None],
        locked: Callable[[], bool] = lambda: False,
    ) -> None:
        self._locked = locked  # a link is being moved here
        self._here = here
        self._router = router
        self._tell = tell

    # --- at the target --------------------------------------------------------------------------------

    def begin(self, session: Session, message: Migrate) -> None:
        entries, objection = self._movable(message.advertisements, session)
        for id_ in message.advertisements:
            if id_.rpartition("/")[0] != session.client:  # see `naming`; the source looks closer
                objection = f"{id_!r} is not an advertisement of {session.client!r}"
        if session.permission is not None:
            for entry in entries:
                objection = objection or session.permission.objection_to_advertisement(
                    entry.interest  # type: ignore[arg-type]
                )
        if session.ending or objection:
            self._tell(session, MigrationFailed(objection or "the session is over"))
            return
        for entry in entries:
            self._router.expect(entry, session, 0, message.cause)
        first = entries[0].hop
        assert isinstance(first, Link)
        self._update(first, session.client, message.advertisements, (), message.cause)

    def _movable(self, ids: Iterable[str], to: Hop) -> tuple[list[Entry], str]:
        """The advertisements that are to come from another hop, and what speaks against it."""
        table = self._router.advertisements
        entries = [table[id_] for id_ in ids if id_ in table]
        if self._locked():
            return [], "a link is being moved here"
        if not entries or len(entries) < len(list(ids)):
            return [], "not all of these advertisements are known here"
        if any(entry.next is not None for entry in entries):
            return [], "one of these advertisements is migrating already"
        hops = {entry.hop.key for entry in entries}
        if len(hops) > 1 or entries[0].hop is to:
            return [], "these advertisements are not all at one other broker"
        if isinstance(to, Session) and not isinstance(entries[0].hop, Link):
            return [], "these advertisements are of this broker"
        return entries, ""

    def _update(
        self, link: Link, client: str, ids: tuple[str, ...], path: tuple[str, ...], cause: str
    ) -> None:
        """Tell the next broker on the way to the source."""
        number = link.number + 1  # no other announcement to it has had it
        path = (*path, self._here)
        self._tell(link, MigrationUpdate(client, ids, path, cause, number))

    def stranded(self, entry: Entry) -> None:
        """An advertisement is gone before it came from where it was expected: nor will the others come."""
        if isinstance(entry.next, Session):
            reason = "the advertisement was withdrawn on the way"
            self._tell(entry.next, MigrationFailed(reason))
            for other in list(entry.next.expected.values()):
                if other is not entry:
                    self._router.stay(other, reason)

    # --- on the way, and at the source ------------------------------------------------------------------

    def update(self, link: Link, message: MigrationUpdate) -> None:
        entries, objection = self._movable(message.advertisements, link)
        if objection:
            return  # a withdrawal is on the way to the target, or somebody asked twice
        source = entries[0].hop
        if isinstance(source, Session) and source.client != message.client:
            return  # somebody else's
        for entry in entries:
            self._router.expect(entry, link, message.announcement, message.cause)
        if isinstance(source, Link):
            ids = message.advertisements
            self._update(source, message.client, ids, message.path, message.cause)
        elif isinstance(source, Session):
            self._tell(source, PausePlease(message.cause))

    def paused(self, session: Session, message: Paused) -> None:
        """The last event is out."""
        entries = [entry for entry in session.advertisements.values() if entry.next is not None]
        if not entries:
            self._tell(session, MigrationFailed("the way to the target is gone"))
            return
        self._turn(entries, session.client, 0, message.cause)

    def complete(self, link: Link, message: MigrationComplete) -> None:
        table = self._router.advertisements
        turning = []
        for id_ in message.advertisements:
            entry = table.get(id_)
            if entry is not None and entry.hop is link and entry.next is not None:
                turning.append(entry)
                continue
            # Nobody here takes it over, and the neighbour no longer has it from where it was.
            if entry is not None and entry.hop is link:
                self._router.drop_advertisement(entry, message.cause)
            self._tell(link, Unadvertise(id_, message.cause, message.announcement))
        if turning:
            self._turn(turning, message.client, message.announcement, message.cause)

    def _turn(self, entries: list[Entry], client: str, announcement: int, cause: str) -> None:
        following: dict[tuple[Hop, int], list[str]] = {}
        for entry in entries:
            assert entry.next is not None
            following.setdefault((entry.next, entry.next_announcement), []).append(entry.id)
            self._router.turn(entry, announcement, cause)
        for (hop, number), ids in following.items():
            if isinstance(hop, Link):
                done = MigrationComplete(client, tuple(ids), cause, number)
                self._tell(hop, done)
            elif isinstance(hop, Session):
                self._tell(hop, Migrated())
