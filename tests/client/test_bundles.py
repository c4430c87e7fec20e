"""Deliveries taken by the hundred: what comes of them is what comes of the same one by one."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from roost.broker.messages import DATA, Ack, Dropped, Frame
from roost.client import Client, EventsDropped, Subscription, arriving, bundling
from roost.client.bundle import Bundle
from roost.client.columns import as_columns, reader_of_columns
from roost.language import Value
from roost.wire import encode
from tests.client.far_end import FarEnd, delivery
from tests.client.support import in_loop
from tests.language.strategies import names, values

Attributes = dict[str, Value]

# --- streams --------------------------------------------------------------------------------------

HOW = ("usual", "large map", "twice", "float32", "long numbers", "beyond", "no value", "no text")


def spelled(attributes: Attributes, how: str) -> bytes:
    """Attributes in MessagePack, in one of many spellings; the last two are no attributes."""
    items = []
    for name, value in attributes.items():
        written = msgpack.encode(value)
        if how == "float32" and type(value) is float and abs(value) < 1e30:
            written = b"\xca" + struct.pack(">f", value)
        elif how == "long numbers" and type(value) is int:
            written = b"\xd3" + struct.pack(">q", value)
        items.append(msgpack.encode(name) + written)
    extra = {
        "twice": [msgpack.encode(name) + msgpack.encode(7) for name in list(attributes)[:1]],
        "beyond": [msgpack.encode("n") + msgpack.encode(2**64 - 1)],
        "no value": [msgpack.encode("n") + b"\xc0"],
        "no text": [msgpack.encode("n") + b"\xa2\xc3\x28"],
    }
    items += extra.get(how, [])
    if how == "large map":
        return b"\xdf" + struct.pack(">I", len(items)) + b"".join(items)
    head = (
        bytes((0x80 | len(items),)) if len(items) < 16 else b"\xde" + len(items).to_bytes(2, "big")
    )
    return head + b"".join(items)


@st.composite
def kinds_of_events(draw: st.DrawFn) -> dict[str, Any]:
    """What many of a stream's deliveries have in common."""
    plain = draw(st.integers(0, 3)) > 0
    return {
        "attributes": draw(st.dictionaries(names(), values(nan=True), max_size=4)),
        "how": "usual" if plain else draw(st.sampled_from(HOW)),
        "publisher": draw(st.sampled_from(["P", "Q", "größe", "x" * 40])),
        "step": 1 if plain else draw(st.sampled_from([1, 1, 2, 0, -3])),
        "payload": b"" if plain else draw(st.binary(max_size=300)),
        "content_type": "" if plain else draw(st.sampled_from(["", "text/plain"])),
        "headers": {} if plain else draw(st.sampled_from([{}, {"h": "ä"}, {"x" * 40: ""}])),
        "traced": not plain and draw(st.booleans()),
        "to": 0 if plain else draw(st.sampled_from([0, 0, 1, (0, 1), "nobody"])),
    }


ASIDES = (None,) * 6 + (Ack(0, 0), Dropped(3))


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = draw(st.lists(kinds_of_events(), min_size=1, max_size=5))
    stream: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(kinds))
        stream += [kind] * draw(st.sampled_from([1, 2, 7, 30, 70]))
        stream.append({"aside": draw(st.sampled_from(ASIDES))})
    return stream


def bytes_of(stream: Sequence[dict[str, Any]], ids: Sequence[str]) -> bytes:
    """The frames of a stream, for a client whose subscriptions have these ids."""
    out, number, control = [], 0, 0
    last: dict[str, int] = {}
    for each in stream:
        aside = each.get("aside")
        if type(aside) is Dropped:
            control += 1
            out.append(encode(Frame(0, control, aside)))
        elif aside is not None:
            out.append(encode(aside))
        if "how" not in each:
            continue
        number += 1
        sequence = max(1, last.get(each["publisher"], 0) + each["step"])
        last[each["publisher"]] = max(sequence, last.get(each["publisher"], 0))
        to = each["to"]
        some = [ids[to]] if type(to) is int else ["no"] if to == "nobody" else [ids[i] for i in to]
        publication = (
            bytes((0x99 if each["traced"] else 0x98,))
            + each.get("by", msgpack.encode(each["publisher"]))
            + each.get("number", msgpack.encode(sequence))
            + spelled(each["attributes"], each["how"])
            + b"".join(
                map(msgpack.encode, (each["payload"], each["content_type"], each["headers"]))
            )
            + each.get("time", msgpack.encode(1.5))
            + msgpack.encode(DATA)
            + (msgpack.encode(True) if each["traced"] else b"")
            + each.get("behind", b"")
        )
        out.append(delivery(number, some, publication))
    return b"".join(out)


# --- two clients, one of which takes bundles -------------------------------------------------------


class Reader:
    """A client at an end of ours, and what it has read."""

    def __init__(self, far: FarEnd, client: Client, bounds: tuple[int, int], drops: bool) -> None:
        self.far = far
        self.client = client
        assert client._line is not None
        self.line = client._line
        when_full: Any = "drop" if drops else "wait"
        self.subscriptions = (
            client.subscribe("a > 0", buffer_max=bounds[0]),
            client.subscribe("b > 0", buffer_max=bounds[1], when_full=when_full),
        )
        self.ids = list(self.line.machine.home.names)
        self.read: list[list[str]] = [[], []]

    def take(self, number: int, count: int) -> list[Any]:
        """So many items of a subscription, one by one, as an application would get them."""
        inbox = self.subscriptions[number]._inbox
        return [inbox.pop() for _ in range(count) if inbox.items]

    @property
    def state(self) -> object:
        """What the machine has noted, and what waits here."""
        machine = self.line.machine
        return (
            machine.home.channel.data.received,
            machine.home.channel.control.received,
            machine.seen,
            machine.duplicates,
            machine.state,
            [len(each._inbox) for each in self.subscriptions],
            [each._inbox.is_full for each in self.subscriptions],
            [each.dropped for each in self.subscriptions],
            self.far.is_closed,
            self.far.is_reading(),
            sum(map(len, self.far.waiting)),
        )


def said(item: Any) -> str:
    """All there is to say of what was read, kinds and order included."""
    if not hasattr(item, "event"):
        return f"missing {item.count} {item.by_broker}"
    return repr(
        (
            item.id,
            list(item.event.attributes.items()),
            item.payload,
            item.content_type,
            item.headers,
            item.published_at,
        )
    )


@asynccontextmanager
async def reader(
    bounds: tuple[int, int], *, bundles: bool, drops: bool = False, short: bool = True
) -> AsyncIterator[Reader]:
    """A client that takes bundles, or one by one; or all by the decoder and the machine, if not `short`."""
    far = FarEnd()
    client = await far.client()
    try:
        there = Reader(far, client, bounds, drops)
        if bundles:
            assert there.line.intake.bundles()
        if not short:
            nothing: Any = lambda _, __, at: at  # noqa: E731
            there.line.intake.take = nothing  # type: ignore[method-assign]
        yield there
    finally:
        await client._hang_up()


@pytest.fixture(scope="module", autouse=True)
def bundles_of_few() -> Iterator[None]:
    """Bundles wherever two events come together."""
    with (
        mock.patch.object(bundling, "FEW", 2),
        mock.patch.object(arriving, "_BUNDLE_BYTES", 32),
    ):
        yield


@given(
    streams(),
    st.lists(st.integers(1, 4_000), max_size=8),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 3, 50, 1_000])), max_size=8),
    st.tuples(st.sampled_from([1, 2, 10, 1_000]), st.sampled_from([3, 1_000])),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_the_same_events_and_the_same_state(
    stream: list[dict[str, Any]],
    cuts: list[int],
    reads: list[tuple[int, int]],
    bounds: tuple[int, int],
    drops: bool,
) -> None:
    async def run() -> None:
        async with (
            reader(bounds, bundles=False, drops=drops, short=False) as plainly,
            reader(bounds, bundles=False, drops=drops) as single,
            reader(bounds, bundles=True, drops=drops) as many,
        ):
            both = (plainly, single, many)
            is_ahead = False

            def compare() -> None:
                """Without the short way all of a read is decoded at once, also what stands behind an event
                that makes a subscription full: that something there is no message is noticed sooner.
                """
                nonlocal is_ahead
                assert (single.state, single.read) == (many.state, many.read)
                is_ahead = is_ahead or plainly.far.is_closed > single.far.is_closed
                assert is_ahead or (plainly.state, plainly.read) == (single.state, single.read)

            streams = [bytes_of(stream, each.ids) for each in both]
            at = [0, *sorted({cut % (len(streams[0]) + 1) for cut in cuts}), len(streams[0])]
            steps = [*reads, *[(0, 0)] * len(at)]
            for (begin, end), (number, count) in zip(pairwise(at), steps, strict=False):
                for each, data in zip(both, streams, strict=True):
                    each.far.send(data[begin:end])
                compare()
                for each in both:
                    each.read[number] += map(said, each.take(number, count))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                compare()
            while any(len(each.subscriptions[n]._inbox.items) for each in both for n in (0, 1)):
                for number in (0, 1):
                    for each in both:
                        each.read[number] += map(said, each.take(number, 1_000))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                compare()
            assert not is_ahead or single.far.is_closed
            if not single.far.is_closed:
                # Neither has kept an acknowledgement to itself that was due, or given one too many.
                for each in both:
                    lane = each.line.machine.home.channel.data
                    assert 0 <= lane.received - lane.reported < 64 or not each.far.acks()
                    each.line.say_acks()
                    each.line.connection.flush()  # type: ignore[union-attr]
                    so_far = [(ack.control, ack.data) for ack in each.far.acks()]
                    assert so_far == sorted(so_far)
                assert len({tuple(each.far.acks()[-1:]) for each in both}) == 1

    asyncio.run(run())


def outcome(read: Any, parts: Any) -> object:
    """The columns, or how it failed."""
    try:
        batch: pa.RecordBatch = read(parts)
    except (OverflowError, pa.ArrowInvalid) as error:
        return type(error)
    batch.validate(full=True)
    return str(batch.schema), batch.num_rows, repr(batch.to_pydict())


@given(streams(), st.lists(st.sampled_from([1, 2, 10, 100]), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_the_same_columns(stream: list[dict[str, Any]], sizes: list[int]) -> None:
    async def run() -> None:
        async with (
            reader((10_000, 10_000), bundles=False) as single,
            reader((10_000, 10_000), bundles=True) as many,
        ):
            read = reader_of_columns()
            for each in (single, many):
                each.far.send(bytes_of(stream, each.ids))
            for number in (0, 1):
                mine, other = (each.subscriptions[number]._inbox for each in (many, single))
                for size in sizes * 1_000:
                    if not mine.items:
                        break
                    if mine.lacks_next:
                        assert said(mine.pop()) == said(other.pop())
                        continue
                    events: list[Any] = other.take(size)
                    rows = [event.event.attributes for event in events]
                    assert outcome(read, mine.take(size)) == outcome(as_columns, rows)
                    assert len(mine) == len(other)

    asyncio.run(run())


# --- single cases ---------------------------------------------------------------------------------


def plain(count: int, **more: Value) -> list[dict[str, Any]]:
    """A stream of so many events like any other."""
    each = {
        "attributes": {"a": 1, **more},
        "how": "usual",
        "publisher": "P",
        "step": 1,
        "payload": b"",
        "content_type": "",
        "headers": {},
        "traced": False,
        "to": 0,
    }
    return [each] * count


@in_loop
async def test_what_comes_together_is_one_item_until_somebody_wants_an_event() -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        subscription = there.subscriptions[0]
        there.far.send(bytes_of(plain(500), there.ids))
        (bundle,) = subscription._inbox.items
        assert type(bundle) is Bundle
        assert subscription.waiting == len(bundle) == 500
        assert (await subscription.get()).sequence == 1
        assert subscription.waiting == 499
        assert [event.sequence for event in await subscription.batch(600)] == list(range(2, 501))
        await asyncio.sleep(0)
        # Acknowledged is all of it, once.
        assert [ack.data for ack in there.far.acks()] == [500]


NUMBERS = (0, 127, 128, 255, 256, 65_536, 2**32, 2**63 - 1, -1, -32, -33, -128, -129, -(2**63))


@pytest.mark.parametrize("value", [*NUMBERS, 1.5, True, False, "", "x" * 300])
@in_loop
async def test_values_of_all_spellings_are_taken_together(value: Value) -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        there.far.send(bytes_of(plain(60, b=value), there.ids))
        (bundle,) = there.subscriptions[0]._inbox.items
        assert type(bundle) is Bundle
        events = await there.subscriptions[0].batch(60)
        assert [event["b"] for event in events] == [value] * 60


@pytest.mark.parametrize("size", [0, 255, 256, 65_535, 65_536, 70_000])
@in_loop
async def test_payloads_of_all_sizes_are_taken_together(size: int) -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        payload = bytes(range(256)) * 300
        stream = [{**each, "payload": payload[:size]} for each in plain(30)]
        there.far.send(bytes_of(stream, there.ids))
        (bundle,) = there.subscriptions[0]._inbox.items
        assert type(bundle) is Bundle
        events = await there.subscriptions[0].batch(30)
        assert [event.payload for event in events] == [payload[:size]] * 30


@in_loop
async def test_a_bundle_is_cut_to_what_is_asked_for_and_to_what_there_is_room_for() -> None:
    async with reader((100, 1_000), bundles=True) as there:
        subscription = there.subscriptions[0]
        there.far.send(bytes_of(plain(250), there.ids))
        assert subscription.waiting == 100
        assert not there.far.is_reading()
        batches = subscription.batches(30, arrow=True)
        got = 0
        async for batch in batches:
            assert 0 < batch.num_rows <= 30
            assert subscription.waiting <= 100
            got += batch.num_rows
            if got == 250:
                break
        await batches.aclose()  # type: ignore[attr-defined]
        assert there.far.is_reading()


@in_loop
async def test_what_is_missing_is_warned_of_between_columns() -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        subscription = there.subscriptions[0]
        stream = [*plain(10), {"aside": Dropped(7)}, *plain(10)]
        there.far.send(bytes_of(stream, there.ids))
        batches = subscription.batches(arrow=True)
        assert (await anext(batches)).num_rows == 10
        with pytest.warns(EventsDropped, match="7 events"):
            assert (await anext(batches)).num_rows == 10
        await batches.aclose()  # type: ignore[attr-defined]


@in_loop
async def test_bytes_of_a_read_do_not_stay_for_the_sake_of_a_few_events() -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        stream = [*plain(5), *({**each, "to": 1} for each in plain(400))]
        there.far.send(bytes_of(stream, there.ids))
        (bundle,) = there.subscriptions[0]._inbox.items
        assert type(bundle) is Bundle
        assert len(bundle.data) < 1_000


@pytest.mark.parametrize("rest", [0, 1, 2, 40])
@in_loop
async def test_many_columns_long_texts_and_whole_numbers_among_floats(rest: int) -> None:
    wide: Any = {f"c{i}": i for i in range(10 + rest)}
    async with reader((1_000, 1_000), bundles=True) as there:
        odd = {**plain(1)[0], "attributes": {"a": 2**53 + 1, "s": "ä" * 30_000, **wide}}
        half = {**plain(1)[0], "attributes": {"a": 0.5}}
        there.far.send(bytes_of([odd, half, odd], there.ids))
        (bundle,) = there.subscriptions[0]._inbox.items
        assert type(bundle) is Bundle
        batch = reader_of_columns()([bundle])
        assert batch.equals(as_columns([odd["attributes"], half["attributes"], odd["attributes"]]))
        assert batch.column("a").to_pylist() == [float(2**53), 0.5, float(2**53)]


@in_loop
async def test_a_subscription_that_ends_takes_its_bundles_along() -> None:
    async with reader((1_000, 1_000), bundles=True) as there:
        subscription: Subscription = there.subscriptions[0]
        there.far.send(bytes_of(plain(100), there.ids))
        await subscription.close()
        assert subscription.waiting == 0
        assert [batch async for batch in subscription.batches(arrow=True)] == []


ODD: dict[str, dict[str, Any]] = {
    **{how: {"how": how} for how in HOW},
    "the same once more": {"step": 0},
    "an older one": {"step": -3},
    "numbers left out": {"step": 70_000},
    "another publisher": {"publisher": "Q"},
    "a publisher that is no text": {"by": b"\xa1\xff"},
    "a number that is none": {"number": b"\xc0"},
    "a number beyond 64 bits with a sign": {"number": b"\xcf" + b"\xff" * 8},
    "nobody": {"to": "nobody"},
    "another": {"to": 1},
    "both": {"to": (0, 1)},
    "traced": {"traced": True},
    "a payload": {"payload": b"\xff" * 200},
    "a long payload": {"payload": b"\xff" * 300},
    "a very long payload": {"payload": b"\xff" * 70_000},
    "a content type": {"content_type": "text/plain"},
    "headers": {"headers": {"h": "ä", "i": ""}},
    "many headers": {"headers": {f"h{n}": "" for n in range(16)}},
    "no attributes": {"attributes": {}},
    "16 attributes": {"attributes": {f"a{n}": n for n in range(16)}},
    "a long name": {"attributes": {"n" * 40: True}},
    "texts": {"attributes": {f"t{n}": n * "x" for n in (0, 31, 32, 255, 256, 65_536)}},
    "another kind": {"attributes": {"n": "text", "f": 1}},
    "a time that is no float": {"time": msgpack.encode(1)},
    "a time that is none": {"time": b"\xc0"},
    "something behind": {"behind": b"\xc3\xc3"},
    "much behind": {"behind": bytes(20)},
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("before", [0, 20])
@in_loop
async def test_one_that_is_odd_amid_others(odd: str, before: int) -> None:
    one = plain(1, n=3, f=0.5, s="ä", b=True)
    stream = [*one * before, {**one[0], **ODD[odd]}, *one * 20]
    async with (
        reader((1_000, 1_000), bundles=False, short=False) as plainly,
        reader((1_000, 1_000), bundles=False) as single,
        reader((1_000, 1_000), bundles=True) as many,
    ):
        read = reader_of_columns()
        for each in (plainly, single, many):
            each.far.send(bytes_of(stream, each.ids))
        assert plainly.state == single.state == many.state
        for number in (0, 1):
            mine, other = (each.subscriptions[number]._inbox for each in (many, single))
            if number == 0 and before:
                assert Bundle in map(type, mine.items)
            events: list[Any] = other.take(25)
            rows = [event.event.attributes for event in events]
            if rows:
                assert outcome(read, mine.take(25)) == outcome(as_columns, rows)
            rest = [list(map(said, each.take(number, 1_000))) for each in (single, many)]
            assert rest[0] == rest[1]


@in_loop
async def test_what_comes_again_begins_a_read() -> None:
    """A number that has been there is left to the machine, wherever it stands."""
    async with (
        reader((1_000, 1_000), bundles=False) as single,
        reader((1_000, 1_000), bundles=True) as many,
    ):
        for each in (single, many):
            stream = bytes_of([*plain(10), {**plain(1)[0], "step": 0}, *plain(20)], each.ids)
            size = len(bytes_of(plain(10), each.ids))
            each.far.send(stream[:size])
            each.far.send(stream[size:])
        assert single.state == many.state
        assert many.line.machine.duplicates == 1
        assert many.subscriptions[0].waiting == 30
