"""When the broker hears of acknowledgements: within a moment, and not first when the reader leaves."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from roost.client import NotInTime, connect
from roost.client.line import ACK_DELAY_S, ACK_EVERY
from tests.client.acknowledging_process import FILTER, NAME
from tests.client.support import config, in_loop, numbers, serving, take, until, url_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", ["async", "sync"])
@pytest.mark.parametrize(
    ("count", "which"), [(1, "first"), (2 * ACK_EVERY + 3, "first"), (2 * ACK_EVERY + 3, "odd")]
)
@in_loop
async def test_what_a_process_has_acknowledged_does_not_come_again_after_kill_9(
    tmp_path: Path, how: str, count: int, which: str
) -> None:
    """It was killed, so it could say nothing on leaving."""
    async with serving(config(data=tmp_path)) as server, connect(url_of(server)) as client:
        async with client.subscribe(FILTER, durable=NAME) as subscription:
            await subscription.ready()
        for n in range(2 * count):
            await client.publish({"n": n})
        await client.flush()
        command = ("tests.client.acknowledging_process", url_of(server), how, str(count), which)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"acknowledged\n"
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        async with client.subscribe(FILTER, durable=NAME) as subscription:
            again = await take(subscription, count)
            left = range(count, 2 * count) if which == "first" else range(0, 2 * count, 2)
            assert numbers(again) == list(left)
            await subscription.forget()


@pytest.mark.parametrize("auto_ack", [True, False])
@in_loop
async def test_the_broker_lets_go_of_what_is_acknowledged_while_the_reader_stays(
    auto_ack: bool,
) -> None:
    """One at a time, each behind a pause: the second time is not like the first."""
    async with (
        serving() as server,
        connect(url_of(server)) as client,
        client.subscribe(FILTER, durable=NAME, auto_ack=auto_ack) as subscription,
    ):
        await subscription.ready()
        (session,) = (s for s in server.shell.machine.sessions.values() if s.durable)
        lane = session.channel.data
        for n in range(3):
            await client.publish({"n": n})
            (event,) = await take(subscription, 1)
            if auto_ack:
                # It is acknowledged by asking for the next one, which does not come.
                with pytest.raises(NotInTime):
                    await subscription.get(ACK_DELAY_S)
            else:
                await event.ack()
            await until(lambda: not lane.outbox)
        await subscription.forget()
