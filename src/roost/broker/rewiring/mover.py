"""The broker whose link is moved. Whether it is, it decides: by switching.

    locked    open                -> opening     a link on standby is dialled, and told what the middle is
    opening   greeted             -> switched    (switched to the middle, told to the anchor): events take it
    switched  passed and told     -> done        (go with the first; done): what the middle told comes from
                                             the anchor
    done      over                -> -
    early     it takes long, or the middle has lost its memory: abandoned
    later     the middle or the anchor has lost its memory: forced, or back

All others stay as they are.
"""

from __future__ import annotations

from roost.broker.commands import Rewired, SetTimer
from roost.broker.detour import MoverDetour
from roost.broker.hops import Link
from roost.broker.messages import Rewire
from roost.broker.rewiring.party import Party
from roost.broker.rewiring.plan import ALONE, FORGOTTEN, PATIENCE_S, TIMER, Step, Steps

EARLY = ("locked", "opening")
LATER = ("switched", "done")


class Mover(Party):
    """A neighbour of the middle, and then of the anchor."""

    def steps(self) -> Steps:
        return {
            ("middle", "open"): Step(("locked",), self._open),
            ("middle", "abandon"): Step(EARLY, self._abandon),
            ("middle", "abandoned"): Step(EARLY, lambda _: self.let_go("anchor")),
            ("middle", "forgotten"): Step(LATER, self._middle_forgot),
            ("middle", "back"): Step(LATER, self._go_back),
            ("middle", "passed"): Step(("switched",), self._passed),
            ("anchor", "go"): Step(LATER, lambda _: self.may_go(self.link("anchor"))),
            ("anchor", "told"): Step(("switched",), self._told),
            ("anchor", "over"): Step(("done",), lambda _: self.close(self.link("middle"))),
        }

    def set_up(self) -> None:
        plan = self.plan
        if plan.stage == "locked":
            return
        middle, anchor = self.link("middle"), self.link("anchor")
        switched = plan.stage != "opening"
        anchor.standby = True
        anchor.withheld = "go" not in plan.heard
        anchor.follows = middle
        middle.standby = switched
        middle.closing = plan.stage == "done"
        self.ground.router.barred |= {(middle, anchor), (anchor, middle)}
        self.ground.exchange.detour = MoverDetour(middle, anchor, switched=switched)

    # --- the way of it ----------------------------------------------------------------------------------

    def _open(self, message: Rewire) -> None:
        address = message.about[0] if message.about else ""
        anchor = self.ground.add_link(self.name("anchor"), address, dials=True)
        self.enter("opening")
        self.ground.linked.introduce(anchor)

    def greeted(self, link: Link) -> None:
        if link.name != self.name("anchor"):
            return
        if ALONE in self.plan.heard:
            self._force(FORGOTTEN)
        elif self.plan.stage == "opening":
            self.enter("switched")
            self.say("middle", "switched", behind=True)
            side = self.ground.membership.side_of(link, self.link("middle"))
            self.say("anchor", "told", behind=True, about=side)

    def _passed(self, _: Rewire) -> None:
        self.say("anchor", "go")
        self._informed("passed")

    def _told(self, _: Rewire) -> None:
        self._informed("told")

    def _informed(self, of: str) -> None:
        self.enter("switched", of)
        if {"passed", "told"} <= {*self.plan.heard}:
            self.enter("done")
            self.succeed(self.link("middle"), self.link("anchor"))
            self.say("anchor", "done", behind=True)

    def ended(self, link: Link) -> bool:
        """The middle has heard first that it is over, and has closed its end."""
        if self.plan.stage != "done" or link.name != self.name("middle"):
            return False
        self.close(link)
        return True

    # --- what goes wrong --------------------------------------------------------------------------------

    def timer(self) -> None:
        if self.plan.stage == "locked":
            self.end()  # the middle will hear of it when it speaks again

    def _abandon(self, _: Rewire) -> None:
        self.say("middle", "abandoned")
        self.let_go("anchor")

    def _middle_forgot(self, _: Rewire) -> None:
        if self.link("anchor").greeted:
            self._force(FORGOTTEN)
        else:
            self.enter(self.plan.stage, ALONE)

    def begun_anew(self, link: Link) -> None:
        if link.name == self.name("middle"):
            if self.plan.stage in EARLY:
                self.let_go("anchor")
            else:
                self.say("middle", "well")
        elif self.plan.stage in LATER:
            self._force()

    def turned_away(self, link: Link) -> None:
        if link.name != self.name("anchor"):
            return
        middle = self.link("middle")
        if self.plan.stage == "opening":
            self.say("middle", "abandoned")
            self.let_go("anchor")
        elif ALONE in self.plan.heard:
            self.go_back(middle, link)
            self.let_go("anchor")
            self.ground.linked.begin_anew(middle)
        # Else the middle finds out, and says what is to become of it.

    def _go_back(self, _: Rewire) -> None:
        """The anchor has lost its memory."""
        middle = self.link("middle")
        self.go_back(middle, self.link("anchor"))
        self.let_go("anchor")
        self.ground.router.reconcile(middle, self.plan.cause)

    def _force(self, *about: str) -> None:
        """The new link is all there is: whoever is at the other ends of both is told so."""
        middle, anchor = self.link("middle"), self.link("anchor")
        self.say("anchor", "forced", about=about)
        self.ground.work.command(Rewired(self.plan.brokers))
        middle.standby = middle.closing = True
        self.say("middle", "ended", behind=True)
        self.take_along(middle, anchor)
        self.end()
        self.unsure(anchor)
        self.ground.work.command(SetTimer(TIMER, PATIENCE_S))
