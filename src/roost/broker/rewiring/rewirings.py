"""The part that a broker has in rewirings: in one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from roost.broker.arbiter import URGENCIES, Proposal, link_between
from roost.broker.commands import Rewired, SetTimer
from roost.broker.errors import RemoteProtocolError
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.messages import ASKS_BACK, Rewire
from roost.broker.rewiring.anchor import Anchor
from roost.broker.rewiring.middle import Middle
from roost.broker.rewiring.mover import Mover
from roost.broker.rewiring.party import Ground, Party
from roost.broker.rewiring.plan import PATIENCE_S, ROLES, TIMER, Plan, Role

PARTIES: dict[Role, type[Party]] = {"middle": Middle, "mover": Mover, "anchor": Anchor}


class Rewirings:
    """Begins them, is asked to take part, and knows of those that others remember."""

    def __init__(self, identity: Identity, ground: Ground) -> None:
        self._identity = identity
        self._ground = ground
        self._links = ground.links
        self._begun = 0
        self._party: Party | None = None
        # Of one that we have forgotten: the anchor that we were told to dial.
        self._adopted: dict[str, tuple[str, ...]] = {}

    @property
    def now(self) -> Plan | None:
        """The one that it is part of. Then no other change of links, and no migration, may begin here."""
        return None if self._party is None else self._party.plan

    # --- asking for it --------------------------------------------------------------------------------

    def begin(self, mover: str, anchor: str, cause: str, urgency: str = "") -> str:
        """Have a neighbour become another's; why not, if it can't.

        `urgency`: of an optimiser, for which links rest that were moved lately (`arbiter`).
        """
        objection = self.objection_to(mover, anchor)
        if objection:
            self._ground.report("rewiring refused", mover, objection)
            return objection
        self._begun += 1
        # No other life has its name: so no other rewiring has this id.
        id_ = f"{self._identity.name}/{self._identity.life}/{self._begun}"
        brokers = (self._identity.name, mover, anchor)
        plan = Plan(id_, brokers, cause, "middle", "asking", urgency=urgency)
        self._take_part(plan).begin()
        return ""

    def objection_to(self, mover: str, anchor: str) -> str:
        """To moving a neighbour behind another one; "" if there is none."""
        here = self._identity.name
        for name in (mover, anchor):
            link = self._links.get(name)
            if link is None:
                return f"{name} is no neighbour of {here}"
            if not link.greeted or link.away:
                return f"{name} is away from {here}"
            if link.version < ASKS_BACK:
                return f"{name} is of a version that can't be rewired"
            if link.rank:
                return f"{name} is the {link.rank} of {here}, and stays where it is"
        if mover == anchor:
            return f"{mover} can't be a neighbour of itself"
        return self._objection()

    def _objection(self) -> str:
        here = self._identity.name
        if self.now is not None:
            return f"{here} is being rewired: {' - '.join(self.now.brokers)}"
        if self._ground.router.expected_entries:
            return f"a publisher is migrating past {here}"
        if any(link.withheld or link.closing for link in self._links.values()):
            return f"{here} has lost its memory, and its link has not moved yet"
        return ""

    def _take_part(self, plan: Plan) -> Party:
        self._party = PARTIES[plan.role](plan, self._ground, self._over)
        return self._party

    def _over(self) -> None:
        self._party = None

    # --- what others say ------------------------------------------------------------------------------

    def hear(self, link: Link, message: Rewire) -> None:
        """A neighbour speaks of a rewiring."""
        brokers = {*message.brokers}
        if len(message.brokers) != len(ROLES) or len(brokers) != len(ROLES):
            raise RemoteProtocolError(f"a rewiring of {message.brokers}; expected three brokers")
        if not {self._identity.name, link.name} <= brokers:
            raise RemoteProtocolError(
                f"a rewiring of {message.brokers}; expected us two among them"
            )
        if message.step == "ask":
            self._asked(link, message)
        elif self._party is not None and self._party.plan.id == message.id:
            self._party.hear(link, message)
        else:
            self._unknown(link, message)

    def _asked(self, link: Link, message: Rewire) -> None:
        here = self._identity.name
        role = ROLES[message.brokers.index(here)]
        objection = self._objection()
        if message.about and role == "mover":
            objection = objection or self._rests(link, message.about[0])
        if role == "middle" or link.name != message.brokers[0]:
            objection = f"{link.name} is not the middle of it"
        elif link.away:
            objection = f"{link.name} has not answered {here} yet"
        elif len(self._links.keys() & {*message.brokers}) > 1:
            objection = f"{here} is a neighbour of both already"
        if objection:
            self._answer(link, message, "refused", objection)
            return
        self._take_part(Plan(message.id, message.brokers, message.cause, role, "locked")).begin()
        self._answer(link, message, "granted")

    def _rests(self, link: Link, urgency: str) -> str:
        """Whether the link has been moved lately, as its other end may not know."""
        if urgency not in URGENCIES:
            raise RemoteProtocolError(f"an urgency {urgency!r}; expected one of {URGENCIES}")
        subject = link_between(link.name, self._identity.name)
        proposal = Proposal("", urgency, "rewire", (subject,), "")
        return self._ground.arbiter.objection_to(proposal, self._ground.work.now)

    def _unknown(self, link: Link, message: Rewire) -> None:
        """Of one that is over, or that somebody remembers and we don't."""
        here = self._identity.name
        middle, mover, anchor = message.brokers
        if here == anchor and message.step in ("switched", "well") and mover in self._links:
            self._answer(link, message, "over")  # and we have lost our memory since
        elif here == mover and message.step == "adopt" and link.name == middle and message.about:
            self._adopt(anchor, message.about[0])
            self._adopted[anchor] = message.brokers
            link.standby = link.closing = True
            self._answer(link, message, "ended", behind=True)
        elif here == anchor and message.step == "forced" and link.name == middle:
            if mover in self._links:
                return
            self._ground.linked.introduce(self._ground.add_link(mover, "", dials=False))
        elif here == mover and message.step == "go":
            self._may_go(link)
        elif message.step in ("switched", "well"):
            self._answer(link, message, "forgotten")
        elif message.step == "abandon":
            self._answer(link, message, "abandoned")
        elif message.step == "open":
            self._answer(link, message, "refused", "it took too long")
        elif message.step == "ended" and link.name == mover:
            self._ground.linked.remove(link, message.cause)  # it is a neighbour of another by now

    def _adopt(self, anchor: str, address: str) -> None:
        """The neighbour that we were to have before we lost our memory.

        What is for it waits until all has passed that we have sent to the middle meanwhile.
        """
        if anchor not in self._links:
            link = self._ground.add_link(anchor, address, dials=True)
            link.withheld = True
            self._ground.work.command(SetTimer(TIMER, PATIENCE_S))
            self._ground.linked.introduce(link)

    def _may_go(self, link: Link) -> None:
        if link.withheld:
            link.withheld = False
            self._ground.flow.go_on(link)

    def _answer(
        self, link: Link, message: Rewire, step: str, *about: str, behind: bool = False
    ) -> None:
        self._ground.tell(link, replace(message, step=step, behind=behind, about=about))

    # --- what happens to links --------------------------------------------------------------------------

    def _part_in(self, link: Link) -> Party | None:
        party = self._party
        return party if party is not None and link.name in party.plan.brokers else None

    def greeted(self, link: Link) -> None:
        """A neighbour is there."""
        party = self._part_in(link)
        if party is not None:
            party.greeted(link)
        elif link.name in self._adopted:
            self._ground.work.command(Rewired(self._adopted.pop(link.name)))

    def begun_anew(self, link: Link) -> None:
        """One of the two ends of a link has lost its memory."""
        party = self._part_in(link)
        if party is not None:
            party.begun_anew(link)
        elif link.closing:
            self._ground.tell(link, self._ended(link))
        elif link.name in self._ground.freed:
            self._ground.tell(link, self._ground.freed.pop(link.name))

    def _ended(self, link: Link) -> Rewire:
        """What was said before, on a link that had one end too few since."""
        brokers = (link.name, self._identity.name, "")
        return Rewire("", "ended", brokers, "it has moved", behind=True)

    def removed(self, link: Link, cause: str) -> None:
        """A link is no more."""
        for other in self._links.values():
            if other.follows is link:
                # What was withdrawn there meanwhile was not withdrawn here.
                other.follows = None
                self._ground.router.reconcile(other, cause)
        party = self._part_in(link)
        if party is not None:
            party.removed(link)

    def turned_away(self, link: Link) -> None:
        """The neighbour that was dialled says that we are none."""
        party = self._part_in(link)
        if link.closing and link.standby:
            if party is None or not party.ended(link):
                self._ground.linked.remove(link, "it has ended the link")
        elif party is not None:
            party.turned_away(link)
        elif link.withheld:
            self._return_from(link)

    def _return_from(self, adopted: Link) -> None:
        """It has lost its memory, too: we are where we were."""
        self._adopted.pop(adopted.name, None)
        self._ground.linked.remove(adopted, "it does not know us")
        for old in self._links.values():
            if old.closing:
                old.standby = old.closing = False
                self._ground.linked.begin_anew(old)

    def timer(self) -> None:
        """Nothing has come of it yet."""
        if self._party is not None:
            self._party.timer()
            return
        for link in list(self._links.values()):
            self._may_go(link)  # nobody is left who could say so
            if link.closing and not link.greeted:
                self._ground.linked.remove(link, "nobody is there to end it")

    def restore(self, record: Sequence[object]) -> None:
        """Back to what the store says; links are there, and nothing else yet."""
        id_, brokers, cause, role, stage, heard, urgency = record
        plan = Plan(id_, tuple(brokers), cause, role, stage, tuple(heard), urgency)  # type: ignore[arg-type]
        self._take_part(plan).resume()
