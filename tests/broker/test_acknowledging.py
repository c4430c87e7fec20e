"""Acknowledgements say something new, or are not said."""

from __future__ import annotations

import pytest

from roost.broker import events as ev
from roost.broker.messages import Ack
from tests.broker.kit import Federation


@pytest.mark.parametrize("delay_s", [0.0, 0.5])
def test_a_client_does_not_acknowledge_again_what_it_has(delay_s: float) -> None:
    federation = Federation(("B1", "B2"))
    federation.client("pub", "B1")
    client = federation.client("sub", "B2", ack_delay_s=delay_s)
    federation.advertise("pub", "a present")
    federation.subscribe("sub", "a present")
    federation.handle("sub", ev.SettleRequested("a/b"))  # which is refused: control
    federation.publish("pub", a=1)
    federation.advance(1.0)
    assert federation.got("sub") == ["pub:1"]
    (session,) = (s for s in federation.brokers["B2"].sessions.values() if s.client == "sub")
    control, data = session.channel.lanes
    assert control.sent
    assert not control.outbox
    assert not data.outbox
    assert client.home.connection is not None
    nothing_new = ev.Received(client.home.connection, (Ack(0, 0),))
    assert client.handle(nothing_new, federation.now) == []
