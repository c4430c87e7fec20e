"""Channels: everything arrives once and in order, over connections that lose what is on them."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from roost.broker.channel import Channel, Lane
from roost.broker.commands import StoreKey
from roost.broker.errors import RemoteProtocolError
from roost.broker.journal import Journal
from roost.broker.messages import CONTROL, DATA, Ack, EndSession, Frame, Message, Redirect
from roost.broker.runs import Run
from roost.wire import encode
from roost.wire.runs import AS_SENT
from tests.chunks.twin import waiting_in

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
    acked = store.get(("acked", *lane.key), 0)
    assert isinstance(acked, int)
    outbox, runs = {}, []
    for key, value in store.items():
        if key[:-1] == ("out", *lane.key):
            assert isinstance(value, tuple)
            outbox[int(key[-1])] = value
        elif key[:-1] == ("run", *lane.key):
            assert isinstance(value, Run)
            runs.append(value)
    lane.restore(sent, received, outbox, runs, acked)


@pytest.mark.parametrize("priority", [CONTROL, DATA])
def test_a_class_that_begins_again_has_its_records_where_they_were(priority: int) -> None:
    end = End()
    for number in (1, 2):
        if number == 2:
            (end.channel.begin_control if priority == CONTROL else end.channel.begin_data)()
        end.channel.lanes[priority].push(message(number), 0)
        end.commit()
    end.crash()
    lane = end.channel.lanes[priority]
    assert lane.sent == 1
    assert [frame.message for frame in waiting_in(lane)] == [message(2)]


def stored(lane: Lane, store: dict[StoreKey, object]) -> dict[int, Message]:
    """What a store has for a lane, whether it has arrived or not."""
    found: dict[int, Message] = {}
    for key, value in store.items():
        if key[:-1] == ("run", *lane.key) and isinstance(value, Run):
            found |= {frame.sequence: frame.message for frame in value.frames()}
    for key, value in store.items():
        if key[:-1] == ("out", *lane.key) and isinstance(value, tuple):
            found[int(key[-1])] = value[0]
    return found


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

    @rule(end=st.integers(0, 1), count=st.integers(1, 4), hops=st.integers(0, 3))
    def send_run(self, end: int, count: int, hops: int) -> None:
        """Several at once, as their bytes."""
        mine, other = self.ends[end], self.ends[1 - end]
        lane = mine.channel.data
        frames = []
        for number in range(lane.sent + 1, lane.sent + count + 1):
            self.count += 1
            frames.append(Frame(DATA, number, message(self.count), hops))
        data = b"".join(map(encode, frames))
        run = Run(lane.sent + 1, lane.sent + count, data, AS_SENT)
        assert lane.push_run(run) is run
        mine.commit()
        mine.sent[DATA] += [frame.message for frame in frames]
        if self.up:
            other.incoming.extend(frames)

    @rule(end=st.integers(0, 1))
    def look(self, end: int) -> None:
        """Somebody wants the messages that wait."""
        lane = self.ends[end].channel.data
        assert [frame.sequence for frame in lane.outbox] == list(
            range(lane.acked + 1, lane.sent + 1)
        )

    @rule(end=st.integers(0, 1), first=st.integers(0, 5), count=st.integers(1, 6))
    def hand_out(self, end: int, first: int, count: int) -> None:
        """Some of what waits goes out, runs as they are."""
        mine = self.ends[end]
        lane = mine.channel.data
        begin = min(lane.acked + first, lane.sent)
        found: list[Frame] = []
        for each in lane.behind(begin, count):
            found += each.frames() if isinstance(each, Run) else [each]
        wanted = mine.sent[DATA][begin : begin + count]
        assert [frame.message for frame in found] == wanted
        assert [frame.sequence for frame in found] == list(
            range(begin + 1, begin + len(wanted) + 1)
        )

    @rule(end=st.integers(0, 1), where=st.integers(0, 9))
    def replace(self, end: int, where: int) -> None:
        """Something else is said instead of a message that nobody has heard."""
        mine, other = self.ends[end], self.ends[1 - end]
        lane = mine.channel.data
        first = max(lane.acked, other.channel.data.received) + 1
        if self.up or first + where > lane.sent:
            return
        self.count += 1
        lane.replace(first + where - lane.acked - 1, message(self.count))
        mine.commit()
        mine.sent[DATA][first + where - 1] = message(self.count)

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
            for lane in end.channel.lanes:
                waiting = {frame.sequence: frame.message for frame in waiting_in(lane)}
                kept = stored(lane, end.store)
                assert {n: m for n, m in kept.items() if n > lane.acked} == waiting
                # What has arrived is there only as the beginning of a run.
                runs = [int(key[-1]) for key in end.store if key[:-1] == ("run", *lane.key)]
                assert len(kept) == len(waiting) or min(runs) <= min(kept)
                assert lane.acked < max(kept, default=lane.acked + 1)

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
    frames = [Frame(DATA, number, message(number), 0) for number in (4, 5, 6)]
    end.channel.data.push_run(Run(4, 6, b"".join(map(encode, frames)), AS_SENT))
    end.channel.acknowledged(Ack(0, 4))
    end.channel.data.replace(1, message(7))
    end.channel.data.accept(1)
    end.channel.acknowledged(Ack(2, 1))
    end.commit()
    assert end.store
    end.channel.forget()
    end.commit()
    assert not end.store


@given(
    kept=st.lists(st.booleans(), max_size=12),
    acked=st.integers(0, 12),
    arrived=st.integers(0, 14),
    memory_max=st.sampled_from([0, 3]),
)
def test_a_channel_that_begins_anew_keeps_one_kind(
    kept: list[bool], acked: int, arrived: int, memory_max: int
) -> None:
    """Where they were, with nothing else behind what may have arrived, and in the store as in memory."""
    void = EndSession("void")
    end = End()
    lane = end.channel.lanes[DATA]
    lane.memory_max = memory_max
    said = [message(n) if keep else EndSession(f"{n}") for n, keep in enumerate(kept, 1)]
    for each in said:
        lane.push(each, 0)
    acked = min(acked, len(said) - lane.spilled)
    lane.acknowledged(acked)
    spilled = lane.spilled
    lane.winnow(arrived, (Redirect,), void)
    end.commit()
    numbers = {frame.sequence: frame.message for frame in lane.outbox}
    assert list(numbers) == list(range(acked + 1, lane.sent - lane.spilled + 1))
    for number, found in numbers.items():
        was = said[number - 1]
        assert found == (was if type(was) is Redirect else void)
    if spilled:
        assert (lane.sent, lane.spilled) == (len(said), spilled)
        return
    last = max((n for n, each in enumerate(said, 1) if type(each) is Redirect), default=0)
    assert lane.sent == max(last, acked, min(arrived, len(said)))
    before = state(lane)
    end.crash()
    assert state(end.channel.lanes[DATA]) == before


def test_part_of_a_run_is_in_memory_and_the_rest_comes_back() -> None:
    end = End()
    lane = end.channel.data
    lane.memory_max = 2
    frames = [Frame(DATA, number, message(number), 0) for number in range(1, 5)]
    lane.push_run(Run(1, 4, b"".join(map(encode, frames)), AS_SENT))
    end.commit()
    lane.acknowledged(1)
    keys = lane.to_fetch(1)
    lane.refill(keys, [end.store[key] for key in keys], 1)
    assert list(lane.outbox) == frames[1:3]
    assert lane.spilled == 1


def test_a_part_of_what_waits_begins_and_ends_within_runs() -> None:
    lane = End().channel.data
    frames = [Frame(DATA, number, message(number), 0) for number in range(1, 8)]
    for first, last in ((1, 3), (5, 7)):
        data = b"".join(encode(frame) for frame in frames[first - 1 : last])
        lane.push_run(Run(first, last, data, AS_SENT))
        if first == 1:
            lane.push(message(4), 0)
    found = [each.frames() if isinstance(each, Run) else [each] for each in lane.behind(1, 5)]
    assert [frame for part in found for frame in part] == frames[1:6]
