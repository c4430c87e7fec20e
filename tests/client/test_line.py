"""The end of a line: nothing is left behind when it has hung up."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from roost.broker.commands import CancelTimer, SetTimer, Tell
from roost.broker.config import ClientConfig
from roost.broker.events import SettleRequested, TimerFired
from roost.client import Closed, NotInTime, connect
from roost.client import line as lines
from roost.client.line import Line, Owner
from tests.client.support import in_loop, until


class Slow:
    """Dials for ever, and takes a moment to give up."""

    broker = "B0"

    def __init__(self) -> None:
        self.begun = self.ended = 0

    async def dial(self, line: Line, broker: str) -> None:
        assert line.machine
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.ended += 1
            assert broker == self.broker

    redial_max_s = 5.0

    def lost(self, now: float, *, answered: bool) -> None:
        raise AssertionError(f"nothing was there to be lost at {now}: {answered}")


@in_loop
async def test_nobody_waits_for_an_answer_that_will_not_come() -> None:
    """After the end, to ask is to be told at once that there will be none."""
    async with connect("memory://") as client:
        line = client._line
        assert line is not None
    for _ in range(2):
        asked = line.settling.ask()
        assert asked.done()
        assert asked.result() is None


@in_loop
async def test_waiting_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However seldom whoever waits has a look."""
    monkeypatch.setattr(lines, "LOOK_S", 60.0)
    async with connect("memory://") as client, asyncio.timeout(10.0):
        assert client._line is not None
        with pytest.raises(NotInTime, match=r"nothing has happened after 0.01 s"):
            await client._line.until(lambda: False, 0.01, lambda: "nothing has happened")


@in_loop
async def test_whoever_dials_has_given_up_when_it_has_hung_up() -> None:
    dialler = Slow()
    deaf: list[Any] = 6 * [lambda *_: None]
    nobody = Owner(*deaf)
    line = Line(ClientConfig(client="c", session="s"), dialler, nobody)
    opening = asyncio.create_task(line.open(60.0))
    await until(lambda: dialler.begun)
    await line.hang_up()
    assert dialler.ended == 1
    with pytest.raises(Closed):
        await opening


@in_loop
async def test_a_broker_that_has_forgotten_the_session_is_asked_again() -> None:
    """And one that goes on with it is not: it has the question."""
    async with connect("memory://") as client:
        line = client._line
        assert line is not None
        heard: list[object] = []
        with mock.patch.object(line, "handle", heard.append):
            asked = line.settling.ask()
            await until(lambda: heard)
            line._told(Tell("attached", reason="resumed"))
            assert heard == [SettleRequested("1")]
            line._told(Tell("attached"))
            assert heard == [SettleRequested("1"), SettleRequested("1")]
        assert not asked.done()


@in_loop
async def test_a_timer_that_was_cancelled_is_not_heard() -> None:
    """Else the next of its name, of another move for instance, would end too early."""
    heard: list[object] = []
    async with connect("memory://") as client:
        line = client._line
        assert line is not None
        with mock.patch.object(line, "handle", heard.append):
            line._execute([SetTimer("move", 0.001), CancelTimer("move"), SetTimer("probe", 0.002)])
            await until(lambda: heard)
        assert heard == [TimerFired("probe")]
