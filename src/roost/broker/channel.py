"""Messages that arrive exactly once and in order, over connections that come and go.

A channel is one end of a conversation between two brokers, or between a client and its broker. It
outlives connections, and with a store also crashes. Each end numbers what it sends, a *lane* for each
class, and keeps it until the other end has acknowledged it. A new connection begins with both ends
saying how far they have received, and goes on with what is missing. Three rules:

1. A number is given once, in order, and kept with its message until it is acknowledged.
2. Only the next number is accepted. A lower one has been here before and is passed over; a higher one means
   that the peer has lost its way.
3. An acknowledgement speaks of what is safe, so it leaves behind the `Persist` of what it speaks of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from roost.broker.commands import StoreKey
from roost.broker.errors import RemoteProtocolError
from roost.broker.journal import Journal
from roost.broker.kept import Kept
from roost.broker.messages import CONTROL, DATA, Ack, Frame, Message, Priority
from roost.broker.runs import Run


class Lane:
    """One class of messages of a channel, both ways."""

    __slots__ = (
        "__weakref__",
        "_kept",
        "_outbox",
        "_runs",
        "acked",
        "journal",
        "key",
        "memory_max",
        "priority",
        "received",
        "reported",
        "sent",
        "spilled",
    )

    def __init__(
        self, priority: Priority, key: tuple[str | int, ...], journal: Journal | None
    ) -> None:
        self.priority: Priority = priority
        self.key = (*key, priority)
        self.journal = journal
        self._kept = None if journal is None else Kept(journal, self.key)
        self.sent = 0  # the last number given
        self.acked = 0  # the last number that has arrived there
        self._outbox: deque[Any] = deque()  # frames, and runs of them that nobody has looked into:
        self._runs = 0  # so many
        self.spilled = 0  # so many messages, of the outbox and at its end, are in the store only
        self.memory_max = 0  # from how many on; 0 is never
        self.received = 0  # the last number that has arrived here
        self.reported = 0  # the last of those that we have acknowledged

    @property
    def outbox(self) -> deque[Frame]:
        """What has been sent and has not arrived: numbers acked + 1 to sent, less what is spilled."""
        if self._runs:
            frames: deque[Frame] = deque()
            for each in self._outbox:
                if type(each) is Run:
                    frames.extend(each.frames(self.acked))
                else:
                    frames.append(each)
            self._outbox, self._runs = frames, 0
        return self._outbox

    @property
    def waiting(self) -> int:
        """How many messages are in the outbox."""
        return self.sent - self.acked - self.spilled

    @property
    def single(self) -> Iterator[Frame]:
        """The messages of the outbox that are in no run: all but publications and deliveries are."""
        return (each for each in self._outbox if type(each) is Frame)

    def behind(self, number: int, count: int) -> Iterator[Frame | Run]:
        """So many messages of the outbox behind a number, as frames and runs."""
        if not self._runs:
            begin = number - self.acked
            yield from islice(self._outbox, begin, begin + count)
            return
        last = number + count
        for each in self._outbox:
            if type(each) is not Run:
                if each.sequence > last:
                    return
                if number < each.sequence:
                    yield each
            elif each.last > number and each.first <= last:
                part = each.part(number + 1, last)
                yield part if len(part) > 1 else part.frames()[0]

    def push(self, message: Message, hops: int) -> Frame:
        """Number a message and keep it until it has arrived."""
        is_full = self.memory_max and (self.spilled or self.waiting >= self.memory_max)
        self.sent = number = self.sent + 1
        frame = Frame(self.priority, number, message, hops)
        if is_full:
            self.spilled += 1
        else:
            self._outbox.append(frame)
        if self._kept is not None:
            self._kept.put(number, message, hops)
        return frame

    def push_run(self, run: Run) -> Run | None:
        """Keep messages that have been numbered until they have arrived; those that are in memory, too."""
        assert run.first == self.sent + 1
        if self._kept is not None:
            self._kept.put_run(run)
        part: Run | None = run
        if self.memory_max:
            room = 0 if self.spilled else max(0, self.memory_max - self.waiting)
            if room < len(run):
                self.spilled += len(run) - room
                part = run.part(run.first, run.first + room - 1) if room else None
        self.sent = run.last
        if part is not None:
            self._outbox.append(part)
            self._runs += 1
        return part

    def replace(self, place: int, message: Message) -> None:
        """Say something else instead of a message that waits, at this place of the outbox."""
        frame = self.outbox[place]
        self.outbox[place] = Frame(frame.priority, frame.sequence, message, frame.hops)
        if self._kept is not None:
            self._kept.replace(frame.sequence, message, frame.hops)

    def winnow(self, arrived: int, kept: Container[type], void: Message) -> None:
        """Of what waits keep these kinds of messages only; all runs are of one of them.

        Others at the end, which can't have arrived, are taken back. (A link that begins anew again and again
        would heap them up.) Before that, or where some is in the store only, numbers have to stay: something
        void is said in their place.
        """
        outbox, last = self._outbox, self.sent
        while outbox and not self.spilled and self.sent > max(arrived, self.acked):
            if type(outbox[-1]) is Run or type(outbox[-1].message) in kept:
                break
            outbox.pop()
            self.sent -= 1
        if self._kept is not None and self.sent < last:
            self._kept.take_back(self.sent + 1, last)
        for place, each in enumerate(outbox):
            if type(each) is Frame and type(each.message) not in kept and each.message != void:
                outbox[place] = Frame(each.priority, each.sequence, void, each.hops)
                if self._kept is not None:
                    self._kept.replace(each.sequence, void, each.hops)

    def push_ahead(self, messages: Sequence[tuple[Message, int]]) -> None:
        """Put messages in front of those that wait, none of which has been sent."""
        waiting = [(frame.message, frame.hops) for frame in self.outbox]
        for place, (message, hops) in enumerate([*messages, *waiting]):
            if place < len(waiting):
                self.replace(place, message)
            else:
                self.push(message, hops)

    def accept(self, sequence: int) -> bool:
        """Whether a message is new; False for one that has been here before."""
        expected = self.received + 1
        if sequence != expected:
            if sequence < expected:
                return False
            raise RemoteProtocolError(f"message {sequence} came where {expected} was expected")
        self.accept_to(sequence)
        return True

    def accept_to(self, sequence: int) -> None:
        """All messages up to this number, and no other, have come."""
        self.received = sequence
        if self._kept is not None:
            self._kept.received(sequence)

    def acknowledged(self, sequence: int) -> None:
        """Everything up to this number has arrived there."""
        if sequence > self.sent - self.spilled:
            last = self.sent - self.spilled
            raise RemoteProtocolError(f"{sequence} is acknowledged, but {last} was the last")
        if self._kept is not None:
            self._kept.arrived(self.acked, sequence)
        if sequence == self.sent:  # then nothing is spilled
            self._outbox.clear()
            self._runs = 0
            self.acked = sequence
        elif self._runs:
            self._arrived(sequence)
        while self.acked < sequence:
            self.acked += 1
            self._outbox.popleft()

    def _arrived(self, sequence: int) -> None:
        """The same where there are runs: one stays until all of it has arrived."""
        outbox = self._outbox
        while outbox:
            first = outbox[0]
            is_run = type(first) is Run
            if (first.last if is_run else first.sequence) > sequence:
                break
            outbox.popleft()
            self._runs -= is_run
        self.acked = max(self.acked, sequence)

    def forget(self) -> None:
        """Remove every trace of it from the store."""
        if self._kept is not None:
            self._kept.forget(self.acked, self.sent)

    def restore(
        self,
        sent: int,
        received: int,
        outbox: Mapping[int, tuple[Message, int]],
        runs: Sequence[Run] = (),
        acked: int = 0,
    ) -> None:
        """Back to what the store says (see `kept`)."""
        assert self._kept is not None
        self.sent = sent
        self.received = self.reported = received
        lowest = min([*outbox, *(run.first for run in runs)], default=sent + 1)
        self.acked = max(lowest - 1, acked)
        self.spilled = sent - self.acked
        self._kept.restore(runs, outbox, notes_acked=acked > 0)
        count = min(self.spilled, self.memory_max or self.spilled)
        by_first = {run.first: run for run in runs}
        keys = self.to_fetch(count)
        self.refill(
            keys, [(by_first if k[0] == "run" else outbox)[int(k[-1])] for k in keys], count
        )

    def to_fetch(self, count: int) -> list[StoreKey]:
        """The keys of the records that have the next so many of the messages that are in the store only."""
        assert self._kept is not None
        first = self.sent - self.spilled + 1
        return self._kept.keys(first, first + count - 1)

    def refill(self, keys: Sequence[StoreKey], records: Sequence[Any], count: int) -> None:
        """These records have the next so many of what was in the store only."""
        first = self.sent - self.spilled + 1
        last, reached = first + count - 1, first - 1
        for key, record in zip(keys, records, strict=True):
            if type(record) is Run:
                part = record.part(first, last)
                self._outbox.append(part)
                self._runs += 1
                reached = part.last
                continue
            number = int(key[-1])
            frame = Frame(self.priority, number, *record)
            if number <= reached:
                self.outbox[number - self.acked - 1] = frame  # it stands in that run, too
            else:
                self._outbox.append(frame)
                reached = number
        self.spilled -= count

    def begin_again(self, received: int = 0) -> None:
        """The other end goes on behind this number, whatever came before; it gets what it has not had."""
        self.received = self.reported = received
        if self._kept is not None:
            self._kept.received(received)


class Marks(NamedTuple):
    """How far the lanes of a channel had come at some time."""

    control_sent: int = 0
    control_received: int = 0
    data_sent: int = 0
    data_received: int = 0

    @classmethod
    def of(cls, channel: Channel) -> Marks:
        control, data = channel.lanes
        return cls(control.sent, control.received, data.sent, data.received)


class Channel:
    """One end of a conversation. `key` names it in the store."""

    __slots__ = ("control", "data", "lanes")

    def __init__(self, key: tuple[str | int, ...], journal: Journal | None) -> None:
        self.control = Lane(CONTROL, key, journal)
        self.data = Lane(DATA, key, journal)
        self.lanes = (self.control, self.data)

    def resume(self, control_received: int, data_received: int) -> None:
        """The other end has received so much: the outboxes hold what it lacks."""
        self.control.acknowledged(control_received)
        self.data.acknowledged(data_received)

    def acknowledged(self, ack: Ack) -> None:
        self.control.acknowledged(ack.control)
        self.data.acknowledged(ack.data)

    def unreported(self) -> int:
        """How many messages we have received and not acknowledged."""
        control, data = self.lanes
        return control.received - control.reported + data.received - data.reported

    def ack(self, data: int | None = None) -> Ack:
        """An acknowledgement of all that has been received; of data, if it is said, only of so much."""
        self.control.reported = self.control.received
        self.data.reported = self.data.received if data is None else data
        return Ack(self.control.reported, self.data.reported)

    def begin_again(self) -> None:
        """Another process is at the other end. It gets the data that the last one has not had."""
        self.begin_control()
        self.data.begin_again()

    def begin_control(self) -> None:
        """What was said of the control class, and not heard, is void: from 1 on again, both ways."""
        self.control.forget()
        self.control = Lane(CONTROL, self.control.key[:-1], self.control.journal)
        self.lanes = (self.control, self.data)

    def begin_data(self) -> None:
        """The same of the data class."""
        self.data.forget()
        self.data = Lane(DATA, self.data.key[:-1], self.data.journal)
        self.lanes = (self.control, self.data)

    def forget(self) -> None:
        for lane in self.lanes:
            lane.forget()
