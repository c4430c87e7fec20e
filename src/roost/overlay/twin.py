"""One of the two nodes of a broker that has a standby: who speaks, who follows, and when that changes.

    waiting    knows too little to do either: it has just started, or has lost the other
    standby    the other is the broker; what that commits comes here, and is answered when it is on the disk
    leader     it is the broker
    stopping   it was, and is about to be silent

**What is said is at both.** A broker says nothing that depends on a transaction before that is safe
(`broker.work`). Here, safe is what is on its own disk *and* answered for by the standby. So the standby may
go on at any time, as the same broker, from the store that it has: whatever anybody has heard is in there. And
the old leader is fenced by that alone: once its standby does not answer any more, nothing that it does is
ever safe, whenever it wakes up, and whatever it believes. No clock is trusted for it. (What it can say
without a transaction, such as an answer to a ping, says nothing that the standby does not know.) The *epoch*,
which rises with each change, is for the others: whoever has talked to the new one takes no word of the old
one, and tells it that its time is over.

**Who may go on without the other.** With two nodes, one that does not answer may be dead or cut off. If both
could decide to go on, both would. So only one of them may, and who that is, is settled beforehand:

    alone = false                the standby. A leader without its standby is silent until that is back.
    alone = true                 the leader. A standby goes on when an operator says so.
    alone = true, a witness      whoever asks the witness first: a third process that gives each epoch once

**Membership** (who leads in which epoch, and whether the other has everything) is a record in each store, and
made durable before anything is done about it:

    (e, me, pair)     I may speak if the other still follows me, or if I may go on alone: as (e+1, me, alone)
    (e, me, alone)    I may speak. The other can't, whatever it believes: it is no member
    (e, other, pair)  all that was said is here. I may go on without the other, if I am the one who may
    (e, other, out)   the other has gone on without me: it knows more
    none              nothing is known

A leader that is alone brings the other up to date: what it lacks if that is still in memory, else a snapshot
of the store, and what was committed meanwhile. Then it counts it in (`Join`): first in its own record, from
when on nothing is said without it, and then in the other's, from when on that may go on without the leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from roost.overlay import twin_words as tw
from roost.overlay.twin_settings import TwinSettings, leave_to_go_on
from roost.overlay.twin_words import Command, Happening, Membership, Position

Role: TypeAlias = Literal["waiting", "standby", "leader", "stopping"]

# What a leader keeps of the last commits, for a standby that was away for a moment.
TAIL_BYTES = 32_000_000


class Follower:
    """The other, seen from the leader."""

    __slots__ = ("due", "loading", "member", "stored")

    def __init__(self, due: int, *, member: bool, loading: bool) -> None:
        self.due = due  # what there was when it began to follow
        self.member = member  # it may go on without us
        self.loading = loading  # a snapshot is on its way
        self.stored = 0  # the number up to which it has answered

    @property
    def lags(self) -> bool:
        """It has not come as far as we were: nobody should have to wait for all of that."""
        return self.loading or self.stored < self.due


class Twin:
    """One node of a pair. `handle(what happened, now) -> [what is wanted]`."""

    def __init__(
        self, settings: TwinSettings, membership: Membership | None, position: Position
    ) -> None:
        self.settings = settings
        self.membership = membership
        self.position = position  # of the store
        self.role: Role = "waiting"
        self.connected = False
        self.peer_address = ""  # where clients find the other
        self.trouble = ""  # why it does not serve, or serves alone, if it should not
        self._heard_at: float | None = None
        self._ticked_at: float | None = None
        self._greeted = False
        self._run = ""
        self._began = False
        self._local = 0  # safe on our disk
        self._released = 0
        self._tail: deque[tuple[int, Any, int]] = deque()
        self._tail_bytes = 0
        self._floor = Position()  # what a follower must have for the tail to be all that it lacks
        self._follower: Follower | None = None
        self._gated = membership is not None and membership.pair
        self._noting: tuple[Membership, Callable[[], None]] | None = None
        self._asked: int = 0  # the epoch that the witness was last asked for
        self._yields = False  # it stops, so that the other may go on
        self._out: list[Command] = []
        self._now = 0.0
        self._handlers: dict[type, Callable[[Any], None]] = {
            tw.Opened: self._opened,
            tw.Closed: self._closed,
            tw.Heard: self._heard,
            tw.Ticked: self._ticked,
            tw.Began: self._has_begun,
            tw.Wrote: self._wrote,
            tw.Safe: self._safe,
            tw.Kept: self._kept,
            tw.Noted: self._noted,
            tw.SnapshotRead: self._snapshot_read,
            tw.Stopped: self._stopped,
            tw.Witnessed: self._witnessed,
            tw.Wanted: self._wanted,
            tw.Superseded: self._superseded,
        }
        self._words: dict[type, Callable[[Any], None]] = {
            tw.Hello: self._hello,
            tw.Refusal: self._refused,
            tw.Follow: self._follow,
            tw.Part: self._part,
            tw.Whole: self._whole,
            tw.Ship: self._ship,
            tw.Stored: self._stored,
            tw.Join: self._join,
            tw.Joined: self._joined,
            tw.Beat: lambda _: None,
            tw.Please: self._please,
            tw.Yield: self._yielded,
        }

    def handle(self, event: Happening, now: float) -> list[Command]:
        self._now = now
        self._out = []
        self._handlers[type(event)](event)
        out, self._out = self._out, []
        return out

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return 0 if self.membership is None else self.membership.epoch

    @property
    def leads(self) -> bool:
        """Whether it is the leader of its record."""
        return self.membership is not None and self.membership.leader == self.settings.node

    @property
    def is_member(self) -> bool:
        """Whether all that was ever said is here, as far as it knows."""
        return self.membership is not None and (self.leads or self.membership.pair)

    @property
    def alone(self) -> bool:
        """Whether the broker speaks without a standby."""
        return self.role == "leader" and not self._gated

    @property
    def behind(self) -> int:
        """How many transactions the standby lacks; 0 if nobody follows."""
        return 0 if self._follower is None else max(0, self._local - self._follower.stored)

    # --- time ---------------------------------------------------------------------------------------

    def _ticked(self, _: tw.Ticked) -> None:
        now, before = self._now, self._ticked_at
        self._ticked_at = now
        if self._heard_at is None or (
            before is not None and now - before > self.settings.takeover_s / 2
        ):
            # It has begun, or has slept: what the other has said meanwhile is still to be read.
            self._heard_at = now
        if self.connected and self._greeted:
            self._say(tw.Beat())
        silent_s = now - self._heard_at
        if silent_s < self.settings.takeover_s:
            return
        if self.connected:
            self._hang_up(f"nothing was heard for {silent_s:.1f} s")
        if self.role == "leader":
            self._without_standby(silent_s)
        elif self.role in ("waiting", "standby"):
            self._without_other()

    def _without_standby(self, silent_s: float) -> None:
        if not self._gated or self._noting is not None:
            return
        leave = leave_to_go_on(self.settings, leads=True)
        if leave == "yes":
            self._go_alone()
        elif leave == "ask":
            self._ask()
            if silent_s > 2 * self.settings.takeover_s:
                self._quit("the standby is away, and the witness does not answer")
        else:
            self._quit("the standby is away, and alone is false")

    def _without_other(self) -> None:
        """It does not speak, and nothing is heard of the other."""
        if self._noting is not None:
            return
        membership = self.membership
        if membership is None:
            self._note_trouble(
                "nothing is known here; the other may know more: it is waited for, or `roost promote"
                " --force` has this one go on with what it has"
            )
        elif self.leads and not membership.pair:
            self._serve()
        elif not self.is_member:
            self._note_trouble(
                "the other has gone on without this one, and knows more: it is waited for, or `roost"
                " promote --force` has this one go on with what it has"
            )
        else:
            leave = leave_to_go_on(self.settings, leads=self.leads)
            if leave == "yes":
                self._take_over("the other is away")
            elif leave == "ask":
                self._note_trouble("the other is away; the witness is asked")
                self._ask()
            elif self.leads:
                self._note_trouble(
                    "all was here when the standby was last seen; it may have taken over since: it is"
                    " waited for, or `roost promote` has this one go on"
                )
            else:
                self._note_trouble(
                    "all was here when the leader was last seen; it may have gone on alone since: it is"
                    " waited for, or `roost promote` has this one go on"
                )

    def _ask(self) -> None:
        self._asked = self.epoch + 1
        self._out.append(tw.AskWitness(self._asked))

    def _witnessed(self, event: tw.Witnessed) -> None:
        if event.epoch != self._asked or event.epoch != self.epoch + 1 or self._noting is not None:
            return
        self._asked = 0
        if not event.granted:
            what = f"the witness has given epoch {event.epoch} to the other, which knows more"
            if self.role == "leader":
                self._quit(what)
            elif not self.leads:
                assert self.membership is not None
                self._note(Membership(self.epoch, self.membership.leader, False), self._nothing)
            self._note_trouble(f"{what}: it is waited for")
        elif self.role == "leader":
            self._go_alone()
        elif self.role in ("waiting", "standby"):
            self._take_over("the other is away, and the witness agrees")

    # --- speaking -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        assert self.membership is not None
        self.role = "leader"
        self.trouble = ""
        self._gated = self.membership.pair
        self._began = False
        self._out.append(tw.Serve(self.membership))

    def _take_over(self, why: str) -> None:
        """Go on as the broker, in an epoch of one's own."""
        self._hang_up("it is superseded")
        new = Membership(self.epoch + 1, self.settings.node, False)
        self._tell("warning", "takes over", f"epoch {new.epoch}: {why}")
        self._note(new, self._serve)

    def _go_alone(self) -> None:
        """The leader goes on without its standby, which can't speak from here on."""
        self._hang_up("it is out")  # if it has just come back, it begins again
        new = Membership(self.epoch + 1, self.settings.node, False)
        self._tell("warning", "standby away", f"goes on alone, in epoch {new.epoch}")
        self._note(new, self._is_alone)

    def _is_alone(self) -> None:
        self._gated = False
        self._out.append(tw.Promoted(self.epoch))
        self._release()

    def _has_begun(self, event: tw.Began) -> None:
        self._run = event.run
        self._began = True
        self._floor = event.position
        self._local = self._released = event.position.number
        self._tail.clear()
        self._tail_bytes = 0
        if self.connected and self._greeted:
            self._hang_up("it is the broker now")  # and says so in its next greeting

    def _wrote(self, event: tw.Wrote) -> None:
        self._tail.append((event.number, event.batch, event.size))
        self._tail_bytes += event.size
        follower = self._follower
        if follower is None or not follower.loading:
            while self._tail_bytes > TAIL_BYTES and len(self._tail) > 1:
                number, _, size = self._tail.popleft()
                self._tail_bytes -= size
                self._floor = Position(self._run, number)
        if follower is not None and not follower.loading:
            self._say(tw.Ship(self._run, event.number, event.batch))

    def _safe(self, event: tw.Safe) -> None:
        self._local = max(self._local, event.number)
        self._release()

    def _release(self) -> None:
        if self.role != "leader":
            return
        number = self._local
        if self._gated:
            number = min(number, self._answered())
        if number > self._released:
            self._released = number
            self._out.append(tw.Release(number))

    def _answered(self) -> int:
        return 0 if self._follower is None else self._follower.stored

    def _quit(self, reason: str) -> None:
        if self.role == "leader":
            self.role = "stopping"
            self.trouble = reason
            self._tell("error", "silent", reason)
            self._follower = None
            self._out.append(tw.Quit(reason))
            if not self._yields:
                self._hang_up(reason)

    def _stopped(self, event: tw.Stopped) -> None:
        self.position = event.position
        self._tail.clear()
        self._tail_bytes = 0
        self._began = False
        if self.role != "stopping":
            return
        self.role = "waiting"
        if self._yields:
            self._yields = False
            if self.connected and self._greeted:
                self._say(tw.Yield(self.epoch, self._released))
                return
        self._heard_at = self._now

    def _superseded(self, event: tw.Superseded) -> None:
        if event.epoch > self.epoch:
            self._quit(f"there is a broker of this name in epoch {event.epoch}")

    # --- the other one ------------------------------------------------------------------------------

    def _opened(self, _: tw.Opened) -> None:
        settings = self.settings
        self.connected, self._greeted = True, False
        self._heard_at = self._now
        self._say(
            tw.Hello(
                settings.broker,
                settings.node,
                self.membership,
                self.position,
                self.role == "leader",
                settings.alone,
                settings.witness,
                settings.address,
            )
        )

    def _closed(self, _: tw.Closed) -> None:
        if self.role == "standby" and self._heard_at is not None:
            # A leader that lives is connected to again at once: it is given half of the time.
            soon = self._now - self.settings.takeover_s / 2
            self._heard_at = min(self._heard_at, soon)
        self._lost()

    def _lost(self) -> None:
        self.connected = self._greeted = False
        self._follower = None
        if self.role == "standby":
            self.role = "waiting"

    def _heard(self, event: tw.Heard) -> None:
        if not self.connected:
            return
        self._heard_at = self._now
        if self._greeted or type(event.word) in (tw.Hello, tw.Refusal):
            self._words[type(event.word)](event.word)

    def _refused(self, word: tw.Refusal) -> None:
        self._note_trouble(f"the other refuses: {word.reason}")
        self._hang_up(word.reason)

    def _objection_to(self, hello: tw.Hello) -> str:
        here = self.settings
        if hello.broker != here.broker:
            return f"{hello.broker} is not {here.broker}; expected the other of one pair"
        if hello.node == here.node:
            return "both have the same store; expected one each"
        if (hello.alone, hello.witness) != (here.alone, here.witness):
            return "alone or witness differ; expected both of a pair to have them alike"
        return ""

    def _hello(self, hello: tw.Hello) -> None:
        objection = self._objection_to(hello)
        if objection:
            self._tell("error", "standby refused", objection)
            self._say(tw.Refusal(objection))
            self._hang_up(objection)
            return
        if self.role == "stopping" or self._noting is not None:
            self._hang_up("it is about to change")
            return
        self._greeted = True
        self.peer_address = hello.address
        theirs, ours = hello.membership, self.membership
        later = theirs is not None and theirs.epoch > self.epoch
        if self.role == "leader":
            if later:
                self._quit(f"the other is the broker, in epoch {theirs and theirs.epoch}")
            elif not self._began:
                self._hang_up("it is about to be the broker")
            else:
                self._lead(hello)
        elif later:
            if self.is_member:
                self._note(Membership(self.epoch, hello.node, False), self._nothing)
        elif ours is None:
            if theirs is None and self.settings.first and not hello.serves:
                self._note(Membership(1, self.settings.node, False), self._serve)
        elif self.leads:
            self._serve()
        elif theirs is None or theirs.epoch < self.epoch:
            self._without_other()  # it has lost its store, and can't lead

    def _lead(self, hello: tw.Hello) -> None:
        """The other follows us, from where it is."""
        theirs, ours = hello.membership, self.membership
        assert ours is not None
        if theirs is not None and theirs.epoch == ours.epoch and theirs.leader != ours.leader:
            what = (
                f"both have epoch {ours.epoch}; expected one of them to begin with an empty store"
            )
            self._tell("error", "standby refused", what)
            self._say(tw.Refusal(what))
            self._hang_up(what)
            return
        member = ours.pair and theirs is not None and theirs.epoch == ours.epoch
        at = hello.position
        near = at == self._floor or (at.run == self._run and at.number >= self._floor.number)
        self._follower = Follower(self._local, member=member, loading=not near)
        if ours.pair and not member:
            self._note(Membership(ours.epoch, ours.leader, False), self._is_no_member)
        self._say(tw.Follow(ours, not near))
        if not near:
            self._tell("info", "standby", "comes up to date by a snapshot")
            self._out.append(tw.SendSnapshot())
            return
        self._follower.stored = at.number
        self._ship_tail(at.number)
        self._count_in()

    def _is_no_member(self) -> None:
        """It has lost its store: it can't go on without us, and nobody need wait for it."""
        self._is_alone()
        if self._follower is not None:
            self._count_in()

    def _ship_tail(self, after: int) -> None:
        for number, batch, _ in self._tail:
            if number > after:
                self._say(tw.Ship(self._run, number, batch))

    def _snapshot_read(self, event: tw.SnapshotRead) -> None:
        follower = self._follower
        if follower is None or not follower.loading:
            return  # it has gone meanwhile
        if event.position.number < self._floor.number:
            self._hang_up("the snapshot is older than what is known")  # and begins again
            return
        follower.loading = False
        self._say(tw.Whole(event.position, self.membership if follower.member else None))
        self._ship_tail(event.position.number)

    def _stored(self, word: tw.Stored) -> None:
        follower = self._follower
        if follower is not None and self.role == "leader":
            follower.stored = max(follower.stored, word.number)
            self._release()
            self._count_in()

    def _count_in(self) -> None:
        """The other has all that there was when it began to follow: nothing without it from now on."""
        follower = self._follower
        assert follower is not None
        if self._noting is not None or follower.lags or (self._gated and follower.member):
            return
        self._gated = True
        assert self.membership is not None
        self._note(Membership(self.epoch, self.settings.node, True), self._invite)

    def _invite(self) -> None:
        if self._follower is not None and self.membership is not None:
            self._follower.member = True
            self._say(tw.Join(self.membership))

    def _joined(self, word: tw.Joined) -> None:
        if word.epoch == self.epoch:
            self.trouble = ""
            self._tell("info", "standby", f"follows, in epoch {self.epoch}")

    # --- following ----------------------------------------------------------------------------------

    def _follow(self, word: tw.Follow) -> None:
        if self.role == "leader" or word.membership.epoch < self.epoch:
            self._hang_up("it is superseded")
            return
        self.role = "standby"
        self.trouble = ""
        if word.whole:
            self._out.append(tw.Clear())

    def _part(self, word: tw.Part) -> None:
        if self.role == "standby":
            self._out.append(tw.Load(word.batch))

    def _whole(self, word: tw.Whole) -> None:
        if self.role == "standby":
            self.membership = word.membership
            self._out.append(tw.Adopt(word.position, word.membership))

    def _ship(self, word: tw.Ship) -> None:
        if self.role == "standby":
            self._out.append(tw.Keep(Position(word.run, word.number), word.batch))

    def _kept(self, event: tw.Kept) -> None:
        self.position = event.position
        if self.role == "standby" and self.connected:
            self._say(tw.Stored(event.position.number))

    def _join(self, word: tw.Join) -> None:
        if self.role == "standby":
            self._note(word.membership, self._has_joined)

    def _has_joined(self) -> None:
        if self.connected:
            self._say(tw.Joined(self.epoch))

    # --- by hand ------------------------------------------------------------------------------------

    def _wanted(self, event: tw.Wanted) -> None:
        if self.role in ("leader", "stopping") or self._noting is not None:
            return
        if self.role == "standby" and self.connected and self.is_member and not event.force:
            self._say(tw.Please())
        elif self.is_member or event.force:
            self._take_over("an operator wants it")
        else:
            self._note_trouble("it lacks something that was said; --force goes on without that")

    def _please(self, _: tw.Please) -> None:
        follower = self._follower
        if self.role == "leader" and follower is not None and follower.member:
            self._yields = True
            self._quit("the standby is to be the broker")

    def _yielded(self, word: tw.Yield) -> None:
        if self.role == "standby" and self.is_member and word.epoch == self.epoch:
            self._take_over("the other has yielded")

    # --- small things -------------------------------------------------------------------------------

    def _nothing(self) -> None:
        """There is nothing to do about it."""

    def _note(self, membership: Membership, then: Callable[[], None]) -> None:
        self._noting = (membership, then)
        self._out.append(tw.Note(membership))

    def _noted(self, event: tw.Noted) -> None:
        if self._noting is not None and self._noting[0] == event.membership:
            self.membership, then = self._noting
            self._noting = None
            then()

    def _say(self, word: tw.Word) -> None:
        self._out.append(tw.Say(word))

    def _hang_up(self, reason: str) -> None:
        if self.connected:
            self._out.append(tw.HangUp(reason))
            self._lost()

    def _tell(self, level: str, what: str, detail: str) -> None:
        self._out.append(tw.Tell(level, what, detail))

    def _note_trouble(self, what: str) -> None:
        if what != self.trouble:
            self.trouble = what
            self._tell("warning", "waits", what)
