"""One subscription at work: events come from its durable session at the broker, and go to its sink.

One after the other, each until the sink has answered that it has it, and only then is it acknowledged: what
the gateway had in hand when it was killed comes again. While a sink does not answer, the next attempt waits
twice as long as the one before. After `give_up_s` in vain the subscription is over, and so it is if the
broker ends the session. While the broker itself is away, nothing is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from roost.client import ClientError, DurableEvent, DurableSubscription, Unreachable
from roost.gateway.ws_eventing.answers import Notifier
from roost.gateway.ws_eventing.logins import NotLoggedInError
from roost.gateway.ws_eventing.posting import Poster, PostError
from roost.runtime.gateway_settings import GatewaySettings

log = logging.getLogger("roost.gateway")

GONE = 410  # the sink says that it will never want anything any more

# Reasons to end, in WS-Eventing's words.
DELIVERY_FAILURE = "DeliveryFailure"
CANCELLED = "SourceCancelling"


class UndeliverableError(Exception):
    """The sink has not taken an event for too long, or says that it never will."""


class Courier:
    """The deliveries of one subscription."""

    def __init__(
        self,
        name: str,
        session: Callable[[], Awaitable[DurableSubscription]],
        notifier: Notifier,
        poster: Poster,
        settings: GatewaySettings,
    ) -> None:
        self._name = name
        self._open = session
        self._notifier = notifier
        self._poster = poster
        self._settings = settings
        self._session: DurableSubscription | None = None

    async def begin(self) -> None:
        """Have the session begin, and be in place; ClientError if the broker is away, or refuses."""
        self._session = await self._open()
        await self._session.ready()

    async def run(self) -> tuple[str, str]:
        """Until the subscription can't go on: why, in WS-Eventing's word and in a sentence."""
        pause_s = self._settings.retry_min_s
        try:
            while True:
                try:
                    if self._session is None:
                        self._session = await self._open()
                        if self._session.is_new:
                            log.warning("%s: the broker has kept nothing for it", self._name)
                    async for event in self._session:
                        await self._deliver(event)
                        await event.ack()
                    return CANCELLED, "the gateway has closed its session"
                except Unreachable as error:
                    log.warning("%s: %s", self._name, error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, self._settings.retry_max_s)
                except (ClientError, NotLoggedInError) as error:
                    return CANCELLED, str(error)
                except UndeliverableError as error:
                    return DELIVERY_FAILURE, str(error)
        finally:
            self._poster.close()

    async def _deliver(self, event: DurableEvent) -> None:
        message = self._notifier.notification(
            event.id, event.attributes, event.payload, event.content_type, event.headers
        )
        settings, loop = self._settings, asyncio.get_running_loop()
        pause_s, since = settings.retry_min_s, loop.time()
        while True:
            try:
                status = await self._poster.post(message)
            except PostError as error:
                why = str(error)
            else:
                if 200 <= status < 300:
                    return
                why = f"it answered {status}"
                if status == GONE:
                    raise UndeliverableError(f"the sink is gone: {why}")
            failing_s = loop.time() - since
            if failing_s + pause_s > settings.give_up_s:
                raise UndeliverableError(f"the sink took nothing for {failing_s:.0f} s: {why}")
            log.info("%s: %s; next attempt in %g s", self._name, why, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, settings.retry_max_s)

    async def detach(self) -> None:
        """Leave the session at the broker, with what was not delivered."""
        if self._session is not None:
            await self._session.close()

    async def forget(self) -> None:
        """End the session at the broker. One that is away keeps it until its time is over."""
        if self._session is None:
            return
        try:
            await self._session.forget()
        except ClientError as error:
            log.warning("%s: its session was not ended at the broker: %s", self._name, error)
