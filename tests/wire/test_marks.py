"""The bytes that say how long an array is: the quick way of reading takes no other than the long way does."""

from __future__ import annotations

import pytest
from msgspec import msgpack

from roost.broker.messages import DATA, Delivery, Frame
from roost.wire import WireError, decode
from tests.wire.support import body_of, quote

PUBLICATION = body_of(Frame(DATA, 7, quote(), 2))
DELIVERY = body_of(Frame(DATA, 7, Delivery(quote(), ("S1/1",)), 2))
# In a delivery behind the array mark, the tag, the class, the number (5 bytes) and the hops.
IDS = 9


def changed(body: bytes, place: int, byte: int) -> bytes:
    return body[:place] + bytes((byte,)) + body[place + 1 :]


@pytest.mark.parametrize(
    ("body", "place"),
    [(PUBLICATION, 0), (DELIVERY, 0), (DELIVERY, IDS)],
    ids=["publication", "delivery", "its subscriptions"],
)
def test_no_other_mark_is_right(body: bytes, place: int) -> None:
    right = decode(body)
    for byte in range(256):
        if byte == body[place]:
            continue
        with pytest.raises(WireError):
            decode(changed(body, place, byte))
    assert decode(body) == right


def test_the_place_of_the_marks() -> None:
    """Else the test above would change something else."""
    assert body_of(Frame(DATA, 7, Delivery(quote(), ("S1/1", "S1/2")), 2))[IDS] == DELIVERY[IDS] + 1
    assert DELIVERY[0] == PUBLICATION[0] + 1
    assert len(msgpack.decode(PUBLICATION)) == PUBLICATION[0] & 0x0F
