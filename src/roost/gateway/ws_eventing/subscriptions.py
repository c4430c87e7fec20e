"""All subscriptions of a gateway: begun, renewed, ended; and taken up again when it starts.

A subscription is a record (`records`) and a courier at work (`courier`). It ends

| how | what the subscriber hears |
| --- | --- |
| by Unsubscribe | the answer to it |
| when its time is over | nothing: it knew |
| when its sink takes nothing for too long | SubscriptionEnd, DeliveryFailure |
| when the broker ends the session, or refuses it | SubscriptionEnd, SourceCancelling |
| when the gateway stops, if it keeps nothing on disk | SubscriptionEnd, SourceShuttingDown |

A gateway with a folder stops without a word: it will be back.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from roost.client import DurableSubscription
from roost.gateway.ws_eventing.addressing import Endpoint
from roost.gateway.ws_eventing.answers import Message, Notifier
from roost.gateway.ws_eventing.courier import Courier
from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.guard import UnusableError, checked_addresses, target_of
from roost.gateway.ws_eventing.logins import Clients, Login
from roost.gateway.ws_eventing.posting import Poster, PostError
from roost.gateway.ws_eventing.records import Record, Records
from roost.runtime.gateway_settings import GatewaySettings
from roost.runtime.tables import TlsTable
from roost.runtime.tls import client_context

log = logging.getLogger("roost.gateway")

# How often it is looked whose time is over.
SWEEP_S = 0.5
# How often, and how long apart, a sink is told of the end.
END_ATTEMPTS = 3
END_PAUSE_S = 1.0
SHUTTING_DOWN = "SourceShuttingDown"


class _Active(Struct, eq=False):
    """A subscription at work."""

    record: Record
    notifier: Notifier
    courier: Courier
    task: asyncio.Task[None] | None = None


class Subscriptions:
    """Those of one gateway."""

    def __init__(self, settings: GatewaySettings, clients: Clients) -> None:
        self._settings = settings
        self._clients = clients
        self._tls = client_context(TlsTable(authority=settings.authority))
        self._keeps = bool(settings.data)
        self._records = Records(Path(settings.data) if settings.data else None)
        self._active: dict[str, _Active] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._active)

    # --- beginning and end of the gateway -----------------------------------------------------------

    async def open(self) -> None:
        """Take up what was there before."""
        for record in await asyncio.to_thread(self._records.all):
            self._start(self._activated(record))
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stop; what is kept goes on with the next start."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait((self._sweeping,))
        for active in list(self._active.values()):
            if self._keeps:
                self._later(self._leave(active))
            else:
                self._later(self._end(active, SHUTTING_DOWN, "the gateway stops"))
        while self._endings:
            await asyncio.wait(self._endings)
        self._records.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.time()
            for active in list(self._active.values()):
                # One that is still beginning is looked at the next time.
                if active.record.expires_at <= now and active.task is not None:
                    log.info("%r: its time is over", active.record)
                    self._later(self._end(active))

    # --- what is asked for --------------------------------------------------------------------------

    async def subscribe(self, record: Record) -> None:
        """Begin one; FaultError if that can't be. It is in place when this returns."""
        self._check_room(record.user)
        for endpoint in filter(None, (record.notify, record.end)):
            await self._check_endpoint(endpoint)
        active = self._activated(record)
        self._active[record.id] = active  # it counts from now on
        try:
            await active.courier.begin()
            await asyncio.to_thread(self._records.put, record)
        except BaseException:
            self._later(self._end(active))
            raise
        self._start(active)

    def found(self, urn: str, user: str, now: float) -> Record | None:
        """A subscription of this user's, by its identifier."""
        active = self._active.get(urn.removeprefix("urn:uuid:"))
        if active is None or active.record.user != user or active.record.expires_at <= now:
            return None
        return active.record

    async def renew(self, record: Record, expires_at: float, *, as_date: bool) -> Record:
        """Keep it until then."""
        renewed = replace(record, expires_at=expires_at, expires_as_date=as_date)
        self._active[record.id].record = renewed
        await asyncio.to_thread(self._records.put, renewed)
        if record.id not in self._active:  # it has ended meanwhile
            await asyncio.to_thread(self._records.drop, record.id)
        return renewed

    async def unsubscribe(self, record: Record) -> None:
        """End it, because its owner wants that."""
        await self._end(self._active[record.id])

    def _check_room(self, user: str) -> None:
        settings = self._settings
        if len(self._active) >= settings.subscriptions_max:
            raise FaultError("not now", f"there are {len(self._active):,} subscriptions already")
        theirs = sum(active.record.user == user for active in self._active.values())
        if theirs >= settings.subscriptions_a_user:
            raise FaultError("refused", f"you have {theirs:,} subscriptions already")

    async def _check_endpoint(self, endpoint: Endpoint) -> None:
        try:
            async with asyncio.timeout(self._settings.sink_s):
                target = target_of(endpoint.address)
                await checked_addresses(target, allow_private=self._settings.allow_private)
        except (UnusableError, TimeoutError) as error:
            what = str(error) or f"nobody says where {endpoint.address[:200]} is"
            raise FaultError("unusable address", what) from None

    # --- at work ------------------------------------------------------------------------------------

    def _activated(self, record: Record) -> _Active:
        async def session() -> DurableSubscription:
            return await self._session(record)

        notifier = Notifier(record)
        poster = self._poster(record.notify)
        return _Active(
            record, notifier, Courier(repr(record), session, notifier, poster, self._settings)
        )

    async def _session(self, record: Record) -> DurableSubscription:
        return await self._clients.subscribe(_login(record), record.filter, record.session)

    def _poster(self, endpoint: Endpoint) -> Poster:
        return Poster(
            target_of(endpoint.address),
            within_s=self._settings.sink_s,
            allow_private=self._settings.allow_private,
            tls=self._tls,
        )

    def _start(self, active: _Active) -> None:
        self._active[active.record.id] = active
        active.task = asyncio.create_task(self._run(active))

    async def _run(self, active: _Active) -> None:
        why, reason = await active.courier.run()
        log.warning("%r is over: %s", active.record, reason)
        self._later(self._end(active, why, reason))

    async def _stop(self, active: _Active) -> None:
        if active.task is not None:
            active.task.cancel()
            await asyncio.wait((active.task,))

    async def _leave(self, active: _Active) -> None:
        await self._stop(active)
        await active.courier.detach()

    def _later(self, ending: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(ending)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _end(self, active: _Active, why: str = "", reason: str = "") -> None:
        """For good. With a reason to tell, whoever wanted to know is told."""
        record = active.record
        if self._active.pop(record.id, None) is None:
            return
        await asyncio.to_thread(self._records.drop, record.id)
        await self._stop(active)
        await active.courier.forget()
        self._clients.unsubscribed(_login(record), record.session)
        said = active.notifier.end(why, reason) if why else None
        if said is not None:
            await self._say_goodbye(*said)

    async def _say_goodbye(self, endpoint: Endpoint, message: Message) -> None:
        poster = self._poster(endpoint)
        for attempt in range(END_ATTEMPTS):
            if attempt:
                await asyncio.sleep(END_PAUSE_S)
            try:
                if 200 <= await poster.post(message) < 300:
                    break
            except PostError as error:
                log.info("%s was not told of an end: %s", endpoint.address, error)
        poster.close()


def new_id() -> str:
    """Of a subscription; whoever does not know it does not guess it."""
    return str(uuid.uuid4())


def _login(record: Record) -> Login:
    return Login(record.user, record.token)
