"""The broker that loses a link, and whose idea it was.

    asking    granted, twice      -> opening     (open to the anchor)
    opening   ready               -> open        (open to the mover)
    open      switched            -> switched    (switched to the anchor)
    switched  repeated            -> retired     (passed to both): what is for the mover goes to the anchor
    retired   told                -> closing     (told): what came from the mover is withdrawn from the anchor
    closing   told                -> done        (done): what came from the mover comes from the anchor
    done      over                -> -
    early     refused, or it takes long: abandoned
    later     the anchor has lost its memory -> back -> -

All others stay as they are.
"""

from __future__ import annotations

from roost.broker.commands import CancelTimer
from roost.broker.detour import MiddleDetour
from roost.broker.hops import Link
from roost.broker.messages import Rewire
from roost.broker.rewiring.party import Party
from roost.broker.rewiring.plan import TIMER, Step, Steps

EARLY = ("asking", "opening", "open")
LATER = ("switched", "retired", "closing", "done")
# The anchor has lost its memory, and it is not known yet what of the new link is left.
DOUBT = "doubt"
# The mover has.
FORGOTTEN = "forgotten"


class Middle(Party):
    """A neighbour of both others."""

    def steps(self) -> Steps:
        return {
            ("mover", "granted"): Step(("asking",), self._granted_by_mover),
            ("anchor", "granted"): Step(("asking",), self._granted_by_anchor),
            ("mover", "refused"): Step(EARLY, self._refused_by_mover),
            ("anchor", "refused"): Step(EARLY, self._refused_by_anchor),
            ("anchor", "ready"): Step(("opening",), self._ready),
            ("mover", "switched"): Step(EARLY, self._mover_switched),
            ("anchor", "repeated"): Step(("switched",), self._anchor_repeats),
            ("anchor", "told"): Step(("retired", "closing"), self._told),
            ("anchor", "over"): Step(LATER, self._is_over),
            ("mover", "ended"): Step(LATER, self._mover_ends),
            ("mover", "abandoned"): Step(EARLY, self._mover_abandons),
            ("mover", "forgotten"): Step((*EARLY, *LATER), self._mover_forgot),
            ("anchor", "forgotten"): Step(LATER, self._anchor_forgot),
        }

    def begin(self) -> None:
        super().begin()
        about = (self.plan.urgency,) if self.plan.urgency else ()
        self.say("mover", "ask", about=about)
        self.say("anchor", "ask", about=about)

    def over(self, objection: str) -> None:
        """It is, one way or the other, for whoever wanted it."""
        self.ground.rewired(self.name("mover"), self.name("anchor"), objection)

    def set_up(self) -> None:
        if self.plan.stage in ("retired", "closing", "done"):
            mover, anchor = self.link("mover"), self.link("anchor")
            mover.standby = True
            mover.closing = self.plan.stage != "retired"
            forgotten = FORGOTTEN in self.plan.heard
            self.ground.exchange.detour = MiddleDetour(mover, anchor, forgotten=forgotten)
            if mover.closing:
                self.ground.router.barred.add((mover, anchor))

    # --- the way of it ----------------------------------------------------------------------------------

    def _granted_by_mover(self, _: Rewire) -> None:
        self._granted("mover")

    def _granted_by_anchor(self, _: Rewire) -> None:
        self._granted("anchor")

    def _granted(self, role: str) -> None:
        self.enter("asking", role)
        if {"mover", "anchor"} <= {*self.plan.heard}:
            self.enter("opening")
            self.say("anchor", "open")

    def _ready(self, _: Rewire) -> None:
        self.enter("open")
        self.say("mover", "open", about=(self.link("anchor").address,))

    def _mover_switched(self, _: Rewire) -> None:
        self.enter("switched")
        self.ground.work.command(CancelTimer(TIMER))
        self.say("anchor", "switched", behind=True)

    def _anchor_repeats(self, _: Rewire) -> None:
        self.enter("retired")
        self.say("mover", "passed", behind=True)
        self.say("anchor", "passed", behind=True)

    def _told(self, _: Rewire) -> None:
        if self.plan.stage == "retired":
            self.enter("closing")
            self.ground.router.reconcile(self.link("anchor"), self.plan.cause)
            self.say("anchor", "told", behind=True)
        else:
            self.enter("done")
            self.succeed(self.link("mover"), self.link("anchor"))
            self.say("anchor", "done", behind=True)

    def _is_over(self, _: Rewire) -> None:
        self._finish()

    def ended(self, link: Link) -> bool:
        """The mover has closed its end before we have heard that it may."""
        if self.plan.stage != "done" or link.name != self.name("mover"):
            return False
        self._finish()
        return True

    def _finish(self) -> None:
        self._certain()
        self.over("")
        self.close(self.link("mover"))

    # --- what goes wrong --------------------------------------------------------------------------------

    def removed(self, link: Link) -> None:
        self.over(f"the link to {link.name} has been ended")
        super().removed(link)

    def _refused_by_mover(self, message: Rewire) -> None:
        self.ground.report("rewiring refused", self.name("mover"), " ".join(message.about))
        self.say("anchor", "abandoned")
        self.over(" ".join(message.about))
        self.end()

    def _refused_by_anchor(self, message: Rewire) -> None:
        self.ground.report("rewiring refused", self.name("anchor"), " ".join(message.about))
        self.say("mover", "abandoned")
        self.over(" ".join(message.about))
        self.end()

    def timer(self) -> None:
        if self.plan.stage == "asking":
            self.ground.report("rewiring abandoned", self.name("mover"), "somebody does not answer")
            self.say("mover", "abandoned")
            self.say("anchor", "abandoned")
            self.over("somebody does not answer")
            self.end()
        elif self.plan.stage in EARLY:
            self.say("mover", "abandon")

    def _mover_abandons(self, _: Rewire) -> None:
        self.ground.report("rewiring abandoned", self.name("mover"), self.plan.cause)
        self.say("anchor", "abandoned")
        self.over("the mover has abandoned it")
        self.end()

    def _mover_forgot(self, message: Rewire) -> None:
        if self.plan.stage in EARLY:
            self._mover_abandons(message)
            return
        # What is for it waits at the anchor, and comes behind what we have for it.
        self.say("mover", "adopt", behind=True, about=(self.link("anchor").address,))

    def _mover_ends(self, message: Rewire) -> None:
        """Behind all that it had for us: so the anchor may have what it has for the anchor."""
        self.say("anchor", "forced", behind=True)
        self._is_over(message)

    def _anchor_forgot(self, _: Rewire) -> None:
        mover = self.link("mover")
        self.ground.report("rewiring abandoned", self.name("anchor"), "it has lost its memory")
        self.keep(self.plan.after("back"))
        self.ground.exchange.detour = None
        self.ground.router.barred.clear()
        self.go_back(mover, self.link("anchor"))
        self.ground.linked.begin_anew(mover)

    def begun_anew(self, link: Link) -> None:
        early, anchor = self.plan.stage in EARLY, self.link("anchor")
        if link is anchor and not early:
            # Whether its events are for the mover has to be known first.
            self.keep(self.plan.after(self.plan.stage, DOUBT))
        if self.plan.stage == "back":
            if link is not anchor:
                self.say("mover", "back")
                self._certain()
                self.over("the anchor has lost its memory")
                self.end()
        elif link is not anchor:
            if not early:
                self.enter(self.plan.stage, FORGOTTEN)
            self.say("mover", "well")
        elif not early:
            self.say("anchor", "well")

    def greeted(self, link: Link) -> None:
        if DOUBT in self.plan.heard and link is self.link("anchor"):
            assert link.connection is not None
            self.ground.pausing.hold(link.connection)

    def _certain(self) -> None:
        anchor = self.link("anchor")
        if anchor.connection is not None:
            self.ground.pausing.release(anchor.connection)
