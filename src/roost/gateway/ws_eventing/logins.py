"""Whoever calls the gateway calls the broker: with its own user and token, so that its permissions hold.

A user and a token are those of the request (HTTP basic authentication, or `Bearer USER:TOKEN`). The broker
says whether they are right, when a client connects with them; the connection is then kept for a while.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from roost.client import (
    Client,
    ClientError,
    ConnectError,
    DurableSubscription,
    Tls,
    Unreachable,
)
from roost.client.options import Options
from roost.client.url import target_of
from roost.language import Value

# Clients that nobody has used for so long are closed when there are too many.
CLIENTS_MAX = 256
# Of a subscription's events, how many wait here to be sent on; the broker keeps the others.
BUFFER_MAX = 16


class Login(NamedTuple):
    """Who is calling, and what proves it."""

    user: str = ""
    token: str = ""

    def __repr__(self) -> str:
        """Without the token: logins get logged."""
        return f"Login({self.user!r})"


class NotLoggedInError(Exception):
    """The broker does not know such a user, or the header is none that we know."""


def login_of(header: str) -> Login:
    """Who a request is from, by its header `Authorization`."""
    scheme, _, rest = header.strip().partition(" ")
    kind, text = scheme.lower(), rest.strip()
    if not scheme:
        return Login()
    if kind == "basic":
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            text = ""
    elif kind != "bearer":
        text = ""
    user, colon, token = text.partition(":")
    if not (user and colon and token and text.isprintable()):
        raise NotLoggedInError("expected basic authentication, or Bearer USER:TOKEN")
    return Login(user, token)


class Clients:
    """Connections to the broker, one for each user that has called."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | Tls | None, timeout_s: float) -> None:
        self._url = url
        self._options = Options(name="ws-eventing", tls=tls, timeout_s=timeout_s)
        self._entries: dict[Login, _Entry] = {}  # the one that was used last is the last

    async def check(self, login: Login) -> None:
        """Whether the broker lets them in: NotLoggedInError if not, Unreachable if nobody can say."""
        await self._entry_of(login)

    async def subscribe(self, login: Login, filter_: str, name: str) -> DurableSubscription:
        """A durable subscription of theirs, open; ClientError if the broker refuses it."""
        entry = await self._entry_of(login)
        entry.sessions.add(name)
        subscription = entry.client.subscribe(filter_, durable=name, buffer_max=BUFFER_MAX)
        return await subscription.__aenter__()

    def unsubscribed(self, login: Login, name: str) -> None:
        """The connection is not needed any more for that."""
        if login in self._entries:
            self._entries[login].sessions.discard(name)

    async def publish(
        self,
        login: Login,
        attributes: Mapping[str, Value],
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str],
    ) -> None:
        """Publish an event as this user; the broker has it when this returns.

        One at a time for each user: so a refusal is told to whoever it concerns, and what is said one after
        the other arrives in that order.
        """
        entry = await self._entry_of(login)
        client = entry.client
        async with entry.publishing:
            await client.publish(attributes, payload, content_type=content_type, headers=headers)
            await client.flush(self._options.timeout_s)

    async def _entry_of(self, login: Login) -> _Entry:
        entry = self._entries.pop(login, None)
        if entry is None or entry.is_over:
            # Who is not named is nobody, or whom the URL names; never the user who has started us.
            target = target_of(self._url, login.user, login.token, environment={})
            entry = _Entry(Client(target, self._options))
        self._entries[login] = entry
        try:
            await entry.opened()
        except ClientError as error:
            if self._entries.get(login) is entry:
                del self._entries[login]
            if isinstance(error, ConnectError) and not isinstance(error, Unreachable):
                raise NotLoggedInError(str(error)) from None
            raise
        await self._close_idle()
        return entry

    async def _close_idle(self) -> None:
        idle = [login for login, entry in self._entries.items() if entry.is_idle]
        for login in idle[: max(0, len(self._entries) - CLIENTS_MAX)]:
            await self._entries.pop(login).close()

    async def close(self) -> None:
        """Close all of them."""
        while self._entries:
            _, entry = self._entries.popitem()
            await entry.close()


class _Entry:
    """The client of one user."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.publishing = asyncio.Lock()
        self.sessions: set[str] = set()  # subscriptions that need it
        self._opening = asyncio.Lock()
        self._failure: ClientError | None = None

    @property
    def is_over(self) -> bool:
        return self.client.state in ("closed", "failed")

    @property
    def is_idle(self) -> bool:
        return not (self.sessions or self.publishing.locked() or self._opening.locked())

    async def opened(self) -> None:
        """Once it is connected; all who wait for that hear why it is not."""
        async with self._opening:
            if self._failure is not None:
                raise self._failure
            if self.client.state == "new":
                try:
                    await self.client.open()
                except ClientError as error:
                    self._failure = error
                    raise

    async def close(self) -> None:
        with suppress(ClientError):  # whoever published has been told already
            await self.client.close()
