"""A durable subscription as a log with offsets, which is what Spark wants of a source.

The broker numbers what it has for a durable subscription, and an event keeps its number until it is
acknowledged: over connections, over processes that read, and with a store over crashes of the broker. That
number is the offset. So the events of (start, end] are the same whenever they are asked for, as long as
nobody has acknowledged them; and that we do only when Spark has committed the batch. There may be gaps:
what the broker had to drop takes a number, too.

A broker without a store that is restarted forgets the subscription, as does one that has not heard from us
for a week: events are lost then, and numbers begin again. Within a process the client tells (`life`). For
the next process an offset also says which event it was that had the number: if another one has it now, or
the number never comes behind lower ones, then the broker has forgotten.
"""

from __future__ import annotations

import time
import warnings
from bisect import bisect_right
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from roost.client import ClientError, NotInTime, SyncClient, SyncEvent, SyncSubscription
from roost.errors import UserError
from roost.pipeline.source.options import Reading
from roost.pipeline.source.rows import Numbered

# With nothing new for so long, nothing waits: what waits is sent right behind the greeting.
LULL_S = 0.5
# In how small steps we look whether what we wait for can still come.
LOOK_S = 0.2


class Offset(Struct, frozen=True):
    """How far it has been read: up to an event, which is named."""

    life: int = 0  # how often the broker has forgotten the subscription
    number: int = 0
    event: str = ""  # its id
    query: int = 0  # whose offset it is (see `claims`); 0 before it has a number

    @property
    def place(self) -> tuple[int, int]:
        return self.life, self.number

    def of(self, query: int) -> Offset:
        """The same, as that query has it."""
        return replace(self, query=query)

    def as_dict(self) -> dict[str, Any]:
        """As Spark keeps it, in JSON."""
        return dict(to_builtins(self))


def offset_of(kept: dict[str, Any]) -> Offset:
    """An offset that Spark has kept."""
    try:
        return convert(kept, Offset)
    except ValueError as bad:
        raise UserError(
            f"{kept} is no offset of the format 'roost' ({bad}); the checkpoint is of another query"
        ) from None


class _Held(NamedTuple):
    """An event that is not acknowledged."""

    place: tuple[int, int]  # life and number
    event: SyncEvent


class DataLoss(UserError):  # noqa: N818  # as the client's errors are called
    """The broker has forgotten the durable subscription, and with it events that we have not read."""


class Feed:
    """What comes for a durable subscription, from the first that Spark has not committed."""

    def __init__(self, options: Reading) -> None:
        self._options = options
        self._client: SyncClient | None = None
        self._subscription: SyncSubscription | None = None
        self._held: list[_Held] = []  # in order
        self._has_begun = False
        self._life = 0  # of the first that came in this process, as offsets count it
        self._lives = 0  # how many began since
        # Where Spark was when this process began, until we know that the broker still counts on from there.
        self._unproven: Offset | None = None
        self._progress_at = 0.0

    # --- beginning and end --------------------------------------------------------------------------

    def open(self) -> SyncSubscription:
        """Take over the durable subscription, or begin it."""
        if self._subscription is None:
            options = self._options
            self._client = options.place.connect("spark", buffer_max=options.events_a_batch)
            self._client.open()
            self._subscription = self._client.subscribe(options.subscription, durable=options.name)
            self._subscription.__enter__()
            self._progress_at = time.monotonic()
        return self._subscription

    def close(self) -> None:
        """Leave it to the next process, with what is not acknowledged."""
        client, self._client, self._subscription = self._client, None, None
        self._held.clear()
        if client is not None:
            with suppress(ClientError):  # what it had to say comes again, to the next process
                client.close(timeout_s=1.0)

    # --- reading ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many events are here that are not acknowledged."""
        return len(self._held)

    def pull(self, most: int, within_s: float = 0.0) -> int:
        """Take what is there, until so many are held; how many came. Waits so long for the first."""
        subscription = self.open()
        pulled = 0
        while len(self._held) < most:
            try:
                events = subscription.batch(most - len(self._held), within_s)
            except NotInTime:
                break
            if not events:
                raise UserError(f"the durable subscription {self._options.name!r} is closed")
            within_s = 0.0
            pulled += len(events)
            self._hold(events)
        if pulled:
            self._progress_at = time.monotonic()
        return pulled

    def _hold(self, events: list[SyncEvent]) -> None:
        without = self._options.without
        passed_over = []
        for event in events:
            if event.life > self._lives:
                self._unproven, self._lives = None, event.life
                self._lost("while it was being read")
            place = (self._life + event.life, event.number)
            if without and without in event:
                passed_over.append(event)
            else:
                self._held.append(_Held(place, event))
        if passed_over:
            self.open().ack(passed_over)

    def begin(self, start: Offset) -> None:
        """Spark has committed everything up to here: that is acknowledged, and not given again."""
        if not self._has_begun:
            self._has_begun = True
            if start.number:
                self._life, self._unproven = start.life, start
                self._held = [_Held((start.life, held.place[1]), held.event) for held in self._held]
        self.open()
        if self._unproven is not None and not self._is_proven(self._unproven):
            return
        self._drop(self._upto(start.place))

    def _is_proven(self, start: Offset) -> bool:
        """Whether the broker counts on from there; DataLoss, or another life, if it does not."""
        while True:
            self.pull(len(self._held) + self._options.events_a_batch)
            if not self._held:
                return True  # as far as we know: nothing is given out until something comes
            at = self._upto(start.place)
            if at == 0:
                self._unproven = None  # all of it had been acknowledged, and higher numbers come
                return True
            place, event = self._held[at - 1]
            if place == start.place:
                self._unproven = None
                if event.id != start.event:
                    self._lost("since then")
                    self._begin_another_life()
                return True
            if at < len(self._held):
                self._unproven = None  # the broker has dropped that very one
                return True
            if self._is_over_time(start):
                self._unproven = None
                self._lost("since then")
                self._begin_another_life()
                return True
            self.pull(len(self._held) + 1, LOOK_S)

    def _begin_another_life(self) -> None:
        self._life += 1
        self._held = [_Held((life + 1, number), event) for (life, number), event in self._held]

    def _lost(self, when: str) -> None:
        what = (
            f"the broker has forgotten the durable subscription {self._options.name!r} {when}, so that"
            " events may be lost"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"{what}; to go on with those that come now, set the option failOnDataLoss to false"
            )
        warnings.warn(what, RuntimeWarning, stacklevel=2)

    def latest(self, start: Offset, most: int, target: Offset | None = None) -> Offset:
        """The offset of the last event that is here, of at most so many behind the start, up to a target."""
        self.begin(start)
        if self._unproven is not None:
            return start
        if target is None:
            self.pull(most)
        count = min(most, len(self._held) if target is None else self._upto(target.place))
        return self._offset(count) or start

    def newest(self, most: int) -> Offset | None:
        """The same with what has come meanwhile, until so many are held; if we are connected at all."""
        if self._subscription is not None and self._unproven is None:
            self.pull(most)
        return self.last()

    def last(self) -> Offset | None:
        """The offset of the last event that is here, if there is any."""
        return self._offset(len(self._held))

    def _offset(self, count: int) -> Offset | None:
        """The offset behind the first so many."""
        if not count:
            return None
        place, event = self._held[count - 1]
        return Offset(*place, event.id)

    def between(self, start: Offset, end: Offset) -> list[Numbered]:
        """The events of (start, end], which may be on their way to us once more."""
        if end.place == start.place:
            return []
        self.begin(start)
        while not self._held or self._held[-1].place < end.place:
            # All of them came before, and are not acknowledged.
            came = self.pull(len(self._held) + self._options.events_a_batch, LOOK_S)
            if not came and self._is_over_time(end):
                break
        at = self._upto(end.place)
        if not at or self._held[at - 1].event.id != end.event:
            self._lost("since this batch was begun")
            if end.life == self._life + self._lives:
                self._begin_another_life()
            return []
        return [
            Numbered(place[1], event) for place, event in self._held[self._upto(start.place) : at]
        ]

    def _is_over_time(self, awaited: Offset) -> bool:
        """Whether an event that has to come has not, though the broker is there."""
        timeout_s = self._options.place.timeout_s
        if time.monotonic() - self._progress_at < timeout_s:
            return False
        assert self._client is not None
        if self._client.state != "connected":
            raise UserError(
                f"{self._client.url}: the broker can't be reached; event {awaited.number}"
                f" ({awaited.event}) of the durable subscription {self._options.name!r} has to come"
                " again from there"
            )
        return True

    def _upto(self, place: tuple[int, int]) -> int:
        """How many are held up to there."""
        return bisect_right(self._held, place, key=lambda held: held.place)

    def _drop(self, count: int) -> None:
        if count:
            self.open().ack(held.event for held in self._held[:count])
            del self._held[:count]

    # --- what waits now -----------------------------------------------------------------------------

    def pull_waiting(self, most: int, since: float) -> bool:
        """Take what waits, until so many are held; whether that was all that waited `since` then.

        That is so when nothing more comes, or when what comes was published later.
        """
        is_settled = False
        while len(self._held) < most:
            if self.pull(most, LULL_S):
                if self._held[-1].event.published_at > since:
                    return True
            elif is_settled:
                return True
            else:
                # By the time that this is answered, the first of what waits has been sent.
                is_settled = True
                with suppress(NotInTime):  # of a federation that lacks a broker we get what we get
                    self.open().ready()
        return False

    def take(self, *, acknowledge: bool) -> list[Numbered]:
        """All that are held, and are not any more."""
        events = [Numbered(place[1], event) for place, event in self._held]
        if acknowledge:
            self.open().ack(held.event for held in self._held)
        self._held.clear()
        return events

    def forget(self) -> None:
        """End the durable subscription for good, with what waits for it."""
        self.open().forget()
