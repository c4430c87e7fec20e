"""Strategies for everything that a connection carries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from roost.broker.messages import (
    Ack,
    Advertise,
    Answer,
    Arrived,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Done,
    DrainEcho,
    Dropped,
    EndSession,
    Frame,
    Greeting,
    HandOver,
    Inquiry,
    LinkHello,
    Locate,
    Located,
    Login,
    Marker,
    MarkerEcho,
    Members,
    Message,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    PausePlease,
    Ping,
    Pong,
    Probe,
    Probed,
    Publication,
    Redirect,
    Refused,
    Rewire,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)
from tests.language.strategies import advertisements, events, subscriptions

names = st.one_of(
    st.sampled_from(["", "B0", "client-7/main", "größe", "\0"]),
    st.text(max_size=12),
    # Around the lengths at which MessagePack changes its spelling.
    st.sampled_from([31, 32, 255, 256, 1_024]).map(lambda length: length * "x"),
)
numbers = st.one_of(
    st.integers(0, 3),
    st.sampled_from([2**bits + d for bits in (7, 8, 16, 32) for d in (-1, 0, 1)]),
    st.integers(0, 2**63 - 1),
)
priorities = st.sampled_from([0, 1])
payloads = st.one_of(st.binary(max_size=20), st.sampled_from([255, 256, 70_000]).map(bytes))
headers = st.dictionaries(names, names, max_size=3)

publications: SearchStrategy[Publication] = st.builds(
    Publication,
    publisher=names,
    sequence=numbers,
    event=events(),
    payload=payloads,
    content_type=names,
    headers=headers,
    published_at=st.floats(),
    priority=priorities,
    traced=st.booleans(),
    encoded=st.just(b""),
)
subscription_ids = st.one_of(
    st.lists(names, max_size=4).map(tuple),
    # Around the number at which MessagePack changes its spelling.
    st.sampled_from([15, 16]).map(lambda count: count * ("s",)),
)

messages_by_kind: dict[type[Message], SearchStrategy[Message]] = {
    Publication: publications,
    Delivery: st.builds(Delivery, publications, subscription_ids),
    Advertise: st.builds(Advertise, names, advertisements(), names, numbers),
    Unadvertise: st.builds(Unadvertise, names, names, numbers),
    Subscribe: st.builds(Subscribe, names, subscriptions(), names),
    Unsubscribe: st.builds(Unsubscribe, names, names),
    Marker: st.builds(Marker, names, names),
    MarkerEcho: st.builds(MarkerEcho, names, names, subscription_ids),
    Members: st.builds(Members, st.booleans(), subscription_ids, subscription_ids),
    Inquiry: st.builds(Inquiry, numbers, names),
    Answer: st.builds(Answer, numbers, names),
    Wants: st.builds(Wants, subscription_ids, names),
    EndSession: st.builds(EndSession, names),
    HandOver: st.builds(HandOver, names),
    DrainEcho: st.builds(DrainEcho, names, names),
    MigrationUpdate: st.builds(
        MigrationUpdate, names, subscription_ids, subscription_ids, names, numbers
    ),
    MigrationComplete: st.builds(MigrationComplete, names, subscription_ids, names, numbers),
    Migrate: st.builds(Migrate, subscription_ids, names),
    Migrated: st.builds(Migrated),
    MigrationFailed: st.builds(MigrationFailed, names),
    PausePlease: st.builds(PausePlease, names),
    Paused: st.builds(Paused, names),
    SessionEnded: st.builds(SessionEnded, names),
    Redirect: st.builds(Redirect, names, names),
    Refused: st.builds(Refused, names, names),
    Dropped: st.builds(Dropped, numbers),
    Settle: st.builds(Settle, names, names),
    Settled: st.builds(Settled, names, subscription_ids),
    Note: st.builds(Note, names, payloads, names, st.booleans()),
    Rewire: st.builds(
        Rewire, names, names, subscription_ids, names, st.booleans(), subscription_ids
    ),
    Probe: st.builds(Probe, numbers, subscription_ids),
    Arrived: st.builds(Arrived, names),
    Done: st.builds(Done, st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)),
    Probed: st.builds(
        Probed, numbers, subscription_ids, st.lists(st.floats(), max_size=4).map(tuple)
    ),
}
messages = st.one_of(*messages_by_kind.values())

# What a greeting says of a durable publisher: mostly there is none.
publishers = (st.just("") | names, st.just(0) | numbers)
unnumbered_by_kind: dict[type[Ack | Greeting], SearchStrategy[Parcel]] = {
    Ack: st.builds(Ack, numbers, numbers),
    LinkHello: st.one_of(
        st.builds(LinkHello, numbers, names, names, names, numbers, numbers),
        st.builds(
            LinkHello,
            numbers,
            names,
            names,
            names,
            numbers,
            numbers,
            names,
            names,
            *(numbers,) * 6,
        ),
    ),
    Login: st.builds(Login, names, names),
    Attach: st.builds(
        Attach,
        numbers,
        names,
        names,
        st.booleans(),
        numbers,
        numbers,
        st.booleans(),
        names,
        *publishers,
    ),
    Attached: st.builds(
        Attached, names, st.booleans(), numbers, numbers, numbers, *publishers, st.booleans()
    ),
    AttachRefused: st.builds(AttachRefused, names, names, st.booleans()),
    Ping: st.builds(Ping, numbers),
    Pong: st.builds(Pong, numbers),
    Locate: st.builds(Locate, names),
    Located: st.builds(Located, st.lists(names, max_size=4).map(tuple), names),
}


def frames(messages: SearchStrategy[Message] = messages) -> SearchStrategy[Frame]:
    """Frames around these messages; their class is not always that of the message."""
    return st.builds(Frame, priorities, numbers, messages, numbers)


parcels: SearchStrategy[Parcel] = st.one_of(frames(), *unnumbered_by_kind.values())
