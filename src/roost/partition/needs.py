"""When a subscription is in place: what a dispatcher and the others know that matchers have to have heard.

The changes of a dispatcher's subscriptions are numbered. A client that asks whether its subscriptions are in
place is told so when every other dispatcher knows the number that whoever matches has to have heard: each
question says those numbers, and a matcher that has heard less does not answer. So nobody waits for matchers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roost.broker.hops import Link
from roost.partition import notes
from roost.partition.departures import Keep


class Needs:
    """Of one dispatcher. `settled(session name, id)`: its client may be told so."""

    def __init__(
        self,
        name: str,
        others: Sequence[str],
        links: Mapping[str, Link],
        say: Callable[[Link, notes.Said], None],
        keep: Keep,
        settled: Callable[[str, str], None],
    ) -> None:
        self._name = name
        self._others = others
        self._links = links
        self._say = say
        self._keep = keep
        self._settled = settled
        self._epoch = ""
        self.marks: dict[str, notes.Mark] = {}  # of each, how much a matcher has to have heard
        self._known: dict[str, notes.Mark] = {}  # what the others have of ours
        # (session, id) -> the number that it waits for
        self._waiting: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        """How many clients wait."""
        return len(self._waiting)

    def begin(self, epoch: str, number: int) -> None:
        self._epoch = epoch
        self.marks[self._name] = (epoch, number)

    def restore(self, dispatcher: str, mark: Sequence[object]) -> None:
        self.marks[dispatcher] = (str(mark[0]), int(str(mark[1])))

    def restore_waiting(self, session: str, id_: str, number: int) -> None:
        self._waiting[session, id_] = number

    @property
    def complete(self) -> bool:
        """Whether it is known of all what has to be known."""
        return all(name in self.marks for name in self._others)

    def greeted(self, link: Link) -> None:
        self._say(link, notes.Need(self.marks[self._name]))

    def settle(self, session: str, id_: str, number: int) -> None:
        """A client asks, when so many changes have been told."""
        self._waiting[session, id_] = number
        self._keep("settle", session, id_, value=True)
        mark = self.marks[self._name] = (self._epoch, number)
        for name in self._others:
            if name in self._links and not self.has(name, mark):
                self._say(self._links[name], notes.Need(mark))
        self._confirm()

    def need(self, link: Link, need: notes.Need) -> None:
        """Another dispatcher says what has to be heard of it."""
        self.marks[link.name] = (need.mark[0], need.mark[1])
        self._keep("needs", link.name, value=self.marks[link.name])
        self._say(link, notes.Heard(need.mark))

    def heard(self, link: Link, heard: notes.Heard) -> None:
        """Another dispatcher knows."""
        self._known[link.name] = (heard.mark[0], heard.mark[1])
        self._confirm()

    def _confirm(self) -> None:
        for (session, id_), number in list(self._waiting.items()):
            mark = (self._epoch, number)
            if all(self.has(other, mark) for other in self._others):
                del self._waiting[session, id_]
                self._keep("settle", session, id_, value=None)
                self._settled(session, id_)

    def has(self, other: str, mark: notes.Mark) -> bool:
        """Whether another dispatcher knows."""
        epoch, number = self._known.get(other, ("", -1))
        return epoch == mark[0] and number >= mark[1]
