"""What a client publishes and advertises, once its line is there.

**Bounds.** It costs no task and no future an event. What has not been acknowledged is bounded, in events
and in bytes: at a bound, whoever publishes waits until half of it is.

**Advertisements** come first. A new one, also one that is derived (`advertising`), holds events back until
every broker knows of it, or some time has passed, so that the first event reaches subscribers at the other
end of a federation. The machine holds them, and so keeps their order.

**Refusals** come later than what they refuse. Those of publications, and of advertisements that nobody waits
for, are kept for whoever comes next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from roost.broker.events import (
    AdvertiseRequested,
    PauseRequested,
    PublishRequested,
    ResumeRequested,
    UnadvertiseRequested,
)
from roost.broker.messages import ASKS_BACK
from roost.client.advertising import Derived, Shape
from roost.client.errors import Gap, Refused
from roost.client.line import Line
from roost.client.options import Options
from roost.client.outgoing import Checked, event_of
from roost.client.running import prefix_of, tail_of
from roost.language import Advertisement

if TYPE_CHECKING:
    from roost.client.columns_encoding import Encoder

log = logging.getLogger("roost.client")

# A publisher that never waits lets others have their turn after so many events; more, if they come together.
TURN_EVENTS = 256
TURN_MANY = 1_024
# So many single ones are put between two looks at the bounds.
GRANTED = 32
TURN_COLUMNS = 4_096
# How closely bytes that are not acknowledged are counted.
BYTES_STEP = 1 << 18


class Advertised:
    """An advertisement of a client. It holds until it is withdrawn, or the client closed."""

    def __init__(self, publishing: Publishing, name: str, advertisement: Advertisement) -> None:
        self.filter = str(advertisement)
        self._publishing = publishing
        self._name = name
        self._refusal = ""

    async def withdraw(self) -> None:
        """No event like this will be published any more; what was published still arrives."""
        self._publishing.withdraw(self._name)

    def __repr__(self) -> str:
        return f"<Advertised {self.filter!r}>"


class Publishing:
    """The publishing half of a client."""

    def __init__(self, line: Line, options: Options) -> None:
        self._line = line
        self._machine = line.machine
        self._name = line.machine.publisher
        self._prefix = prefix_of(self._name)
        self._options = options
        self._derived: Derived | None = Derived()  # None once the application advertises itself
        self._advertised: dict[str, Advertised] = {}
        self._names = 0
        self._holds = 0
        self._refusal: tuple[str, str] | None = None  # the first of them, and ...
        self._more_refusals = 0
        self._refused_events = 0  # of all of them
        self._turn = 0
        self._granted = 0  # events that may be put before the bounds have to be looked at
        self._bytes_a_turn = options.pending_bytes_max // 2  # of many
        # Bytes published, those that are acknowledged for certain, and steps: (number, bytes up to it).
        self._bytes = 0
        self._bytes_acked = 0
        self._bytes_marked = 0
        self._marks: deque[tuple[int, int]] = deque()

    # --- events -------------------------------------------------------------------------------------

    def put(self, checked: Checked) -> str | None:
        """Publish an event at once, as most are; its id. None if something has to be waited for."""
        if (
            self._refusal is not None
            or self._line.failure is not None
            or (self._derived is not None and not self._derived.knows(checked[1]))
        ):
            return None
        if self._granted:
            self._granted -= 1
        elif not self._grant():
            return None
        return f"{self._name}:{self._send(checked)}"

    def _grant(self) -> bool:
        """Whether an event may be put; so many more may, then, without a look at the bounds for each."""
        if self._turn >= TURN_EVENTS or self._is_full():
            return False
        options = self._options
        left = options.pending_bytes_max - self._bytes + self._bytes_acked
        self._granted = min(
            GRANTED,
            TURN_EVENTS - self._turn - 1,
            options.pending_max - self._on_its_way - 1,
            left // options.limits.publication_bytes_max,
        )
        self._turn += 1 + self._granted
        return True

    async def publish(self, checked: Checked, number: int | None = None) -> str:
        """Publish an event; its id. Gap if the application numbers them, and this is not the next one."""
        self.raise_refusals()
        self._granted = 0
        self._turn += 1
        if self._turn >= TURN_EVENTS:
            self._turn = 0
            await asyncio.sleep(0)
        if self._is_full():
            await self._room()
        self._line.check()
        if number is not None and number != self._machine.published + 1:
            raise Gap(self._name, number, self._machine.published + 1)
        self._advertise_derived((checked[1],))
        return f"{self._name}:{self._send(checked)}"

    async def publish_many(self, many: Sequence[Checked]) -> None:
        """The same of many events, in their order, a turn of them at a time."""
        step = min(TURN_MANY, max(1, self._options.pending_max // 2))
        first = 0
        while first < len(many):
            await self._turn_of_many(first)
            part = many[first : first + step]
            raws = [checked[0] for checked in part]
            if sum(map(len, raws)) > self._bytes_a_turn:
                count = max(1, bisect_right([*accumulate(map(len, raws))], self._bytes_a_turn))
                part, raws = part[:count], raws[:count]
            if self._derived is not None:
                self._advertise_derived({checked[1]: None for checked in part})
            self._send_many(part, raws)
            first += len(part)

    async def publish_columns(self, encoder: Encoder, rest: Callable[[int], list[Checked]]) -> None:
        """The same of events in columns; `rest` gives those from a row on one by one, if need be."""
        step = min(TURN_COLUMNS, max(1, self._options.pending_max // 2))
        shapes = [] if self._derived is None else encoder.shapes()
        running, numbering = self._line.running, self._machine.numbering
        first = 0
        while first < encoder.rows:
            await self._turn_of_many(first)
            self._advertise_derived(shapes)
            if not (running.is_open or running.begin()):
                await self.publish_many(rest(first))
                return
            rows = encoder.rows_within(first, step, self._bytes_a_turn)
            number = numbering.last + 1
            sequence = running.next_sequence
            data = encoder.frames(first, rows, sequence, self._prefix, number, tail_of(time.time()))
            numbering.last += rows
            running.put_frames(data, rows)
            running.end()
            self._count(numbering.last, len(data))
            first += rows

    async def _turn_of_many(self, first: int) -> None:
        """Before the next of many are sent."""
        self._granted = 0
        self.raise_refusals()
        if first:
            await asyncio.sleep(0)
        if self._is_full():
            await self._room()
        self._line.check()

    def _send_many(self, part: Sequence[Checked], raws: Sequence[bytes]) -> None:
        """`_send` for events that have nothing but attributes, which are these."""
        running, numbering = self._line.running, self._machine.numbering
        if not (running.is_open or running.begin()):
            for checked in part:
                self._send(checked)
            return
        number = numbering.last + 1
        numbering.last += len(part)
        size = running.put_many(self._prefix, number, raws)
        running.end()
        self._count(numbering.last, size)

    def _advertise_derived(self, shapes: Iterable[Shape]) -> None:
        if self._derived is not None:
            for shape in shapes:
                missing = self._derived.missing(shape)
                if missing is not None:
                    self._hold_for(*missing)

    def _send(self, checked: Checked) -> int:
        """Number an event and send it, by the machine if that has to see it; the number."""
        raw, _, payload, content_type, headers = checked
        machine, running = self._machine, self._line.running
        if running.is_open or running.begin():
            numbering = machine.numbering
            number = numbering.last = numbering.last + 1
            if payload or content_type or headers:
                size = running.put(self._prefix, number, raw, payload, content_type, headers)
            else:
                size = running.put_plain(self._prefix, number, raw)
        else:
            self._line.handle(PublishRequested(event_of(raw), payload, content_type, headers))
            number, size = machine.published, len(raw) + len(payload)
        self._bytes += size
        if self._bytes - self._bytes_marked > BYTES_STEP:
            self._mark(number)
        return number

    def _count(self, number: int, size: int) -> None:
        self._bytes += size
        if self._bytes - self._bytes_marked > BYTES_STEP:
            self._mark(number)

    def _mark(self, number: int) -> None:
        """Up to this event there were so many bytes."""
        self._bytes_marked = self._bytes
        self._marks.append((number, self._bytes))

    def _is_full(self) -> bool:
        """Whether enough is on its way."""
        connection = self._line.connection
        return (
            self._on_its_way >= self._options.pending_max
            or (connection is not None and connection.congested)
            or self._bytes - self._bytes_acked > self._options.pending_bytes_max
        )

    @property
    def _on_its_way(self) -> int:
        """How many events have not been acknowledged, as far as is known."""
        lane = self._machine.channel.data
        return lane.sent - lane.acked + self._line.running.count + len(self._machine.kept_back)

    async def _room(self) -> None:
        """Until there is room for several, so that not each event waits."""
        self._count_bytes()
        while self._is_full():
            await self._line.until(self._has_room, None, lambda: "too much is on its way")

    def _has_room(self) -> bool:
        self._count_bytes()
        lane = self._machine.channel.data
        connection = self._line.connection
        on_its_way = lane.sent - lane.acked + len(self._machine.kept_back)
        return (
            on_its_way * 2 <= self._options.pending_max
            and (connection is None or not connection.congested)
            and (self._bytes - self._bytes_acked) * 2 <= self._options.pending_bytes_max
        )

    def _count_bytes(self) -> None:
        accepted = self._machine.accepted
        if accepted >= self._machine.published:
            # All of it, also what came since the last mark: else a bound below the step is never met again.
            self._marks.clear()
            self._bytes_acked = self._bytes_marked = self._bytes
        while self._marks and self._marks[0][0] <= accepted:
            self._bytes_acked = self._marks.popleft()[1]

    @property
    def unacknowledged(self) -> int:
        """How many events the broker has not acknowledged."""
        return self._machine.published - self._machine.accepted

    async def flush(self, timeout_s: float | None) -> None:
        """Until everything up to now is acknowledged."""
        machine, last = self._machine, self._machine.published
        await self._line.until(
            lambda: machine.accepted >= last and not machine.channel.control.outbox,
            timeout_s,
            lambda: f"{last - machine.accepted:,} events are not acknowledged",
        )
        self.raise_refusals()

    # --- advertisements -----------------------------------------------------------------------------

    async def advertise(self, advertisement: Advertisement) -> Advertised:
        """Until the broker has it."""
        self._derived = None
        self._names += 1
        name = f"own {self._names}"
        advertised = self._advertised[name] = Advertised(self, name, advertisement)
        let_go = self._hold_for(name, advertisement)
        try:
            await self._line.until(
                lambda: (
                    bool(advertised._refusal)
                    or (let_go.done() and not self._machine.channel.control.outbox)
                ),
                None,
                lambda: "the advertisement has not been heard",
            )
        except BaseException:
            self.withdraw(name)  # nobody has it, so nobody could
            raise
        if advertised._refusal:
            raise Refused(f"the advertisement {advertised.filter!r}", advertised._refusal)
        return advertised

    def withdraw(self, name: str) -> None:
        if self._advertised.pop(name, None) is not None:
            self._line.handle(UnadvertiseRequested(name))

    def _hold_for(self, name: str, advertisement: Advertisement) -> asyncio.Future[None]:
        """Advertise, and hold events back until it has settled, if need be; done when they are let go.

        Brokers presume that they are wanted (`absence`), but for those of the version before.
        """
        line = self._line
        line.handle(AdvertiseRequested(name, advertisement))
        if self._machine.home.speaks >= ASKS_BACK:
            let_go: asyncio.Future[None] = line.loop.create_future()
            let_go.set_result(None)
            return let_go
        if not self._holds:
            line.handle(PauseRequested())
        self._holds += 1
        let_go = line.loop.create_future()
        late = line.loop.call_later(self._options.settle_s, self._let_go, let_go, False)
        line.settling.ask().add_done_callback(lambda _: self._let_go(let_go, True))
        let_go.add_done_callback(lambda _: late.cancel())
        return let_go

    def _let_go(self, let_go: asyncio.Future[None], settled: bool) -> None:
        if let_go.done():
            return
        let_go.set_result(None)
        if not settled:
            what = "an advertisement is not known to all brokers after"
            log.warning("%s: %s %g s; going on", self._name, what, self._options.settle_s)
        self._holds -= 1
        if not self._holds:
            self._line.handle(ResumeRequested())
        self._line.progressed()

    # --- refusals -----------------------------------------------------------------------------------

    def refused(self, request: str, reason: str) -> None:
        """The broker refuses a publication or an advertisement; one that was withdrawn is no matter."""
        if request.startswith(f"{self._name}:"):
            self._refused_events += 1
            self._note(f"publication {request}", reason)
            return
        name = self._machine.advertisement_called(request)
        if name is None:
            return
        self._line.handle(UnadvertiseRequested(name))
        advertised = self._advertised.pop(name, None)
        if advertised is not None:
            advertised._refusal = reason
            return
        if self._derived is not None:
            self._derived.refused(name)
        self._note("the advertisement that follows from what was published", reason)

    def _note(self, request: str, reason: str) -> None:
        if self._refusal is None:
            self._refusal = (request, reason)
        else:
            self._more_refusals += 1

    def raise_refusals(self) -> None:
        """Raise what nobody has heard of."""
        if self._refusal is not None:
            (request, reason), self._refusal = self._refusal, None
            others, self._more_refusals = self._more_refusals, 0
            events, self._refused_events = self._refused_events, 0
            raise Refused(request, reason, others, events=events)
