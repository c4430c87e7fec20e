"""Deliveries that nobody waits for, amid others: they are passed over, and what is behind them arrives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from roost.broker.messages import Ack, Delivery, Publication
from roost.client import connect
from roost.language import Event
from roost.runtime.server import BrokerServer
from roost.wire import encode, publication_bytes
from tests.client.far_end import FarEnd, delivery
from tests.client.support import connections_of, in_loop, numbers, serving, take, until, url_of


def delivers(server: BrokerServer, client: str, deliveries: Sequence[Delivery]) -> None:
    """Have the broker deliver events, all in one go."""
    machine = server.shell.machine
    (session,) = (each for each in machine.sessions.values() if each.client == client)
    machine.node.work.commands = []
    for each in deliveries:
        machine.node.flow.tell(session, each)
    server.shell.execute(machine.node.work.commands)


@pytest.mark.parametrize("kind", ["comes again", "for nobody", "for somebody who is gone"])
@in_loop
async def test_a_delivery_that_nobody_waits_for_is_passed_over(kind: str) -> None:
    told: list[str] = []
    async with (
        serving() as server,
        connect(url_of(server), on_state=lambda _, why: told.append(why)) as client,
    ):
        subscription, gone = client.subscribe("n >= 0"), client.subscribe("n >= 2")
        await gone.ready()
        await subscription.ready()
        id_, gone_id = server.shell.broker.router.subscriptions
        events = [Publication("P", n, Event({"n": n})) for n in range(1, 11)]
        some = [Delivery(event, (id_,)) for event in events]
        if kind == "comes again":
            some[5:5] = [some[1], some[4]]
        else:
            unwanted = "nobody's" if kind == "for nobody" else gone_id
            some[5] = Delivery(events[5], (unwanted,))
        if kind == "for somebody who is gone":
            await gone.close()
        delivers(server, client.name, some)
        wanted = [n for n in range(1, 11) if n != 6 or kind == "comes again"]
        assert numbers(await take(subscription, len(wanted))) == wanted
        # They count in what it says of the place where it stumbles.
        (connection,) = connections_of(server)
        connection.transport.write(b"\x00\x00\x00\x01\xc1")
        await until(lambda: len(told) > 2)
        place = int(told[2].partition("frame at byte ")[2].split()[0].replace(",", ""))
        assert 0 <= place - connection.bytes_out < 100  # the preface, and answers to pings


@in_loop
async def test_the_short_way_takes_deliveries_one_by_one_as_well() -> None:
    """And nothing that is none, nor part of one."""
    far = FarEnd()
    client = await far.client()
    subscription = client.subscribe("n >= 0")
    assert client._line is not None
    (id_,) = client._line.machine.home.names
    connection = client._line.connection
    assert connection is not None
    bodies = [publication_bytes(Publication("P", n, Event({"n": n}))) for n in (1, 2)]
    frames = [delivery(number, [id_], body) for number, body in enumerate(bodies, 1)]
    take = partial(client._line.intake.take, connection)
    assert take(encode(Ack(0, 0)) + frames[0], 0) == 0
    assert take(frames[0] + frames[1][:-1], 0) == len(frames[0])
    assert take(frames[1], 0) == len(frames[1])
    assert [(await subscription.get())["n"] for _ in bodies] == [1, 2]
    await client._hang_up()
