"""A client on its way from one broker to another: make before break.

The client begins a second session at the target, and goes on in the first meanwhile:

    joining     the second session is subscribed to the same, and has settled: from here on every event that
                is published comes to it, too. Its deliveries are held.
    migrating   the advertisements migrate along the path (see `migrating`), if there are any
    paused      ... and what is published is kept back until they have
    settling    they could not migrate: they are made anew at the target, which all brokers hear of
    handing     the first session ends, once everything that is on the way to it has come
                -> its last word comes behind its last delivery. Then those that were held follow, without
                what was in both

**Nothing lost, doubled or reordered.** Of each publisher the second session gets an unbroken end of its
events, the first an unbroken beginning, and the two overlap: the first session ends only when a marker that
went out after the second had settled has come back behind all that was on the way (`HandOver`). So to hand
out the first to its end, then the second from where the first ended, is the whole stream in order.
A publisher's last event at the old broker is ahead of `MigrationComplete`, or of the same marker, on every
link; nothing published at the new one can overtake it.

**What goes wrong.** Up to `handing` the first session is whole, and the client can stay: it *abandons* the
move, and says goodbye to the target. Advertisements that were about to migrate are then made anew under
other ids, and the old ones withdrawn, behind: so no broker is left expecting them. While `paused`, events
wait until that has settled. From `handing` on the second session is whole: the client waits for the end of
the first, whose broker keeps what it has, and otherwise has forgotten the session, which is its end, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from roost.broker.attachment import Attachment, Owner
from roost.broker.commands import CancelTimer, SetTimer, Tell
from roost.broker.messages import (
    GOODBYE,
    HANDED_OVER,
    Arrived,
    Attached,
    EndSession,
    HandOver,
    Message,
    Migrate,
    Migrated,
    MigrationFailed,
    Paused,
    PausePlease,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Unadvertise,
)
from roost.broker.names import Address
from roost.language import Advertisement, Subscription

Stage: TypeAlias = Literal["joining", "migrating", "paused", "settling", "handing"]

# What the client asks to settle for itself; no application's.
SETTLE_ID = "roost:move"
RESUME_ID = "roost:resume"
# Timers: a move that takes too long, and asking again whether things have settled.
TIMER = "move"
RESUME_TIMER = "resume"


class Withdrawal(Struct, frozen=True):
    """An advertisement goes, behind the events that were kept back before it."""

    name: str


class MoveCounts(Struct):
    """What became of the moves of a client."""

    finished: int = 0
    migrated: int = 0  # of these: those whose advertisements came along the path
    abandoned: int = 0


class MovingClient(Owner, Protocol):
    """Who moves: what a move needs of the client, besides what its sessions need."""

    home: Attachment
    outlet: Attachment
    move: Move | None
    move_counts: MoveCounts
    kept_back: deque[Publication | Withdrawal]
    now: float

    @property
    def published(self) -> int: ...

    def subscriptions(self) -> Mapping[str, Subscription]: ...

    def announced(self) -> Mapping[str, Advertisement]: ...

    def say_all_anew(self, attachment: Attachment) -> None: ...

    def going(self, advertisement: Advertisement) -> str: ...

    def release(self) -> None: ...

    def withdraw_withheld(self) -> None: ...

    def dismiss(self, attachment: Attachment) -> None: ...

    def resume_when_settled(self) -> None: ...

    def moved(self, pause_s: float) -> None: ...


class Move:
    """One move of a client. `target` is the second session."""

    __slots__ = (
        "_cause",
        "_client",
        "_migrating",
        "_paused_at",
        "pause_s",
        "pauses",
        "stage",
        "target",
    )

    def __init__(self, client: MovingClient, redirect: Redirect) -> None:
        self._client = client
        self._cause = redirect.cause
        self._migrating: tuple[str, ...] = ()  # ids of advertisements
        self._paused_at = 0.0
        self.pause_s = 0.0  # how long events were kept back
        self.pauses = False  # whether they are now
        self.stage: Stage = "joining"
        client.naming.new_session()
        self.target = Attachment(client, client.home.number + 1, Address(redirect.address))
        self.target.deliveries = "held"
        self.target.cause = redirect.cause
        self.target.dial()
        client.command(SetTimer(TIMER, client.config.move_timeout_s))

    # --- what happens at the target -------------------------------------------------------------------

    def attached(self, greeting: Attached) -> None:
        client, target = self._client, self.target
        if target.begun and not greeting.resumed:
            if self.stage != "handing":
                self.abandon(f"{target.address} has forgotten the session")
                return
            target.begin_another()
            target.greet()
            return
        if not greeting.resumed and target.spoken:
            client.say_all_anew(target)
            client.command(Tell("attached", target.address))  # something may be lost
        elif not greeting.resumed:
            cause = f"{self._client.config.client} moves to {target.address}:"
            for name, subscription in self._client.subscriptions().items():
                target.subscribe(name, subscription, cause)
            if target.subscription_ids:
                target.send(Settle(SETTLE_ID, self._cause, ahead=target.knows_ahead))
            target.attached(greeting)
            target.send_waiting()
            if not target.subscription_ids:
                self._introduced()
            return
        target.attached(greeting)
        target.send_waiting()

    def heard_at_target(self, message: Message) -> bool:
        """Whether it was about the move."""
        if isinstance(message, Settled) and message.id == SETTLE_ID:
            if self.stage == "joining":
                self._introduced()
            elif self.stage == "settling":
                self._hand_over()
        elif isinstance(message, Migrated):
            self._migrated()
        elif isinstance(message, MigrationFailed):
            self._advertise_anew()
        elif isinstance(message, Refused) and self._needs(message.request):
            self.abandon(f"{self.target.address} says: {message.reason}")
        elif isinstance(message, SessionEnded):
            self._target_ended(message)
        else:
            return False
        return True

    def _needs(self, request: str) -> bool:
        """Whether there is no moving without what the target has refused."""
        target = self.target
        wanted = (SETTLE_ID, *target.names, *target.advertisement_ids.values())
        return self.stage != "handing" and request in wanted

    def _introduced(self) -> None:
        """The second session gets what the first gets: now for what is published."""
        ids = tuple(self._client.home.advertisement_ids.values())
        if ids:
            self.stage = "migrating"
            self._migrating = ids
            self.target.send(Migrate(ids, self._cause))
        else:
            self._hand_over()

    def _migrated(self) -> None:
        if self.stage != "paused":
            return
        home, target = self._client.home, self.target
        for name, id_ in list(home.advertisement_ids.items()):
            if id_ in self._migrating:
                target.advertisement_ids[name] = home.advertisement_ids.pop(name)
        self._client.outlet = target
        self._client.move_counts.migrated += 1
        self._hand_over()
        self._go_on()

    def _advertise_anew(self) -> None:
        if self.stage not in ("migrating", "paused"):
            return
        self.stage = "settling"
        cause = f"{self._client.config.client} moves to {self.target.address}:"
        for name, advertisement in self._client.announced().items():
            if name not in self.target.advertisement_ids:
                self.target.advertise(name, advertisement, cause)
        self.target.send(Settle(SETTLE_ID, self._cause))

    def _target_ended(self, message: SessionEnded) -> None:
        target = self.target
        target.send_ack()
        target.hang_up("goodbye")
        target.state = "idle"
        if self.stage != "handing":
            self.abandon(f"{target.address} has ended the session: {message.reason}")
            return
        # There is no way back: another session there.
        target.begin_another()
        target.dial()

    # --- what happens at the old broker ---------------------------------------------------------------

    def heard_at_home(self, message: Message) -> bool:
        """Whether it was about the move."""
        if isinstance(message, PausePlease):
            if self.stage == "migrating":
                self.stage = "paused"
                self._pause()
                self._client.home.send(Paused(self._cause))
        elif isinstance(message, MigrationFailed):
            self._advertise_anew()
        elif isinstance(message, SessionEnded) and self.stage == "handing":
            if message.reason in (GOODBYE, HANDED_OVER):
                self._finish([])
            else:  # it was too much that waited there, or an operator's wish: something may be lost
                self.home_forgot()
                self._client.command(Tell("attached", self.target.address))
        else:
            return False
        return True

    def home_forgot(self) -> bool:
        """The old broker knows nothing of us any more; whether that was all that we waited for."""
        if self.stage != "handing":
            self.abandon(f"{self._client.home.address} has forgotten the session")
            return False
        # What it had not acknowledged it may have lost. If not, the numbers will tell.
        home = self._client.home
        unaccepted: list[Publication | Withdrawal] = []
        for message in (frame.message for frame in home.channel.data.outbox):
            if type(message) is Publication:
                unaccepted.append(message)
            elif type(message) is Unadvertise:
                # Those before it need the advertisement at the target.
                name = self._client.going(home.withdrawn[message.id])
                self.target.advertise(name, home.withdrawn[message.id], message.cause)
                unaccepted.append(Withdrawal(name))
        self._finish(unaccepted)
        return True

    def _pause(self) -> None:
        if not self.pauses:
            self.pauses = True
            self._paused_at = self._client.now

    def _go_on(self) -> None:
        if self.pauses:
            self.pauses = False
            self.pause_s += self._client.now - self._paused_at
            self._client.release()

    def _hand_over(self) -> None:
        """Whatever is for us comes to the target now: end the session here."""
        client = self._client
        self.stage = "handing"
        publishes_here = client.outlet is client.home and client.published > 0
        if publishes_here:
            self._pause()  # until all of it has passed every broker
        else:
            client.outlet = self.target  # nothing is left that it could overtake
        if publishes_here or client.home.subscription_ids:
            ahead = not publishes_here and client.home.knows_ahead
            client.home.send(HandOver(self._cause, ahead))
        else:
            client.home.send(EndSession(self._cause))

    def _finish(self, unaccepted: list[Publication | Withdrawal]) -> None:
        """The first session is over: the second is the only one."""
        client, old, new = self._client, self._client.home, self.target
        client.command(CancelTimer(TIMER))
        old.outstanding.clear()  # nobody keeps them for us any more
        old.send_ack()
        old.hang_up("goodbye")
        client.move = None
        client.home = client.outlet = new
        new.deliveries = "handed"
        new.outstanding.clear()
        while new.held:
            client.delivered(new, *new.held.popleft())
        client.kept_back.extendleft(reversed(unaccepted))
        self._go_on()
        client.release()
        client.withdraw_withheld()
        client.move_counts.finished += 1
        client.moved(self.pause_s)
        new.owe_ack()

    # --- staying --------------------------------------------------------------------------------------

    def timed_out(self) -> None:
        if self.stage != "handing":
            self.abandon(f"it took more than {self._client.config.move_timeout_s:g} s")

    def abandon(self, reason: str) -> None:
        """Stay where we are."""
        client, target = self._client, self.target
        client.command(CancelTimer(TIMER))
        client.move = None
        client.dismiss(target)
        renewed = bool(self._migrating)
        if renewed:
            # Brokers on the path may expect the old ones from elsewhere, or have them from there already.
            home = client.home
            cause = f"{client.config.client} stays at {home.address}:"
            announced = client.announced()
            for name in list(home.advertisement_ids):
                withdrawal = home.withdrawal(name, announced[name])
                home.advertise(name, announced[name], cause)
                assert withdrawal is not None
                home.send(withdrawal)
        client.withdraw_withheld()
        if self.pauses and renewed:
            client.resume_when_settled()
        elif self.pauses:
            self._go_on()
        client.move_counts.abandoned += 1
        if client.home.knows_ahead:
            client.home.send(Arrived(self._cause))
        client.command(Tell("stays", target.address, reason))
