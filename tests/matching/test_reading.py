"""An event is matched from its bytes as it is from an object, in any spelling; what is no event is none."""

from __future__ import annotations

import math
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import UserError
from roost.language import (
    Event,
    Filter,
    Interest,
    Operator,
    Predicate,
    Subscription,
    Value,
    parse_filter,
)
from roost.language.event import ATTRIBUTES_MAX
from roost.matching.index import Index
from roost.matching.kernels import reading
from roost.matching.kernels.octets import is_text
from tests.language.strategies import events, filters, subscriptions

# Floats on either side of what an int can be, and the two zeros.
_EDGES: list[Value] = [
    *(x * (2**bits + d) for bits in (7, 8, 15, 16, 31, 32, 53, 62) for x in (1, -1) for d in (-1, 0, 1)),
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, 2.0**53, 2.0**60, True, False, "", "x" * 31, "x" * 32),
    *("é" * 15, "é" * 200, "\U0010ffff", "x" * 300, "a" * 16, "a" * 17, "a" * 15 + "b"),
]  # fmt: skip


def index_of(interests: list[Interest]) -> Index:
    index = Index()
    for id_, interest in enumerate(interests):
        index.add(id_, interest)
    return index


@st.composite
def spelled(draw: st.DrawFn, event: Event) -> bytes:
    """The event in MessagePack, with each length and number in any form that has room for it."""
    count = len(event.attributes)
    marks = [bytes((0xDE,)) + count.to_bytes(2, "big")]
    if count < 16:
        marks.append(bytes((0x80 + count,)))
    parts = [draw(st.sampled_from(marks))]
    for name, value in event.attributes.items():
        parts.append(draw(st.sampled_from(_strings(name))))
        parts.append(draw(st.sampled_from(_values(value))))
    return b"".join(parts)


def _strings(text: str) -> list[bytes]:
    raw = text.encode()
    size = len(raw)
    forms = [b"\xdb" + size.to_bytes(4, "big") + raw]
    if size < 1 << 16:
        forms.append(b"\xda" + size.to_bytes(2, "big") + raw)
    if size < 1 << 8:
        forms.append(b"\xd9" + size.to_bytes(1, "big") + raw)
    if size < 32:
        forms.append(bytes((0xA0 + size,)) + raw)
    return forms


def _values(value: Value) -> list[bytes]:
    if isinstance(value, str):
        return _strings(value)
    if isinstance(value, bool):
        return [b"\xc3" if value else b"\xc2"]
    if isinstance(value, float):
        return [b"\xcb" + struct.pack(">d", value)]
    forms = [msgspec.msgpack.encode(value)]
    for power in range(4):
        size = 1 << power
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            forms.append(bytes((0xD0 + power,)) + value.to_bytes(size, "big", signed=True))
        if 0 <= value < 1 << (8 * size):
            forms.append(bytes((0xCC + power,)) + value.to_bytes(size, "big"))
    return forms


def asking(name: str) -> Filter:
    return Filter([Predicate(name, Operator.PRESENT)])


@given(
    st.lists(st.one_of(filters(), subscriptions()), max_size=12),
    st.lists(events().flatmap(lambda e: st.tuples(st.just(e), spelled(e))), max_size=5),
)
def test_any_spelling(interests: list[Interest], tried: list[tuple[Event, bytes]]) -> None:
    index = index_of(interests)
    for event, octets in tried:
        assert index.match_bytes(octets).tolist() == index.match(event).tolist()


@given(st.data())
def test_values_at_the_edges(data: st.DataObject) -> None:
    """Each as a constant of every operator that takes it, and as a value in every spelling."""
    edges = st.sampled_from(_EDGES)
    interests: list[Interest] = [parse_filter("v present")]
    for constant in data.draw(st.lists(edges.filter(lambda x: x == x), min_size=1, max_size=6)):
        operators = [Operator.EQ, Operator.NE]
        if not isinstance(constant, bool):
            operators += [Operator.LT, Operator.GE]
        if isinstance(constant, str):
            operators += [Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS]
        interests += [Filter([Predicate("v", operator, constant)]) for operator in operators]
        interests.append(Filter([Predicate("v", Operator.IN, (constant, "other"))]))
    index = index_of(interests)
    event = Event({"v": data.draw(edges)})
    for octets in (b"\x81\xa1v" + form for form in _values(event.attributes["v"])):
        assert index.match_bytes(octets).tolist() == index.match(event).tolist()


@given(events(), st.data())
def test_bytes_that_are_no_event(event: Event, data: st.DataObject) -> None:
    """What a kernel decides about is an event; about what is none, one message is said."""
    index = index_of(
        [parse_filter("a = 'x'"), parse_filter("b > 1"), *map(asking, event.attributes)]
    )
    octets = bytearray(data.draw(spelled(event)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(octets) - 1)))
        octets[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        attributes = msgspec.msgpack.decode(bytes(octets), type=dict[str, bool | int | float | str])
        expected = index.match(Event(attributes)).tolist()
    except (msgspec.MsgspecError, UnicodeDecodeError, UserError):
        with pytest.raises(UserError):
            index.match_bytes(bytes(octets))
    else:
        assert index.match_bytes(bytes(octets)).tolist() == expected


def test_what_is_unusual_is_still_an_event() -> None:
    """Twice the same attribute (the last counts), many attributes, the longest names and strings."""
    index = index_of(
        [parse_filter("a = 'x'"), parse_filter("a > 1"), parse_filter("b contains 'xx'")]
    )
    assert index.match_bytes(b"\x82\xa1a\xa1x\xa1a\x05").tolist() == [1]
    assert index.match_bytes(b"\x82\xa1a\x05\xa1a\xa1x").tolist() == [0]
    many: dict[str, Value] = {f"n{i}": i for i in range(ATTRIBUTES_MAX - 1)}
    many["a"] = "x"
    assert index.match_bytes(msgspec.msgpack.encode(many)).tolist() == [0]
    with pytest.raises(UserError, match="1,025 attributes"):
        index.match_bytes(msgspec.msgpack.encode(many | {"z": 1}))
    for character in "xé":
        long: dict[str, Value] = {character * 256: 1, "b": "x" + 65_535 * character, "a": "x"}
        assert sorted(index.match_bytes(msgspec.msgpack.encode(long)).tolist()) == (
            [0, 2] if character == "x" else [0]
        )
        for wrong in ({character * 257: 1}, {"c": character * 65_537}, {"": 1}):
            with pytest.raises(UserError):
                index.match_bytes(msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize(
    "octets", [b"", b"\xc0", b"\x81", b"\x81\xa1a", b"\x81\xa1a\xc0", b"\x80\x80"]
)
def test_what_is_no_event_is_said(octets: bytes) -> None:
    with pytest.raises(UserError, match=r"the bytes are no event: .*expected a MessagePack map"):
        Index().match_bytes(octets)
    with pytest.raises(TypeError, match="octets are a bytearray; expected bytes"):
        Index().match_bytes(bytearray(octets))  # type: ignore[arg-type]


@given(st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode)))
def test_text_is_utf_8(raw: bytes) -> None:
    try:
        raw.decode()
        expected = True
    except UnicodeDecodeError:
        expected = False
    padded = np.frombuffer(b"\xff" + raw + b"\x80", np.uint8)
    assert is_text(padded, 1, len(raw)) == expected


@given(st.lists(st.one_of(filters(), subscriptions()), max_size=8), st.lists(events(), max_size=6))
def test_spans_of_something_larger(interests: list[Interest], tried: list[Event]) -> None:
    """As another kernel uses it: a frame that is asked for once, bytes before and behind."""
    index = index_of(interests)
    within = index.spans()
    frame = within.frame
    for event in tried:
        end = 0
        map_ = msgspec.msgpack.encode(event.attributes)
        octets = np.frombuffer(b"\xc1\xc1" + map_ + b"\xc1\xc1\xc1", np.uint8)
        for _ in range(2):
            within.ready()
            end = reading.match_span(frame, octets, 2, len(octets), 5)
            if end >= 0:
                assert frame[reading.END] == 2 + len(map_)
                assert within.out[5:end].tolist() == index.match(event).tolist()
            assert end != reading.FULL
            index.learn(event)
        assert end != reading.UNTRIED


@given(
    st.lists(st.one_of(filters(), subscriptions()), max_size=12),
    st.lists(events().flatmap(lambda e: st.tuples(st.just(e), spelled(e))), max_size=12),
)
def test_many_at_once(interests: list[Interest], tried: list[tuple[Event, bytes]]) -> None:
    index = index_of(interests)
    octets = b"".join(raw for _, raw in tried)
    starts = np.cumsum([0, *(len(raw) for _, raw in tried)])
    for _ in range(2):
        offsets, ids = index.match_spans(octets, starts)
        for i, (event, raw) in enumerate(tried):
            expected = index.match(event).tolist()
            assert ids[offsets[i] : offsets[i + 1]].tolist() == expected
            assert index.match_bytes(raw).tolist() == expected


@pytest.mark.parametrize(
    ("starts", "said"),
    [([], "no places"), ([0, 3], "no places"), ([-1, 1], "no places"), ([0, 2, 1], "not in order")],
)
def test_starts_that_cannot_be(starts: list[int], said: str) -> None:
    with pytest.raises(UserError, match=f"starts are {said}"):
        Index().match_spans(b"\x80\x80", starts)


def test_answers_that_are_held_stay_what_they_are() -> None:
    """The room for answers is used again, but not while anybody has one."""
    index = Index()
    index.add_columns(range(500), [("x", ">", np.arange(500.0))])
    events_of_turn = [[Event({"x": float(x + turn)}) for x in range(40)] for turn in range(6)]
    held, kept = [], []
    for batch in events_of_turn:
        held.append(index.match_batch(batch))
        raws = [msgspec.msgpack.encode(event.attributes) for event in batch]
        starts = np.cumsum([0, *map(len, raws)])
        kept.append(index.match_spans(b"".join(raws), starts)[1][5:])
    for batch, (offsets, ids), tail in zip(events_of_turn, held, kept, strict=True):
        for i, event in enumerate(batch):
            assert sorted(ids[offsets[i] : offsets[i + 1]]) == sorted(index.match(event))
        assert tail.tolist() == ids[5:].tolist()


def test_what_was_tried_is_forgotten_with_its_patterns() -> None:
    """More distinct strings than are remembered, and patterns that come and go meanwhile."""
    index = index_of(
        [
            parse_filter("s prefix 'a'"),
            parse_filter("s = 'a1' and t = 'long enough to be kept aside'"),
        ]
    )
    rng = np.random.default_rng(3)
    for turn, number in enumerate(rng.integers(0, 30_000, 40_000).tolist()):
        event = Event({"s": f"{'ab'[number % 2]}{number}", "t": "long enough to be kept aside"})
        if turn % 997 == 0:
            index.add(100 + turn, parse_filter(f"s suffix '{turn % 10}'"))
        if turn % 1994 == 1994 - 1:
            index.remove(100 + turn // 997 * 997)
        found = index.match_bytes(msgspec.msgpack.encode(event.attributes)).tolist()
        if turn % 7 == 0:
            assert found == index.match(event).tolist()


def test_words_that_come_and_go_leave_nothing() -> None:
    """The tables do not grow with what has been, only with what is."""
    index = index_of([parse_filter("k = 'stays'")])
    index.match_bytes(b"\x80")
    sizes = set()
    for turn in range(6_000):
        word = f"a word that takes some room, number {turn}"
        index.add(
            1, Subscription([parse_filter(f"k = '{word}'"), parse_filter(f"k in ('{word}', 'z')")])
        )
        octets = msgspec.msgpack.encode({"k": word})
        if turn % 100 == 0:
            assert index.match_bytes(octets).tolist() == [1]
        index.remove(1)
        if turn % 100 == 0:
            assert index.match_bytes(octets).tolist() == []
            sizes.add(index.memory_bytes())
    assert index.match_bytes(msgspec.msgpack.encode({"k": "stays"})).tolist() == [0]
    assert max(sizes) < 4 * min(sizes)
