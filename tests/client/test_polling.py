"""Queues that are polled: what waits is taken once, and comes again if it was not dealt with."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from roost.broker.requests import Requests
from roost.client import BadUrl, Closed, NotInTime, connect
from roost.client.polling import close_queue, open_queue, poll

URL = "memory://polling"


def test_what_waits_is_taken_once() -> None:
    async def play() -> None:
        async with connect(URL) as client:
            handle = await open_queue(URL, "n >= 0")
            for number in range(30):
                await client.publish({"n": number})
            async with poll(handle, most=10) as events:
                assert [event["n"] for event in events] == list(range(10))
            async with poll(handle) as events:
                assert [event["n"] for event in events] == list(range(10, 30))
            async with poll(handle, wait_s=0.05) as events:
                assert events == []
            await close_queue(handle)

    asyncio.run(play())


def test_what_was_not_dealt_with_comes_again() -> None:
    async def play() -> None:
        async with connect(URL) as client:
            handle = await open_queue(URL, "n >= 0")
            await client.publish({"n": 1})
            with pytest.raises(ZeroDivisionError):
                async with poll(handle):
                    raise ZeroDivisionError
            async with poll(handle) as events:
                assert [event["n"] for event in events] == [1]
            await close_queue(handle)

    asyncio.run(play())


def test_a_queue_that_is_gone_is_told_so() -> None:
    async def play() -> None:
        async with connect(URL):
            handle = await open_queue(URL, "n >= 0")
            await close_queue(handle)
            with pytest.raises(Closed, match="is lost"):
                async with poll(handle):
                    pass
            # Nor has that made a new one.
            with pytest.raises(Closed, match="is lost"):
                async with poll(handle):
                    pass

    asyncio.run(play())


def test_a_queue_is_in_place_before_it_has_a_handle() -> None:
    """Whoever is told the handle may count on what is published from then on."""

    async def play() -> None:
        with pytest.raises(NotInTime):
            await open_queue(URL, "n >= 0", timeout_s=0.2)

    with mock.patch.object(Requests, "settles"):  # the broker does not answer
        asyncio.run(play())


@pytest.mark.parametrize("handle", ["memory://x", "memory://x#queue=1", "#queue=1&filter=x&more=2"])
def test_what_is_no_handle(handle: str) -> None:
    async def play() -> None:
        async with poll(handle):
            pass

    with pytest.raises(BadUrl, match="no handle of a queue"):
        asyncio.run(play())


@pytest.mark.parametrize(("most", "error"), [(0, ValueError), (-1, ValueError), ("10", TypeError)])
def test_how_many_is_a_number_above_zero(most: Any, error: type[Exception]) -> None:
    async def play() -> None:
        async with connect(URL):
            handle = await open_queue(URL, "n >= 0")
            with pytest.raises(error, match="most"):
                async with poll(handle, most=most):
                    pass
            await close_queue(handle)

    asyncio.run(play())
