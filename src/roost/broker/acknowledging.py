"""Who is owed an acknowledgement, and when it goes: for so many messages, or after so long."""

from __future__ import annotations

from roost.broker.commands import Send, SetTimer
from roost.broker.config import BrokerConfig
from roost.broker.hops import Peer
from roost.broker.work import Work

TIMER = "acks"


class Acknowledging:
    """The acknowledgements that peers are owed."""

    def __init__(self, work: Work, config: BrokerConfig) -> None:
        self._work = work
        self._delay_s = config.ack_delay_s
        self._every = config.ack_every
        self._timed = False
        self.owed: dict[Peer, None] = {}

    def owe(self, peer: Peer) -> None:
        """Something has come from it."""
        unreported = peer.channel.unreported()
        if self._delay_s <= 0 or unreported >= self._every:
            self._send(peer)
        elif unreported:
            self.owed[peer] = None
            if not self._timed:
                self._timed = True
                self._work.command(SetTimer(TIMER, self._delay_s))

    def timer(self) -> None:
        self._timed = False
        for peer in list(self.owed):
            self._send(peer)

    def gone(self, peer: Peer) -> None:
        """There is nobody to tell: the next greeting says it."""
        self.owed.pop(peer, None)

    def _send(self, peer: Peer) -> None:
        self.owed.pop(peer, None)
        if peer.connection is not None and peer.channel.unreported():
            self._work.command(Send(peer.connection, peer.channel.ack()))
