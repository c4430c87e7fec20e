"""The numbers of a client's events, and how far brokers have accepted them."""

from __future__ import annotations

import pytest

from roost.broker.config import ClientConfig
from roost.broker.events import PublishRequested
from roost.broker.messages import EndSession, Publication
from roost.broker.numbering import Numbering
from roost.language import Event


def numbering(publisher: str = "", published: int = 0) -> Numbering:
    config = ClientConfig(client="P", session="s", publisher=publisher, published=published)
    return Numbering(config)


def publish(numbers: Numbering, count: int) -> list[Publication]:
    return [numbers.next(PublishRequested(Event({"n": n})), float(n)) for n in range(count)]


def test_events_are_numbered_from_one_on() -> None:
    numbers = numbering()
    assert [p.id for p in publish(numbers, 3)] == ["P:1", "P:2", "P:3"]
    assert numbers.last == 3


def test_what_is_accepted_ends_before_the_first_on_the_way() -> None:
    numbers = numbering()
    assert numbers.accepted([]) == 0
    events = publish(numbers, 3)
    assert numbers.accepted([EndSession("no event"), *events[1:]]) == 1
    assert numbers.accepted([EndSession("no event")]) == 3


def test_a_durable_publisher_goes_on_where_the_process_before_it_was() -> None:
    numbers = numbering("outbox/orders", 4)
    assert (numbers.publisher, numbers.last) == ("outbox/orders", 4)
    numbers.go_on("outbox/orders.2", 7)
    assert [p.id for p in publish(numbers, 1)] == ["outbox/orders.2:8"]


@pytest.mark.parametrize(("request_", "accepted"), [("P:3", 2), ("P:5", 4), ("Q:1", 5), ("P/1", 5)])
def test_behind_an_event_that_was_refused_none_is_accepted(request_: str, accepted: int) -> None:
    numbers = numbering()
    publish(numbers, 5)
    numbers.refused(request_)
    numbers.refused("P:5" if accepted < 5 else "P/2")  # a later one changes nothing
    assert numbers.accepted([]) == accepted


def test_a_broker_that_has_fewer_than_we_thought() -> None:
    numbers = numbering()
    events = publish(numbers, 5)
    numbers.end_at(2)
    assert numbers.accepted(events[4:]) == 2
