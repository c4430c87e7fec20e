"""`connect`, with and without asyncio: what an application says about a connection, in one place."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from types import NoneType

from roost.client.arguments import (
    check_callable,
    check_flag,
    check_kind,
    check_seconds,
    check_text,
    check_whole,
)
from roost.client.client import Client, State
from roost.client.connection import KEEPALIVE_S
from roost.client.dialling import Tls
from roost.client.errors import InsecureConnection
from roost.client.options import Options
from roost.client.sync import SyncClient
from roost.client.url import target_of
from roost.loopback import is_loopback
from roost.wire import DEFAULT_LIMITS, Limits


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    user: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | Tls | str | Path | None = None,
    timeout_s: float = 10.0,
    wait: bool = False,
    settle_s: float = 5.0,
    failover_s: float = 2.0,
    keepalive_s: float = KEEPALIVE_S,
    pending_max: int = 10_000,
    pending_bytes_max: int = 64_000_000,
    buffer_max: int = 10_000,
    limits: Limits = DEFAULT_LIMITS,
    on_state: Callable[[State, str], None] | None = None,
) -> Client:
    """A client of the brokers at a URL: `async with roost.connect("roost://host:7411") as client:`.

    | argument | what it says |
    | --- | --- |
    | `url` | `roost://h1:7411,h2:7411`, `roosts://` with TLS, `memory://`; else ROOST_URL, or this machine |
    | `name` | a word for operators to know the client by; what others see has a random part behind it |
    | `user`, `token` | who is calling; else from the URL, ROOST_USER and ROOST_TOKEN |
    | `tls` | for `roosts://`: files (`Tls`, or the path of the authority), or a context of your own |
    | `timeout_s` | how long connecting, leaving and `ready` may take |
    | `wait` | for as long, for a broker that nobody has started yet; else that is an error at once |
    | `settle_s` | how long events wait for a new advertisement, if the broker is of the version before |
    | `failover_s` | how long to dial the broker that has the session before another gets its turn |
    | `keepalive_s` | a broker that is silent for so long is asked, and given up after thrice that; 0: not |
    | `pending_max`, `pending_bytes_max` | what may be on its way, above which `publish` waits |
    | `buffer_max` | how many events of a subscription may wait to be read; see `Client.subscribe` |
    | `limits` | what an event may hold; only if the brokers' limits are not the usual ones |
    | `on_state` | is told of each new `Client.state`, and why |

    Several clients may live in one event loop.

    >>> import asyncio, roost
    >>> async def main():
    ...     async with roost.connect("memory://") as client:
    ...         async with client.subscribe("class = 'STOCK'") as subscription:
    ...             await client.publish({"class": "STOCK", "volume": 400_000})
    ...             print((await subscription.get())["volume"])
    >>> asyncio.run(main())
    400000
    """
    for what, text in (("url", url), ("name", name), ("user", user), ("token", token)):
        check_text(what, text)
    for what, seconds in (
        ("timeout_s", timeout_s),
        ("settle_s", settle_s),
        ("failover_s", failover_s),
        ("keepalive_s", keepalive_s),
    ):
        check_seconds(what, seconds, optional=False)
    for what, most in (
        ("pending_max", pending_max),
        ("pending_bytes_max", pending_bytes_max),
        ("buffer_max", buffer_max),
    ):
        check_whole(what, most, 1)
    tls_kinds = (ssl.SSLContext, Tls, str, Path, NoneType)
    check_kind("tls", tls, tls_kinds, "a Tls, a path, an SSLContext or None")
    check_kind("limits", limits, (Limits,), "Limits of roost.wire")
    check_flag("wait", wait)
    check_callable("on_state", on_state)
    target = target_of(url, user, token)
    elsewhere = not all(is_loopback(host) for host, _ in target.addresses)
    if target.token and elsewhere and not target.tls:
        what = "the token goes there in the clear; expected roosts://"
        warnings.warn(f"{target.url}: {what}", InsecureConnection, stacklevel=2)
    client = Client(
        target,
        Options(
            name=_checked(name or ""),
            tls=Tls(authority=tls) if isinstance(tls, str | Path) else tls,
            timeout_s=timeout_s,
            wait=wait,
            settle_s=settle_s,
            failover_s=failover_s,
            keepalive_s=keepalive_s,
            pending_max=pending_max,
            pending_bytes_max=pending_bytes_max,
            buffer_max=buffer_max,
            limits=limits,
        ),
    )
    client.on_state = on_state
    return client


def connect_sync(
    url: str | None = None,
    *,
    name: str | None = None,
    user: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | Tls | str | Path | None = None,
    timeout_s: float = 10.0,
    wait: bool = False,
    settle_s: float = 5.0,
    failover_s: float = 2.0,
    keepalive_s: float = KEEPALIVE_S,
    pending_max: int = 10_000,
    pending_bytes_max: int = 64_000_000,
    buffer_max: int = 10_000,
    limits: Limits = DEFAULT_LIMITS,
    on_state: Callable[[State, str], None] | None = None,
) -> SyncClient:
    """The same for programs without asyncio: `with roost.connect_sync("roost://host:7411") as client:`.

    The client works in a thread of its own, in which `on_state` is called too.

    >>> import roost
    >>> with roost.connect_sync("memory://") as client:
    ...     with client.subscribe("class = 'STOCK'") as subscription:
    ...         event_id = client.publish({"class": "STOCK", "volume": 400_000})
    ...         for event in subscription:
    ...             print(event["volume"])
    ...             break
    400000
    """
    return SyncClient(
        connect(
            url,
            name=name,
            user=user,
            token=token,
            tls=tls,
            timeout_s=timeout_s,
            wait=wait,
            settle_s=settle_s,
            failover_s=failover_s,
            keepalive_s=keepalive_s,
            pending_max=pending_max,
            pending_bytes_max=pending_bytes_max,
            buffer_max=buffer_max,
            limits=limits,
            on_state=on_state,
        )
    )


def _checked(name: str) -> str:
    if len(name) > 256 or not name.isprintable():
        raise ValueError(f"the name is {name[:80]!r}; expected at most 256 visible characters")
    return name
