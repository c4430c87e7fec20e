"""The end of a line: nothing is left behind when it has hung up."""

from __future__ import annotations

import asyncio

import pytest

from roost.broker.config import ClientConfig
from roost.client import Closed
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

    def lost(self, now: float) -> None:
        raise AssertionError(f"nothing was there to be lost at {now}")


@in_loop
async def test_whoever_dials_has_given_up_when_it_has_hung_up() -> None:
    dialler = Slow()
    nobody = Owner(*6 * [lambda *_: None])
    line = Line(ClientConfig(client="c", session="s"), dialler, nobody)
    opening = asyncio.create_task(line.open(60.0))
    await until(lambda: dialler.begun)
    await line.hang_up()
    assert dialler.ended == 1
    with pytest.raises(Closed):
        await opening
