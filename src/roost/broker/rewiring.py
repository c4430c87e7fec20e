"""A link is moved: R = <middle, mover, anchor>, of which the middle is a neighbour of both others.

The link between the *middle* and the *mover* is replaced by one between the mover and the *anchor* (002
section 4.1), under traffic: nothing is lost, doubled or reordered, and no other broker notices.

    middle              mover               anchor
    ask       ->        granted   <-  ->    granted         all three are locked, or one refuses
    open      ->  ->  ->  ->  ->  ->  ->    ready           a link on standby: nobody dials
    open      ->        (dials)   ->  ->    (greets)
                        switches, and says `told`           its events wait for `go`
              <-        switched
    switched  ->  ->  ->  ->  ->  ->  ->    repeats
              <-  ->  ->  <-  <-  <-  <-    repeated, go    the mover's events come now, behind all old ones
    retires the link: passed to both
                        go        ->  ->    (the anchor's events for the mover come, behind all old ones)
              <-  <-  <-  <-  <-  <-  <-    told            once it has `passed`, and the mover has `told`
    told      ->  ->  ->  ->  ->  ->  ->    told
    done      ->  ->  ->  ->  ->  ->  ->    told            to the mover
                        done      ->  ->    over            to both: each closes its end of the old link

**Events** go on all the time. Each direction is switched behind a marker of the data class (`switched`,
`repeated`, `passed`): what takes the new way waits in its sender's outbox until all that took the old way has
passed. From then on, until the tables are right, the anchor repeats between the middle and the mover whatever
comes from the one or would be for it (`detour`).

**Tables.** The mover tells the anchor, at once, what it would tell the middle. When events have been
switched, the anchor tells the mover what it knows; the middle withdraws from the anchor what came from the
mover, so that the anchor has it from the mover only; the anchor tells the middle that. What a broker has from
two sides it keeps when one of them withdraws it (`router`), so nothing is ever gone. Then the middle and the
mover forget what they have from each other. What was presumed to be wanted over the old link is over the new
one.

**Markers and inquiries** of others are held while it goes on: see `draining` and `absence`. A client's
migration passes only when no link is being moved, and the other way round.

**What goes wrong.** Until the mover has switched, it may abandon, and then all do; from then on there is
only forward. Channels bring messages over cut links, and stores bring all three back from a crash. Of a
broker that has lost its memory nobody expects a marker any more:

    the mover     is told by the middle where it belongs (`adopt`): what is for it waits at the anchor
    the anchor    knows nothing of the new link: the middle and the mover go back to theirs (`back`), with
                  what waits for the anchor
    the middle    is told by the mover, when the new link is there, that the old one is over (`ended`). If it
                  can't be, because the anchor has lost its memory, too, the mover goes back
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct, structs
from msgspec.structs import replace

from roost.broker.absence import Absence
from roost.broker.commands import CancelTimer, Report, Rewired, SetTimer
from roost.broker.detour import AnchorDetour, MiddleDetour, MoverDetour
from roost.broker.draining import Draining
from roost.broker.exchange import Exchange
from roost.broker.flow import Flow
from roost.broker.hops import Link
from roost.broker.identity import Identity
from roost.broker.links import Links
from roost.broker.membership import Membership
from roost.broker.messages import ASKS_BACK, Message, Publication, Rewire
from roost.broker.names import Address
from roost.broker.pausing import Pausing
from roost.broker.router import Flooding
from roost.broker.work import Work

Role = Literal["middle", "mover", "anchor"]
# So long may it take until the mover has switched, or nobody has heard of it; see `timer`.
PATIENCE_S = 10.0
TIMER = "rewire"
# The middle has heard that the anchor has lost its memory, and not yet what of the new link is left.
DOUBT = "doubt"


class Rewiring(Struct, frozen=True):
    """One that this broker is part of."""

    id: str
    brokers: tuple[str, ...]  # the middle, the mover and the anchor
    cause: str
    role: Role
    stage: str
    heard: tuple[str, ...] = ()  # what has been said, where the order is open

    def after(self, stage: str, *heard: str) -> Rewiring:
        return replace(self, stage=stage, heard=(*self.heard, *heard))


class Rewirings:
    """The part that this broker has in moving links: in one at a time."""

    def __init__(
        self,
        identity: Identity,
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
    ) -> None:
        self._identity = identity
        self._work = work
        self._links = links
        self._tell = tell
        self._linked = linked
        self._flow = flow
        self._pausing = pausing
        self._router = router
        self._exchange = exchange
        self._draining = draining
        self._absence = absence
        self._membership = membership
        self._begun = 0
        self.now: Rewiring | None = None
        self._steps: dict[tuple[Role, str], Callable[[Rewiring, Link, Rewire], None]] = {
            ("middle", "granted"): self._granted,
            ("middle", "refused"): self._refused,
            ("middle", "ready"): self._ready,
            ("middle", "switched"): self._mover_switched,
            ("middle", "repeated"): self._anchor_repeats,
            ("middle", "told"): self._middle_told,
            ("middle", "over"): self._over,
            ("middle", "ended"): self._over,
            ("middle", "abandoned"): self._abandoned,
            ("middle", "well"): self._well,
            ("mover", "open"): self._open_to_anchor,
            ("mover", "abandon"): self._abandon_if_possible,
            ("mover", "abandoned"): self._middle_abandoned,
            ("mover", "back"): self._back,
            ("mover", "go"): self._go,
            ("mover", "passed"): self._mover_informed,
            ("mover", "told"): self._mover_informed,
            ("mover", "over"): self._over,
            ("anchor", "open"): self._open_to_mover,
            ("anchor", "abandoned"): self._let_go,
            ("anchor", "switched"): self._repeat,
            ("anchor", "go"): self._go,
            ("anchor", "passed"): self._passed,
            ("anchor", "told"): self._anchor_told,
            ("anchor", "done"): self._done,
            ("anchor", "forced"): self._forced,
        }

    @property
    def locked(self) -> bool:
        """Whether no other change of links, and no migration, may begin here."""
        return self.now is not None

    # --- asking for it --------------------------------------------------------------------------------

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
        if mover == anchor:
            return f"{mover} can't be a neighbour of itself"
        return self._objection()

    def _objection(self) -> str:
        here = self._identity.name
        if self.now is not None:
            return f"{here} is being rewired: {' - '.join(self.now.brokers)}"
        if self._router.expected_entries:
            return f"a publisher is migrating past {here}"
        return ""

    def begin(self, mover: str, anchor: str, cause: str) -> str:
        """Have a neighbour become another's; why not, if it can't."""
        objection = self.objection_to(mover, anchor)
        if objection:
            self._report("warning", "rewiring refused", mover, objection)
            return objection
        self._begun += 1
        # A life is a name that no other has had: so an id of a rewiring is never used again.
        id_ = f"{self._identity.name}/{self._identity.life}/{self._begun}"
        brokers = (self._identity.name, mover, anchor)
        self._lock(Rewiring(id_, brokers, cause, "middle", "asking"))
        self._say(mover, "ask")
        self._say(anchor, "ask")
        return ""

    def hear(self, link: Link, message: Rewire) -> None:
        """A neighbour speaks of a rewiring."""
        now = self.now
        if message.step == "ask":
            self._asked(link, message)
        elif now is None or now.id != message.id:
            self._unknown(link, message)
        else:
            step = self._steps.get((now.role, message.step))
            if step is not None:
                step(now, link, message)

    def _asked(self, link: Link, message: Rewire) -> None:
        here = self._identity.name
        roles: dict[str, Role] = {message.brokers[1]: "mover", message.brokers[2]: "anchor"}
        objection = self._objection()
        if here not in roles or link.name != message.brokers[0]:
            objection = f"{here} is not part of it"
        elif link.away:
            objection = f"{link.name} has not answered {here} yet"
        elif len(self._links.keys() & {*message.brokers}) > 1:
            objection = f"{here} is a neighbour of both already"
        if objection:
            self._answer(link, message, "refused", objection)
            return
        self._lock(Rewiring(message.id, message.brokers, message.cause, roles[here], "locked"))
        self._say(link.name, "granted")

    def _unknown(self, link: Link, message: Rewire) -> None:
        """Of one that is over, or that somebody remembers and we don't."""
        _, mover, anchor = message.brokers
        here = self._identity.name
        if here == anchor and message.step in ("switched", "well") and mover in self._links:
            self._answer(link, message, "over")  # and we have lost our memory since
        elif here == mover and message.step == "adopt":
            self._adopt(anchor, Address(message.about[0]), dials=True)
            self._work.command(Rewired(message.brokers))
            link.standby = link.closing = True
            self._answer(link, message, "ended")
        elif message.step in ("abandon", "switched", "well"):
            self._answer(link, message, "abandoned")
        elif message.step == "open":
            self._answer(link, message, "refused", "it took too long")
        elif message.step == "ended":
            self._linked.remove(link, message.cause)  # it is a neighbour of another one by now

    def _adopt(self, name: str, address: Address, *, dials: bool) -> None:
        """A neighbour that we had, or were to have, before we lost our memory."""
        if name not in self._links:
            link = self._linked.new(name, dials)
            link.address = address
            link.keep()
            self._linked.introduce(link)

    def _lock(self, rewiring: Rewiring) -> None:
        self._draining.hold()
        self._absence.hold()
        self._keep(rewiring)
        self._work.command(SetTimer(TIMER, PATIENCE_S))

    # --- the middle -----------------------------------------------------------------------------------

    def _granted(self, now: Rewiring, link: Link, _: Rewire) -> None:
        now = self._keep(now.after("asking", link.name))
        if {*now.brokers[1:]} <= {*now.heard}:
            self._keep(now.after("opening"))
            self._say(now.brokers[2], "open")

    def _refused(self, now: Rewiring, link: Link, message: Rewire) -> None:
        if now.stage in ("asking", "opening", "open"):
            self._report("warning", "rewiring refused", link.name, *message.about)
            for name in now.brokers[1:]:
                if name != link.name:
                    self._say(name, "abandoned")
            self._end()

    def _ready(self, now: Rewiring, _: Link, __: Rewire) -> None:
        if now.stage == "opening":
            self._keep(now.after("open"))
            self._say(now.brokers[1], "open", about=(self._links[now.brokers[2]].address,))

    def timer(self) -> None:
        """It takes long: the middle asks the mover to abandon it, as long as it can."""
        now = self.now
        if now is None:
            return
        mover = now.brokers[1]
        if now.stage == "locked":
            self._end()  # the middle will hear of it when it speaks again
        elif now.role == "middle" and now.stage == "asking":
            self._report(
                "warning", "rewiring abandoned", now.brokers[1], "somebody does not answer"
            )
            for name in now.brokers[1:]:
                self._say(name, "abandoned")
            self._end()
        elif now.role == "middle" and now.stage in ("opening", "open"):
            self._say(now.brokers[1], "abandon")
        elif now.role == "anchor" and now.stage == "standby" and not self._links[mover].greeted:
            self._let_go(now)  # the mover finds that out, if it comes after all

    def _abandoned(self, now: Rewiring, link: Link, _: Rewire) -> None:
        """The mover stays; or it, or the anchor, knows nothing of it any more."""
        mover, anchor = (self._links[name] for name in now.brokers[1:])
        self._report("warning", "rewiring abandoned", link.name, now.cause)
        if now.stage in ("asking", "opening", "open"):
            if link is mover:
                self._say(anchor.name, "abandoned")
                self._end()
        elif link is mover:
            # What is for it waits at the anchor: behind what it may yet have from us.
            self._say(mover.name, "adopt", behind=True, about=(anchor.address,))
            self._say(anchor.name, "forced")
        elif now.stage != "back":
            self._keep(now.after("back"))
            self._exchange.detour = None
            self._router.barred.clear()
            self._return(mover, anchor)

    def _well(self, now: Rewiring, mover: Link, _: Rewire) -> None:
        """The old link has begun anew, and the mover asks why."""
        if now.stage == "back":
            self._say(mover.name, "back")
            self._end()

    def _return(self, old: Link, new: Link) -> None:
        """What is for the other end takes the old link again, and both tell all anew."""
        for frame in list(new.channel.data.outbox):
            if type(frame.message) is Publication:
                self._flow.tell(old, frame.message, frame.hops)
        old.standby = old.closing = False
        self._linked.begin_anew(old)

    def _mover_switched(self, now: Rewiring, _: Link, __: Rewire) -> None:
        self._keep(now.after("switched"))
        self._work.command(CancelTimer(TIMER))
        self._say(now.brokers[2], "switched", behind=True)

    def _anchor_repeats(self, now: Rewiring, _: Link, __: Rewire) -> None:
        self._keep(now.after("retired"))
        self._set_up()
        for name in now.brokers[1:]:
            self._say(name, "passed", behind=True)

    def _middle_told(self, now: Rewiring, anchor: Link, _: Rewire) -> None:
        mover = self._links[now.brokers[1]]
        if now.stage == "retired":
            self._keep(now.after("closing"))
            self._set_up()
            self._router.reconcile(anchor, now.cause)
            self._say(anchor.name, "told", behind=True)
        elif now.stage == "closing":
            self._keep(now.after("done"))
            self._succeed(mover, anchor)
            self._say(anchor.name, "done", behind=True)

    # --- the mover ------------------------------------------------------------------------------------

    def _open_to_anchor(self, now: Rewiring, _: Link, message: Rewire) -> None:
        if now.stage == "locked":
            self._keep(now.after("opening"))
            self._open(now.brokers[2], Address(message.about[0]), dials=True)

    def greeted(self, link: Link) -> None:
        """The anchor is there: for the mover, that is the link on standby, and it switches."""
        now = self.now
        if now is None or link.name != now.brokers[2]:
            return
        if now.role == "middle" and DOUBT in now.heard:
            assert link.connection is not None
            self._pausing.hold(link.connection)
        elif now.role == "mover":
            self._mover_greeted(now, link)

    def _mover_greeted(self, now: Rewiring, link: Link) -> None:
        if "alone" in now.heard:
            self._force(now)
        elif now.stage == "opening":
            self._keep(now.after("switched"))
            self._set_up()
            self._say(now.brokers[0], "switched", behind=True)
            side = self._membership.side_of(link, self._links[now.brokers[0]])
            self._say(now.brokers[2], "told", behind=True, about=side)

    def _abandon_if_possible(self, now: Rewiring, link: Link, message: Rewire) -> None:
        if now.stage in ("locked", "opening"):
            self._let_go(now)
            self._answer(link, message, "abandoned")

    def _middle_abandoned(self, now: Rewiring, _: Link, __: Rewire) -> None:
        """The middle has not begun, or has lost its memory."""
        if now.stage in ("locked", "opening"):
            self._let_go(now)
        elif self._links[now.brokers[2]].greeted:
            self._force(now)
        else:
            self._keep(now.after(now.stage, "alone"))

    def _back(self, now: Rewiring, middle: Link, _: Rewire) -> None:
        """The anchor has lost its memory."""
        anchor = self._links[now.brokers[2]]
        kept = [f for f in anchor.channel.data.outbox if type(f.message) is Publication]
        middle.standby = middle.closing = False
        self._let_go(now)
        for frame in kept:
            self._flow.tell(middle, frame.message, frame.hops)
        self._router.reconcile(middle, now.cause)

    def _mover_informed(self, now: Rewiring, link: Link, message: Rewire) -> None:
        middle, _, anchor = now.brokers
        now = self._keep(now.after(now.stage, f"{message.step} {link.name}"))
        if message.step == "passed":
            self._say(anchor, "go")
        if {f"passed {middle}", f"told {anchor}"} <= {*now.heard}:
            self._keep(now.after("done"))
            self._succeed(self._links[middle], self._links[anchor])
            self._say(anchor, "done", behind=True)

    # --- the anchor -----------------------------------------------------------------------------------

    def _open_to_mover(self, now: Rewiring, _: Link, __: Rewire) -> None:
        if now.stage == "locked":
            self._keep(now.after("standby"))
            self._open(now.brokers[1], Address(""), dials=False)
            self._say(now.brokers[0], "ready")

    def _repeat(self, now: Rewiring, _: Link, __: Rewire) -> None:
        self._keep(now.after("repeating"))
        self._set_up()
        self._say(now.brokers[1], "go")
        self._say(now.brokers[0], "repeated", behind=True)

    def _passed(self, now: Rewiring, _: Link, __: Rewire) -> None:
        self._keep(now.after(now.stage, "passed"))
        self._set_up()
        self._tell_tables()

    def _anchor_told(self, now: Rewiring, link: Link, message: Rewire) -> None:
        middle, mover = (self._links[name] for name in now.brokers[:2])
        if link is mover:
            self._keep(now.after(now.stage, "told"))
            self._membership.moved(mover, middle, message.about)
            self._tell_tables()
        elif now.stage == "telling":
            self._keep(now.after("told"))
            self._set_up()
            self._router.reconcile(middle, now.cause)
            self._say(middle.name, "told", behind=True)

    def _tell_tables(self) -> None:
        now = self.now
        assert now is not None
        if now.stage == "repeating" and {"passed", "told"} <= {*now.heard}:
            self._keep(now.after("telling"))
            self._set_up()
            self._router.reconcile(self._links[now.brokers[1]], now.cause)
            self._say(now.brokers[0], "told")

    def _done(self, now: Rewiring, link: Link, _: Rewire) -> None:
        if link.name == now.brokers[0]:
            # Ahead of that it has told us what it wants of the mover's, and we the mover.
            self._say(now.brokers[1], "told", behind=True)
        else:
            for name in now.brokers[:2]:
                self._say(name, "over")
            self._work.command(Rewired(now.brokers))
            self._end()

    def _forced(self, now: Rewiring, _: Link, __: Rewire) -> None:
        """The middle has lost its memory, or can't be told any more: the new link is all there is."""
        self._end()
        for name in now.brokers[:2]:
            if name in self._links:
                self._router.reconcile(self._links[name], now.cause)

    # --- all three ------------------------------------------------------------------------------------

    def _go(self, now: Rewiring, link: Link, _: Rewire) -> None:
        """What waits for the neighbour may go: all that took the other way has passed."""
        self._keep(now.after(now.stage, "go"))
        link.withheld = False
        self._flow.go_on(link)

    def _succeed(self, old: Link, new: Link) -> None:
        """All that came over the old link has come over the new one."""
        assert self.now is not None
        self._router.succeed(old, new)
        old.closing = True
        self._router.forget(old, self.now.cause)

    def _over(self, now: Rewiring, _: Link, __: Rewire) -> None:
        """What is left of the old link goes."""
        old = self._links[now.brokers[0 if now.role == "mover" else 1]]
        self._membership.moved(self._links[now.brokers[2]], old, ())
        self._linked.remove(old, now.cause)

    def _let_go(self, now: Rewiring, *_: object) -> None:
        """It is abandoned: without the link on standby, if there is one."""
        other = self._links.get(now.brokers[1 if now.role == "anchor" else 2])
        self.now = None  # so that nobody takes this for the fault that it isn't
        if other is not None and other.standby:
            self._linked.remove(other, now.cause)
        self._end()

    def removed(self, link: Link) -> None:
        """A link is ended by somebody else: so is whatever it is part of."""
        if self.now is not None and link.name in self.now.brokers:
            self._end()

    def _end(self) -> None:
        """It is over, one way or the other; whatever links there are, they are as any."""
        now, self.now = self.now, None
        if self._work.journal is not None:
            self._work.journal.delete("rewiring")
        self._work.command(CancelTimer(TIMER))
        self._exchange.detour = None
        self._router.barred.clear()
        for link in self._links.values():
            link.follows = None
            if link.standby and not link.closing:
                link.standby = link.withheld = False
                self._absence.in_use(link)
                self._flow.go_on(link)
        self._draining.release()
        self._absence.release()
        anchor = None if now is None else self._links.get(now.brokers[2])
        if anchor is not None and anchor.connection is not None:
            self._pausing.release(anchor.connection)

    # --- who loses its memory -------------------------------------------------------------------------

    def begun_anew(self, link: Link) -> None:
        """One of the two ends of a link has lost its memory, and with it what was said there."""
        now = self.now
        if now is None or link.name not in now.brokers:
            return
        middle, _, anchor = now.brokers
        if now.role == "middle":
            early = now.stage in ("asking", "opening", "open")
            if now.stage != "back" and not (early and link.name == anchor):
                self._say(link.name, "well")
            if not early and link.name == anchor:
                # Whether its events are for the mover is to be known first.
                self._keep(now.after(now.stage, DOUBT))
        elif now.role == "anchor":
            if now.stage == "locked":
                self._end()
        elif now.stage in ("locked", "opening"):
            if link.name == middle:  # the other one is new
                self._let_go(now)
        elif link.name == anchor:
            self._force(now)
        else:
            self._say(middle, "well")

    def _force(self, now: Rewiring) -> None:
        """The new link is all there is: whoever is at the other ends of both is told so."""
        self._say(now.brokers[2], "forced")
        self._work.command(Rewired(now.brokers))
        old = self._links[now.brokers[0]]
        old.standby = old.closing = True
        self._say(old.name, "ended")
        self._end()

    def turned_away(self, link: Link) -> None:
        """The neighbour that was dialled says that we are none."""
        now = self.now
        if link.closing and link.standby:
            self._linked.remove(link, "it has ended the link")
        elif now is not None and now.role == "mover" and link.name == now.brokers[2]:
            if now.stage != "opening" and "alone" not in now.heard:
                return  # the middle finds that out, and says what is to become of it
            self._report("warning", "rewiring abandoned", link.name, "it has lost its memory")
            middle = self._links[now.brokers[0]]
            if now.stage == "opening":
                self._let_go(now)
                self._say_to(middle, now, "abandoned")
            else:
                self._return(middle, link)
                self._let_go(now)

    # --- saying, keeping, setting up ------------------------------------------------------------------

    def _open(self, name: str, address: Address, *, dials: bool) -> None:
        now = self.now
        assert now is not None
        link = self._linked.new(name, dials)
        link.address = address
        link.keep()
        self._set_up()
        self._linked.introduce(link)

    def _set_up(self) -> None:
        """Links, tables and events, as this stage wants them."""
        now = self.now
        assert now is not None
        middle, mover, anchor = (self._links.get(name) for name in now.brokers)
        barred = self._router.barred
        barred.clear()
        if now.role == "mover" and anchor is not None:
            assert middle is not None
            switched = now.stage != "opening"
            anchor.standby = True
            anchor.withheld = "go" not in now.heard
            anchor.follows = middle
            middle.standby = switched
            middle.closing = now.stage == "done"
            barred |= {(middle, anchor), (anchor, middle)}
            self._exchange.detour = MoverDetour(middle, anchor, switched=switched)
        elif now.role == "anchor" and mover is not None:
            assert middle is not None
            mover.standby = True
            mover.withheld = "go" not in now.heard
            if now.stage in ("standby", "repeating"):
                barred.add((middle, mover))
            if now.stage != "told":
                barred.add((mover, middle))
            repeats, passes = now.stage != "standby", "passed" in now.heard
            self._exchange.detour = AnchorDetour(middle, mover, repeats=repeats, passes=passes)
        elif now.role == "middle" and now.stage in ("retired", "closing", "done"):
            assert mover is not None
            assert anchor is not None
            mover.standby = True
            self._exchange.detour = MiddleDetour(mover, anchor)
            if now.stage != "retired":
                mover.closing = True
                barred.add((mover, anchor))

    def _say(
        self, to: str, step: str, *, behind: bool = False, about: tuple[str, ...] = ()
    ) -> None:
        assert self.now is not None
        link = self._links.get(to)
        if link is not None:
            self._say_to(link, self.now, step, behind=behind, about=about)

    def _say_to(
        self,
        link: Link,
        rewiring: Rewiring,
        step: str,
        *,
        behind: bool = False,
        about: tuple[str, ...] = (),
    ) -> None:
        id_, brokers, cause = rewiring.id, rewiring.brokers, rewiring.cause
        self._tell(link, Rewire(id_, step, brokers, cause, behind, about))

    def _answer(self, link: Link, message: Rewire, step: str, *about: str) -> None:
        self._tell(link, replace(message, step=step, behind=False, about=about))

    def _keep(self, rewiring: Rewiring) -> Rewiring:
        self.now = rewiring
        if self._work.journal is not None:
            self._work.journal.put("rewiring", value=structs.astuple(rewiring))
        return rewiring

    def restore(self, record: tuple[str, tuple[str, ...], str, Role, str, tuple[str, ...]]) -> None:
        """Back to what the store says; links are there, and nothing else yet."""
        id_, brokers, cause, role, stage, heard = record
        self.now = Rewiring(id_, tuple(brokers), cause, role, stage, tuple(heard))
        self._draining.hold()
        self._absence.hold()
        self._set_up()
        self._work.command(SetTimer(TIMER, PATIENCE_S))

    def _report(self, level: str, what: str, about: str, *detail: str) -> None:
        self._work.command(Report(level, what, about, " ".join(detail)))
