"""How far brokers are from a client: the client asks each of them for an answer, and takes the time.

GRAPE weighs where a publisher could be by the round trip from there, too (000 section 4.2). The paper's
publishers call the brokers, as packets of `ping` are filtered in places, and so it is here: a connection for
a `Ping` and its `Pong`, and no session. A few are asked at a time, so that they do not keep each other
waiting; whoever has not answered in time is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from roost.broker.commands import CancelTimer, Close, Command, OpenLink, Send, SetTimer
from roost.broker.events import LinkOpened
from roost.broker.messages import Parcel, Ping, Pong, Probe, Probed

# Measurer at the same time, and how long all of it may take.
AT_ONCE = 8
WITHIN_S = 5.0
TIMER = "probe"


class Measurer(Protocol):
    """Who measures."""

    now: float

    def command(self, command: Command) -> None: ...

    def measured(self, answer: Probed) -> None:
        """That is all there is to say."""


class Probing:
    """One question of a broker to its client, until it is answered."""

    __slots__ = ("_client", "_dialled", "_id", "_sent", "_times", "_waiting")

    def __init__(self, client: Measurer, probe: Probe) -> None:
        self._client = client
        self._id = probe.id
        self._waiting = deque(dict.fromkeys(probe.brokers))
        self._dialled: dict[str, None] = {}
        self._sent: dict[int, tuple[str, float]] = {}  # connection -> whom it asks, and since when
        self._times: dict[str, float] = {}
        client.command(SetTimer(TIMER, WITHIN_S))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._dialled) + len(self._sent) < AT_ONCE:
            broker = self._waiting.popleft()
            self._dialled[broker] = None
            self._client.command(OpenLink(broker))
        if not (self._waiting or self._dialled or self._sent):
            self.finish()

    def opened(self, event: LinkOpened) -> bool:
        """Whether this connection is one of its own."""
        if event.broker not in self._dialled:
            return False
        del self._dialled[event.broker]
        self._sent[event.connection] = (event.broker, self._client.now)
        self._client.command(Send(event.connection, Ping(self._id)))
        return True

    def refused(self, broker: str) -> None:
        """There is no connection to be had."""
        if broker in self._dialled:
            del self._dialled[broker]
            self._go_on()

    def received(self, connection: int, parcels: Sequence[Parcel]) -> None:
        """The answer, or something that is none."""
        if connection in self._sent:
            broker, since = self._sent.pop(connection)
            if type(parcels[0]) is Pong:
                self._times[broker] = self._client.now - since
            self._client.command(Close(connection, "thank you"))
            self._go_on()

    def closed(self, connection: int) -> None:
        """It was closed before there was an answer."""
        if self._sent.pop(connection, None) is not None:
            self._go_on()

    def finish(self) -> None:
        """All have answered, or time is up."""
        client = self._client
        client.command(CancelTimer(TIMER))
        for connection in self._sent:
            client.command(Close(connection, "it took too long"))
        client.measured(Probed(self._id, tuple(self._times), tuple(self._times.values())))
