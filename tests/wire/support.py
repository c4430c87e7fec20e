"""What tests of the wire share: a publication to begin with, one parcel of each kind, what is the same."""

from __future__ import annotations

from roost.broker.messages import (
    CONTROL,
    DATA,
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
    HandOver,
    Inquiry,
    LinkHello,
    Locate,
    Located,
    Login,
    Marker,
    MarkerEcho,
    Members,
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
from roost.language import Event, parse_advertisement, parse_subscription
from roost.wire import encode


def body_of(parcel: Parcel) -> bytes:
    return encode(parcel)[4:]


def quote(**changes: object) -> Publication:
    """A publication with something in every field; `changes` are of its fields."""
    fields: dict[str, object] = {
        "publisher": "P1",
        "sequence": 7,
        "event": Event({"class": "STOCK", "open": 30.25, "volume": 203400, "halted": True}),
        "payload": b"\x00\x01",
        "content_type": "text/plain",
        "headers": {"trace": "abc"},
        "published_at": 12.5,
        "priority": DATA,
        **changes,
    }
    return Publication(**fields)  # type: ignore[arg-type]


def one_of_each() -> list[Parcel]:
    """A parcel of every kind."""
    return [
        Ack(3, 70_000),
        LinkHello(1, "B0", "i1", "i2", 3, 4),
        Login("alice", "secret"),
        Attach(1, "C1", "s1", True, 3, 4, True, "p1"),
        Attached("s1", False, 3, 4),
        AttachRefused("full", "B2"),
        Ping(9),
        Pong(9),
        Locate("load"),
        Located(("b1:7411", "b2:7411"), ""),
        Frame(DATA, 5, quote(), 2),
        Frame(DATA, 6, Delivery(quote(), ("C1/main", "C1/dips")), 3),
        Frame(CONTROL, 7, Advertise("a1", parse_advertisement("class = 'STOCK'"), "P1", 3)),
        Frame(DATA, 8, Unadvertise("a1", "P1", 3)),
        Frame(CONTROL, 9, Subscribe("s1", parse_subscription("low < 20 or x present"), "S1")),
        Frame(CONTROL, 10, Unsubscribe("s1", "S1")),
        Frame(DATA, 11, Marker("m1", "P1")),
        Frame(CONTROL, 12, MarkerEcho("m1", "P1")),
        Frame(DATA, 13, EndSession("C1")),
        Frame(DATA, 14, SessionEnded("left")),
        Frame(CONTROL, 15, Redirect("B2", "d1")),
        Frame(CONTROL, 16, Refused("s1", "no")),
        Frame(DATA, 2**32, Dropped(200), 128),
        Frame(CONTROL, 17, Settle("q1", "C1")),
        Frame(CONTROL, 18, Settled("q1")),
        Frame(CONTROL, 19, MigrationUpdate("P1", ("P1/1", "P1/2"), ("B6", "B5"), "d1", 4)),
        Frame(DATA, 20, MigrationComplete("P1", ("P1/1", "P1/2"), "d1", 4)),
        Frame(CONTROL, 21, Migrate(("P1/1", "P1/2"), "d1")),
        Frame(CONTROL, 22, Migrated()),
        Frame(CONTROL, 23, MigrationFailed("gone")),
        Frame(CONTROL, 24, PausePlease("d1")),
        Frame(DATA, 25, Paused("d1")),
        Frame(DATA, 26, HandOver("d1")),
        Frame(DATA, 27, DrainEcho("m1", "P1")),
        Frame(DATA, 28, Note("grape", b"\x01\x02", "d1", behind=True)),
        Frame(CONTROL, 29, Probe(9, ("B6", "B5"))),
        Frame(CONTROL, 30, Probed(9, ("B6",), (0.5,))),
        Frame(CONTROL, 35, Arrived("B1/1")),
        Frame(CONTROL, 37, Done(((3, 4), (7, 7)))),
        Frame(
            CONTROL, 36, Rewire("B1/l1/1", "open", ("B1", "B0", "B2"), "d1", False, ("b2:7411",))
        ),
        Frame(CONTROL, 31, Inquiry(7, "P1")),
        Frame(CONTROL, 33, Answer(7, "P1")),
        Frame(CONTROL, 34, Members(True, ("B2",), ())),
        Frame(CONTROL, 32, Wants(("B2",), "B2 is away")),
    ]
