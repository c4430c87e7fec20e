"""A matcher: knows its part of all subscriptions, and answers which of them an event matches (004 section
II.B).

It has no clients and keeps nothing in a store: what it knows, dispatchers tell it, and tell it again when
it starts (`wards`), of each space that it serves apart (`seat`). The events of a question are matched at
once; in the laboratory, where matching takes the time that the settings say, they wait in a queue a
dimension (`queues`). Once in `gossip_s` it gossips with other matchers, tells dispatchers how busy it is if
that has changed, and does what its place in the table asks for:

    no segments, and not leaving        Join, to a dispatcher
    heir of a segment, and filled       Filled
    leaving, and segments left          Leave
    sure that another is gone           Suspect

All of these are said again until the table shows that they have been heard, to the first dispatcher that is
there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from roost.broker import events as ev
from roost.broker.commands import Answered, StoreKey
from roost.broker.config import BrokerConfig
from roost.broker.exchange import parts_of
from roost.broker.hops import Link
from roost.broker.messages import Delivery
from roost.broker.module import Module
from roost.broker.server import Costs
from roost.broker.station import Station
from roost.partition import notes, wards
from roost.partition.accrual import AccrualSettings
from roost.partition.batch import Batch
from roost.partition.forwarding import Pace
from roost.partition.gossip import Digest, Gossip, around
from roost.partition.names import Elsewhere
from roost.partition.patches import Patch, patched
from roost.partition.queues import QueueKey, Queues, Waiting
from roost.partition.seat import Entries, Seat
from roost.partition.segments import SegmentTable
from roost.partition.settings import MatcherSettings

NAME = "partition"
TICK = "tick"
MATCHED = "matched"
FILL = "fill"
# So many subscriptions at a time are entered of what a dispatcher has told: some hundredths of a second.
STEPS = 500
# How much the last second counts in how busy it is, and by how much that has to differ to be told.
BUSY_WEIGHT = 0.3
BUSY_CHANGED = 0.05


class Matcher(Station):
    """One of the back end."""

    name = NAME
    Config = MatcherSettings
    # What matching takes depends on the set that is searched: see `MatcherSettings.entry_s`.
    costs = Costs(entry_s_mhz=0.0)

    def __init__(
        self, config: BrokerConfig, modules: Sequence[Module], settings: MatcherSettings
    ) -> None:
        super().__init__(config, modules, settings)
        self._dispatchers = settings.dispatcher_names
        name = self.identity.name
        self.seats = {
            space: Seat(name, space, dispatchers) for space, dispatchers in settings.spaces.items()
        }
        self._seat_of = {d: seat for seat in self.seats.values() for d in seat.dispatchers}
        self.table = Entries(self.seats)
        self.queues = Queues(settings.window_s)
        self.leaving = False
        self._busy = False
        self._takes_time = settings.message_s > 0.0 or settings.entry_s > 0.0
        self._told: dict[str, dict[QueueKey, Pace]] = {}  # dispatcher -> what it was last told, ...
        self._told_busy: dict[str, float] = {}
        self._measured: tuple[float, float] = (
            0.0,
            0.0,
        )  # when, and how long it had been busy by then
        self._busy_share = 0.0
        self._life = ""
        self._lives: dict[str, str] = {}  # what each dispatcher knows it by
        self._begun = 0
        self._took_s = 0.0
        self._fills: deque[tuple[str, notes.Fill]] = deque()  # told, and not known yet; ...
        self._filling: Iterator[None] | None = None  # ... what is done of the first
        self._steps = STEPS
        self._random = Random(self.identity.name)
        self._handlers[ev.Asked] = self._asked_by_operator
        self._heard: dict[type, Callable[[Link, Any], None]] = {
            notes.Fill: self._fill,
            notes.Asks: self._asks,
            notes.Tables: self._shown,
            Patch: self._patched,
            notes.Pull: self._pulled,
            Digest: self._digest,
        }

    # --- the beginning, and neighbours --------------------------------------------------------------

    def restored(self, records: Mapping[StoreKey, Any]) -> None:  # noqa: ARG002
        """It knows nothing of what it has been told in an earlier life."""
        wards.warm_up()
        self._life = f"{self.identity.in_this_life}.{self.identity.life}"
        self._random = Random(self._life)
        accrual = AccrualSettings(model=self.settings.model, first_s=self.settings.gossip_s)
        # Lives are told apart by when they began.
        self.gossip = Gossip(self.identity.name, int(self.now * 1000) + 1, self.now, accrual)
        self.set_timer(TICK, self.settings.gossip_s * self._random.random())

    def greeted(self, link: Link) -> None:
        if link.name in self._dispatchers:
            self._say(link, notes.Hello(self._lives.setdefault(link.name, self._life)))
            self._told.pop(link.name, None)
            self._told_busy.pop(link.name, None)

    def begun(self, link: Link) -> None:
        if link.name in self._dispatchers:
            self._begun += 1
            self._lives[link.name] = f"{self._life}.{self._begun}"
            self._forget(link.name)
            self.greeted(link)

    def told(self, link: Link, body: bytes) -> None:
        note = notes.decode(body)
        listener = self._heard.get(type(note))
        if listener is not None:
            listener(link, note)

    def _say(self, link: Link, said: notes.Said) -> None:
        behind = isinstance(said, notes.BEHIND)
        cause = f"{self.identity.name}: {type(said).__name__.lower()}"
        self.note(link, notes.encode(said), cause=cause, behind=behind)

    # --- being filled, and asked --------------------------------------------------------------------

    def _fill(self, link: Link, fill: notes.Fill) -> None:
        if fill.life == self._lives.get(
            link.name
        ):  # else it is for one that has forgotten what came before
            self._fills.append((link.name, fill))
            self._go_on()

    def _go_on(self) -> None:
        """With what has been told, for a while: whoever has much to tell does not keep it from all else."""
        while self._fills and self._steps > 0:
            dispatcher, fill = self._fills[0]
            if self._filling is None:
                self._filling = self._seat_of[dispatcher].wards.filling(dispatcher, fill)
            for _ in self._filling:
                self._steps -= 1
                if self._steps <= 0:
                    self.set_timer(FILL, 0.0)
                    return
            self._filling = None
            self._fills.popleft()
            if fill.promised is not None:
                self._claim(self._seat_of[dispatcher])

    def handled(self) -> None:
        self._steps = STEPS

    def _forget(self, dispatcher: str) -> None:
        """What it has said, and what was on the way, counts no more."""
        if self._fills and self._fills[0][0] == dispatcher:
            self._filling = None
        self._fills = deque(pair for pair in self._fills if pair[0] != dispatcher)
        self._seat_of[dispatcher].wards.forget(dispatcher)

    def _asks(self, link: Link, asks: notes.Asks) -> None:
        seat = self._seat_of.get(link.name)
        if seat is None:
            return
        key = (seat.space, asks.key)
        if not self._takes_time:
            count, size = asks.events.count, seat.wards.size(asks.key)
            self.queues.passed(key, count, size, self.now)
            self._answer(link.name, asks, None)
            return
        for row in range(asks.events.count):
            self.queues.put(Waiting(link.name, key, asks, row, self.now))
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        """Match the next; in the laboratory, where it takes time."""
        waiting = self.queues.next()
        if waiting is not None:
            settings = self.settings
            self._busy = True
            self._took_s = settings.message_s + settings.entry_s * self._size(waiting)
            self.set_timer(MATCHED, self._took_s)

    def _size(self, waiting: Waiting) -> int:
        return self._seat_of[waiting.dispatcher].wards.size(waiting.asks.key)

    def _done(self) -> None:
        waiting = self.queues.next()
        assert waiting is not None
        self._busy = False
        self.queues.done(self._size(waiting), self._took_s)
        self._answer(waiting.dispatcher, waiting.asks, (waiting.row,))
        self._begin()

    def _answer(self, dispatcher: str, asks: notes.Asks, rows: tuple[int, ...] | None) -> None:
        """These of the events that one question is about, or all, together."""
        link = self.links.get(dispatcher)
        if link is None:
            return
        life, request, wards = asks.life, asks.request, self._seat_of[dispatcher].wards
        objection = wards.objection_to(asks)
        if objection:
            self._say(link, notes.Bounced(life, request, rows, objection))
            return
        events = _events_of(asks)
        if rows is not None:
            events = events.take(np.array(rows))
        covered = wards.covered(asks, events)
        if not covered.all():
            all_rows = np.arange(events.count) if rows is None else np.array(rows)
            bounced = tuple(all_rows[~covered].tolist())
            self._say(
                link, notes.Bounced(life, request, bounced, "not all have promised that part")
            )
            rows, events = tuple(all_rows[covered].tolist()), events.take(np.flatnonzero(covered))
        if events.count:
            self.traffic.routed += events.count  # what is bounced is not matched
            self._tell_found(link, asks, rows, events)

    def _tell_found(
        self, link: Link, asks: notes.Asks, rows: tuple[int, ...] | None, events: Batch
    ) -> None:
        """What matches, in as many notes as it takes."""
        wards = self._seat_of[link.name].wards
        ends, slots, others = wards.match(link.name, asks.key, events)
        if asks.whole:
            self._deliver(asks, rows, others)
            others = {}
        found = notes.Found(asks.life, asks.request, rows, ends, slots, others)
        if events.count > 1 and not asks.whole and notes.size_of(found) > notes.BULK_BYTES:
            all_rows = tuple(range(events.count)) if rows is None else rows
            half = events.count // 2
            for first, last in ((0, half), (half, events.count)):
                part = events.take(np.arange(first, last))
                self._tell_found(link, asks, all_rows[first:last], part)
        else:
            self._say(link, found)

    def _deliver(self, asks: notes.Asks, rows: tuple[int, ...] | None, others: Elsewhere) -> None:
        """To the dispatchers whose clients these events are for, without a way back: see `direct`."""
        for name, (ends, ids) in others.items():
            link = self.links.get(name)
            if link is None:
                continue
            first = 0
            for place, end in enumerate(np.frombuffer(ends, np.uint32).tolist()):
                if end > first:
                    row = place if rows is None else rows[place]
                    publication = asks.whole[row].opened()
                    for part in parts_of(ids[first:end], self.config.delivery_ids_bytes_max):
                        self.tell(link, Delivery(publication, part), 1)
                first = end

    # --- its place in the table -----------------------------------------------------------------------

    def _seat(self, link: Link, space: str) -> Seat | None:
        """What a neighbour speaks of: a dispatcher of its own space, a matcher of the one that it names."""
        return self._seat_of.get(link.name) or self.seats.get(space)

    def _shown(self, link: Link, shown: notes.Tables) -> None:
        seat = self._seat(link, shown.space)
        if seat is not None:
            self._adopt(seat, shown.table)

    def _patched(self, link: Link, patch: Patch) -> None:
        seat = self._seat_of.get(link.name)
        if seat is None:
            return
        table = patched(seat.table, patch)
        if table is not None:
            self._adopt(seat, table)
        elif (patch.version, patch.writer) > seat.stamp:
            self._say(link, notes.Pull(seat.stamp, seat.space))

    def _pulled(self, link: Link, pull: notes.Pull) -> None:
        seat = self._seat(link, pull.space)
        if seat is not None and seat.stamp > tuple(pull.stamp):
            self._show(link, seat)

    def _adopt(self, seat: Seat, table: SegmentTable) -> None:
        gone = seat.adopt(table)
        if gone is not None:
            members = self._members()
            for name in gone:
                if name not in members:
                    self.gossip.forget(name)
            self._claim(seat)

    def _show(self, link: Link, seat: Seat | None) -> None:
        if seat is not None and seat.table is not None:
            self._say(link, notes.Tables(seat.table, seat.space))

    def _members(self) -> list[str]:
        """The matchers of all its spaces."""
        return sorted({name: None for seat in self.seats.values() for name in seat.members()})

    def _claim(self, seat: Seat) -> None:
        """Say what the table does not show yet."""
        dispatcher = self._first_of(seat)
        if dispatcher is not None:
            for said in seat.claims(leaving=self.leaving):
                self._say(dispatcher, said)

    def _first_of(self, seat: Seat) -> Link | None:
        there = (self.links[name] for name in seat.dispatchers if name in self.links)
        return next((link for link in there if link.greeted), None)

    # --- time ---------------------------------------------------------------------------------------

    def timer(self, name: str) -> None:
        if name == FILL:
            self._go_on()
        elif name == MATCHED:
            self._done()
        elif name == TICK:
            self.set_timer(TICK, self.settings.gossip_s * (0.9 + 0.2 * self._random.random()))
            self._gossip()
            self._tell_paces()
            for seat in self.seats.values():
                self._claim(seat)

    def _gossip(self) -> None:
        gossip, members = self.gossip, self._members()
        if not members:
            return
        gossip.tick()
        there = [n for n in members if n in self.links and self.links[n].greeted]
        stamps = {seat.space: seat.stamp for seat in self.seats.values() if seat.table is not None}
        watched = around(self.identity.name, members)
        for partner in gossip.partners(there, watched, self._random.random):
            self._say(self.links[partner], gossip.digest(stamps, watched))
        suspects = gossip.suspects(watched, self.now)
        for seat in self.seats.values():
            dispatcher, of_it = self._first_of(seat), seat.members()
            for suspect in suspects:
                if dispatcher is not None and suspect in of_it:
                    self._say(dispatcher, notes.Suspect(suspect))

    def _digest(self, link: Link, digest: Digest) -> None:
        self.gossip.hear(digest, self.now)
        for space, stamp in digest.stamps.items():
            seat = self.seats.get(space)
            if seat is not None and seat.stamp > tuple(stamp):
                self._show(link, seat)
            elif seat is not None and seat.stamp < tuple(stamp):
                self._say(link, notes.Pull(seat.stamp, space))

    def _sampled(self, event: ev.LoadSampled) -> None:
        """What the driver has measured, of all that it did: not while it was filled."""
        super()._sampled(event)
        self.queues.measured(0.0 if self._fills else event.load.matching_delay_s)

    def _measure(self) -> None:
        """How busy it is: in the laboratory by its own account, live by the driver's."""
        then, was_s = self._measured
        if self.now > then:
            share = (self.queues.busy_s - was_s) / (self.now - then)
            self._busy_share += BUSY_WEIGHT * (share - self._busy_share)
        self._measured = (self.now, self.queues.busy_s)

    @property
    def busy(self) -> float:
        return max(self._busy_share, self.load.input_utilisation if self.load is not None else 0.0)

    def _tell_paces(self) -> None:
        self._measure()
        busy = self.busy
        sizes = {
            (seat.space, key): size
            for seat in self.seats.values()
            for key, size in seat.wards.sizes().items()
        }
        paces = self.queues.paces(sizes, self.now)
        for name in self._dispatchers:
            link = self.links.get(name)
            if link is None or not link.greeted:
                continue
            before, space = self._told.setdefault(name, {}), self._seat_of[name].space
            changed = {
                key: pace
                for key, pace in paces.items()
                if key[0] == space and (key not in before or pace.has_changed(before[key]))
            }
            if changed or abs(busy - self._told_busy.get(name, -1.0)) > BUSY_CHANGED:
                its = tuple((key, pace) for (_, key), pace in changed.items())
                self._say(link, notes.Paces(its, busy))
                before.update(changed)
                self._told_busy[name] = busy

    # --- operators ----------------------------------------------------------------------------------

    def _asked_by_operator(self, event: ev.Asked) -> None:
        answers = {}
        if event.request == "leave":
            self.leaving = True
            for seat in self.seats.values():
                self._claim(seat)
            answers = {NAME: {"leaving": True}}
        self._work.command(Answered(event.id, answers, {}))

    def has_left(self) -> bool:
        """Whether nobody needs it any more."""
        return self.leaving and all(seat.has_left() for seat in self.seats.values())

    def figures(self) -> Mapping[str, Any]:
        sizes = {
            "/".join(filter(None, (space, "+".join(map(str, key))))): size
            for space, seat in self.seats.items()
            for key, size in sorted(seat.wards.sizes().items())
        }
        message_s, entry_s = self.queues.meter.fitted()
        return {
            **super().figures(),
            "sets": sizes,
            "wide": sum(seat.wards.wide for seat in self.seats.values()),
            "spaces": list(self.seats),
            "message_us": 1e6 * message_s,
            "entry_us": 1e6 * entry_s,
            "matched": self.traffic.routed,
            "waiting": len(self.queues),
            "filling": len(self._fills),
            "busy": self.busy,
            "left": self.has_left(),
            "table": max(seat.stamp[0] for seat in self.seats.values()),
        }

    def unfinished(self) -> Sequence[str]:
        words = [f"{len(self.queues)} events wait to be matched"] if len(self.queues) else []
        if self._fills:
            words.append("subscriptions that it was told of are being entered")
        return words


def _events_of(asks: notes.Asks) -> Batch:
    if asks.whole:
        return Batch.of([envelope.attributes for envelope in asks.whole])
    return Batch.read(asks.events)
