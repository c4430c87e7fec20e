"""Neighbours that are away, or have not answered yet: what is kept for them, and for how long.

An event goes where somebody wants it, as far as this broker knows. Of a neighbour that is away it does not
know: clients behind it subscribe meanwhile, and of an advertisement made meanwhile the neighbour has not
heard. So three rules, which together make that an event which was accepted misses nobody:

1. **Who is away may want anything.** From the moment at which a link is lost, every event is kept for the
   neighbour, in its outbox. Brokers further away have to send us everything for that: we tell all other
   neighbours (`Wants`), and so do they, each with the path behind which somebody is away: whoever finds
   itself on it has heard its own word in a circle. It ends when the neighbour is back and has *answered*:
   an `Inquiry` went to it behind all that had waited, and its `Answer` came behind all that it had to say.
2. **Who has not answered an advertisement may want all of it.** What it announces is *presumed* to be
   wanted by each neighbour that is told, until that one has answered. A broker answers when those behind it
   have.
3. **What was asked for has settled** when it is known to all that can be reached, and those that can't are
   away long enough (`absence_grace_s`) for the brokers behind them to keep everything, by rule 1: so
   nothing is missed that is published there, either. The grace has to be longer than it takes both ends of
   a link to notice that it is lost, and a word to cross the federation.

An inquiry is answered for all that came ahead of it on its link, so an answer may stand for several. What is
under way when a link is lost need not be remembered: the greeting begins with another inquiry.

    away        everything is kept; the link is lost, or new, or we have just started
      greeted -> inquiring      the waiting messages go out, and an inquiry behind them
      answer  -> present        it gets what it wants, and what is presumed
    any         the link is lost -> away

A neighbour of the version before knows no inquiries. It is asked by a marker, as if a client there waited
for its requests (`draining`), and hears of nobody that is away behind us.

What nobody has asked for is kept up to a bound (`spare_max`), so that a neighbour that never comes back
costs no more than that. Beyond it the broker *gives up*, and says so: a subscription that is made over
there from then on misses what is published here until both have met again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from roost.broker.commands import CancelTimer, Command, Report, SetTimer
from roost.broker.draining import SETTLE, marker_id
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.messages import (
    ASKS_BACK,
    Answer,
    Inquiry,
    Marker,
    MarkerEcho,
    Message,
    Wants,
)

# Timers, with the name of the neighbour behind it: it has been away for the time of grace.
TIMER = "absence"


class Question(Struct, eq=False):
    """An inquiry of a neighbour that waits for others: for each, the number up to which it has to answer."""

    asker: Link
    number: int
    cause: str
    waiting: dict[Link, int]


class Absence:
    """Who is away, who has not answered, and who is asked."""

    def __init__(
        self,
        identity: Identity,
        links: Mapping[str, Link],
        *,
        tell: Callable[[Link, Message], None],
        command: Callable[[Command], None],
        greedy: Callable[[Sequence[Link]], None],
        answered: Callable[[Link, int], None],
        excused: Callable[[Link], None],
        passes: Callable[[Link, Link], bool],
        grace_s: float,
    ) -> None:
        self._here = identity.name
        self._life = f"{identity.name}/{identity.life}"
        self._links = links
        self._tell = tell
        self._command = command
        self._greedy = greedy  # these get every event from now on
        self._answered = answered  # a neighbour has answered all announcements up to this number
        self._excused = excused  # what settles waits for it no longer
        self._passes = passes  # whether what comes from the one goes on to the other
        self._grace_s = grace_s
        self._greedy_links: list[Link] = []
        self._questions: list[Question] = []
        self._holds = False  # while a link is moved
        # Neighbours that were told of advertisements, and that no inquiry has followed for.
        self.due: dict[Link, None] = {}

    # --- away and back ------------------------------------------------------------------------------

    def away(self, link: Link, now: float) -> None:
        """The link is lost, or has just been made."""
        if not link.away:
            link.away = True
            link.away_since = now
        link.gave_up = link.excused = False
        link.wants_path = ()
        link.markers.clear()
        self._command(SetTimer(f"{TIMER}:{link.name}", self._grace_s))
        self._questions = [q for q in self._questions if q.asker is not link]
        self._changed(f"{link.name} is away")
        # They hear of it first, and of our answer behind.
        self._wait_no_more(link)

    def greeted(self, link: Link) -> None:
        """The neighbour is there. What waits for it goes out ahead of this."""
        self._command(CancelTimer(f"{TIMER}:{link.name}"))
        link.excused = link.gave_up = False
        # What we had last told it may stand in its way yet: it is told again in any case.
        link.told_path = None
        cause = f"{link.name} is back"
        self._changed(cause)
        self._inquire(link, cause)

    def gone(self, link: Link) -> None:
        """No longer a neighbour."""
        self._command(CancelTimer(f"{TIMER}:{link.name}"))
        self.due.pop(link, None)
        self._questions = [q for q in self._questions if q.asker is not link]
        self._changed(f"{link.name} is no neighbour any more")
        self._wait_no_more(link)

    def timer(self, name: str) -> None:
        """It has been away for the time of grace. One that is dialled, and says nothing, is away as well."""
        link = self._links.get(name)
        if link is not None and link.away and not link.greeted:
            link.excused = True
            self._excused(link)

    def give_up(self, link: Link) -> None:
        """More waits for it than is kept without its asking."""
        link.gave_up = True
        waiting = link.channel.data.sent - link.channel.data.acked
        detail = f"{waiting:,} events wait for it; what it has not asked for is kept no longer"
        self._command(Report("warning", "neighbour given up", link.name, detail))
        self._changed(f"{link.name} is away for too long")

    def refuse(self, link: Link) -> None:
        """Nothing is kept for it, and nobody waits for it: it must not be a neighbour just now."""
        if link.away:
            link.gave_up = True
            if not link.excused:
                link.excused = True
                self._excused(link)
            self._changed(f"{link.name} is refused")

    def _present(self, link: Link, number: int) -> None:
        link.away = False
        self._answered(link, number)
        self._changed(f"{link.name} has answered")

    # --- who wants everything -----------------------------------------------------------------------

    def wants(self, link: Link, message: Wants) -> None:
        # What comes back in a circle, while links are moved, is our own word.
        link.wants_path = () if self._here in message.path else message.path
        self._changed(message.cause)

    def _path(self, link: Link) -> tuple[str, ...]:
        """The way from here to somebody who wants everything, other than that neighbour."""
        for other in self._greedy_links:
            if (
                self._passes(link, other)
                and other is not link.follows
                and other.follows is not link
            ):
                return (self._here, *other.wants_path)
        return ()

    def _changed(self, cause: str) -> None:
        """Tell whoever has to know that everything is wanted here, or no longer."""
        self._greedy_links = [link for link in self._links.values() if link.greedy]
        self._greedy(self._greedy_links)
        for link in self._links.values():
            if link.greeted and link.version >= ASKS_BACK:
                path = self._path(link)
                if path != link.told_path:
                    link.told_path = path
                    self._tell(link, Wants(path, cause))

    # --- asking -------------------------------------------------------------------------------------

    def inquire(self) -> None:
        """Ask those who were told of advertisements whether all is answered."""
        due, self.due = self.due, {}
        for link in due:
            if link.greeted and link.announced > link.inquired:
                self._inquire(link, "an advertisement")

    def _inquire(self, link: Link, cause: str) -> None:
        link.inquired = link.number
        if link.version >= ASKS_BACK:
            self._tell(link, Inquiry(link.inquired, cause))
        else:
            id_ = marker_id(self._life, link.inquired, SETTLE, link.name, "")
            link.markers[id_] = link.inquired
            self._tell(link, Marker(id_, cause))

    def echo(self, link: Link, echo: MarkerEcho) -> bool:
        """Whether it was the answer of a neighbour of the version before."""
        number = link.markers.pop(echo.id, None)
        if number is None:
            return False
        self.answer(link, Answer(number, echo.cause))
        return True

    def answer(self, link: Link, message: Answer) -> None:
        if link.away:
            if message.number != link.inquired:
                return  # of an earlier greeting: what it has said since is still on the way
            if link.announced > link.inquired:
                # It was told more since. Others were answered that they need not wait for it, as everything
                # is wanted: so it is until it has answered that, too.
                self._inquire(link, message.cause)
                return
            self._present(link, message.number)
        else:
            self._answered(link, message.number)
        link.answered = max(link.answered, message.number)
        for question in self._questions:
            if question.waiting.get(link, message.number + 1) <= message.number:
                del question.waiting[link]
        self._answer_those_who_can_be()

    # --- being asked --------------------------------------------------------------------------------

    def inquiry(self, link: Link, message: Inquiry) -> None:
        waiting: dict[Link, int] = {}
        for other in self._links.values():
            # Of those who are away it knows: we have told it that everything is wanted.
            if self._passes(link, other) and not other.away and other.announced > other.answered:
                waiting[other] = other.announced
                if other.announced > other.inquired:
                    self._inquire(other, message.cause)
        self._questions.append(Question(link, message.number, message.cause, waiting))
        self._answer_those_who_can_be()

    def hold(self) -> None:
        """A link is about to be moved: what neighbours are presumed to want, they are until it has been."""
        self._holds = True

    def release(self) -> None:
        """Those who are behind a neighbour now may have been behind another when the question came."""
        self._holds = False
        for question in self._questions:
            for link in self._links.values():
                if (
                    self._passes(question.asker, link)
                    and not link.away
                    and link.announced > link.answered
                ):
                    question.waiting[link] = link.announced
        self.due.update(
            (link, None) for link in self._links.values() if link.announced > link.inquired
        )
        self._changed("a link has moved")
        self._answer_those_who_can_be()

    def in_use(self, link: Link) -> None:
        """It was on standby, and has been told all there is: it wants what it has said."""
        if link.greeted:
            link.away = False
            self._command(CancelTimer(f"{TIMER}:{link.name}"))

    def unsure(self, link: Link, now: float, cause: str) -> None:
        """It is in use before it has told all that it wants: everything goes there until it has."""
        if link.greeted:
            link.away, link.away_since = True, now
            link.told_path = None
            self._changed(cause)
            self._inquire(link, cause)

    def _wait_no_more(self, link: Link) -> None:
        for question in self._questions:
            question.waiting.pop(link, None)
        self._answer_those_who_can_be()

    def _answer_those_who_can_be(self) -> None:
        if not self._questions or self._holds:
            return
        ready = [q for q in self._questions if not q.waiting]
        self._questions = [q for q in self._questions if q.waiting]
        for question in ready:
            if question.asker.greeted:
                self._tell(question.asker, Answer(question.number, question.cause))
