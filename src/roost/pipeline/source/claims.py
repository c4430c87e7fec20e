"""Whose a name is: a durable subscription, or an outbox, belongs to one query.

Two streams that read under one name would each get events that the other never sees, and of two that publish
from one outbox the broker would pass over what one of them repeats. So a query *claims* its name with a
number that its checkpoint keeps (of a sink: its spool), and nobody else has; the broker remembers the first.

It does so in something that it has anyway. An outbox is a session under a name, and the broker keeps the
number of its last event: at first the number that whoever opens it believes in (`after`). From a second
outbox beside the name, in which nothing is ever published, every process is told the number that the first
one said. That is as durable as the subscription and the outbox are: with a store it outlives the broker, and
without one all three are forgotten together.
"""

from __future__ import annotations

import secrets
from hashlib import sha256

from roost.errors import UserError
from roost.pipeline.source.options import Place

READER, WRITER = "durable subscription", "outbox"
# Of `spark.read` that acknowledges: it has no checkpoint, and all such reads are one query.
ONE_READ = 1
_MARKS = {READER: "reader", WRITER: "writer"}
# What an outbox may be called, without our mark.
_NAME_MAX = 150


def new_claim() -> int:
    """A number that nobody else has."""
    return secrets.randbits(61) + ONE_READ + 1


def claim(place: Place, what: str, name: str, number: int, *, take_over: bool = False) -> None:
    """The name is this query's from now on; a `UserError` if it is another's."""
    with place.connect("spark") as client:
        if take_over:
            client.outbox(_beside(what, name)).forget()
        there = client.outbox(_beside(what, name), after=number).open()
    if there != number:
        raise UserError(
            f"the {what} {name!r} belongs to another query, with another checkpoint; expected a name of"
            " its own (if that query is over for good: the option takeOver, set to true for one start)"
        )


def release(place: Place, what: str, name: str) -> None:
    """The name is nobody's."""
    with place.connect("spark") as client:
        client.outbox(_beside(what, name)).forget()


def _beside(what: str, name: str) -> str:
    if len(name) > _NAME_MAX:
        name = name[:_NAME_MAX] + sha256(name.encode()).hexdigest()[:16]
    return f"{name}~{_MARKS[what]}"
