"""Deliveries for many subscriptions of one client: their ids fit into a frame, beside the event."""

from __future__ import annotations

import pytest

from roost.broker.messages import Delivery, Frame
from roost.broker.permissions import Permission
from roost.language import parse_subscription
from roost.wire import DEFAULT_LIMITS, encode, publication_bytes
from tests.runtime.desk import Caller, Desk, deliveries

# What a frame has room for besides the largest event.
ROOM = DEFAULT_LIMITS.frame_bytes_max - DEFAULT_LIMITS.publication_bytes_max


@pytest.mark.parametrize("count", [1, 14, 15, 16, 17, 40])
def test_ids_of_any_length_fit_beside_an_event_of_any_size(count: int) -> None:
    desk = Desk()
    everything = parse_subscription("*")
    subscriber, publisher = (
        Caller(desk, Permission(name, everything, everything)) for name in ("s", "p")
    )
    subscriber.attach("s")
    publisher.attach("p")
    publisher.advertise("a present", "p/1")
    ids = [DEFAULT_LIMITS.name_length_max * chr(0x1F400 + number) for number in range(count)]
    for id_ in ids:
        subscriber.subscribe("a present", id_)
    publisher.publish(1, {"a": 1})
    got = deliveries(subscriber.heard)
    assert sorted(id_ for delivery in got for id_ in delivery.subscriptions) == ids
    assert {delivery.publication.sequence for delivery in got} == {1}
    for parcel in subscriber.heard:
        if isinstance(parcel, Frame) and isinstance(parcel.message, Delivery):
            beside = len(encode(parcel)) - len(publication_bytes(parcel.message.publication))
            assert beside <= ROOM
