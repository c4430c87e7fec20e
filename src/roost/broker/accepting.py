"""The events of a *durable publisher* are accepted in the order of their numbers, each once.

Its session knows the number of the last event that was accepted, whichever process it came from, and tells
it to the next one. It accepts the next number and no other: what came before is not routed again, and where
one was refused none behind it gets past. The number is part of the same transaction as the event.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.broker.hops import Session
from roost.broker.messages import Publication, Refused


def is_next(
    session: Session,
    last: int,
    publication: Publication,
    objection: str,
    tell: Callable[[Session, Refused], None],
) -> bool | None:
    """Whether it is the one behind the last, which is then counted; None: it has been here before.

    If there is an objection to it, or one before it is missing, its publisher is told.
    """
    number = publication.sequence
    if number <= last and publication.publisher == session.publisher:
        return None
    if objection or number != last + 1:
        # None behind one that was refused is accepted: once said, that is enough for all of them.
        if session.barred != last + 1:
            session.barred = last + 1
            reason = objection or f"number {last + 1} has to come first"
            tell(session, Refused(publication.id, reason))
        return False
    session.count(number)
    return True
