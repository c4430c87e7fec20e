"""Leaving an outbox when the broker has gone silent: in time, and not without a word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roost.client import NotInTime, Outbox, connect
from roost.client.line import HASTE_S
from roost.runtime.server import BrokerServer
from tests.client.support import in_loop, serving, url_of

TIMEOUT_S = 2.0  # connecting has to work out within it, too
# Far less than any test may take, and far more than it takes to say goodbye.
SOON_S = 20.0


@asynccontextmanager
async def outbox_at(timeout_s: float = TIMEOUT_S) -> AsyncIterator[tuple[BrokerServer, Outbox]]:
    """An outbox that is not open yet, and its broker."""
    async with serving() as server, connect(url_of(server), timeout_s=timeout_s) as client:
        yield server, client.outbox("o", advertise="n present")


def fall_silent(server: BrokerServer) -> None:
    """It reads nothing any more, so that it accepts nothing; the connections stay."""
    for connection in server._open.values():
        connection.transport.pause_reading()


async def publish_in_vain(
    server: BrokerServer, outbox: Outbox, error: Exception | None = None
) -> None:
    async with asyncio.timeout(SOON_S), outbox:
        fall_silent(server)
        await outbox.publish(1, {"n": 1})
        if error is not None:
            raise error


@in_loop
async def test_what_is_not_accepted_is_heard_of_on_leaving() -> None:
    async with outbox_at() as (server, outbox):
        with pytest.raises(NotInTime, match="1 events are not acknowledged after 2 s"):
            await publish_in_vain(server, outbox)
        assert outbox.is_closed


@in_loop
async def test_closing_ends_after_the_time_of_the_client() -> None:
    async with outbox_at() as (server, outbox):
        await outbox.open()
        fall_silent(server)
        await outbox.publish(1, {"n": 1})
        with pytest.raises(NotInTime, match="after 2 s"):
            async with asyncio.timeout(SOON_S):
                await outbox.close()
        assert outbox.is_closed
        await outbox.close()  # it is, whatever came of it


@in_loop
async def test_closing_ends_after_the_time_that_is_asked_for() -> None:
    async with outbox_at(timeout_s=10 * SOON_S) as (server, outbox):
        await outbox.open()
        fall_silent(server)
        await outbox.publish(1, {"n": 1})
        with pytest.raises(NotInTime, match=r"after 0\.1 s"):
            async with asyncio.timeout(SOON_S):
                await outbox.close(0.1)
        assert outbox.is_closed


@in_loop
async def test_what_went_wrong_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    """That events were not accepted either is in the log; nor does it take long to find out."""
    loop = asyncio.get_running_loop()
    async with outbox_at(timeout_s=10 * SOON_S) as (server, outbox):
        since = loop.time()
        with (
            caplog.at_level(logging.WARNING, "roost.client"),
            pytest.raises(LookupError, match="first"),
        ):
            await publish_in_vain(server, outbox, LookupError("first"))
        assert HASTE_S <= loop.time() - since < SOON_S
        assert outbox.is_closed
        (record,) = caplog.records
        assert "1 events are not acknowledged" in record.getMessage()


@in_loop
async def test_one_that_was_never_opened() -> None:
    async with outbox_at() as (_, outbox):
        await outbox.close()
        assert outbox.is_closed
