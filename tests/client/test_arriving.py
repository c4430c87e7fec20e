"""Deliveries that nobody waits for, amid others: they are passed over, and what is behind them arrives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from roost.broker.messages import Delivery, Publication
from roost.client import connect
from roost.language import Event
from roost.runtime.server import BrokerServer
from tests.client.support import in_loop, numbers, serving, take, url_of


def delivers(server: BrokerServer, client: str, deliveries: Sequence[Delivery]) -> None:
    """Have the broker deliver events, all in one go."""
    machine = server.shell.machine
    (session,) = (each for each in machine.sessions.values() if each.client == client)
    machine.node.work.commands = []
    for delivery in deliveries:
        machine.node.flow.tell(session, delivery)
    server.shell.execute(machine.node.work.commands)


@pytest.mark.parametrize("kind", ["comes again", "for nobody", "for somebody who is gone"])
@in_loop
async def test_a_delivery_that_nobody_waits_for_is_passed_over(kind: str) -> None:
    async with serving() as server, connect(url_of(server)) as client:
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
