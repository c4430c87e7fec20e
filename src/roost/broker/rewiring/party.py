"""What all three brokers of a rewiring do alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs

from roost.broker.absence import Absence
from roost.broker.arbiter import Arbiter, link_between
from roost.broker.commands import CancelTimer, Report, SetTimer
from roost.broker.draining import Draining
from roost.broker.exchange import Exchange
from roost.broker.flow import Flow
from roost.broker.hops import Link
from roost.broker.links import Links
from roost.broker.membership import Membership
from roost.broker.messages import Message, Rewire
from roost.broker.names import Address
from roost.broker.pausing import Pausing
from roost.broker.rewiring.plan import PATIENCE_S, ROLES, TIMER, Plan, Role, Steps, publications
from roost.broker.router import Flooding
from roost.broker.work import Work


class Ground:
    """What of a broker a rewiring has to do with."""

    def __init__(
        self,
        work: Work,
        links: Mapping[str, Link],
        tell: Callable[[Link, Message], None],
        *,
        linked: Links,
        flow: Flow,
        pausing: Pausing,
        router: Flooding,
        exchange: Exchange,
        draining: Draining,
        absence: Absence,
        membership: Membership,
        arbiter: Arbiter,
        changed: Callable[[], None],
        rewired: Callable[[str, str, str], None],
    ) -> None:
        self.work = work
        self.links = links
        self.tell = tell
        self.linked = linked
        self.flow = flow
        self.pausing = pausing
        self.router = router
        self.exchange = exchange
        self.draining = draining
        self.absence = absence
        self.membership = membership
        self.arbiter = arbiter
        self.changed = changed  # the neighbours are others than before
        self.rewired = rewired  # at the middle: mover, anchor, and why not, if not
        # Neighbours that have lost their memory, and to which it was said that they may go on.
        self.freed: dict[str, Rewire] = {}

    def report(self, what: str, about: str, detail: str, level: str = "warning") -> None:
        self.work.command(Report(level, what, about, detail))

    def add_link(self, name: str, address: str, *, dials: bool) -> Link:
        """A new link, which nobody has been told anything over yet."""
        link = self.linked.new(name, dials)
        link.address = Address(address)
        link.keep()
        return link


class Party:
    """One of the three brokers. `over()` is called when it has no part in it any more."""

    def __init__(self, plan: Plan, ground: Ground, over: Callable[[], None]) -> None:
        self.plan = plan
        self.ground = ground
        self._over = over
        self._steps = self.steps()

    def steps(self) -> Steps:
        """What it does about what the others say."""
        return {}

    def begin(self) -> None:
        """From now on nothing else moves here."""
        self.resume()
        self.keep(self.plan)

    def resume(self) -> None:
        """The same, after a restart."""
        ground = self.ground
        ground.draining.hold()
        ground.absence.hold()
        ground.work.command(SetTimer(TIMER, PATIENCE_S))
        self.set_up()

    def hear(self, link: Link, message: Rewire) -> None:
        """What another one of the three says."""
        if link.name in self.plan.brokers:
            role = ROLES[self.plan.brokers.index(link.name)]
            step = self._steps.get((role, message.step))
            if step is not None and self.plan.stage in step.stages:
                step.do(message)

    # --- what happens ---------------------------------------------------------------------------------

    def greeted(self, link: Link) -> None:
        """A link of the three is up."""

    def begun_anew(self, link: Link) -> None:
        """One of its two ends has lost its memory, and with it what was said there."""

    def turned_away(self, link: Link) -> None:
        """The neighbour that was dialled says that we are none."""

    def removed(self, link: Link) -> None:  # noqa: ARG002
        """Somebody else has ended a link of the three: so is this."""
        self.end()

    def ended(self, link: Link) -> bool:  # noqa: ARG002
        """The other end of a link that is to go has gone: whether that is the end of it all."""
        return False

    def timer(self) -> None:
        """It takes long."""

    # --- the stage --------------------------------------------------------------------------------------

    def keep(self, plan: Plan) -> None:
        self.plan = plan
        journal = self.ground.work.journal
        if journal is not None:
            journal.put("rewiring", value=structs.astuple(plan))

    def enter(self, stage: str, *heard: str) -> None:
        """Go on to a stage, with all that it means for links, tables and events."""
        self.keep(self.plan.after(stage, *heard))
        self.set_up()

    def set_up(self) -> None:
        """Links, tables and events as this stage wants them."""

    def end(self) -> None:
        """It is over, one way or the other; whatever links there are, they are as any."""
        self._over()
        ground = self.ground
        if ground.work.journal is not None:
            ground.work.journal.delete("rewiring")
        ground.work.command(CancelTimer(TIMER))
        ground.exchange.detour = None
        ground.router.barred.clear()
        for link in ground.links.values():
            if link.standby and not link.closing:
                link.standby = link.withheld = False
                ground.absence.in_use(link)
                ground.flow.go_on(link)
        if self.plan.stage not in ("asking", "locked"):
            # Who is behind a link on standby nobody was told; and who has lost its memory meanwhile may
            # have said what was true before, to others, too.
            for link in ground.links.values():
                if link.greeted:
                    ground.membership.greeted(link)
        ground.draining.release()
        ground.absence.release()
        ground.changed()

    # --- the others -------------------------------------------------------------------------------------

    def name(self, role: Role) -> str:
        return self.plan.brokers[ROLES.index(role)]

    def link(self, role: Role) -> Link:
        """The link to one of the others. In stages in which there is none, nobody asks."""
        return self.ground.links[self.name(role)]

    def say(
        self, role: Role, step: str, *, behind: bool = False, about: tuple[str, ...] = ()
    ) -> None:
        self.ground.tell(self.link(role), self.saying(step, behind=behind, about=about))

    def saying(self, step: str, *, behind: bool = False, about: tuple[str, ...] = ()) -> Rewire:
        plan = self.plan
        return Rewire(plan.id, step, plan.brokers, plan.cause, behind, about)

    # --- links --------------------------------------------------------------------------------------------

    def may_go(self, link: Link) -> None:
        """What waits for the neighbour goes: all that took the other way has passed."""
        self.keep(self.plan.after(self.plan.stage, "go"))
        link.withheld = False
        self.ground.flow.go_on(link)

    def succeed(self, old: Link, new: Link) -> None:
        """All that came over the old link has come over the new one."""
        self.ground.router.succeed(old, new)
        old.closing = True
        self.ground.router.forget(old, self.plan.cause)

    def close(self, old: Link) -> None:
        """What is left of the old link goes, and with it the end has come."""
        self.ground.membership.moved(self.link("anchor"), old, ())
        self.moved()
        self.end()
        self.ground.linked.remove(old, self.plan.cause)

    def moved(self) -> None:
        """It is done, for whoever reads the log."""
        _, mover, anchor = self.plan.brokers
        self.ground.arbiter.arrived(link_between(mover, anchor), self.ground.work.now)
        self.ground.report("link moved", mover, f"to {anchor}: {self.plan.cause}", "info")

    def unsure(self, link: Link) -> None:
        """The link is in use, though the neighbour may not have told yet what is wanted there."""
        self.ground.absence.unsure(link, self.ground.work.now, self.plan.cause)

    def let_go(self, standby: Role) -> None:
        """It is abandoned: without the link on standby, if there is one."""
        link = self.ground.links.get(self.name(standby))
        if link is not None and link.standby:
            self._over()  # so that nobody takes this for a fault
            self.ground.linked.remove(link, self.plan.cause)
        self.end()

    def take_along(self, old: Link, new: Link) -> None:
        """What waits for the one that has lost its memory may be for the other: ahead of what is."""
        if new.withheld:
            there = {(m.publisher, m.sequence) for m, _ in publications(new)}
            kept = [p for p in publications(old) if (p[0].publisher, p[0].sequence) not in there]
            new.channel.data.push_ahead(kept)

    def go_back(self, old: Link, new: Link) -> None:
        """What waits for the new neighbour takes the old link again."""
        for message, hops in publications(new):
            self.ground.flow.tell(old, message, hops)
        old.standby = old.closing = False
