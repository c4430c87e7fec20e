"""Loads of brokers: frames that are patched and walked over without decoding, against the obvious decoders.

Real servers are asked only where they are installed, and for a few thousand messages. No time is asserted.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.loads import amqp, kernels, mqtt, nats, processes, roost
from roost.bench.loads.base import Inlet, Outlet, Scenario
from roost.bench.loads.children import Published, Publisher, Received
from roost.bench.loads.contestants import NAMES, contestant
from roost.bench.loads.credit import Credit
from roost.bench.loads.harness import result_of, run_scenario
from roost.bench.loads.quotes import (
    PAYLOAD_BYTES,
    QUOTES,
    SENT_AT,
    SEQUENCE,
    STAMPS,
    payload,
    quotes,
    symbol,
)
from roost.bench.loads.scenarios import SCENARIOS, scenario
from roost.broker.messages import DATA, Ack, Delivery, Frame, Parcel, Publication
from roost.errors import UserError
from roost.language import Event
from roost.wire import PREFACE, StreamDecoder, encode

PACED = Scenario("paced", 1_000, rate=1.0)
QUOTE = quotes(1, 7)[0]
# Numbers of messages as they may come: those of the warm-up, and then all, or not all, in order or not.
NUMBERS = st.lists(st.just(0) | st.integers(1, 5) | st.integers(1, 0xFFFF_FFFF), max_size=30)
CUTS = st.lists(st.integers(1, 400), min_size=1, max_size=8)


def stamped(text: bytes, sequence: int, sent_at: int = 0) -> bytes:
    data = bytearray(text)
    data[SEQUENCE] = b"%08x" % sequence
    data[SENT_AT] = b"%016x" % sent_at
    return bytes(data)


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The data cut into pieces of these sizes, in turn."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        yield data[at : at + size]
        at, turn = at + size, turn + 1


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    with ours, theirs:
        yield ours, theirs


def fed(make: Callable[[socket.socket], Inlet], data: bytes, sizes: Sequence[int]) -> Inlet:
    """A subscriber that got these bytes; what it answered stays unread."""
    with pair() as (ours, theirs):
        inlet = make(ours)
        assert inlet.read() == 0, "there is nothing to read"
        for piece in pieces(data, sizes):
            theirs.sendall(piece)
            assert inlet.read() > 0
        return inlet


def counted(inlet: Inlet) -> tuple[int, int, int]:
    return inlet.warmed, inlet.received, int(inlet.tally[kernels.DISORDERED])


def expected(numbers: Sequence[int]) -> tuple[int, int, int]:
    rest = [number for number in numbers if number]
    due = [1, *(number + 1 for number in rest)]
    disordered = sum(number != next_ for number, next_ in zip(rest, due, strict=False))
    return len(numbers) - len(rest), len(rest), disordered


def sent_by(outlet: Outlet, theirs: socket.socket, *calls: tuple[int, int]) -> bytes:
    """What comes out at the other end of these calls of `send`."""
    data = bytearray()
    for wanted, first in calls:
        sent = 0
        while sent < wanted:
            # No more than the kernel holds for us.
            count = outlet.send(min(100, wanted - sent), first and first + sent)
            sent += count
            end = len(data) + count * outlet.width
            while len(data) < end:
                data += theirs.recv(end - len(data))
    return bytes(data)


# --- quotes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("symbols", [1, 10, 1_000])
def test_quotes_are_the_same_for_all_and_of_one_size(symbols: int) -> None:
    found = quotes(symbols, 3)
    assert len(found) == QUOTES
    assert found == quotes(symbols, 3) != quotes(symbols, 4)
    assert {len(payload(quote)) for quote in found} == {PAYLOAD_BYTES}
    assert len({len(roost.publication_frame(quote)) for quote in found}) == 1
    for start in (0, symbols):
        turn = {quote["symbol"] for quote in found[start : start + symbols]}
        assert turn == set(map(symbol, range(symbols)))
    for quote in found[:50]:
        assert 0 < float(quote["low"]) <= float(quote["open"]) <= float(quote["high"])
        read = json.loads(payload(quote))
        assert {name: read[name] for name in quote} == quote


def test_stamps_stand_where_they_are_said_to() -> None:
    for text in (payload(QUOTE), STAMPS):
        read = json.loads(stamped(text, 0x1234ABCD, 77))
        assert read["sequence"] == "1234abcd"
        assert int(read["sent_at"], 16) == 77


def test_symbols_come_equally_often() -> None:
    with pytest.raises(ValueError, match="equally often"):
        quotes(7, 1)


# --- numbers --------------------------------------------------------------------------------------


@given(first=st.integers(0, 2**40), step=st.integers(0, 3), rows=st.integers(0, 5))
def test_hexadecimal_digits(first: int, step: int, rows: int) -> None:
    cells = np.full(8 * 20, 46, np.uint8)
    kernels.put_hex(cells, 20, 2, rows, 3, 12, first, step)
    for row, line in enumerate(cells.reshape(8, 20)):
        text = line.tobytes()
        if 2 <= row < 2 + rows:
            number = first + (row - 2) * step
            assert text == b"..." + b"%012x" % number + b"....."
            assert kernels.hexadecimal(line, 3, 12) == number
        else:
            assert text == b"." * 20


@given(before=st.integers(0, 2**33), modulus=st.sampled_from([0xFFFF, 0xFFFF_FFFF]))
def test_numbers_start_again_behind_the_last(before: int, modulus: int) -> None:
    cells = np.zeros(3 * 10, np.uint8)
    size = 2 if modulus == 0xFFFF else 4
    kernels.put_numbers(cells, 10, 0, 3, 5, size, before, modulus)
    for row, line in enumerate(cells.reshape(3, 10)):
        number = int.from_bytes(line[5 : 5 + size].tobytes(), "big")
        assert number == (before + row) % modulus + 1 == kernels.big_endian(line, 5, size)
        assert 1 <= number <= modulus


# --- what arrives ---------------------------------------------------------------------------------


def nats_message(number: int, reply: str = "") -> bytes:
    words = " ".join(filter(None, ("MSG", "quotes.S0001", "1000", reply, str(PAYLOAD_BYTES))))
    return words.encode() + b"\r\n" + stamped(payload(QUOTE), number) + b"\r\n"


def mqtt_message(number: int) -> bytes:
    content = stamped(payload(QUOTE), number)
    return mqtt.publish_packet("quotes/S0001", content, acknowledged=False)


def amqp_frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(body)) + body + b"\xce"


def amqp_message(number: int) -> bytes:
    deliver = struct.pack(">HH", 60, 60) + b"\1c" + struct.pack(">QB", 9, 0) + b"\6quotes\3all"
    header = struct.pack(">HHQH", 60, 0, PAYLOAD_BYTES, 0)
    content = stamped(payload(QUOTE), number)
    return amqp_frame(1, deliver) + amqp_frame(2, header) + amqp_frame(3, content)


def publication(sequence: int, number: int, sent_at: int = 0) -> Publication:
    text = STAMPS.ljust(roost.payload_size())
    return Publication("p", sequence, Event(QUOTE), stamped(text, number, sent_at))


SIMPLE: dict[str, tuple[Callable[[int], bytes], type[Inlet]]] = {
    "nats": (nats_message, nats.NatsInlet),
    "mqtt": (mqtt_message, mqtt.MqttInlet),
    "amqp": (amqp_message, amqp.AmqpInlet),
}


@pytest.mark.parametrize("protocol", SIMPLE)
@given(numbers=NUMBERS, sizes=CUTS)
def test_messages_are_counted_however_they_are_cut(
    protocol: str, numbers: list[int], sizes: list[int]
) -> None:
    message, kind = SIMPLE[protocol]
    inlet = fed(lambda sock: kind(sock, PACED), b"".join(map(message, numbers)), sizes)
    assert counted(inlet) == expected(numbers)


@given(
    numbers=NUMBERS,
    ids=st.lists(st.text("abc/0", min_size=1, max_size=40), min_size=1, max_size=3),
    acks=st.lists(st.integers(0, 30), max_size=4),
    sizes=CUTS,
)
def test_deliveries_of_roost_are_counted(
    numbers: list[int], ids: list[str], acks: list[int], sizes: list[int]
) -> None:
    parcels: list[Parcel] = [
        Frame(DATA, place, Delivery(publication(place, number), tuple(ids)), place % 3)
        for place, number in enumerate(numbers, 1)
    ]
    for ack in acks:
        parcels.insert(min(ack, len(parcels)), Ack(control=ack, data=2**ack))
    data = b"".join(map(encode, parcels))
    # The obvious way: decode them all.
    frames = [parcel for parcel in StreamDecoder().feed(PREFACE + data) if type(parcel) is Frame]
    read = [
        int(frame.message.publication.payload[SEQUENCE], 16)
        for frame in frames
        if isinstance(frame.message, Delivery)
    ]
    inlet = fed(lambda sock: roost.RoostInlet(sock, PACED), data, sizes)
    assert counted(inlet) == expected(read) == expected(numbers)
    assert inlet.tally[kernels.FRAME] == len(frames)


@pytest.mark.parametrize("numbers", [[2], [1, 1], [1, 3]])
def test_frames_of_roost_have_the_next_number(numbers: list[int]) -> None:
    frames = [Frame(DATA, n, Delivery(publication(n, n), ("s",))) for n in numbers]
    with pytest.raises(RuntimeError, match="what no subscriber expects"):
        fed(lambda sock: roost.RoostInlet(sock, PACED), b"".join(map(encode, frames)), [10_000])


def test_deliveries_of_roost_are_acknowledged_now_and_then() -> None:
    with pair() as (ours, theirs):
        inlet = roost.RoostInlet(ours, PACED)
        for n in range(1, 601):
            theirs.sendall(encode(Frame(DATA, n, Delivery(publication(n, n), ("s",)))))
            inlet.read()
        acks = StreamDecoder().feed(PREFACE + theirs.recv(1_000))
    assert acks == [Ack(control=0, data=256), Ack(control=0, data=512)]


def test_latencies_are_noted() -> None:
    for make, data in (
        (nats.NatsInlet, nats_message(1)),
        (mqtt.MqttInlet, mqtt_message(1)),
        (amqp.AmqpInlet, amqp_message(1)),
        (roost.RoostInlet, encode(Frame(DATA, 1, Delivery(publication(1, 1), ("s",))))),
    ):
        sent_at = time.monotonic_ns() - 1_000_000
        stamp = b'"sent_at":"%016x"' % 0
        with pair() as (ours, theirs):
            inlet = make(ours, PACED)
            theirs.sendall(data.replace(stamp, b'"sent_at":"%016x"' % sent_at))
            now = inlet.read()
        assert inlet.latencies_ns[0] == now - sent_at


@given(numbers=NUMBERS, sizes=CUTS)
def test_mqtt_messages_of_quality_1_are_answered_one_by_one(
    numbers: list[int], sizes: list[int]
) -> None:
    data = b""
    answers = b""
    for place, number in enumerate(numbers):
        id_ = (place * 999 + 1).to_bytes(2, "big")
        content = stamped(payload(QUOTE), number)
        packet = mqtt.publish_packet("quotes", content, acknowledged=True)
        data += packet[: -PAYLOAD_BYTES - 2] + id_ + content
        answers += b"\x40\x02" + id_
    with pair() as (ours, theirs):
        inlet = mqtt.MqttInlet(ours, PACED)
        for piece in pieces(data, sizes):
            theirs.sendall(piece)
            inlet.read()
        ours.shutdown(socket.SHUT_WR)
        assert theirs.recv(10_000) == answers
    assert counted(inlet) == expected(numbers)


def test_a_jetstream_consumer_acknowledges_the_last_of_a_batch() -> None:
    with pair() as (ours, theirs):
        inlet = nats.StreamInlet(ours, PACED)
        whole = b"".join(nats_message(n, f"$JS.ACK.Q.c.1.{n}.{n}.17.0") for n in (1, 2, 3))
        theirs.sendall(whole[:-10])
        inlet.read()
        assert theirs.recv(1_000) == b"PUB $JS.ACK.Q.c.1.2.2.17.0 4\r\n+ACK\r\n"
        theirs.sendall(whole[-10:] + b"PING\r\n")
        inlet.read()
        assert theirs.recv(1_000) == b"PUB $JS.ACK.Q.c.1.3.3.17.0 4\r\n+ACK\r\n"
    assert counted(inlet) == (0, 3, 0)


def test_amqp_deliveries_are_acknowledged_when_they_are_whole() -> None:
    with pair() as (ours, theirs):
        inlet = amqp.AcknowledgingAmqpInlet(ours, PACED)
        whole = amqp_message(0) + amqp_message(1) + amqp_message(2)
        theirs.sendall(whole[:-1])
        inlet.read()
        ack = theirs.recv(1_000)
    assert ack == amqp_frame(1, struct.pack(">HHQB", 60, 80, 2, 1))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (nats.NatsInlet, b"-ERR 'Slow Consumer'\r\n"),
        (nats.NatsInlet, b"MSG quotes 1000 3\r\nabc\r\n"),
        (mqtt.MqttInlet, b"\xd0\0"),
        (mqtt.MqttInlet, b"\x30\x05\0\1tab"),
        (amqp.AmqpInlet, amqp_frame(1, struct.pack(">HH", 20, 40) + b"\0\0")),
        (amqp.AmqpInlet, amqp_frame(3, b"short")),
        (roost.RoostInlet, encode(Frame(DATA, 1, publication(1, 1)))),
    ],
)
def test_what_is_no_message_is_trouble(kind: type[Inlet], said: bytes) -> None:
    with pytest.raises(RuntimeError, match="what no subscriber expects"):
        fed(lambda sock: kind(sock, PACED), said, [1_000])


def test_a_closed_connection_is_noticed() -> None:
    with pair() as (ours, theirs):
        inlet = nats.NatsInlet(ours, PACED)
        theirs.close()
        with pytest.raises(ConnectionError):
            inlet.read()


@given(st.data())
def test_confirms_in_any_order(data: st.DataObject) -> None:
    confirmed: set[int] = set()
    stream, highest = b"", 0
    lows = []
    for _ in range(data.draw(st.integers(0, 30))):
        tag = data.draw(st.integers(1, 40))
        multiple = data.draw(st.booleans())
        if tag in confirmed:
            continue
        confirmed |= set(range(1, tag + 1)) if multiple else {tag}
        stream += amqp_frame(1, struct.pack(">HHQB", 60, 80, tag, multiple))
        while highest + 1 in confirmed:
            highest += 1
        lows.append(highest)
    with pair() as (ours, _):
        outlet = amqp.ConfirmedOutlet(ours, [payload(QUOTE)], 0)
        for piece in pieces(stream, data.draw(CUTS)):
            outlet.acknowledge(piece)
            assert outlet.acknowledged in (0, *lows)
    assert outlet.acknowledged == highest


def test_a_message_that_is_not_confirmed_is_an_error() -> None:
    with pair() as (ours, _):
        outlet = amqp.ConfirmedOutlet(ours, [payload(QUOTE)], 0)
        with pytest.raises(RuntimeError, match="does not confirm"):
            outlet.acknowledge(amqp_frame(1, struct.pack(">HHQB", 60, 120, 1, 0)))


# --- what is sent ---------------------------------------------------------------------------------


def test_publications_decode_to_what_was_meant() -> None:
    written = quotes(10, 3)
    with pair() as (ours, theirs):
        frames = [roost.publication_frame(quote) for quote in written]
        outlet = roost.RoostOutlet(ours, frames)
        data = sent_by(outlet, theirs, (15, 0), (QUOTES + 100, 1))
        assert outlet.sent == QUOTES + 115
        parcels = StreamDecoder().feed(PREFACE + data)
        outlet.acknowledge(encode(Ack(control=1, data=70)))
        assert outlet.acknowledged == 70
    assert len(parcels) == outlet.sent
    for place, parcel in enumerate(parcels):
        assert isinstance(parcel, Frame)
        message = parcel.message
        assert isinstance(message, Publication)
        assert (parcel.priority, parcel.sequence, message.sequence) == (DATA, place + 1, place + 1)
        assert message.event == Event(written[place % QUOTES])
        assert int(message.payload[SEQUENCE], 16) == max(0, place - 14)
        assert len(message.encoded) == PAYLOAD_BYTES


def test_packets_have_numbers_and_stamps() -> None:
    packets = [mqtt.publish_packet("t", payload(q), acknowledged=True) for q in quotes(1, 3)]
    with pair() as (ours, theirs):
        at = len(packets[0]) - PAYLOAD_BYTES
        outlet = mqtt.AcknowledgedMqttOutlet(ours, packets, at)
        outlet.sent = 0xFFFF - 2  # the numbers of packets start again at 1, not at 0
        data = sent_by(outlet, theirs, (5, 1))
        outlet.acknowledge(b"\x40\x02\0\1\x40")
        assert outlet.acknowledged == 1
    width = len(packets[0])
    for place in range(5):
        packet = data[place * width : (place + 1) * width]
        assert packet[:2] == packets[0][:2]
        assert int.from_bytes(packet[at - 2 : at], "big") == [0xFFFE, 0xFFFF, 1, 2, 3][place]
        assert int(json.loads(packet[at:])["sequence"], 16) == place + 1


@pytest.mark.parametrize("durable", [False, True])
def test_lines_and_frames_keep_all_but_the_stamp(durable: bool) -> None:
    contents = [payload(quote) for quote in quotes(1, 3)[:3]]
    lines = [nats.publish_line("quotes", each, "answers" * durable) for each in contents]
    frames = [amqp.publish_frames(each, {"a": "b"}, persistent=durable) for each in contents]
    for made, behind in ((lines, 2), (frames, 1)):
        with pair() as (ours, theirs):
            outlet = Outlet(ours, made, len(made[0]) - behind - PAYLOAD_BYTES)
            data = sent_by(outlet, theirs, (4, 1))
        for place in range(4):
            meant = made[place % 3].replace(
                contents[place % 3], stamped(contents[place % 3], place + 1)
            )
            assert data[place * outlet.width : (place + 1) * outlet.width] == meant


def test_a_message_says_when_it_was_sent() -> None:
    with pair() as (ours, theirs):
        outlet = Outlet(ours, [payload(QUOTE)], 0)
        before = time.monotonic_ns()
        outlet.send(1, 1, timed=True)
        sent_at = int(json.loads(theirs.recv(1_000))["sent_at"], 16)
    assert before <= sent_at <= time.monotonic_ns()


# --- the windows ----------------------------------------------------------------------------------


class Pretended(Outlet):
    """A server of one message an acknowledgement, and subscribers that get `heard` of them."""

    acknowledges = True

    def __init__(self, sock: socket.socket, credit: Credit, heard: int = 1 << 60) -> None:
        super().__init__(sock, [payload(QUOTE)] * 10, 0)
        self.credit, self.heard = credit, heard
        self.ahead = self.unacknowledged = 0
        self.numbers: list[int] = []

    def send(self, wanted: int, sequence: int, *, timed: bool = False) -> int:  # noqa: ARG002
        count = min(wanted, 7)
        self.numbers += range(sequence, sequence + count) if sequence else [0] * count
        self.sent += count
        self.unacknowledged = max(self.unacknowledged, self.sent - self.acknowledged)
        warm = self.numbers.count(0)
        count_ = min(len(self.numbers) - warm, self.heard)
        self.ahead = max(self.ahead, len(self.numbers) - warm - count_)
        self.credit.put(0, warm, count_)
        return min(wanted, 7)

    def take_acknowledgements(self, *, wait: bool = True) -> None:  # noqa: ARG002
        self.acknowledged += 1


@pytest.fixture
def shared(tmp_path: Path) -> Credit:
    return Credit.create(tmp_path / "credit", 1)


SMALL = Scenario("small", 200, window=20, unacknowledged_max=10, warm_up=50)


def test_all_are_sent_once_within_the_windows(shared: Credit) -> None:
    with pair() as (ours, _):
        outlet = Pretended(ours, shared)
        publisher = Publisher(outlet, SMALL, shared)
        publisher.warm_up()
        done = publisher.publish()
    assert outlet.numbers == [0] * 50 + list(range(1, 201))
    assert done.messages == 200
    assert outlet.unacknowledged <= 10
    assert outlet.acknowledged == outlet.sent
    assert done.start_ns <= done.end_ns


def test_who_is_not_heard_stops(shared: Credit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.bench.loads.children.PATIENCE_S", 0.05)
    with pair() as (ours, _):
        outlet = Pretended(ours, shared, heard=100)
        done = Publisher(outlet, SMALL, shared).publish()
    assert 100 <= done.messages <= 120
    assert outlet.ahead <= 20


def test_a_warm_up_that_gets_nowhere_is_an_error(
    shared: Credit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.bench.loads.children.QUIET_S", 0.01)
    monkeypatch.setattr("roost.bench.loads.children.ROUNDS", 2)
    with pair() as (ours, theirs):
        outlet = Outlet(ours, [payload(QUOTE)] * 10, 0)
        with pytest.raises(RuntimeError, match="2 rounds"):
            Publisher(outlet, SMALL, shared).warm_up()
        assert len(theirs.recv(100_000)) == 2 * 20 * PAYLOAD_BYTES


def test_the_time_bounds_it_too(shared: Credit) -> None:
    with pair() as (ours, _):
        outlet = Pretended(ours, shared)
        endless = replace(SMALL, messages=10**9, seconds=0.05)
        done = Publisher(outlet, endless, shared).publish()
    assert 0 < done.messages < 10**9


def test_a_rate_is_kept(shared: Credit) -> None:
    with pair() as (ours, _):
        outlet = Pretended(ours, shared)
        paced = replace(SMALL, messages=50, rate=1_000.0)
        done = Publisher(outlet, paced, shared).publish()
    assert done.messages == 50
    assert done.end_ns - done.start_ns >= 49_000_000


def test_the_slowest_counts(tmp_path: Path) -> None:
    ours = Credit.create(tmp_path / "credit", 3)
    theirs = Credit(tmp_path / "credit", 3)
    theirs.put(1, 5, 10)
    warm, rest = ours.arrivals(warm=True), ours.arrivals(warm=False)
    for number, count in enumerate((7, 30, 9)):
        theirs.put(number, count, 2 * count)
    assert (warm(), rest()) == (7, 14)


# --- results --------------------------------------------------------------------------------------


def test_the_figures() -> None:
    published = Published(messages=1_000, start_ns=0, end_ns=10**9, cpu_s=0.5)
    received = Received(
        deliveries=9_990,
        deliveries_in_interval=9_000,
        first_ns=5 * 10**8,
        last_ns=2 * 10**9,
        disordered=3,
        cpu_s=0.75,
        p50_us=1.0,
        p99_us=2.0,
        max_us=3.0,
    )
    result = result_of(Scenario("x", 1_000, subscribers=10), published, received, 0.02)
    assert (result.messages, result.lost, result.disordered) == (1_000, 10, 3)
    assert result.published_per_s == 500
    assert result.delivered_per_s == 6_000
    assert result.server_cpu_s_per_million == pytest.approx(2)
    assert (result.publisher_busy, result.subscribers_busy) == (0.5, 0.5)
    assert (result.p50_us, result.p99_us, result.max_us) == (1, 2, 3)


def test_names() -> None:
    assert NAMES[:4] == ("roost", "mosquitto", "nats", "rabbitmq")
    assert all(name.startswith("roost-") for name in NAMES[4:])
    assert {name: scenario(name) for name in SCENARIOS} == SCENARIOS
    assert scenario("durable", seconds=1.0).seconds == 1
    for ask in (contestant, scenario):
        with pytest.raises(UserError, match="'kafka'; there are"):
            ask("kafka")
    for each in SCENARIOS.values():
        assert QUOTES % each.symbols == 0


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "package"),
    [("mosquitto", "mosquitto"), ("nats", "nats-server"), ("rabbitmq", "rabbitmq-server")],
)
def test_a_missing_server_says_its_package(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    server, _ = contestant(name)
    with pytest.raises(UserError, match=f"apt-get install {package}$"):
        server.start(SMALL)
    server.stop()
    assert not server.pids


def test_a_server_that_ends_says_why() -> None:
    group = processes.Processes("somebody")
    try:
        group.start([sys.executable, "-c", "import sys; sys.exit('no such luck')"])
        with pytest.raises(RuntimeError, match=r"somebody ended with 1; it said:\nno such luck"):
            group.wait_for_port(processes.free_port())
    finally:
        group.stop()
    assert not group.folder.exists()


def test_the_time_of_children_counts() -> None:
    # The kernel counts in ticks, and may have seen a little less than the child did.
    burn = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    group = processes.Processes("burner")
    try:
        group.start([sys.executable, "-c", code])
        group.wait_until(lambda: processes.cpu_s(group.pids) >= 0.3)
        (pid,) = group.pids
    finally:
        group.stop()
    with pytest.raises(RuntimeError, match="is gone"):
        processes.cpu_s([pid])
    # The child that it left behind is gone too, or about to be.
    until = time.monotonic() + 10
    while running_members(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not running_members(pid)


def running_members(leader: int) -> list[int]:
    """The processes of a group, without those that are dead and wait for somebody to notice."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, group, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(group) == leader and state != "Z":
                found.append(int(entry.name))
    return found


# --- real servers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "program", "title"),
    [
        ("mosquitto", "mosquitto", "content"),
        ("mosquitto", "mosquitto", "durable"),
        ("nats", "nats-server", "content"),
        ("nats", "nats-server", "durable"),
        ("nats", "nats-server", "latency"),
        ("roost", "", "content"),
        ("roost", "", "durable"),
        ("roost-watched", "", "content"),
        ("roost-no-chunks", "", "content"),
    ],
)
def test_everything_arrives(name: str, program: str, title: str) -> None:
    try:
        if program:
            processes.installed(program, program)
    except UserError as missing:
        pytest.skip(str(missing))
    asked = scenario(title, messages=3_000, seconds=30.0, warm_up=500)
    if asked.by_content:
        asked = replace(asked, symbols=50, subscribers=3)
    server, driver = contestant(name)
    result = run_scenario(server, driver, asked)
    assert (result.messages, result.lost, result.disordered) == (3_000, 0, 0)
    assert result.published_per_s > 0
    assert result.delivered_per_s > 0
    assert (result.p50_us is not None) == (title == "latency")
    assert not server.pids
