"""Roost: a self-optimising content-based publish/subscribe system.

Importing `roost` itself costs nothing; import the package that you need (`roost.language`, ...). What
applications use of the client library, its types and what it raises, is here by its short name, and loaded
when it is first asked for:

    async with roost.connect("roost://host:7411") as client: ...
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing` would have to be loaded

# The one place that says the version; the build reads it from here.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from roost.client import Advertised as Advertised
    from roost.client import BadUrl as BadUrl
    from roost.client import Client as Client
    from roost.client import ClientError as ClientError
    from roost.client import Closed as Closed
    from roost.client import ConnectError as ConnectError
    from roost.client import DurableEvent as DurableEvent
    from roost.client import DurableSubscription as DurableSubscription
    from roost.client import EventsDropped as EventsDropped
    from roost.client import Gap as Gap
    from roost.client import InsecureConnection as InsecureConnection
    from roost.client import NeverMatches as NeverMatches
    from roost.client import NotEverywhere as NotEverywhere
    from roost.client import NotInTime as NotInTime
    from roost.client import Outbox as Outbox
    from roost.client import Overrun as Overrun
    from roost.client import ReceivedEvent as ReceivedEvent
    from roost.client import Refused as Refused
    from roost.client import SessionOver as SessionOver
    from roost.client import Stalled as Stalled
    from roost.client import State as State
    from roost.client import Subscription as Subscription
    from roost.client import SyncAdvertised as SyncAdvertised
    from roost.client import SyncClient as SyncClient
    from roost.client import SyncEvent as SyncEvent
    from roost.client import SyncOutbox as SyncOutbox
    from roost.client import SyncSubscription as SyncSubscription
    from roost.client import Tls as Tls
    from roost.client import Unreachable as Unreachable
    from roost.client import WhenFull as WhenFull
    from roost.client import close_queue as close_queue
    from roost.client import connect as connect
    from roost.client import connect_sync as connect_sync
    from roost.client import open_queue as open_queue
    from roost.client import poll as poll
    from roost.errors import UserError as UserError
    from roost.language import LanguageError as LanguageError
    from roost.language import ParseError as ParseError
else:
    # Not for type checkers, to whom any name would be one of ours.

    # Packages, and the names of each that are loaded when they are asked for.
    _LATER = {
        "client": [
            "Advertised",
            "BadUrl",
            "Client",
            "ClientError",
            "Closed",
            "ConnectError",
            "DurableEvent",
            "DurableSubscription",
            "EventsDropped",
            "Gap",
            "InsecureConnection",
            "NeverMatches",
            "NotEverywhere",
            "NotInTime",
            "Outbox",
            "Overrun",
            "ReceivedEvent",
            "Refused",
            "SessionOver",
            "Stalled",
            "State",
            "Subscription",
            "SyncAdvertised",
            "SyncClient",
            "SyncEvent",
            "SyncOutbox",
            "SyncSubscription",
            "Tls",
            "Unreachable",
            "WhenFull",
            "close_queue",
            "connect",
            "connect_sync",
            "open_queue",
            "poll",
        ],
        "errors": ["UserError"],
        "language": ["LanguageError", "ParseError"],
    }

    def __getattr__(name):
        from importlib import import_module  # noqa: PLC0415

        if name == "client":
            return import_module(f"{__name__}.client")
        for package, names in _LATER.items():
            if name in names:
                found = globals()[name] = getattr(import_module(f"{__name__}.{package}"), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted([*globals(), "client", *(n for names in _LATER.values() for n in names)])
