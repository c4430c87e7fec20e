"""Parcels to bytes and back: nothing changes, sizes are right, a publication is encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Struct, msgpack

from roost.broker import messages
from roost.broker.messages import DATA, Ack, Delivery, Frame, Message, Parcel, Publication
from roost.language import Event
from roost.wire import (
    WireError,
    decode,
    delivery_head,
    delivery_sizes,
    encode,
    kinds,
    publication_bytes,
    size_of,
)
from tests.wire.strategies import (
    frames,
    messages_by_kind,
    numbers,
    parcels,
    publications,
    subscription_ids,
    unnumbered_by_kind,
)
from tests.wire.support import body_of, one_of_each, quote


def check_round_trip(parcel: Parcel) -> None:
    encoded = encode(parcel)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    decoded = decode(encoded[4:])
    # Not ==, to which 1 is 1.0 and NaN is not NaN. By now both have their publication's bytes.
    assert repr(decoded) == repr(parcel)
    assert encode(decoded) == encoded
    assert size_of(parcel) == size_of(decoded) == len(encoded)


@pytest.mark.parametrize("kind", messages_by_kind, ids=lambda kind: kind.__name__)
@given(st.data())
def test_messages_come_back(kind: type[Message], data: DataObject) -> None:
    check_round_trip(data.draw(frames(messages_by_kind[kind])))


@pytest.mark.parametrize("kind", unnumbered_by_kind, ids=lambda kind: kind.__name__)
@given(st.data())
def test_greetings_come_back(kind: type[Ack], data: DataObject) -> None:
    check_round_trip(data.draw(unnumbered_by_kind[kind]))


def test_they_are_equal() -> None:
    for parcel in one_of_each():
        assert decode(body_of(parcel)) == parcel


def test_every_class_has_its_tag() -> None:
    structs = {x for x in vars(messages).values() if isinstance(x, type) and issubclass(x, Struct)}
    structs -= {Struct, Message, Frame}
    assert set(kinds.KINDS.values()) == structs
    assert set(messages_by_kind) | set(unnumbered_by_kind) == structs
    assert {type(p.message) if isinstance(p, Frame) else type(p) for p in one_of_each()} == structs


@given(parcels)
def test_a_body_may_be_a_view(parcel: Parcel) -> None:
    encoded = encode(parcel)
    assert repr(decode(memoryview(encoded)[4:])) == repr(parcel)


@given(publications, numbers, numbers, subscription_ids)
def test_size_of_a_delivery(
    publication: Publication, sequence: int, hops: int, subscriptions: tuple[str, ...]
) -> None:
    frame = Frame(DATA, sequence, Delivery(publication, subscriptions), hops)
    encoded = encode(frame)
    assert delivery_sizes(publication, [(1, frame), (2, frame)]) == [len(encoded)] * 2
    body = publication_bytes(publication)
    assert delivery_head(frame, len(body)) + body == encoded


# What stands in front of the publication: ids, numbers and hops around the lengths of their spellings.
@pytest.mark.parametrize("hops", [0, 127, 128, 255, 256])
@pytest.mark.parametrize("sequence", [0, 2**32 - 1, 2**32])
@pytest.mark.parametrize(
    "ids", [("",), ("s",), ("s" * 31,), ("s" * 32,), ("é" * 16,), ("s", "t"), ("s",) * 16]
)
def test_heads_of_deliveries(ids: tuple[str, ...], sequence: int, hops: int) -> None:
    publication = quote()
    frame = Frame(DATA, sequence, Delivery(publication, ids), hops)
    encoded = encode(frame)
    assert delivery_sizes(publication, [(1, frame)]) == [size_of(frame)] == [len(encoded)]
    body = publication_bytes(publication)
    assert delivery_head(frame, len(body)) + body == encoded
    assert decode(encoded[4:]) == frame


@pytest.mark.parametrize("hops", [0, 128])
def test_the_size_of_a_frame_does_not_depend_on_its_number(hops: int) -> None:
    frames = [Frame(DATA, sequence, quote(), hops) for sequence in (0, 200, 2**32 - 1)]
    assert len({*map(size_of, frames)}) == 1


# --- encoded once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: Delivery(p, ("s",))])
def test_encoding_keeps_the_bytes_with_the_publication(wrap: Any) -> None:
    publication = quote()
    encode(Frame(DATA, 1, wrap(publication)))
    assert publication.encoded
    assert publication_bytes(publication) is publication.encoded


@given(publications)
def test_decoding_keeps_them_too(publication: Publication) -> None:
    for message in (publication, Delivery(publication, ("s",))):
        frame = decode(body_of(Frame(DATA, 1, message)))
        assert isinstance(frame, Frame)
        decoded = frame.message
        if isinstance(decoded, Delivery):
            decoded = decoded.publication
        assert isinstance(decoded, Publication)
        assert decoded.encoded == publication.encoded


def test_forwarding_encodes_nothing() -> None:
    # Bytes that the encoder would never make: the attributes as a map of the longest spelling.
    part = msgpack.decode(publication_bytes(quote(event=Event({"a": 1}))))
    map32 = b"\xdf\x00\x00\x00\x01" + msgpack.encode("a") + msgpack.encode(1)
    items = [map32 if type(item) is dict and "a" in item else msgpack.encode(item) for item in part]
    odd = b"\x98" + b"".join(items)
    frame = decode(b"\x95\x10\x01\x05\x00" + odd)
    assert isinstance(frame, Frame)
    assert isinstance(frame.message, Publication)
    assert frame.message.event == Event({"a": 1})
    assert encode(Frame(DATA, 9, frame.message, 4)).endswith(odd)
    assert encode(Frame(DATA, 9, Delivery(frame.message, ("s",)), 4)).endswith(odd)


def test_names_of_attributes_are_shared() -> None:
    bodies = [body_of(Frame(DATA, n, quote(sequence=n))) for n in (1, 2)]
    (first, second) = (decode(body) for body in bodies)
    assert isinstance(first, Frame)
    assert isinstance(second, Frame)
    assert isinstance(first.message, Publication)
    assert isinstance(second.message, Publication)
    names = zip(first.message.event.attributes, second.message.event.attributes, strict=True)
    assert all(a is b for a, b in names)


# --- what can't be written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parcel", "says"),
    [
        (quote(), "Publication can't be written: found Publication, which has no tag"),
        (Frame(DATA, 1, Ack(1, 2)), "Frame can't be written: found Ack, which has no tag"),  # type: ignore[arg-type]
        (Frame(DATA, -1, quote()), "Frame can't be written"),
        (Frame(DATA, 2**64, quote()), "Frame can't be written"),
        (Ack(2**64, 0), "Ack can't be written"),
        (Frame(DATA, 1, quote(publisher="\ud800")), "Publication can't be written"),
        (Frame(DATA, 1, quote(headers={"x": object()})), "Publication can't be written"),
    ],
)
def test_what_can_not_be_written_says_so(parcel: Parcel, says: str) -> None:
    with pytest.raises(WireError, match=says):
        encode(parcel)


def test_headers_may_be_any_mapping() -> None:
    headers: Mapping[str, str] = MappingProxyType({"a": "b"})
    frame = decode(body_of(Frame(DATA, 1, quote(headers=headers))))
    assert isinstance(frame, Frame)
    assert isinstance(frame.message, Publication)
    assert frame.message.headers == {"a": "b"}
