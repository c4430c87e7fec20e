"""Channels: everything arrives once and in order, over connections that lose what is on them."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from roost.broker.channel import Channel, Lane
from roost.broker.commands import StoreKey
from roost.broker.errors import RemoteProtocolError
from roost.broker.journal import Journal
from roost.broker.messages import CONTROL, DATA, Ack, Frame, Message, Redirect

KEY = ("link", "B2")


def message(number: int) -> Message:
    return Redirect(f"B{number}", "a test")


class End:
    """One end: its channel, what it has sent and accepted of each class, and its store."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.channel = Channel(KEY, self.journal)
        self.store: dict[StoreKey, object] = {}
        self.sent: dict[int, list[Message]] = {CONTROL: [], DATA: []}
        self.accepted: dict[int, list[Message]] = {CONTROL: [], DATA: []}
        self.incoming: deque[Frame | Ack] = deque()

    def commit(self) -> None:
        for key, value in self.journal.take().items():
            if value is None:
                self.store.pop(key, None)
            else:
                self.store[key] = value

    def receive(self, parcel: Frame | Ack) -> None:
        if isinstance(parcel, Ack):
            self.channel.acknowledged(parcel)
        elif self.channel.lanes[parcel.priority].accept(parcel.sequence):
            self.accepted[parcel.priority].append(parcel.message)
        self.commit()

    def crash(self) -> None:
        """Back to what the store says."""
        self.journal = Journal()
        self.channel = Channel(KEY, self.journal)
        for lane in self.channel.lanes:
            restore(lane, self.store)


def restore(lane: Lane, store: dict[StoreKey, object]) -> None:
    """As a restarting broker does it."""
    sent = store.get(("sent", *lane.key), 0)
    received = store.get(("received", *lane.key), 0)
    assert isinstance(sent, int)
    assert isinstance(received, int)
    outbox = {}
    for key, value in store.items():
        if key[:-1] == ("out", *lane.key):
            assert isinstance(value, tuple)
            outbox[int(key[-1])] = value
    lane.restore(sent, received, outbox)


class Conversation(RuleBasedStateMachine):
    """Two ends; the connection loses its tail when it is cut; an end may crash and keep its store."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())
        self.up = True
        self.count = 0

    @rule(end=st.integers(0, 1), class_=st.sampled_from((CONTROL, DATA)), hops=st.integers(0, 3))
    def send(self, end: int, class_: int, hops: int) -> None:
        self.count += 1
        mine, other = self.ends[end], self.ends[1 - end]
        lane = mine.channel.lanes[class_]
        lane.push(message(self.count), hops)
        mine.commit()
        mine.sent[class_].append(message(self.count))
        if self.up:
            other.incoming.append(Frame(lane.priority, lane.sent, message(self.count), hops))

    @rule(end=st.integers(0, 1), count=st.integers(1, 4))
    def arrive(self, end: int, count: int) -> None:
        mine = self.ends[end]
        for _ in range(min(count, len(mine.incoming))):
            mine.receive(mine.incoming.popleft())

    @rule(end=st.integers(0, 1))
    def acknowledge(self, end: int) -> None:
        mine, other = self.ends[end], self.ends[1 - end]
        if self.up and mine.channel.unreported():
            other.incoming.append(mine.channel.ack())
            assert mine.channel.unreported() == 0

    @rule(kept=st.tuples(st.integers(0, 5), st.integers(0, 5)))
    def cut(self, kept: tuple[int, int]) -> None:
        """What had gone far enough still arrives."""
        self.up = False
        for end, first in zip(self.ends, kept, strict=True):
            for _ in range(min(first, len(end.incoming))):
                end.receive(end.incoming.popleft())
            end.incoming.clear()

    @rule()
    def reconnect(self) -> None:
        if self.up:
            return
        self.up = True
        had = [[lane.received for lane in end.channel.lanes] for end in self.ends]
        for i, end in enumerate(self.ends):
            end.channel.resume(*had[1 - i])
            self.ends[1 - i].incoming.extend(lacking(end.channel))
            end.commit()

    @rule(end=st.integers(0, 1))
    def crash(self, end: int) -> None:
        self.cut((0, 0))
        before = [state(lane) for lane in self.ends[end].channel.lanes]
        self.ends[end].crash()
        assert [state(lane) for lane in self.ends[end].channel.lanes] == before

    @invariant()
    def accepted_is_a_beginning_of_sent(self) -> None:
        for mine, other in (self.ends, self.ends[::-1]):
            for class_ in (CONTROL, DATA):
                accepted = other.accepted[class_]
                assert accepted == mine.sent[class_][: len(accepted)]

    @invariant()
    def the_store_holds_just_what_the_lane_does(self) -> None:
        for end in self.ends:
            kept = sum(len(lane.outbox) for lane in end.channel.lanes)
            assert sum(key[0] == "out" for key in end.store) == kept

    def teardown(self) -> None:
        """Once the connection stays up, everything arrives, and everything is acknowledged."""
        self.reconnect()
        for _ in range(2):
            for end in (0, 1):
                self.arrive(end, 10_000)
                self.acknowledge(end)
        for mine, other in (self.ends, self.ends[::-1]):
            assert other.accepted == mine.sent
            assert not any(lane.outbox for lane in mine.channel.lanes)


def state(lane: Lane) -> tuple[object, ...]:
    return lane.sent, lane.acked, lane.received, list(lane.outbox)


TestConversation = Conversation.TestCase


def test_a_gap_breaks_the_protocol() -> None:
    lane = Lane(DATA, KEY, None)
    assert lane.accept(1)
    with pytest.raises(RemoteProtocolError, match="message 3 came where 2 was expected"):
        lane.accept(3)
    assert lane.received == 1


def test_what_has_been_here_before_is_passed_over() -> None:
    lane = Lane(DATA, KEY, None)
    assert [lane.accept(number) for number in (1, 2, 1, 2, 3)] == [True, True, False, False, True]


def test_an_acknowledgement_from_the_future_breaks_the_protocol() -> None:
    channel = Channel(KEY, None)
    channel.data.push(message(1), 0)
    with pytest.raises(RemoteProtocolError, match="2 is acknowledged, but 1 was the last"):
        channel.acknowledged(Ack(0, 2))
    with pytest.raises(RemoteProtocolError):
        channel.resume(1, 1)


def lacking(channel: Channel) -> list[Frame]:
    """What is sent again, control first."""
    return [*channel.control.outbox, *channel.data.outbox]


def test_an_old_acknowledgement_is_no_matter() -> None:
    channel = Channel(KEY, None)
    for number in (1, 2, 3):
        channel.data.push(message(number), 0)
    channel.acknowledged(Ack(0, 2))
    channel.acknowledged(Ack(0, 1))
    channel.resume(0, 2)
    assert [frame.sequence for frame in lacking(channel)] == [3]


def test_resuming_leaves_only_what_is_lacking() -> None:
    channel = Channel(KEY, None)
    for number in (1, 2):
        channel.data.push(message(number), number)
        channel.control.push(message(10 + number), 0)
    channel.resume(1, 0)
    assert lacking(channel) == [
        Frame(CONTROL, 2, message(12), 0),
        Frame(DATA, 1, message(1), 1),
        Frame(DATA, 2, message(2), 2),
    ]


def test_a_forgotten_channel_leaves_nothing_in_the_store() -> None:
    end = End()
    for number in (1, 2, 3):
        end.channel.data.push(message(number), 0)
        end.channel.control.push(message(number), 0)
    end.channel.data.accept(1)
    end.channel.acknowledged(Ack(2, 1))
    end.commit()
    assert end.store
    end.channel.forget()
    end.commit()
    assert not end.store
