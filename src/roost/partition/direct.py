"""Delivery by matchers directly: the paper's way (004 section II.B), an option (`delivery=direct`).

A matcher that has found what an event matches sends it to the dispatchers whose clients those are, and each
hands it to its clients as it comes. That saves the way back to the dispatcher that accepted the event, and
nobody waits for the events before it. What makes an answer complete is as always: promises and needs. What
is not promised:

    order        events of one publisher come in any order
    no loss      what a matcher was asked about and had not answered when it was lost is given up (`given_up`
                   counts it); what a dispatcher holds is gone with it, though it has a store; what is on the
                   way to a client that moves may pass it by

Nothing comes twice: who can't say has delivered nothing, and only then another is asked.

A client takes an event that comes behind a higher number of its publisher for one that it has had. So what
is delivered directly has numbers in the order in which it has come to the client's dispatcher, and a
publisher's name with that dispatcher's life behind it. What it was called before is in a header (`ORIGIN`),
for whoever wants to put events into order again.
"""

from __future__ import annotations

from msgspec import Struct

from roost.broker.messages import Publication
from roost.language import Event, Value

ORDERED = "ordered"
DIRECT = "direct"
DELIVERIES = (ORDERED, DIRECT)
ORIGIN = "roost-origin"


class Envelope(Struct, frozen=True, array_like=True):
    """A publication as it goes to a matcher that is to deliver it."""

    publisher: str
    sequence: int
    attributes: dict[str, Value]
    payload: bytes
    content_type: str
    headers: dict[str, str]
    published_at: float

    @classmethod
    def of(cls, publication: Publication) -> Envelope:
        return cls(
            publication.publisher,
            publication.sequence,
            publication.event.attributes,
            publication.payload,
            publication.content_type,
            dict(publication.headers),
            publication.published_at,
        )

    def opened(self) -> Publication:
        return Publication(
            self.publisher,
            self.sequence,
            Event.trusted(self.attributes),
            self.payload,
            self.content_type,
            self.headers,
            self.published_at,
        )


class Arrivals:
    """Numbers for what comes to the clients of one dispatcher, in one life of its."""

    def __init__(self) -> None:
        self.life = ""
        self._number = 0

    def named(self, publication: Publication) -> Publication:
        """As its clients get it."""
        self._number += 1
        return Publication(
            f"{publication.publisher}@{self.life}",
            self._number,
            publication.event,
            publication.payload,
            publication.content_type,
            {**publication.headers, ORIGIN: publication.id},
            publication.published_at,
        )


def origin_of(publication: Publication) -> tuple[str, int] | None:
    """The publisher and number of an event that was delivered directly; None of others."""
    said = publication.headers.get(ORIGIN)
    if said is None:
        return None
    publisher, _, sequence = said.rpartition(":")
    return publisher, int(sequence)
