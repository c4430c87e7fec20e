"""Whatever the bytes, the answer is a parcel or a `WireError` that says what, where and what else."""

from __future__ import annotations

import math
import tracemalloc
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import ValidationError, convert, msgpack

from roost.broker.messages import (
    CONTROL,
    DATA,
    Attach,
    Delivery,
    Dropped,
    Frame,
    Message,
    Parcel,
    Publication,
    Refused,
    Subscribe,
)
from roost.language import Event, parse_subscription
from roost.language.event import ATTRIBUTES_MAX
from roost.language.values import NAME_LENGTH_MAX, STRING_LENGTH_MAX
from roost.wire import PREFACE, Limits, StreamDecoder, WireError, decode, encode, kinds
from tests.wire.strategies import parcels
from tests.wire.support import body_of, one_of_each, quote

TAGS = list(kinds.KINDS)
PART = ["P1", 7, {"a": 1}, b"", "", {}, 0.0, 1, True]


def publication_body(**changes: Any) -> bytes:
    """The body of a publication of which some items are not as they should be."""
    items = dict(zip(kinds.PUBLICATION_ITEMS, PART, strict=True)) | changes
    return msgpack.encode([16, 1, 5, 0, list(items.values())])


def refused(body: bytes, limits: Limits = Limits()) -> WireError:
    with pytest.raises(WireError) as caught:
        decode(body, limits)
    assert str(caught.value)
    return caught.value


# --- any bytes ------------------------------------------------------------------------------------

plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=4),
        st.binary(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def check_anything(body: bytes) -> None:
    """Also what it decodes to, if it does, can be sent on."""
    with suppress(WireError):
        parcel = decode(body)
        assert repr(decode(body_of(parcel))) == repr(parcel)
    with suppress(WireError):
        StreamDecoder().feed(PREFACE + len(body).to_bytes(4, "big") + body)


@given(st.binary())
def test_random_bytes(body: bytes) -> None:
    check_anything(body)
    with suppress(WireError):
        StreamDecoder().feed(body)
    with suppress(WireError):
        StreamDecoder().feed(PREFACE + body)


@given(plain)
def test_other_messagepack(value: object) -> None:
    check_anything(msgpack.encode(value))


@given(st.sampled_from(TAGS), st.lists(plain, max_size=8))
def test_arrays_with_a_tag(tag: int, items: list[object]) -> None:
    check_anything(msgpack.encode([tag, *items]))


@given(st.lists(plain, min_size=8, max_size=8), st.lists(st.sampled_from(range(8)), max_size=8))
def test_publications_of_anything(items: list[object], right: list[int]) -> None:
    for n in right:
        items[n] = PART[n]
    check_anything(msgpack.encode([16, 1, 5, 0, items]))


@given(
    parcels,
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4),
    st.integers(0, 2**20),
    st.booleans(),
)
def test_mutated_frames(
    parcel: Parcel, changes: list[tuple[int, int]], cut: int, is_cut: bool
) -> None:
    body = bytearray(body_of(parcel))
    for position, value in changes:
        # Most of what matters stands at the beginning.
        body[position % min(len(body), 200)] = value
    if is_cut:
        del body[cut % len(body) :]
    check_anything(bytes(body))


def test_every_single_byte_changed_or_missing() -> None:
    for parcel in one_of_each():
        body = body_of(parcel)
        for n in range(len(body)):
            check_anything(body[:n])
            check_anything(body[:n] + body[n + 1 :])
            for value in (0x00, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xC7, 0xCF, 0xDB, 0xDD, 0xDF, 0xFF):
                check_anything(body[:n] + bytes((value,)) + body[n + 1 :])


# --- what would cost -------------------------------------------------------------------------------

HUGE = [mark + b"\xff\xff\xff\xff" for mark in (b"\xc6", b"\xc9", b"\xdb", b"\xdd", b"\xdf")]


@pytest.mark.parametrize("huge", HUGE, ids=bytes.hex)
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\x93",
        b"\x93\x01",
        b"\x95\x10\x01\x05\x00",
        b"\x96\x11\x01\x05\x00",
        b"\x96\x11\x01\x05\x00\x90",
        b"\x95\x10\x01\x05\x00\x98",
        b"\x95\x10\x01\x05\x00\x98\xa2P1\x07",
        b"\x95\x10\x01\x05\x00\x98\xa2P1\x07\x81\xa1a",
        b"\x97\x14\x00\x05\x00\xa2s1",
    ],
    ids=bytes.hex,
)
def test_huge_declared_lengths_take_no_memory(before: bytes, huge: bytes) -> None:
    decode(body_of(one_of_each()[0]))
    tracemalloc.start()
    try:
        refused(before + huge + b"\x01")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "before", [b"", b"\x93\x01", b"\x95\x10\x01\x05\x00", b"\x96\x11\x01\x05\x00\x90"]
)
@pytest.mark.parametrize("level", [b"\x91", b"\x81\x01", b"\xdd\x00\x07\xff\xff"])
def test_deep_nesting(before: bytes, level: bytes) -> None:
    refused(before + 100_000 * level)


def test_a_filter_of_parentheses() -> None:
    error = refused(msgpack.encode([20, 0, 1, 0, "s1", 100_000 * "(", "c"]))
    assert error.field == "Subscribe.subscription"


# --- what they say --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says", "field", "offset"),
    [
        (b"", "parcel, byte 0: the body ends in the middle of a value", "", 0),
        (b"\x93\x01\x03", "Ack, byte 3: the body ends in the middle of a value", "", 3),
        (b"\x93\x01\x03\x04\x05", "Ack, byte 4: trailing characters; expected one", "", 4),
        (b"\x93\x01\xc1\x04", r"Ack, byte 2: invalid opcode '\xc1'; expected one", "", 2),
        (b"\x01", "parcel: expected `array`, got `int`", "parcel", None),
        (b"\x90", "parcel: expected `array` of at least length 1, got 0", "parcel", None),
        # Nobody writes so few items in this way, so it is not looked into for a name.
        (b"\xdc\x00\x03\x01\xc0\x04", "parcel.item 1: expected `int`", "parcel.item 1", None),
        (
            b"\x91\x63",
            "parcel.tag: invalid value 99; expected one of 1, 2,",
            "parcel.tag",
            1,
        ),
        (b"\x91\xa1P", "parcel.tag: expected `int`, got `str`; expected one of", "parcel.tag", 1),
        (b"\x91\x01", "Ack: expected an array of 3 items: tag, control, data", "Ack", None),
        (b"\x92\x01\x03", "Ack: expected an array of 3 items: tag, control, data", "Ack", None),
        (
            b"\x94\x01\x03\x04\x05",
            "Ack: expected an array of 3 items: tag, control, data",
            "Ack",
            None,
        ),
        (b"\x93\x01\xff\x04", "Ack.control: expected `int` >= 0", "Ack.control", None),
        (
            b"\x93\x01\xcf\xff" + 7 * b"\x00" + b"\x04",
            "Ack.control: expected `int` <=",
            "Ack.control",
            None,
        ),
        (
            b"\x95\x1c\x02\x01\x00\x01",
            "Dropped.priority: expected `int` <= 1",
            "Dropped.priority",
            None,
        ),
        (
            b"\x93\x05\xa1\xff\xa0",
            "AttachRefused, byte 3: invalid start byte; expected UTF-8",
            "",
            3,
        ),
        (
            msgpack.encode([20, 0, 1, 0, "s1", "class = 'STOCK' nad x > 1", "c"]),
            "Subscribe.subscription: line 1, column 17: found the word nad, expected 'and', 'or'",
            "Subscribe.subscription",
            None,
        ),
        (
            msgpack.encode([18, 0, 1, 0, "a1", "", "c", 3]),
            "Advertise.advertisement: line 1, column 1: found the end",
            "Advertise.advertisement",
            None,
        ),
    ],
)
def test_errors_say_what_and_where(body: bytes, says: str, field: str, offset: int | None) -> None:
    error = refused(body)
    assert str(error).startswith(says)
    assert (error.field, error.offset) == (field, offset)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"publisher": None}, "Publication.publisher: expected `str`, got `None`"),
        ({"sequence": -1}, "Publication.sequence: expected `int` >= 0"),
        ({"event": []}, "Publication.event: expected `object`, got `array`"),
        ({"event": {"a": None}}, "Publication.event: expected `bool | int | float | str`"),
        ({"event": {"a": [1]}}, "Publication.event: expected `bool | int | float | str`"),
        ({"event": {"a": b"x"}}, "Publication.event: expected `bool | int | float | str`"),
        ({"event": {"a": 2**63}}, "Publication.event: expected `int` <= 9223372036854775807"),
        ({"event": {1: 2}}, "Publication.event: expected `str`, got `int` for a name"),
        (
            {"event": {"": 1}},
            "Publication.event: an attribute name is empty or too long; expected 1",
        ),
        ({"event": {257 * "é": 1}}, "Publication.event: an attribute name is empty or too long"),
        (
            {"event": {str(n): n for n in range(1_025)}},
            "Publication.event: expected `object` of length <= 1024",
        ),
        ({"event": {"a": 65_537 * "é"}}, "Publication.event: expected `str` of length <= 65536"),
        ({"payload": "text"}, "Publication.payload: expected `bytes`, got `str`"),
        ({"content_type": b"x"}, "Publication.content_type: expected `str`, got `bytes`"),
        ({"headers": {"a": 1}}, "Publication.headers: expected `str`, got `int`"),
        ({"published_at": "now"}, "Publication.published_at: expected `float`, got `str`"),
        ({"priority": 2}, "Publication.priority: expected `int` <= 1"),
        ({"more": 1}, "Publication: expected an array of 9 items: publisher, sequence, event, "),
    ],
)
def test_publications_are_checked_as_events_are(changes: dict[str, Any], says: str) -> None:
    assert str(refused(publication_body(**changes))).startswith(says)


def test_offsets_inside_a_publication_are_those_of_the_body() -> None:
    body = publication_body(payload=b"x")
    at = body.index(b"\xa2P1")
    assert refused(body.replace(b"\xa2P1", b"\xa2P\xff")).offset == at + 2
    assert refused(body.replace(b"\xa2P1", b"\xc1P1")).offset == at


def test_an_id_that_is_no_text() -> None:
    """Also where a delivery is for one subscription, which is read off the quick way."""
    body = body_of(Frame(DATA, 7, Delivery(quote(), ("C1/1",))))
    assert body.count(b"\xa4C1/1") == 1
    assert "UTF-8" in str(refused(body.replace(b"\xa4C1/1", b"\xa4C1/\xff")))


def test_longer_spellings_of_the_head() -> None:
    heads = [b"\x95\x1c", b"\xdc\x00\x05\x1c", b"\xdd\x00\x00\x00\x05\x1c", b"\x95\xcc\x1c"]
    for head in heads:
        assert decode(head + b"\x01\x07\x00\x03") == Frame(DATA, 7, Dropped(3))
        assert "`int`" in str(refused(head + b"\x01\x07\x00\xc0"))
        check_anything(head)


@example({NAME_LENGTH_MAX * "é": STRING_LENGTH_MAX * "é"})
@example({(NAME_LENGTH_MAX + 1) * "x": 1, **{str(n): n for n in range(100)}})
@example({(NAME_LENGTH_MAX + 1) * "x": 1})
@example({f"{n:0200}": n for n in range(ATTRIBUTES_MAX)})
@example({"a": 2**63 - 1, "b": -(2**63), "c": math.nan})
@given(st.dictionaries(st.text(max_size=3), plain, max_size=4))
def test_what_events_take_is_taken_and_nothing_else(attributes: dict[str, Any]) -> None:
    try:
        expected = Event(attributes)
    except ValueError:
        refused(publication_body(event=attributes))
    else:
        frame: Any = decode(publication_body(event=attributes))
        assert repr(frame.message.event) == repr(expected)


# --- limits ---------------------------------------------------------------------------------------


def framed(message: Message) -> Frame:
    return Frame(DATA, 1, message)


FILTER = "low < 20 and x present"


@pytest.mark.parametrize(
    ("limit", "at_most", "parcel", "field"),
    [
        ("publication_bytes_max", 95, framed(quote()), "Publication"),
        ("payload_bytes_max", 3, framed(quote(payload=b"abc")), "Publication.payload"),
        ("headers_max", 2, framed(quote(headers={"a": "1", "b": "2"})), "Publication.headers"),
        ("header_length_max", 3, framed(quote(headers={"a": "xyz"})), "Publication.headers"),
        ("header_length_max", 3, framed(quote(headers={"xyz": "a"})), "Publication.headers"),
        ("name_length_max", 20, framed(quote(publisher=20 * "P")), "Publication.publisher"),
        ("name_length_max", 20, framed(quote(content_type=20 * "t")), "Publication.content_type"),
        ("name_length_max", 20, framed(Delivery(quote(), (20 * "s",))), "Delivery.subscriptions"),
        ("name_length_max", 20, Attach(1, 20 * "C", "s", False, 0, 0), "Attach.client"),
        ("reason_length_max", 5, framed(Refused(20 * "s", "no no")), "Refused.reason"),
        (
            "filter_length_max",
            len(FILTER),
            Frame(CONTROL, 1, Subscribe("s", parse_subscription(FILTER), "c")),
            "Subscribe.subscription",
        ),
    ],
)
def test_limits(limit: str, at_most: int, parcel: Parcel, field: str) -> None:
    if limit == "publication_bytes_max":
        encode(parcel)
        assert isinstance(parcel, Frame)
        at_most = len(parcel.message.encoded)  # type: ignore[attr-defined]
    assert decode(body_of(parcel), Limits(**{limit: at_most})) == parcel
    error = refused(body_of(parcel), Limits(**{limit: at_most - 1}))
    assert error.field == field
    assert f"{at_most - 1:,}" in str(error)


def test_the_limit_of_a_frame() -> None:
    encoded = encode(framed(quote()))
    limits = Limits(frame_bytes_max=len(encoded) - 4)
    assert StreamDecoder(limits).feed(PREFACE + encoded) == [framed(quote(encoded=encoded[13:]))]
    with pytest.raises(WireError, match="at most 3 are allowed"):
        StreamDecoder(Limits(frame_bytes_max=3)).feed(PREFACE + encoded)


def test_every_limit_has_a_test() -> None:
    (mark,) = test_limits.pytestmark  # type: ignore[attr-defined]
    tested = {case[0] for case in mark.args[1]} | {"frame_bytes_max"}
    assert tested == set(Limits.__struct_fields__)


def test_no_frame_may_be_longer_than_its_length_can_say() -> None:
    most = (1 << 32) - 1
    assert convert({"frame_bytes_max": most}, Limits).frame_bytes_max == most
    with pytest.raises(ValidationError, match="frame_bytes_max"):
        convert({"frame_bytes_max": most + 1}, Limits)


def test_how_large_a_payload_may_be_if_nobody_says_otherwise() -> None:
    """Half a megabyte."""
    for size in (1 << 19, (1 << 19) + 1):
        frame = encode(Frame(DATA, 1, Publication("P", 1, Event({}), bytes(size))))
        with pytest.raises(WireError) if size > 1 << 19 else nullcontext():
            StreamDecoder().feed(PREFACE + frame)
