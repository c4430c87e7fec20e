"""What applications and commands are told when they ask for what can't be, and bounds that are bounds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import roost
from roost.errors import UserError
from tests.edges.kit import (
    WITHIN_S,
    BrokenPromise,
    Stage,
    all_of,
    case,
    publish,
    take,
    until,
)

# Small, so that one read brings thousands.
MANY = 2_000
SEED = 7777
# A name that there is, and one that there is not, as a type checker sees them.
TYPED = """\
import roost

def takes(client: roost.Client) -> None: ...

roost.Clinet
"""


@case(once="TOLD '-1 events acknowledged'")
async def an_event_that_is_not_permitted(stage: Stage) -> str:
    """Whoever publishes what is not permitted is told that nothing was acknowledged."""
    stage.add_user("alice", "--publish", "class = 'STOCK'")
    broker = await stage.broker("B0")
    login = ("--url", broker.url, "--user", "alice", "--token", stage.tokens["alice"])
    ran = await stage.run("-m", "roost", "publish", "class=NEWS", *login)
    told = ran.stderr.splitlines()[0]
    if told != "0 events acknowledged" or ran.returncode != 2:
        raise BrokenPromise(f"TOLD {told!r}")
    return "0 events acknowledged, and why"


async def refused_on_the_spot(stage: Stage, ask: Callable[[Any], Any]) -> str:
    """That asking with None is a TypeError, and all else goes on."""
    broker = await stage.broker("B0", stored=False)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(stage.connect(broker))
        await publish(client, [1])
        try:
            await ask(client)
        except TypeError as error:
            await publish(client, [2])
            return f"TypeError: {error}"
        except UserError as error:
            stack.pop_all()  # such a client can't be left in order
            raise BrokenPromise(f"SENT, and then: {error}") from None
    raise BrokenPromise("SENT, and nothing said")


@case(once="SENT, and then: .*the session is over")
async def a_subscription_to_none(stage: Stage) -> str:
    """A filter that is None is refused where it is handed in, and the session goes on."""

    async def ask(client: Any) -> None:
        await client.subscribe(None).ready()

    return await refused_on_the_spot(stage, ask)


@case(once="SENT, and then: .*the session is over")
async def an_advertisement_of_none(stage: Stage) -> str:
    """The same of an advertisement."""

    async def ask(client: Any) -> None:
        await client.advertise(None)
        await client.flush()

    return await refused_on_the_spot(stage, ask)


@case(once=r"WAITING were \d+, where 1 may")
async def a_bound_of_one(stage: Stage) -> str:
    """No more events wait to be read than `buffer_max` says."""
    async with flooded(stage) as (client, publisher):
        subscription = client.subscribe("n >= 0", buffer_max=1)
        await subscription.ready()
        await publish(publisher, range(MANY))
        waiting, came = 0, []
        for _ in range(MANY):
            came += await take(subscription, 1)
            waiting = max(waiting, subscription.waiting)
        if waiting > 1:
            raise BrokenPromise(f"WAITING were {waiting}, where 1 may")
        return all_of(came, range(MANY))


@case(once=r"STARVED after \d+ of \d+")
async def one_that_nobody_reads(stage: Stage) -> str:
    """A subscription that nobody reads does not keep events from the others of its client for good."""
    async with flooded(stage) as (client, publisher):
        unread = client.subscribe("n >= 0", buffer_max=10)
        read = client.subscribe("n >= 0")
        await read.ready()
        for n in range(MANY):
            await publisher.publish(
                {"n": n}, bytes(2_000)
            )  # more than what systems hold for a reader
        came: list[int] = []
        began = time.monotonic()
        while len(came) < MANY:
            try:
                came.append(int((await read.get(WITHIN_S / 2))["n"]))
            except UserError:
                raise BrokenPromise(f"STARVED after {len(came)} of {MANY}") from None
        took_s = time.monotonic() - began
        return f"{all_of(came, range(MANY))}, after {took_s:.0f} s; {unread.waiting} wait"


@contextlib.asynccontextmanager
async def flooded(stage: Stage) -> AsyncIterator[tuple[Any, Any]]:
    """One who reads, and one who publishes. Whoever has not read all of it is not waited for."""
    broker = await stage.broker("B0", stored=False)
    client = await stage.connect(broker).open()
    publisher = await stage.connect(broker).open()
    yield client, publisher
    broker.kill()


@case(once=r"AGAIN came \[0, 1, 2, 3\], where \[0, 2, 3\] were left")
async def acknowledged_in_any_order(stage: Stage) -> str:
    """Exactly what was not acknowledged comes again, in whatever order the rest was."""
    broker = await stage.broker("B0", stored=False)
    async with stage.connect(broker) as client:
        async with client.subscribe("n >= 0", durable="d") as first:
            await first.ready()
            await publish(client, range(3))
            events = [await first.get(WITHIN_S) for _ in range(3)]
            await events[1].ack()
        await publish(client, [3])
        again: list[int] = []
        async with client.subscribe("n >= 0", durable="d") as second:
            while 3 not in again:
                again.append(int((await second.get(WITHIN_S))["n"]))
        if again != [0, 2, 3]:
            raise BrokenPromise(f"AGAIN came {again}, where [0, 2, 3] were left")
    return "what was left"


@case(once="MISSING is roost.Client")
async def names_of_the_library(_: Stage) -> str:
    """Types and exceptions of the client library are `roost.NAME`, also for a type checker."""
    for name in ("Client", "Refused"):
        if not hasattr(roost, name):
            raise BrokenPromise(f"MISSING is roost.{name}")
    return "they are there"


@case(once="UNNOTICED is what does not exist")
async def names_as_type_checkers_see_them(stage: Stage) -> str:
    """A type checker notices a name that does not exist."""
    (stage.folder / "typed.py").write_text(TYPED)
    source = str(Path(roost.__file__).parents[1])
    checked = await stage.run("-m", "mypy", "typed.py", within_s=3 * WITHIN_S, MYPYPATH=source)
    found = [line for line in checked.stdout.splitlines() if ": error: " in line]
    if not any('"Clinet"' in line for line in found):
        raise BrokenPromise("UNNOTICED is what does not exist")
    if any('attribute "Client"' in line for line in found):
        raise BrokenPromise("UNKNOWN is roost.Client")
    return "it does"


@case(once="SILENT about what was meant")
async def a_number_of_seeds_that_looks_like_a_seed(stage: Stage) -> str:
    """Who asks for 7,777 seeds is told how to ask for the seed 7777."""
    process = subprocess.Popen(
        [sys.executable, "-m", "roost", "sim", "fuzz", "--seeds", str(SEED)],
        stdout=subprocess.DEVNULL,
        stderr=(stage.folder / "err").open("w"),
        start_new_session=True,
    )
    try:
        if await until(lambda: f"--first {SEED}" in (stage.folder / "err").read_text(), 20.0):
            return "it is said"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    raise BrokenPromise("SILENT about what was meant")
