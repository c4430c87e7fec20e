"""The bytes themselves. If one of these changes, so does the version in the preface."""

from __future__ import annotations

import pytest

from roost.broker.messages import (
    CONTROL,
    DATA,
    Attach,
    Attached,
    AttachRefused,
    DrainEcho,
    Frame,
    LinkHello,
    MarkerEcho,
    Members,
    Parcel,
    Settled,
)
from roost.wire import PREFACE, decode, encode, pack_record
from tests.wire.support import one_of_each, quote

PUBLICATION = (
    "98 a2 50 31 07 84 a5 63 6c 61 73 73 a5 53 54 4f 43 4b a4 6f 70 65 6e cb 40 3e 40 00 00 00 00 00"
    " a6 76 6f 6c 75 6d 65 ce 00 03 1a 88 a6 68 61 6c 74 65 64 c3 c4 02 00 01"
    " aa 74 65 78 74 2f 70 6c 61 69 6e 81 a5 74 72 61 63 65 a3 61 62 63 cb 40 29 00 00 00 00 00 00 01"
)
GOLDEN = {
    "Ack": "00 00 00 08 93 01 03 ce 00 01 11 70",
    "LinkHello": "00 00 00 0e 97 02 01 a2 42 30 a2 69 31 a2 69 32 03 04",
    "Login": "00 00 00 0f 93 06 a5 61 6c 69 63 65 a6 73 65 63 72 65 74",
    "Attach": "00 00 00 10 99 03 01 a2 43 31 a2 73 31 c3 03 04 c3 a2 70 31",
    "Attached": "00 00 00 09 96 04 a2 73 31 c2 03 04 00",
    "AttachRefused": "00 00 00 0a 93 05 a4 66 75 6c 6c a2 42 32",
    "Publication": f"00 00 00 61 95 10 01 ce 00 00 00 05 02 {PUBLICATION}",
    "Delivery": (
        "00 00 00 72 96 11 01 ce 00 00 00 06 03 92 a7 43 31 2f 6d 61 69 6e a7 43 31 2f 64 69 70 73 "
        + PUBLICATION
    ),
    "Advertise": (
        "00 00 00 20 98 12 00 ce 00 00 00 07 00"
        " a2 61 31 af 63 6c 61 73 73 20 3d 20 27 53 54 4f 43 4b 27 a2 50 31 03"
    ),
    "Unadvertise": "00 00 00 10 97 13 01 ce 00 00 00 08 00 a2 61 31 a2 50 31 03",
    "Subscribe": (
        "00 00 00 25 97 14 00 ce 00 00 00 09 00"
        " a2 73 31 b5 6c 6f 77 20 3c 20 32 30 20 6f 72 20 78 20 70 72 65 73 65 6e 74 a2 53 31"
    ),
    "Unsubscribe": "00 00 00 0f 96 15 00 ce 00 00 00 0a 00 a2 73 31 a2 53 31",
    "Marker": "00 00 00 0f 96 16 01 ce 00 00 00 0b 00 a2 6d 31 a2 50 31",
    "MarkerEcho": "00 00 00 0f 96 17 00 ce 00 00 00 0c 00 a2 6d 31 a2 50 31",
    "EndSession": "00 00 00 0c 95 28 01 ce 00 00 00 0d 00 a2 43 31",
    "SessionEnded": "00 00 00 0e 95 19 01 ce 00 00 00 0e 00 a4 6c 65 66 74",
    "Redirect": "00 00 00 0f 96 1a 00 ce 00 00 00 0f 00 a2 42 32 a2 64 31",
    "Refused": "00 00 00 0f 96 1b 00 ce 00 00 00 10 00 a2 73 31 a2 6e 6f",
    "Dropped": "00 00 00 10 95 1c 01 cf 00 00 00 01 00 00 00 00 cc 80 cc c8",
    "Settle": "00 00 00 0f 96 1d 00 ce 00 00 00 11 00 a2 71 31 a2 43 31",
    "Settled": "00 00 00 0c 95 1e 00 ce 00 00 00 12 00 a2 71 31",
    "MigrationUpdate": (
        "00 00 00 22 99 1f 00 ce 00 00 00 13 00 a2 50 31 92 a4 50 31 2f 31 a4 50 31 2f 32 92"
        " a2 42 36 a2 42 35 a2 64 31 04"
    ),
    "MigrationComplete": (
        "00 00 00 1b 98 20 01 ce 00 00 00 14 00 a2 50 31 92 a4 50 31 2f 31 a4 50 31 2f 32 a2"
        " 64 31 04"
    ),
    "Migrate": "00 00 00 17 96 21 00 ce 00 00 00 15 00 92 a4 50 31 2f 31 a4 50 31 2f 32 a2 64 31",
    "Migrated": "00 00 00 09 94 22 00 ce 00 00 00 16 00",
    "MigrationFailed": "00 00 00 0e 95 23 00 ce 00 00 00 17 00 a4 67 6f 6e 65",
    "PausePlease": "00 00 00 0c 95 24 00 ce 00 00 00 18 00 a2 64 31",
    "Paused": "00 00 00 0c 95 25 01 ce 00 00 00 19 00 a2 64 31",
    "HandOver": "00 00 00 0c 95 26 01 ce 00 00 00 1a 00 a2 64 31",
    "DrainEcho": "00 00 00 0f 96 27 01 ce 00 00 00 1b 00 a2 6d 31 a2 50 31",
    "Ping": "00 00 00 03 92 07 09",
    "Pong": "00 00 00 03 92 08 09",
    "Locate": "00 00 00 07 92 09 a4 6c 6f 61 64",
    "Located": "00 00 00 14 93 0a 92 a7 62 31 3a 37 34 31 31 a7 62 32 3a 37 34 31 31 a0",
    "Note": "00 00 00 17 98 29 01 ce 00 00 00 1c 00 a5 67 72 61 70 65 c4 02 01 02 a2 64 31 c3",
    "Probe": "00 00 00 11 96 2a 00 ce 00 00 00 1d 00 09 92 a2 42 36 a2 42 35",
    "Probed": (
        "00 00 00 18 97 2b 00 ce 00 00 00 1e 00 09 91 a2 42 36 91 cb 3f e0 00 00 00 00 00 00"
    ),
    "Done": "00 00 00 10 95 32 00 ce 00 00 00 25 00 92 92 03 04 92 07 07",
    "Arrived": "00 00 00 0e 95 30 00 ce 00 00 00 23 00 a4 42 31 2f 31",
    "Rewire": (
        "00 00 00 2d 9a 31 00 ce 00 00 00 24 00 a7 42 31 2f 6c 31 2f "
        "31 a4 6f 70 65 6e 93 a2 42 31 a2 42 30 a2 42 32 a2 64 31 c2 91 a7 62 32 3a 37 34 31 31"
    ),
    "Inquiry": "00 00 00 0d 96 2c 00 ce 00 00 00 1f 00 07 a2 50 31",
    "Members": "00 00 00 0f 97 2f 00 ce 00 00 00 22 00 c3 91 a2 42 32 90",
    "Answer": "00 00 00 0d 96 2e 00 ce 00 00 00 21 00 07 a2 50 31",
    "Wants": (
        "00 00 00 18 96 2d 00 ce 00 00 00 20 00 91 a2 42 32 aa 42 32 20 69 73 20 61 77 61 79"
    ),
}


# What is left out where it has nothing to say: it came later than its kind.
OPTIONAL: list[tuple[Parcel, str]] = [
    (
        Attach(4, "C1", "s1", True, 3, 4, broker="B0", epoch=2),
        "00 00 00 15 9e 03 04 a2 43 31 a2 73 31 c3 03 04 c2 a0 a0 00 a0 a2 42 30 02",
    ),
    (
        Attached("s1", True, 3, 4, broker="B0", epoch=2, beside="b1:7411"),
        "00 00 00 18 9c 04 a2 73 31 c3 03 04 00 a0 00 c2 a2 42 30 02 a7 62 31 3a 37 34 31 31",
    ),
    (
        LinkHello(4, "B0", "i1", "i2", 3, 4, epoch=2, known_epoch=1, beside="b1:7411"),
        "00 00 00 24 dc 00 14 02 04 a2 42 30 a2 69 31 a2 69 32 03 04 a0 a0 00 00 00 00 00 00"
        " a0 a0 02 01 a7 62 31 3a 37 34 31 31",
    ),
    (
        Attach(1, "C1", "s1", False, 0, 0, True, "p1", "C1~p1", 7),
        "00 00 00 17 9b 03 01 a2 43 31 a2 73 31 c2 00 00 c3 a2 70 31 a5 43 31 7e 70 31 07",
    ),
    (
        Attached("s1", False, 0, 0, 0, "C1~p1", 0),
        "00 00 00 10 98 04 a2 73 31 c2 00 00 00 a5 43 31 7e 70 31 00",
    ),
    (
        Attached("s1", False, 0, 0, 0, "", 0, True),
        "00 00 00 0c 99 04 a2 73 31 c2 00 00 00 a0 00 c3",
    ),
    (AttachRefused("full", "", True), "00 00 00 09 94 05 a4 66 75 6c 6c a0 c3"),
    (
        LinkHello(4, "B0", "i1", "i2", 3, 4, "l1", "l2", 5, 6, 7, 8, 9, 10, "b0:7411"),
        "00 00 00 24 dc 00 10 02 04 a2 42 30 a2 69 31 a2 69 32 03 04 a2 6c 31 a2 "
        "6c 32 05 06 07 08 09 0a a7 62 30 3a 37 34 31 31",
    ),
    (
        Frame(CONTROL, 18, Settled("q1", ("B2",))),
        "00 00 00 10 96 1e 00 ce 00 00 00 12 00 a2 71 31 91 a2 42 32",
    ),
    (
        Frame(CONTROL, 12, MarkerEcho("m1", "P1", ("B2",))),
        "00 00 00 13 97 17 00 ce 00 00 00 0c 00 a2 6d 31 a2 50 31 91 a2 42 32",
    ),
    (
        Frame(CONTROL, 12, MarkerEcho("m1", "P1", (), True)),
        "00 00 00 11 98 17 00 ce 00 00 00 0c 00 a2 6d 31 a2 50 31 90 c3",
    ),
    (
        Frame(CONTROL, 34, Members(True, ("B2",), (), "l1/1")),
        "00 00 00 14 98 2f 00 ce 00 00 00 22 00 c3 91 a2 42 32 90 a4 6c 31 2f 31",
    ),
    (
        Frame(DATA, 27, DrainEcho("m1", "P1", True)),
        "00 00 00 10 97 27 01 ce 00 00 00 1b 00 a2 6d 31 a2 50 31 c3",
    ),
    (
        Frame(DATA, 5, quote(traced=True), 2),
        f"00 00 00 62 95 10 01 ce 00 00 00 05 02 99{PUBLICATION[2:]} c3",
    ),
]


def kind_of(parcel: Parcel) -> str:
    return type(parcel.message if isinstance(parcel, Frame) else parcel).__name__


@pytest.mark.parametrize("parcel", one_of_each(), ids=kind_of)
def test_bytes_stay_as_they_are(parcel: Parcel) -> None:
    encoded = encode(parcel)
    assert encoded.hex(" ") == GOLDEN[kind_of(parcel)]
    assert decode(encoded[4:]) == parcel


@pytest.mark.parametrize(("parcel", "golden"), OPTIONAL)
def test_what_may_be_left_out_stays_as_it_is(parcel: Parcel, golden: str) -> None:
    encoded = encode(parcel)
    assert encoded.hex(" ") == golden
    assert decode(encoded[4:]) == parcel


def test_the_preface_stays_as_it_is() -> None:
    assert PREFACE == b"ROOST\x01\r\n"
    assert len(PREFACE) == 8


def test_records_stay_as_they_are() -> None:
    record = pack_record([1, ("a", None), quote()])
    body = f"95 10 00 ce 00 00 00 00 00 {PUBLICATION}"
    assert record.hex(" ") == f"93 01 d6 01 92 a1 61 c0 c7 61 03 {body}"
