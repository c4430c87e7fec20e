"""Records come back exactly, and what is none is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from roost.broker.messages import CONTROL, DATA, Delivery, Frame, Message, Publication
from roost.wire import WireError, encode, pack_record, publication_bytes, unpack_record
from tests.language.strategies import advertisements, subscriptions
from tests.wire.strategies import messages, parcels
from tests.wire.support import one_of_each, quote

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)
records = st.recursive(
    st.one_of(scalars, messages, parcels, subscriptions(), advertisements()),
    lambda items: st.one_of(st.lists(items, max_size=4), st.lists(items, max_size=4).map(tuple)),
    max_leaves=8,
)


@given(records)
def test_records_come_back(value: object) -> None:
    record = pack_record(value)
    # Not ==, to which 1 is 1.0 and NaN is not NaN. By now both have their publications' bytes.
    assert repr(unpack_record(record)) == repr(value)


def test_they_are_equal() -> None:
    value = [tuple(one_of_each()), quote(), (), [], ((), [()])]
    assert unpack_record(pack_record(value)) == value


def test_a_publication_is_not_encoded_again() -> None:
    loaded = unpack_record(pack_record(publication := quote(payload=bytes(1 << 21))))
    assert isinstance(loaded, Publication)
    assert loaded.encoded == publication.encoded


@given(messages, st.one_of(st.integers(0, 200), st.integers(-(2**63), 2**63 - 1)))
def test_what_is_sent_comes_back_by_the_short_way_too(message: Message, hops: int) -> None:
    assert repr(unpack_record(pack_record((message, hops)))) == repr((message, hops))


@pytest.mark.parametrize("message", [quote(), Delivery(quote(), ("s",))])
def test_an_event_is_kept_as_the_frame_that_it_was_or_would_be(message: Message) -> None:
    """With no number yet, and its hops beside it: older versions read it by the usual way."""
    assert encode(Frame(CONTROL, 0, message, 0))[4:] in pack_record((message, 3))


@pytest.mark.parametrize("hops", [0, 127, 128])
@pytest.mark.parametrize("missing", range(-20, 40))
def test_sent_events_about_as_long_as_the_short_way_takes(missing: int, hops: int) -> None:
    """A length that is wrong by one, in either place, would not come back."""
    publication = quote(payload=bytes(0xFFFF - missing - len(publication_bytes(quote()))))
    for message in (publication, Delivery(publication, ("s/1", "s/2"))):
        assert unpack_record(pack_record((message, hops))) == (message, hops)
        assert unpack_record(pack_record([message, hops])) == [message, hops]


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        {1},
        object(),
        Pair(1, 2),
        2**64,
        "\ud800",
        [object()],
        (quote(publisher="\ud800"),),
        (Delivery(quote(), ("\ud800",)), 1),
        (Delivery(quote(), (object(),)), 1),  # type: ignore[arg-type]
        (quote(), 2**64),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_record_can_not_hold(value: object) -> None:
    with pytest.raises(WireError, match="can't be written"):
        pack_record(value)


def test_too_deep() -> None:
    value: object = DATA
    for _ in range(100_000):
        value = [value]
    with pytest.raises(WireError, match="can't be written"):
        pack_record(value)
    with pytest.raises(WireError, match="can't be read"):
        unpack_record(100_000 * b"\x91" + b"\x01")


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xc1",
        b"\x01\x01",
        b"\xdd\xff\xff\xff\xff",
        msgpack.encode(msgpack.Ext(1, b"\x01")),
        msgpack.encode(msgpack.Ext(1, b"\xa2ab")),
        msgpack.encode(msgpack.Ext(2, b"\x01")),
        msgpack.encode(msgpack.Ext(3, b"\x93\x01\x01\x01")),
        msgpack.encode(msgpack.Ext(4, b"class =")),
        msgpack.encode(msgpack.Ext(5, b"\xff")),
        msgpack.encode(msgpack.Ext(99, b"")),
        b"\x81\x81\x01\x01\x01",
    ],
    ids=bytes.hex,
)
def test_what_is_no_record(record: bytes) -> None:
    with pytest.raises(WireError):
        unpack_record(record)


@given(
    st.one_of(
        st.binary(), st.builds(msgpack.Ext, st.integers(0, 6), st.binary()).map(msgpack.encode)
    )
)
def test_any_bytes_give_a_value_or_a_wire_error(record: bytes) -> None:
    with suppress(WireError):
        unpack_record(record)
