"""What can go wrong for an application, each kind with a type of its own.

All of them say what happened and where, and are `UserError`: a command that lets one through prints one line.
What the application itself got wrong in an event or a filter is a `roost.language.LanguageError`.
"""

# ruff: noqa: N818  # the names say what happened

from __future__ import annotations

from roost.errors import UserError


class ClientError(UserError):
    """Anything that went wrong between an application and its broker."""


class ConnectError(ClientError, ConnectionError):
    """No broker could be reached in time, or the one that was reached wants no session with us."""


class Unreachable(ConnectError):
    """No broker could be reached in time; nobody has said no."""


class Refused(ClientError):
    """The broker did not carry out a request: it says why (`reason`), and of what (`request`).

    Events are refused after `publish` has returned. So it is raised by the next `publish` (whose own event
    is then not published), by `flush`, or on leaving; `others` is how many more requests were refused since
    the last time, and `events` how many of all these were events: an advertisement may be among them.

    >>> raise Refused("publication P~1:7", "the store of this broker is full")
    Traceback (most recent call last):
    roost.client.errors.Refused: publication P~1:7 was refused: the store of this broker is full
    """

    def __init__(self, request: str, reason: str, others: int = 0, *, events: int = 0) -> None:
        more = f" (and {others:,} more)" if others else ""
        super().__init__(f"{request} was refused: {reason}{more}")
        self.request = request
        self.reason = reason
        self.others = others
        self.events = events


class Gap(ClientError, ValueError):
    """An event of an outbox is not the next one: `number` came where `expected` should have come.

    >>> raise Gap("outbox~orders~1f", 9, 7)
    Traceback (most recent call last):
    roost.client.errors.Gap: outbox~orders~1f: event 9 came where 7 was expected
    """

    def __init__(self, publisher: str, number: int, expected: int) -> None:
        super().__init__(f"{publisher}: event {number} came where {expected} was expected")
        self.number = number
        self.expected = expected


class SessionOver(ClientError):
    """The broker has ended the session, or lets us back into it no more; `reason` says why.

    A durable session, for instance, that another process has taken over.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: the session is over: {reason}")
        self.where = where
        self.reason = reason


class NotEverywhere(ClientError):
    """A subscription is in place, but some brokers are away: they will hear of it when they are back.

    Nothing is missed by that; `missing` names them, as far as is known.
    """

    def __init__(self, title: str, missing: tuple[str, ...]) -> None:
        super().__init__(f"{title} has not reached {', '.join(missing)}: away just now")
        self.missing = missing


class NotInTime(ClientError, TimeoutError):
    """What was waited for did not happen in time; it may still happen."""


class Stalled(ClientError):
    """Acknowledgements wait behind events of a subscription that nobody reads.

    A client that reads nothing hears nothing, acknowledgements included. Whoever subscribes has to read, or
    to close the subscription.
    """


class Overrun(ClientError):
    """A subscription has ended: more came for it than it may hold, and others were not to wait for it.

    What it held can still be read. It ends so at once if that is its policy (`when_full="end"`), else when
    others of its client have waited in vain for too long.
    """


class Closed(ClientError):
    """The client, the subscription or the outbox has been closed."""


class InsecureConnection(UserWarning):
    """A token goes to another machine in the clear: whoever sees it on the way can use it."""


class NeverMatches(UserWarning):
    """No event can match the filter of a subscription: what it asks of an attribute contradicts itself."""


class EventsDropped(RuntimeWarning):
    """Events are missing: the broker did not keep them for this client, by its policy for a full queue, or
    the subscription did not, by its own (`when_full="drop"`).

    It is a warning, given where the subscription is read; `warnings.simplefilter("error", EventsDropped)`
    makes it an error.
    """
