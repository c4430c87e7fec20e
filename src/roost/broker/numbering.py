"""Whose events a client publishes, their numbers, and how far brokers have accepted them.

Events of a publisher are numbered from 1 on, and travel in that order; so what the brokers have is told by
the first event that is still on its way.

A **durable publisher** goes on with the numbers of the processes before it. The first answer of its broker
says whose events they are and what the last number was; the application publishes from then on. Once an
event is refused, none behind it is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable

from roost.broker.config import ClientConfig
from roost.broker.events import PublishRequested
from roost.broker.messages import Publication
from roost.language.values import INT_MAX


class Numbering:
    """The numbers of one client's events."""

    __slots__ = ("_accepted_max", "last", "publisher")

    def __init__(self, config: ClientConfig) -> None:
        self.publisher = config.publisher or config.client
        self.last = config.published
        self._accepted_max = INT_MAX  # a durable publisher's: the one behind it was refused

    def next(self, request: PublishRequested, now: float) -> Publication:
        """The event with the next number."""
        self.last += 1
        return Publication(
            publisher=self.publisher,
            sequence=self.last,
            event=request.event,
            payload=request.payload,
            content_type=request.content_type,
            headers=request.headers,
            published_at=now,
        )

    def go_on(self, publisher: str, last: int) -> None:
        """Where the process before us was."""
        self.publisher, self.last = publisher, last

    def accepted(self, on_the_way: Iterable[object]) -> int:
        """Brokers have all events up to this number, if these messages, in their order, are on the way."""
        for message in on_the_way:
            if type(message) is Publication:
                return min(message.sequence - 1, self._accepted_max)
        return min(self.last, self._accepted_max)

    def end_at(self, number: int) -> None:
        """The broker has them up to this one, and will have no more: why is on the way."""
        self._accepted_max = number

    def refused(self, request: str) -> None:
        """If it was an event that was refused, none behind it is accepted."""
        publisher, _, number = request.rpartition(":")
        if publisher == self.publisher:
            self._accepted_max = min(self._accepted_max, int(number) - 1)
