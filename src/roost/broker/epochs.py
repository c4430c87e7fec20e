"""Which of two nodes speaks for a broker, as those know it who have talked to either.

A broker may have a standby, which goes on as that broker when it fails (`overlay.twin`). Whoever speaks for
it says its *epoch* when it greets. A neighbour, or a client, that has heard of an epoch takes no word of an
earlier one: that node does not know what the later one has said since. It is told so, and so learns that
its time is over.
"""

from __future__ import annotations

from roost.broker.commands import Report, Superseded
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.messages import Attach, LinkHello
from roost.broker.names import IS_SUPERSEDED
from roost.broker.work import Work


class Epochs:
    """The fence, from both sides."""

    def __init__(self, identity: Identity, work: Work) -> None:
        self._identity = identity
        self._work = work

    def objection_to_neighbour(self, link: Link, hello: LinkHello) -> str:
        """To one that is not, or no longer, who speaks for its broker; or that knows we do not for ours."""
        if hello.known_epoch > self._identity.epoch:
            return self._superseded(hello.known_epoch)
        if hello.epoch < link.epoch:
            return f"epoch {hello.epoch} of {link.name} {IS_SUPERSEDED}{link.epoch}"
        return ""

    def objection_to_client(self, greeting: Attach) -> str:
        """To a client that knows somebody else to speak for us."""
        if greeting.broker == self._identity.name and greeting.epoch > self._identity.epoch:
            return self._superseded(greeting.epoch)
        return ""

    def turned_away(self, reason: str) -> None:
        """A neighbour has refused us: maybe for that."""
        _, said, epoch = reason.partition(IS_SUPERSEDED)
        if said and epoch.isdecimal() and int(epoch) > self._identity.epoch:
            self._superseded(int(epoch))

    def _superseded(self, epoch: int) -> str:
        here = self._identity
        what = f"epoch {here.epoch} of {here.name} {IS_SUPERSEDED}{epoch}"
        self._work.command(Report("error", "superseded", here.name, what))
        self._work.command(Superseded(epoch))
        return what

    def heard(self, link: Link, hello: LinkHello) -> None:
        """What a neighbour says of itself."""
        if (link.epoch, link.beside) != (hello.epoch, hello.beside):
            link.epoch, link.beside = hello.epoch, hello.beside
            if self._work.journal is not None:
                self._work.journal.put("epoch", link.name, value=(link.epoch, link.beside))
