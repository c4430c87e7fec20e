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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.broker.errors import RemoteProtocolError
from roost.broker.journal import Journal
from roost.broker.messages import CONTROL, DATA, Ack, Frame, Message, Priority
from roost.broker.runs import Run


class Lane:
    """One class of messages of a channel, both ways."""

    __slots__ = (
        "__weakref__",
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

    def push(self, message: Message, hops: int) -> Frame:
        """Number a message and keep it until it has arrived."""
        self.sent = number = self.sent + 1
        frame = Frame(self.priority, number, message, hops)
        if self.memory_max and (self.spilled or len(self.outbox) >= self.memory_max):
            self.spilled += 1
        else:
            self._outbox.append(frame)
        if self.journal is not None:
            self.journal.put("out", *self.key, number, value=(message, hops))
            self.journal.put("sent", *self.key, value=number)
        return frame

    def push_run(self, run: Run) -> None:
        """Keep messages that have been numbered, and sent, until they have arrived."""
        assert run.first == self.sent + 1 and not self.spilled
        self.sent = run.last
        self._outbox.append(run)
        self._runs += 1

    def replace(self, place: int, message: Message) -> None:
        """Say something else instead of a message that waits, at this place of the outbox."""
        frame = self.outbox[place]
        self.outbox[place] = Frame(frame.priority, frame.sequence, message, frame.hops)
        if self.journal is not None:
            self.journal.put("out", *self.key, frame.sequence, value=(message, frame.hops))

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
        self.received = sequence
        if self.journal is not None:
            self.journal.put("received", *self.key, value=sequence)
        return True

    def acknowledged(self, sequence: int) -> None:
        """Everything up to this number has arrived there."""
        if sequence > self.sent - self.spilled:
            last = self.sent - self.spilled
            raise RemoteProtocolError(f"{sequence} is acknowledged, but {last} was the last")
        if self.journal is not None:
            for number in range(self.acked + 1, sequence + 1):
                self.journal.delete("out", *self.key, number)
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
        if self.journal is not None:
            for number in range(self.acked + 1, self.sent + 1):
                self.journal.delete("out", *self.key, number)
            self.journal.delete("sent", *self.key)
            self.journal.delete("received", *self.key)

    def restore(self, sent: int, received: int, outbox: Mapping[int, tuple[Message, int]]) -> None:
        """Back to what the store says."""
        self.sent = sent
        self.received = self.reported = received
        self.acked = sent - len(outbox)
        kept = min(len(outbox), self.memory_max or len(outbox))
        self.spilled = len(outbox) - kept
        for number in range(self.acked + 1, self.acked + kept + 1):
            self.outbox.append(Frame(self.priority, number, *outbox[number]))

    def refill(self, messages: Sequence[tuple[Message, int]]) -> None:
        """These are the next of what was in the store only."""
        for message, hops in messages:
            number = self.sent - self.spilled + 1
            self.outbox.append(Frame(self.priority, number, message, hops))
            self.spilled -= 1

    def begin_again(self, received: int = 0) -> None:
        """The other end goes on behind this number, whatever came before; it gets what it has not had."""
        self.received = self.reported = received
        if self.journal is not None:
            self.journal.put("received", *self.key, value=received)


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
