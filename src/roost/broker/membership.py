"""Who is behind which link, so that no link closes a circle and no two brokers have one name.

Links form a tree, and every rule of routing stands on that. (Where some form a mesh, in which nothing goes
on from one peer to another, *behind* a link is whoever events come from by it; see `hierarchy`.) Whoever
writes the settings of two dozen brokers may err. So each broker knows the names of those behind each of its
links: neighbours tell each other, at a greeting all of them, and from then on what changes (`Members`).

    a greeting       of a broker that is behind another link: refused, with the reason; it is the younger link
    Members          of somebody who is behind another link, or is called as we are: two links have come up at
                     the same time, or another broker has that name. The younger of the two links is closed

Who is away is still there: a link that is lost is expected back. Only one that is taken out takes those
behind it along.

**While a link moves** (`rewiring`) three brokers are a circle, by intent: one of its links is on standby, and
closes none. Nobody is told who is behind such a link, and nothing is told over it; when it is over, all
three tell their neighbours all of it anew.

**Trails.** That somebody is gone is known ahead of the last of their events, which may wait in a queue. If
a new link led to them at once, these would go round by it, ahead of earlier ones that their own side has not
had yet, and those would be taken for duplicates. So behind all data follows a note, the *trail* of that news,
broker by broker, each passing it on when it has it from where the news came; until then who is gone can't be
a neighbour.

    Members(gone)   -> not behind that link; what they published may still come by it
    trail           -> all of that has come
    a greeting      -> its trail comes behind all that was on the way, whatever trails got lost meanwhile
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roost.broker.hops import Link, Trail
from roost.broker.identity import Identity
from roost.broker.messages import ASKS_BACK, Members, Message, Note
from roost.broker.trails import Trails

# What such a refusal says.
CIRCLE = "would close a circle"
STILL_COME = "still come"
# The name in which trails are told: no module has it, so that earlier versions pass over them.
MEMBERS = "/members"


class Membership:
    """The brokers of the federation, by the link that they are behind."""

    def __init__(
        self,
        identity: Identity,
        links: Mapping[str, Link],
        *,
        tell: Callable[[Link, Message], None],
        close: Callable[[Link, str], None],
        passes: Callable[[Link, Link], bool],
        enabled: bool,
    ) -> None:
        self._here = identity.name
        self._links = links
        self._tell = tell
        self._close = close  # a link, and why
        self._passes = passes  # whether what comes from the one goes on to the other
        self._enabled = enabled
        self._trails = Trails(identity.life, links, self._pay)

    def objection_to(self, link: Link) -> str:
        """To that neighbour's greeting; "" if nothing is known against it."""
        if not self._enabled or link.standby:
            return ""
        other = self._link_to(link.name, but=link)
        if other is not None:
            return self._reason(link.name, other)
        if any(link.name in trail.gone for trail in self._trails.open(but=link)):
            return (
                f"events of {link.name}'s side that took another way {STILL_COME} to {self._here}"
            )
        return ""

    def greeted(self, link: Link) -> None:
        """The neighbour is there: it is told of everybody on our side."""
        if self._enabled and link.version >= ASKS_BACK and not link.standby:
            trail = self._trails.owe(link, self._trails.open(but=link))
            self._tell(link, Members(True, self.side_of(link), (), trail))
            self._trails.pay_what_can_be()

    def _pay(self, link: Link, trail: str) -> None:
        self._tell(link, Note(MEMBERS, trail.encode(), "of who is gone", behind=True))

    def trail(self, link: Link, name: bytes) -> None:
        """All events have come from the neighbour that came ahead of this news from it."""
        self._trails.passed(link, name.decode(errors="replace"))

    def side_of(self, *links: Link) -> tuple[str, ...]:
        """Those who are here, and not behind these neighbours."""
        names = [self._here]
        for other in self._links.values():
            if other.standby or not other.joined:
                continue
            if all(self._passes(other, link) for link in links):
                names += (other.name, *other.behind)
        return tuple(names)

    def moved(self, new: Link, old: Link, names: tuple[str, ...]) -> None:
        """Some, or all, who were behind one neighbour are behind another. To others it is no news."""
        if not self._enabled:
            return
        gone = names or (old.name, *old.behind)
        new.behind = {name: None for name in (*new.behind, *gone) if name != new.name}
        new.joined = True
        old.behind = {name: None for name in old.behind if name not in gone}
        if not names:
            old.joined = False

    def gone(self, link: Link) -> None:
        """No longer a neighbour, or not to be one: those behind it are not behind it."""
        if not self._enabled:
            return
        self._trails.ended(link)
        if link.joined:
            names = (link.name, *link.behind)
            link.behind, link.joined = {}, False
            self._pass_on(link, (), names, [])

    def told(self, link: Link, message: Members) -> None:
        """The neighbour says who is behind it."""
        if not self._enabled:
            return
        for name in message.added:
            if name == link.name:
                continue
            other = self._link_to(name, but=link)
            if other is not None and not other.greeted:
                # There is no circle, and there will be none: it is looked at when it greets.
                other.behind.pop(name, None)
                continue
            if not link.standby and (name == self._here or other is not None):
                younger = link if other is None else max(link, other, key=lambda x: x.greeted_at)
                rival = other if younger is link else link
                self._close(younger, self._reason(name, rival))
                if younger is link:
                    return
        added = {name: None for name in message.added if name not in (link.name, self._here)}
        was = {} if message.complete else link.behind
        now = {name: None for name in (*was, *added) if name not in message.gone}
        before, link.behind, link.joined = link.behind, now, True
        # The neighbour itself is news to the others when it first greets.
        first = (link.name,) if message.complete else ()
        gone = tuple(name for name in before if name not in now)
        waits = []
        if message.trail:  # those of an earlier version leave none
            waits = [self._trails.heard(link, message.trail, gone, greeting=message.complete)]
        self._pass_on(link, (*first, *(name for name in now if name not in before)), gone, waits)

    def _pass_on(
        self, source: Link, added: tuple[str, ...], gone: tuple[str, ...], waits: Sequence[Trail]
    ) -> None:
        if source.standby or not (added or gone):
            return
        for link in self._links.values():
            there = link.greeted and link.version >= ASKS_BACK and not link.standby
            if there and self._passes(source, link):
                trail = self._trails.owe(link, waits) if gone else ""
                self._tell(link, Members(False, added, gone, trail))
        self._trails.pay_what_can_be()

    def _link_to(self, name: str, *, but: Link) -> Link | None:
        """The link that a broker is behind, or at the other end of, if that is known.

        While a link is moved three brokers are a circle, and know it: one of its links is on standby.
        """
        for link in self._links.values():
            if link is but or link.standby or not link.joined:
                continue
            if name == link.name or name in link.behind:
                return link
        return None

    def elsewhere(self, link: Link) -> Link | None:
        """The neighbour that a broker is behind with whom we have never spoken, though it is our neighbour.

        Such a link is one that was moved away while we had lost our store: nobody is at its other end.
        """
        if link.greeted or link.standby or link.peer_life or not link.excused:
            return None
        if link.unmet:
            return None  # it was made to join what is behind it, which has not gone from there yet
        other = self._link_to(link.name, but=link)
        return other if other is not None and other.greeted else None

    def only_behind(self, link: Link, middle: Link | None) -> None:
        """Who is behind this neighbour is behind no other, whatever was said while it was moved here.

        If it has not said yet who that is: they were behind the one that it came from.
        """
        there = {link.name, *link.behind}
        for other in self._links.values():
            if other is not link:
                other.behind = {name: None for name in other.behind if name not in there}
        if middle is not None and not link.joined:
            middle.behind = {}

    def _reason(self, name: str, other: Link | None) -> str:
        if other is None:
            return f"there is another broker called {name!r}; expected one of each name"
        where = f"{name} is behind {other.name}" if name != other.name else f"{name} is a neighbour"
        return (
            f"{where} of {self._here} already: this link {CIRCLE}, or there are two brokers"
            f" called {name}"
        )
