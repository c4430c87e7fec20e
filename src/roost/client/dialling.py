"""Reaching a broker: the addresses of a URL in turn, with TLS if it says so.

A session lives at one broker, and only that one can go on with it without a gap. So after a connection is
lost its own broker is dialled again for `failover_s` before the others get their turn. There the session
begins anew: nothing that was published is lost or doubled, but events that pass while no broker has the
subscriptions are missed.

A broker that has a standby is two addresses of one broker: whichever of them answers has the session. So both
are dialled, the other one first, as whoever was lost is mostly the one that has failed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.broker.messages import Login
from roost.client.arguments import check_kind
from roost.client.connection import (
    GREETING_S,
    KEEPALIVE_S,
    STANDBY_GREETING_S,
    Connection,
)
from roost.client.entry import Entry, NoEntry, Place
from roost.client.errors import ClientError
from roost.client.url import Target, address_of, shown

if TYPE_CHECKING:
    from roost.client.line import Line

# How long one address may take to answer, TLS included.
DIAL_S = 5.0
# How long to wait at most before dialling again; and if the broker has a standby, which is there in seconds.
REDIAL_MAX_S = 5.0
STANDBY_REDIAL_S = 0.3


class Tls(Struct, frozen=True, kw_only=True):
    """The files of TLS, in PEM: whom to trust, and who we are.

    >>> Tls(authority="authority.pem")
    Tls(authority='authority.pem', certificate='', key='')
    """

    authority: str | Path = ""  # certificates of brokers are checked against it; else the system's
    certificate: str | Path = ""  # ours, for brokers that ask for one
    key: str | Path = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_kind(name, getattr(self, name), (str, Path), "a path, as a string or a Path")


class DialError(Exception):
    """No address answered; `nobody` says that nobody listens at any of them."""

    def __init__(self, reason: str, *, nobody: bool = False) -> None:
        super().__init__(reason)
        self.nobody = nobody


class Dialler:
    """Makes connections to the brokers of a target."""

    def __init__(
        self,
        target: Target,
        tls: ssl.SSLContext | Tls | None,
        failover_s: float,
        keepalive_s: float = KEEPALIVE_S,
        besides: dict[Place, Place] | None = None,
    ) -> None:
        self._target = target
        self._failover_s = failover_s
        self._keepalive_s = keepalive_s
        # Address -> the other one of the same broker, as brokers have said; for all connections of a client.
        self._besides: dict[Place, Place] = {} if besides is None else besides
        self._context = _context_of(target, tls)
        self._login = Login(target.user, target.token) if target.token else None
        self._entry = Entry(target.entry, self._context, self._login) if target.entry else None
        self._current: tuple[str, int] | None = None  # whose session it is
        self._lost_at = 0.0  # when there last was a session
        self._dialled: Place | None = None  # who took the last connection, and
        self._mute: Place | None = None  # ... took it, and never greeted us
        self._in_vain = 0  # so many did that since there was a session

    @property
    def broker(self) -> str:
        """What the machine calls the place that it goes to: the URL, whichever of its brokers that is."""
        return self._target.url

    @property
    def redial_max_s(self) -> float:
        """How long to wait at most before dialling again."""
        return STANDBY_REDIAL_S if self._current in self._besides else REDIAL_MAX_S

    def lost(self, now: float, *, answered: bool) -> None:
        """The connection is gone, and whether there was ever a session on it."""
        if answered:
            self._lost_at, self._mute, self._in_vain = now, None, 0
        else:
            self._mute = self._dialled
            self._in_vain += 1

    async def dial(self, line: Line, broker: str) -> None:
        """Connect to `broker`, or else to the first that answers; DialError if none does."""
        reasons = []
        nobody = True
        turn = await self._turn(broker, line.loop.time(), moves=line.is_attached)
        # A process that was stopped takes connections, too: whoever did not answer comes last.
        for address in sorted(self._with_standbys(turn), key=lambda each: each == self._mute):
            try:
                async with asyncio.timeout(DIAL_S):
                    await self._connect(line, address, broker)
            except TimeoutError:
                reasons.append(f"{shown(address)} does not answer")
                nobody = False
            except OSError as error:  # those of TLS are among them
                reasons.append(f"{shown(address)}: {_words(error)}")
                nobody = nobody and isinstance(error, ConnectionRefusedError)
            else:
                self._dialled = address
                if broker == self._target.url:
                    self._current = address
                return
        what = "; ".join(reasons) or f"{broker!r} is not the address of a broker"
        raise DialError(what, nobody=nobody and bool(reasons))

    def _with_standbys(self, turn: Sequence[Place]) -> Sequence[Place]:
        """Each with the other one of the same broker, if there is one."""
        both: dict[Place, None] = {}
        for place in turn:
            other = self._besides.get(place)
            pair = (
                (place,) if other is None else (other, place) if self._lost_at else (place, other)
            )
            both.update(dict.fromkeys(pair))
        return tuple(both)

    async def _turn(self, broker: str, now: float, *, moves: bool) -> Sequence[tuple[str, int]]:
        """Whom to dial, in this order. A client that moves has a session, and wants another just there."""
        elsewhere = None if broker == self._target.url else address_of(broker)
        if moves:
            return () if elsewhere is None else (elsewhere,)
        current, known = elsewhere or self._current, self._target.addresses
        if current is not None and now - self._lost_at < self._failover_s:
            return (current,)
        if self._entry is not None:
            return await self._located(known)
        if current is None:
            return known
        if current in known:
            place = known.index(current)
            return (*known[place:], *known[:place])
        return (current, *known)  # sent there, by a broker that knew where

    async def _located(self, known: Sequence[Place]) -> Sequence[Place]:
        """What entry points say; the first that answers. DialError if none does."""
        assert self._entry is not None
        try:
            return await self._entry.addresses(known)
        except NoEntry as error:
            raise DialError(str(error), nobody=error.nobody) from None

    async def _connect(self, line: Line, address: tuple[str, int], broker: str) -> None:
        def has_standby(beside: str) -> None:
            other = address_of(beside)
            if other is not None:
                self._besides[address], self._besides[other] = other, address

        # Each of the two gets its turn, and then twice as long: their machine may be busy.
        patience_s = STANDBY_GREETING_S * (1 << min(self._in_vain // 2, 8))
        greeting_s = min(patience_s, GREETING_S) if address in self._besides else None
        await line.loop.create_connection(
            lambda: Connection(
                line,
                self._login,
                broker,
                keepalive_s=self._keepalive_s,
                greeting_s=greeting_s,
                has_standby=has_standby,
            ),
            *address,
            ssl=self._context,
        )


def _context_of(target: Target, tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext | None:
    if not target.tls:
        if tls is not None:
            raise ClientError(f"{target.url}: there are settings of TLS; expected roosts://")
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    # They read certificates with a library that takes its time to load.
    from roost.runtime.tables import TlsTable  # noqa: PLC0415
    from roost.runtime.tls import client_context  # noqa: PLC0415

    files = tls or Tls()
    return client_context(
        TlsTable(
            authority=str(files.authority), certificate=str(files.certificate), key=str(files.key)
        )
    )


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "TLS failed: it speaks none; expected roost://, or another port"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)  # asyncio's own words repeat the address
    return error.strerror or str(error)
