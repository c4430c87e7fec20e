"""Writes the files of this folder, with the code of the commit that they are of.

    git worktree add /tmp/then COMMIT
    PYTHONPATH=/tmp/then/src:/tmp/then python tests/data/make.py tests/data COMMIT

`frames-COMMIT.bin` has a parcel of every kind, as `tests.wire.support` of that commit knows them.
`store-COMMIT.db` is the store of a broker B0 that was stopped in order, with something of everything that a
broker keeps. What is in them is said by the tests that read them, `tests/runtime/test_store_older.py`. Files
of old commits are never written anew: that today's code reads them is what they are for.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import roost
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, ServerConfig
from roost.wire import encode
from tests.wire.support import one_of_each

HOST = "127.0.0.1"


async def store(path: Path) -> None:
    """What happens to B0 until it is stopped; its neighbour B1 has left before."""
    with tempfile.TemporaryDirectory() as folder:
        other = await started("B1", {"B0": ""}, "")
        broker = await started("B0", {"B1": f"{HOST}:{other.port}"}, folder)
        here, there = (f"roost://{HOST}:{server.port}" for server in (broker, other))
        async with (
            roost.connect(there, name="far") as far,
            roost.connect(here, name="plain") as plain,
            roost.connect(here, name="desk") as desk,
        ):
            await desk.advertise("class = 'STOCK'")
            far_subscription = far.subscribe("class = 'STOCK' and volume > 50")
            await far_subscription.ready()
            plain_subscription = plain.subscribe("symbol present and class = 'STOCK'")
            await plain_subscription.ready()
            async with desk.subscribe("class = 'STOCK' and volume >= 20", durable="archive") as sub:
                await sub.ready()
                async with desk.subscribe(
                    "class = 'NOTHING' or volume < 0", durable="idle"
                ) as idle:
                    await idle.ready()
                await desk.publish({"class": "STOCK", "symbol": "A", "volume": 10})
                await desk.publish({"class": "STOCK", "symbol": "B", "volume": 20})
                await (await sub.get()).ack()
            await desk.flush()
            await other.stop(within_s=1.0)
            async with desk.outbox("orders", advertise="class = 'ORDER'") as outbox:
                for number in range(1, 4):
                    await outbox.publish(number, {"class": "ORDER", "number": number})
                await outbox.flush()
            for volume in (30, 60, 90):
                await desk.publish(
                    {
                        "class": "STOCK",
                        "symbol": "C",
                        "volume": volume,
                        "open": 1.5,
                        "halted": False,
                    },
                    payload=b"\x00\x01",
                    headers={"trace": str(volume)},
                )
            await desk.flush()
            # Those who are there now are remembered as away. Nobody is there to hear them say goodbye.
            await broker.stop(within_s=1.0)
            shutil.copyfile(Path(folder) / "roost.db", path)
            shutil.rmtree(folder)
            os._exit(0)


async def started(name: str, neighbours: dict[str, str], data: str) -> BrokerServer:
    return await start_server(
        ServerConfig(
            broker=BrokerTable(name=name, port=0, data=data),
            links=LinksTable(neighbours=neighbours),
            admin=AdminTable(port=-1),
        )
    )


def main() -> None:
    folder, commit = Path(sys.argv[1]), sys.argv[2]
    frames = b"".join(encode(parcel) for parcel in one_of_each())
    (folder / f"frames-{commit}.bin").write_bytes(frames)
    asyncio.run(store(folder / f"store-{commit}.db"))


if __name__ == "__main__":
    main()
