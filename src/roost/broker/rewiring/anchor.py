"""The broker that gets a link.

    locked     open               -> standby     (ready): the mover may come
    standby    switched           -> repeating   (go to the mover, repeated to the middle)
    repeating  passed and told    -> telling     (told to the middle): the mover is told what comes from there
    telling    told               -> told        (told): the middle is told what comes from the mover
    told       done, of the middle               (told to the mover)
    told       done, of the mover -> -           (over to both)
    early      it takes long, or the others have abandoned it
    later      forced -> -; or, if nobody else remembers it, after some time

The mover's link is one more; all others stay as they are.
"""

from __future__ import annotations

from roost.broker.commands import Rewired, SetTimer
from roost.broker.detour import AnchorDetour
from roost.broker.hops import Link
from roost.broker.messages import Rewire
from roost.broker.rewiring.party import Party
from roost.broker.rewiring.plan import ALONE, FORGOTTEN, PATIENCE_S, TIMER, Step, Steps

EARLY = ("locked", "standby")
LATER = ("repeating", "telling", "told")


class Anchor(Party):
    """A neighbour of the middle, and then also of the mover."""

    def steps(self) -> Steps:
        return {
            ("middle", "open"): Step(("locked",), self._open),
            ("middle", "abandoned"): Step(EARLY, lambda _: self.let_go("mover")),
            ("middle", "switched"): Step(("standby",), self._repeat),
            ("middle", "passed"): Step(("repeating",), lambda _: self._informed("passed")),
            ("mover", "told"): Step(("standby", "repeating"), self._told_by_mover),
            ("mover", "go"): Step(LATER, lambda _: self.may_go(self.link("mover"))),
            ("middle", "told"): Step(("telling",), self._told_by_middle),
            ("middle", "done"): Step(("told",), self._middle_is_done),
            ("mover", "done"): Step(("told",), self._mover_is_done),
            ("middle", "forgotten"): Step(("standby", *LATER), self._middle_forgot),
            ("mover", "forced"): Step(("standby", *LATER), self._forced),
            ("middle", "forced"): Step(LATER, self._forced),
        }

    def set_up(self) -> None:
        plan, barred = self.plan, self.ground.router.barred
        if plan.stage == "locked":
            return
        middle, mover = self.link("middle"), self.link("mover")
        mover.standby = True
        mover.withheld = "go" not in plan.heard
        barred.clear()
        if plan.stage in ("standby", "repeating"):
            barred.add((middle, mover))
        if plan.stage != "told":
            barred.add((mover, middle))
        repeats, passes = plan.stage != "standby", "passed" in plan.heard
        self.ground.exchange.detour = AnchorDetour(middle, mover, repeats=repeats, passes=passes)

    # --- the way of it ----------------------------------------------------------------------------------

    def _open(self, _: Rewire) -> None:
        mover = self.ground.add_link(self.name("mover"), "", dials=False)
        self.enter("standby")
        self.ground.linked.introduce(mover)
        self.say("middle", "ready")

    def _repeat(self, _: Rewire) -> None:
        self.enter("repeating")
        self.say("mover", "go")
        self.say("middle", "repeated", behind=True)

    def _told_by_mover(self, message: Rewire) -> None:
        self.ground.membership.moved(self.link("mover"), self.link("middle"), message.about)
        self._informed("told")

    def _informed(self, of: str) -> None:
        self.enter(self.plan.stage, of)
        if self.plan.stage == "repeating" and {"passed", "told"} <= {*self.plan.heard}:
            self.enter("telling")
            self.ground.router.reconcile(self.link("mover"), self.plan.cause)
            self.say("middle", "told")

    def _told_by_middle(self, _: Rewire) -> None:
        self.enter("told")
        self.ground.router.reconcile(self.link("middle"), self.plan.cause)
        self.say("middle", "told", behind=True)

    def _middle_is_done(self, _: Rewire) -> None:
        # Ahead of that it has told us what it wants of the mover's, and we the mover.
        self.say("mover", "told", behind=True)

    def _mover_is_done(self, _: Rewire) -> None:
        self.say("middle", "over")
        self.say("mover", "over")
        self.ground.work.command(Rewired(self.plan.brokers))
        self.moved()
        self.end()

    def end(self) -> None:
        mover = self.ground.links.get(self.name("mover"))
        if mover is not None:
            middle = self.ground.links.get(self.name("middle"))
            self.ground.membership.only_behind(mover, middle)
        super().end()

    # --- what goes wrong --------------------------------------------------------------------------------

    def timer(self) -> None:
        if self.plan.stage == "locked":
            self.end()  # the middle will hear of it when it speaks again
            return
        waits = self.plan.stage == "standby" or ALONE in self.plan.heard
        if waits and not self.link("mover").greeted:
            self.let_go("mover")  # which finds that out, if it comes after all

    def begun_anew(self, link: Link) -> None:
        if self.plan.stage == "locked":
            self.end()
        elif link is self.link("middle"):
            self.say("middle", "well")

    def _middle_forgot(self, _: Rewire) -> None:
        """The mover may know more, if it comes."""
        self.enter(self.plan.stage, ALONE)
        self.ground.work.command(SetTimer(TIMER, PATIENCE_S))

    def _forced(self, message: Rewire) -> None:
        """The middle has lost its memory, or the mover: the new link is all there is."""
        middle, mover = self.link("middle"), self.link("mover")
        self.take_along(middle, mover)
        self.say("mover", "go")
        self.ground.freed[mover.name] = self.saying("go")
        self.end()
        if FORGOTTEN in message.about:
            # We may not have noticed yet. What it told of the mover's side is the mover's to say from now on.
            self.ground.linked.begin_anew(middle)
            self.ground.router.forget(middle, self.plan.cause)
        for link in (middle, mover):
            self.ground.router.reconcile(link, self.plan.cause)
        self.unsure(mover)
