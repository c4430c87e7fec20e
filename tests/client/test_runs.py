"""Events that go out and come in as bytes: the same frames and the same events as one by one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker.events import PublishRequested
from roost.broker.messages import Frame, Publication
from roost.client import Client, Refused, SessionOver, connect, line, publishing, running
from roost.client.columns import as_columns, rows_of
from roost.client.memory import MemoryTransport
from roost.errors import UserError
from roost.language import Event, LanguageError, Value
from roost.wire import StreamDecoder, encode
from tests.client.support import cut, in_loop, numbers, serving, take, until, url_of
from tests.language.strategies import names, values

attributes = st.dictionaries(st.one_of(names(), st.just("class")), values(nan=True), max_size=4)
# Some look like earlier ones.
many_events = st.lists(attributes, max_size=4).flatmap(
    lambda few: st.lists(st.sampled_from(few), max_size=12) if few else st.just([])
)

Publish = Callable[[Client, list[dict[str, Value]]], Awaitable[object]]


@contextmanager
def steady() -> Iterator[list[bytes]]:
    """One clock and one name for all clients; what they write."""
    written: list[bytes] = []
    write = MemoryTransport.write

    def note(transport: MemoryTransport, data: Any) -> None:
        written.append(bytes(data))
        write(transport, data)

    clock = SimpleNamespace(time=lambda: 1_700_000_000.25)
    with (
        mock.patch.object(MemoryTransport, "write", note),
        mock.patch.object(running, "time", clock),
        mock.patch.object(publishing, "time", clock),
        mock.patch.object(line, "time", clock),
        mock.patch("roost.client.client.secrets.token_hex", return_value="0"),
    ):
        yield written


def frames_of(
    publish: Publish, events: list[dict[str, Value]], *, advertised: bool, published: int = 0
) -> list[bytes]:
    """The frames of publications that a client writes, which has published so many before."""

    async def run() -> None:
        async with connect("memory://frames") as client:
            if advertised:
                await client.advertise("*")
            assert client._line is not None
            client._line.machine.numbering.last = published
            await publish(client, events)
            await client.flush()

    with steady() as written:
        asyncio.run(run())
    parcels = StreamDecoder().feed(b"".join(written))
    frames = [p for p in parcels if type(p) is Frame and type(p.message) is Publication]
    assert b"".join(map(encode, frames)) in b"".join(written) or not advertised
    return [encode(frame) for frame in frames]


async def by_the_machine(client: Client, events: list[dict[str, Value]]) -> None:
    """As the machine does it, an object at a time."""
    assert client._line is not None
    for event in events:
        client._line.handle(PublishRequested(Event(event)))


async def one_by_one(client: Client, events: list[dict[str, Value]]) -> None:
    for event in events:
        await client.publish(event)


async def together(client: Client, events: list[dict[str, Value]]) -> None:
    assert await client.publish_many(iter(events)) == len(events)


# Numbers of events change their spelling at these.
_PUBLISHED = st.sampled_from([0, 120, 2**16 - 3, 2**16, 2**32 - 4, 2**32])


@given(many_events, _PUBLISHED)
@settings(max_examples=60, deadline=None)
def test_the_same_frames_however_they_are_published(
    events: list[dict[str, Value]], published: int
) -> None:
    expected = frames_of(by_the_machine, events, advertised=True, published=published)
    assert len(expected) == len(events)
    assert frames_of(one_by_one, events, advertised=True, published=published) == expected
    assert frames_of(together, events, advertised=True, published=published) == expected


@given(many_events)
@settings(max_examples=20, deadline=None)
def test_advertisements_follow_in_the_same_way(events: list[dict[str, Value]]) -> None:
    assert frames_of(one_by_one, events, advertised=False) == frames_of(
        together, events, advertised=False
    )


# --- columns --------------------------------------------------------------------------------------

_TYPES = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int8(), st.integers(-128, 127)),
    "bits": (pa.uint64(), st.sampled_from([0, 2**31, 2**32, 2**63 - 1])),
    "real": (pa.float64(), st.floats()),
    "half": (pa.float32(), st.floats(width=32)),
    "text": (pa.string(), st.text(max_size=40)),
    "class": (pa.large_string(), st.sampled_from(["STOCK", "", "x" * 300])),
    "flag": (pa.bool_(), st.booleans()),
    "few": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "é"])),
    "größe": (pa.string(), st.sampled_from(["", "名前" * 30])),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Tables of several chunks, cut somewhere out of larger ones, with nulls."""
    chosen = draw(st.lists(st.sampled_from(list(_TYPES)), unique=True, max_size=6))
    chunks = []
    for count in draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)):
        arrays = []
        for name in chosen:
            kind, each = _TYPES[name]
            cells = st.lists(st.none() | each, min_size=count, max_size=count)
            arrays.append(pa.array(draw(cells), kind))
        chunks.append(pa.RecordBatch.from_arrays(arrays, chosen))
    table = pa.Table.from_batches(chunks, chunks[0].schema)
    start = draw(st.integers(0, table.num_rows))
    return table.slice(start, draw(st.integers(0, table.num_rows)))


@given(tables())
@settings(max_examples=40, deadline=None)
def test_the_same_frames_from_columns(table: pa.Table) -> None:
    async def as_table(client: Client, _: object) -> None:
        assert await client.publish_many(table) == table.num_rows

    events = list(rows_of(table))
    expected = frames_of(by_the_machine, events, advertised=True)
    assert frames_of(as_table, events, advertised=True) == expected
    with mock.patch("roost.client.client.encoder_of", return_value=None):
        assert frames_of(as_table, events, advertised=True) == expected


# Around the numbers and lengths at which MessagePack changes its spelling.
_EDGES = [
    sign * 2**bits + d for bits in (5, 7, 8, 15, 16, 31, 32) for sign in (1, -1) for d in (-1, 0, 1)
]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"n": [*_EDGES, 0, 2**63 - 1, -(2**63)]}),
        pa.table({"s": [length * "x" for length in (0, 1, 31, 32, 255, 256, 65_535, 65_536)]}),
        pa.table({"x": [0.5] * 2_000}),
        *(pa.table({f"c{i}": [i] for i in range(count)}) for count in (15, 16, 17)),
    ],
    ids=["numbers", "texts", "many", "15 columns", "16 columns", "17 columns"],
)
def test_numbers_texts_and_rows_of_all_sizes_are_written_the_same_way(table: pa.Table) -> None:
    async def as_table(client: Client, _: object) -> None:
        assert await client.publish_many(table) == table.num_rows

    expected = frames_of(by_the_machine, table.to_pylist(), advertised=True)
    assert frames_of(as_table, [], advertised=True) == expected


@given(tables())
@settings(max_examples=20, deadline=None)
def test_advertisements_follow_from_columns(table: pa.Table) -> None:
    """They may be said sooner than row by row, and are the same."""

    async def advertised(publish: Publish) -> set[str]:
        async with connect("memory://columns") as client:
            await publish(client, list(rows_of(table)))
            assert client._line is not None
            return {str(a) for a in client._line.machine.advertisements().values()}

    async def as_table(client: Client, _: object) -> None:
        await client.publish_many(table)

    assert asyncio.run(advertised(as_table)) == asyncio.run(advertised(one_by_one))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"a": pa.array([1, 2**63], pa.uint64())}), "event 2 .*'a'.*64 bits"),
        (pa.table({"a": pa.array([[1]])}), "'a'.*nested list.*events are flat"),
        (pa.table({"a": ["x", "y" * 65_537]}), "event 2 .*65,537 characters"),
        (pa.table({"": [1]}), "an attribute name is empty"),
        (pa.table([pa.array([1]), pa.array([2])], ["a", "a"]), "two columns are called 'a'"),
    ],
)
def test_columns_that_cannot_be_published(table: pa.Table, said: str) -> None:
    async def run() -> None:
        async with connect("memory://") as client, client.subscribe("*") as subscription:
            with pytest.raises(UserError, match=said):
                await client.publish_many(table)
            await client.publish({"last": True})
            assert (await subscription.get()).attributes == {"last": True}

    asyncio.run(run())


def test_long_strings_and_many_columns_are_taken_row_by_row() -> None:
    wide = {f"c{i}": [i] for i in range(100)}
    table = pa.table({**wide, "long": ["é" * 65_536]})

    async def run() -> None:
        async with connect("memory://") as client, client.subscribe("*") as subscription:
            assert await client.publish_many(table.to_batches()[0]) == 1
            assert (await subscription.get()).attributes == table.to_pylist()[0]

    asyncio.run(run())


def test_events_as_columns() -> None:
    batch = as_columns(
        [
            {"n": 1, "x": 1, "s": "a", "b": True, "m": 1},
            {"n": 2, "x": 0.5, "b": False, "m": "two"},
            {"m": True, "late": 1.5},
        ]
    )
    assert batch.to_pydict() == {
        "n": [1, 2, None],
        "x": [1.0, 0.5, None],
        "s": ["a", None, None],
        "b": [True, False, None],
        "m": ["1", "two", "true"],
        "late": [None, None, 1.5],
    }
    assert [str(field.type) for field in batch.schema][:3] == ["int64", "double", "string"]
    assert as_columns([{}, {}]).num_rows == 2


# --- receiving ------------------------------------------------------------------------------------


@given(many_events, st.integers(1, 5), st.booleans())
@settings(max_examples=30, deadline=None)
def test_batches_hold_the_events_of_single_reads(
    events: list[dict[str, Value]], most: int, durable: bool
) -> None:
    async def run() -> None:
        async with connect("memory://") as client:
            more: dict[str, Any] = {"durable": "d", "auto_ack": True} if durable else {}
            batched = client.subscribe("*", **more)
            single = client.subscribe("*")
            await batched.ready()
            await client.publish_many(events)
            await client.publish({"end": True}, b"payload", headers={"h": "v"})
            expected = []
            async for event in single:
                expected.append(repr((event.id, event.attributes, event.payload, event.headers)))
                if "end" in event:
                    break
            found: list[str] = []
            async for batch in batched.batches(most):
                assert 0 < len(batch) <= most
                found += (repr((e.id, e.attributes, e.payload, e.headers)) for e in batch)
                if "end" in batch[-1]:
                    break
            assert found == expected
            if durable:
                await batched.forget()

    asyncio.run(run())


def test_batches_as_arrow() -> None:
    async def run() -> None:
        async with connect("memory://") as client:
            subscription = client.subscribe("n >= 0")
            table = pa.table({"n": range(2_500), "x": [0.5] * 2_500})
            await client.publish_many(table)
            got: list[pa.RecordBatch] = []
            async for batch in subscription.batches(1_000, arrow=True):
                got.append(batch)
                if sum(each.num_rows for each in got) == table.num_rows:
                    break
            assert pa.Table.from_batches(got).equals(table)
            with pytest.raises(TypeError, match="arrow"):
                subscription.batches(arrow=1)  # type: ignore[call-overload]

    asyncio.run(run())


@in_loop
async def test_cuts_amid_batches_of_every_kind() -> None:
    """Runs that were not acknowledged go out again; nothing is lost, doubled or out of order."""
    count = 6_000
    async with (
        serving() as server,
        connect(url_of(server), pending_max=500) as publisher,
        connect(url_of(server)) as subscriber,
    ):
        subscription = subscriber.subscribe("n >= 0", buffer_max=300)
        await subscription.ready()

        async def publish() -> None:
            for start in range(0, count, 600):
                some: dict[str, Value] = {"x": math.pi, "s": "some text"}
                part = [{"n": n, **some} for n in range(start, start + 600)]
                if start % 1_800 == 0:
                    await publisher.publish_many(part)
                elif start % 1_800 == 600:
                    await publisher.publish_many(pa.Table.from_pylist(part))
                else:
                    for event in part:
                        await publisher.publish(event)
                cut(server)

        task = asyncio.create_task(publish())
        got: list[int] = []
        async for events in subscription.batches(77):
            got += numbers(events)
            if len(got) % 5 == 0:
                await asyncio.sleep(0)
            if len(got) >= count:
                break
        await task
        await publisher.flush()
        assert got == list(range(count))
        assert publisher.unacknowledged == 0
        assert subscription.waiting == 0


@in_loop
async def test_a_session_that_ends_amid_many() -> None:
    """Nobody is told that the rest has been published."""
    async with connect("memory://", pending_max=100) as client:
        assert client._line is not None
        publishing = asyncio.create_task(client.publish_many([{"n": n} for n in range(100)]))
        await asyncio.sleep(0)
        assert client._line.machine.published == 50
        client._line.fail(partial(SessionOver, client.url, "a test"))
        with pytest.raises(SessionOver, match="a test"):
            await publishing
        with pytest.raises(SessionOver):
            await client.close()


@in_loop
async def test_a_refusal_amid_many() -> None:
    """What is advertised is what may be published: the others are refused, and that is said once."""
    async with serving() as server, connect(url_of(server)) as client:
        subscription = client.subscribe("n >= 0")
        await client.advertise("n >= 10")
        await client.publish_many([{"n": n} for n in range(20)])
        with pytest.raises(Refused, match=r"publication .*:1 .*and 9 more") as refused:
            await client.flush()
        assert refused.value.events == 10
        assert numbers(await take(subscription, 10)) == list(range(10, 20))


@in_loop
async def test_a_run_wants_a_connection() -> None:
    """Without one, events wait in the machine, frame by frame."""
    async with serving() as server:
        client = await connect(url_of(server))
        await client.publish({"n": 1})
        await client.flush()
        assert client._line is not None
        assert client._line.running.begin()
        client._line.running.end()
    await until(lambda: client.state == "connecting")
    assert not client._line.running.begin()
    await client.close(0.1)


def test_names_of_arguments() -> None:
    async def run() -> None:
        async with connect("memory://") as client:
            with pytest.raises(TypeError, match="events is an int; expected events"):
                await client.publish_many(3)  # type: ignore[arg-type]
            with pytest.raises(LanguageError, match=r"event 1 of those to be published: .*'a'"):
                await client.publish_many([{"a": None}])  # type: ignore[dict-item]
            with pytest.raises(TypeError, match="most"):
                client.subscribe("*").batches("7")  # type: ignore[call-overload]

    asyncio.run(run())
