"""A stream gives the same parcels however it is cut, and tells whom it does not know."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.messages import DATA, Ack, Frame, Parcel
from roost.wire import PREFACE, Limits, StreamDecoder, WireError, encode
from tests.wire.strategies import parcels
from tests.wire.support import one_of_each, quote


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(edges)]


def feed_all(decoder: StreamDecoder, pieces: Iterable[bytes], received: list[Parcel]) -> None:
    for piece in pieces:
        received += decoder.feed(piece)


def opened(limits: Limits = Limits()) -> StreamDecoder:
    decoder = StreamDecoder(limits)
    decoder.feed(PREFACE)
    return decoder


@given(st.lists(parcels, max_size=5), st.lists(st.integers(0, 2**20), max_size=20))
def test_cuts_change_nothing(sent: list[Parcel], cuts: list[int]) -> None:
    stream = PREFACE + b"".join(map(encode, sent))
    received: list[Parcel] = []
    feed_all(StreamDecoder(), pieces(stream, cuts), received)
    assert repr(received) == repr(sent)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 10_000])
def test_pieces_of_all_sizes(size: int) -> None:
    sent = 3 * one_of_each()
    stream = PREFACE + b"".join(map(encode, sent))
    received: list[Parcel] = []
    feed_all(StreamDecoder(), pieces(stream, list(range(0, len(stream), size))), received)
    assert received == sent


def test_parcels_come_as_soon_as_they_are_complete() -> None:
    decoder = opened()
    encoded = encode(Ack(1, 2))
    assert decoder.feed(encoded[:-1]) == []
    assert decoder.feed(b"") == []
    assert decoder.feed(encoded[-1:] + encoded + encoded[:1]) == [Ack(1, 2), Ack(1, 2)]
    assert decoder.feed(encoded[1:]) == [Ack(1, 2)]


def test_a_long_frame_byte_by_byte_takes_linear_time() -> None:
    frame = Frame(DATA, 1, quote(payload=bytes(400_000)))
    encoded = encode(frame)
    decoder = opened()
    start = time.process_time()
    received = [parcel for n in range(len(encoded)) for parcel in decoder.feed(encoded[n : n + 1])]
    # Half a second; copying all that was kept for each byte would take above ten.
    assert time.process_time() - start < 6
    assert received == [frame]


# --- the preface ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beginning", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", r"not the Roost protocol.*b'GET / HT'.*looks like an HTTP req"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "not the Roost protocol.*looks like TLS"),
        (b"SSH-2.0-OpenSSH", "not the Roost protocol.*looks like SSH"),
        (b"hello", r"not the Roost protocol.*b'hello'; expected b'ROOST\\x01\\r\\n'"),
        (b"ROOST\x02\r\n", "version 2 of Roost's wire format; this is version 1"),
        (b"ROOST\x01\n\n", "not the Roost protocol"),
        (encode(Ack(1, 2)), "not the Roost protocol"),
    ],
)
def test_strangers_are_told_so(beginning: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        StreamDecoder().feed(beginning)
    with pytest.raises(WireError, match=r"not the Roost protocol|version 2"):
        feed_all(StreamDecoder(), pieces(beginning, list(range(len(beginning)))), [])


@given(st.binary(min_size=8))
def test_nothing_else_opens_a_stream(beginning: bytes) -> None:
    if not beginning.startswith(PREFACE):
        with pytest.raises(WireError):
            StreamDecoder().feed(beginning)


# --- errors ---------------------------------------------------------------------------------------


def test_a_length_above_the_limit_is_refused_before_the_frame_has_come() -> None:
    decoder = opened(Limits(frame_bytes_max=100))
    decoder.feed((101).to_bytes(4, "big")[:3])
    with pytest.raises(WireError, match="declares 101 bytes; at most 100 are allowed"):
        decoder.feed((101).to_bytes(4, "big")[3:])
    with pytest.raises(WireError, match="declares 4,294,967,295 bytes; at most 1,048,576"):
        opened().feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_a_frame_may_be_as_long_as_the_limit(size: int) -> None:
    encoded = encode(Ack(1, 2))
    received: list[Parcel] = []
    decoder = opened(Limits(frame_bytes_max=len(encoded) - 4))
    feed_all(decoder, pieces(encoded, list(range(0, len(encoded), size))), received)
    assert received == [Ack(1, 2)]
    decoder = opened(Limits(frame_bytes_max=len(encoded) - 5))
    with pytest.raises(WireError, match="at most"):
        feed_all(decoder, pieces(encoded, list(range(0, len(encoded), size))), received)


def test_a_declared_length_takes_no_memory() -> None:
    decoders = [opened() for _ in range(100)]
    tracemalloc.start()
    try:
        for decoder in decoders:
            decoder.feed((1 << 20).to_bytes(4, "big") + b"\x93")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.integers(0, 2**20), max_size=10))
def test_an_error_comes_behind_the_parcels_ahead_of_it(cuts: list[int]) -> None:
    good, bad = encode(Ack(1, 2)), b"\x00\x00\x00\x03\x93\x01\xc0"
    stream = PREFACE + good + good + bad + good
    received: list[Parcel] = []
    with pytest.raises(WireError) as caught:
        feed_all(StreamDecoder(), pieces(stream, cuts), received)
    received += caught.value.parcels
    assert received == [Ack(1, 2), Ack(1, 2)]
    at = len(PREFACE) + 2 * len(good)
    assert str(caught.value).startswith(f"frame at byte {at} of the stream: Ack")


def test_an_error_says_where_in_the_stream() -> None:
    good = encode(Ack(1, 2))
    with pytest.raises(WireError, match=r"byte 16 of the stream: Ack, byte 2: .*opcode") as caught:
        opened().feed(good + b"\x00\x00\x00\x03\x93\x01\xc1")
    assert caught.value.offset == 16 + 4 + 2


def test_an_error_says_where_in_the_stream_also_behind_frames_that_somebody_else_has_read() -> None:
    decoder, good = opened(), encode(Ack(1, 2))
    decoder.feed(good + good[:5])
    taken = decoder.take_back() + good[5:] + good
    assert taken == 2 * good
    decoder.skip(len(taken))
    with pytest.raises(WireError, match=f"byte {8 + 3 * len(good)} of the stream: Ack") as caught:
        decoder.feed(b"\x00\x00\x00\x03\x93\x01\xc1")
    assert caught.value.offset == 8 + 3 * len(good) + 4 + 2


def test_after_an_error_there_is_nothing_more() -> None:
    decoder = opened()
    with pytest.raises(WireError) as first:
        decoder.feed(encode(Ack(1, 2)) + bytes(4))
    assert first.value.parcels == [Ack(1, 2)]
    with pytest.raises(WireError) as second:
        decoder.feed(encode(Ack(1, 2)))
    assert str(second.value) == str(first.value)
    assert second.value.parcels == ()
