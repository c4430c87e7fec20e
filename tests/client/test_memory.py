"""What is behind `memory://`: brokers, and pipes that keep the order and tell whoever writes too much."""

from __future__ import annotations

import asyncio
from unittest import mock

from roost.broker.events import LinkAdded
from roost.broker.messages import AttachRefused, Parcel, Ping
from roost.client import connect
from roost.client.memory import BrokerEnd, MemoryBroker, MemoryTransport
from roost.client.pipe import PIPE_BYTES, Pipe
from roost.wire import PREFACE, StreamDecoder, encode
from tests.client.support import in_loop, until

KILOBYTE = bytes(1_000)


class Ends:
    """Both ends of a pipe, as they hear of it."""

    def __init__(self) -> None:
        self.got = b""
        self.written = 0
        self.left = 0  # of what was written, when there was room again
        self.news: list[str] = []
        self.pipe = Pipe(self._deliver, lambda: self.news.append("ended"), self._congested)

    def _deliver(self, data: bytes) -> None:
        self.got += data

    def _congested(self, is_so: bool) -> None:
        self.news.append("congested" if is_so else "relieved")
        self.left = self.written - len(self.got)

    def write(self) -> None:
        self.written += len(KILOBYTE)
        self.pipe.write(KILOBYTE)


@in_loop
async def test_who_writes_too_much_is_told_once_and_once_again_when_there_is_room() -> None:
    ends = Ends()
    for _ in range(2):
        ends.news.clear()
        ends.pipe.pause()
        while ends.written - len(ends.got) <= PIPE_BYTES:
            assert not ends.news
            ends.write()
        ends.write()
        assert ends.news == ["congested"]
        ends.pipe.resume()
        await until(lambda: len(ends.got) == ends.written)
        assert ends.news == ["congested", "relieved"]
        assert 0 < ends.left < PIPE_BYTES / 4  # not at the last moment


@in_loop
async def test_nothing_comes_while_it_is_paused_and_all_of_it_afterwards() -> None:
    ends = Ends()
    ends.pipe.write(b"first, ")
    ends.pipe.pause()
    ends.pipe.write(b"second")
    ends.pipe.end()
    ends.pipe.write(b"too late")
    for _ in range(5):
        await asyncio.sleep(0)
    assert (ends.got, ends.news) == (b"", [])
    ends.pipe.resume()
    await until(lambda: ends.news)
    assert (ends.got, ends.news) == (b"first, second", ["ended"])


@in_loop
async def test_cutting_it_loses_what_is_in_it() -> None:
    ends = Ends()
    ends.pipe.pause()
    ends.pipe.write(b"lost")
    ends.pipe.cut()
    await until(lambda: ends.news)
    assert (ends.got, ends.news) == (b"", ["ended"])


@in_loop
async def test_a_broker_has_the_name_of_its_url_or_one_of_its_own() -> None:
    for name, called in (("B7", "B7"), ("", "memory")):
        broker = MemoryBroker.of(name)
        assert broker.shell.machine.identity.name == called
        broker.stop()


@in_loop
async def test_whoever_sends_what_is_no_message_is_told_so_and_not_heard_any_more() -> None:
    broker = MemoryBroker.of("")
    end = BrokerEnd(broker.shell)
    decoder = StreamDecoder()
    heard: list[Parcel] = []
    ended: list[bool] = []
    end.down = Pipe(
        lambda data: heard.extend(decoder.feed(data)), lambda: ended.append(True), print
    )
    end.up = Pipe(end.received, end.lost, print)
    end.begin()
    assert list(broker.shell.connections) == [end.id]
    end.up.write(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: ended)
    assert not broker.shell.connections
    assert type(heard[-1]) is AttachRefused
    broker.stop()


@in_loop
async def test_what_was_aborted_is_closing_and_ends_whatever_is_asked_of_it() -> None:
    broker = MemoryBroker.of("")
    protocol = mock.Mock()
    transport = MemoryTransport(broker.shell, protocol)
    assert not transport.is_closing()
    transport.abort()
    assert transport.is_closing()
    transport.close()
    await until(lambda: protocol.connection_lost.called and not broker.shell.connections)
    protocol.connection_lost.assert_called_once_with(None)
    broker.stop()


@in_loop
async def test_a_client_that_writes_too_much_is_told_until_the_broker_has_read_it() -> None:
    broker = MemoryBroker.of("")
    protocol = mock.Mock()
    transport = MemoryTransport(broker.shell, protocol)
    question = encode(Ping(1))
    transport.write(PREFACE + PIPE_BYTES // len(question) * question)
    protocol.pause_writing.assert_called_once_with()
    protocol.resume_writing.assert_not_called()
    await until(lambda: protocol.resume_writing.called)
    protocol.pause_writing.assert_called_once_with()
    transport.close()
    await until(lambda: not broker.shell.connections)
    broker.stop()


@in_loop
async def test_a_client_that_does_not_read_gets_nothing_until_it_does() -> None:
    broker = MemoryBroker.of("")
    protocol = mock.Mock()
    transport = MemoryTransport(broker.shell, protocol)
    transport.pause_reading()
    assert not transport.is_reading()
    transport.write(PREFACE + encode(Ping(1)))
    for _ in range(10):
        await asyncio.sleep(0)
    protocol.data_received.assert_not_called()
    transport.resume_reading()
    assert transport.is_reading()
    await until(lambda: protocol.data_received.called)
    transport.close()
    await until(lambda: not broker.shell.connections)
    broker.stop()


@in_loop
async def test_neighbours_greet_each_other_and_events_pass() -> None:
    brokers = {name: MemoryBroker(name, reach=lambda there: brokers[there]) for name in ("a", "b")}
    for here, there, dials in (("a", "b", False), ("b", "a", True)):
        brokers[here].acquire()
        brokers[here].shell.handle(LinkAdded(there, dials))
    links = [broker.shell.machine.links for broker in brokers.values()]
    await until(lambda: links[0]["b"].greeted and links[1]["a"].greeted)
    async with connect("memory://a") as publisher, connect("memory://b") as subscriber:
        subscription = subscriber.subscribe("n > 0")
        await subscription.ready()
        await publisher.publish({"n": 1})
        assert (await subscription.get())["n"] == 1
    for broker in brokers.values():
        broker.release()
