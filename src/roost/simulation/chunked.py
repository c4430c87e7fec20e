"""Publications as a live broker takes them: encoded, cut anywhere, and taken in chunks (`roost.chunks`).

In the laboratory messages come one by one, each at its own time. So a chunk is one publication here, in
pieces that are drawn. What the machine wants said as bytes is read back, and said as `handle` would have said
it: a run with chunks and one without are the same run.
"""

from __future__ import annotations

import random
from itertools import pairwise

from roost.broker.commands import Command, Deliver, Send, SendRun
from roost.broker.core import Broker
from roost.broker.events import Received
from roost.broker.messages import Delivery, Frame
from roost.chunks.stream import read
from roost.chunks.taking import Chunks, Taken
from roost.wire import PREFACE, StreamDecoder, encode
from roost.wire.limits import NO_LIMITS

PIECES_MAX = 3


class ChunkWay:
    """The way of a simulated broker's publications."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._chunks = Chunks(broker, NO_LIMITS, always=True)
        self._random = random.Random(broker.config.incarnation)
        self.taken = 0  # publications
        self.durable = broker.config.durable

    def commands(self, connection: int, frame: Frame, now: float) -> list[Command]:
        """What there is to do now that a publication has come."""
        found: list[Command] = []

        def take(data: bytes, start: int) -> Taken:
            taken = self._chunks.take(connection, data, start, now)
            self.taken += taken.events
            found.extend(taken.commands)
            return taken

        def handle(data: bytes) -> bool:
            parcels = decoder.feed(data)
            if parcels:
                found.extend(self._broker.handle(Received(connection, parcels), now))
            return True

        decoder = StreamDecoder(NO_LIMITS)
        decoder.feed(PREFACE)
        for piece in self._cut(encode(frame)):
            rest = read(decoder, piece, take, handle)
            if rest:
                handle(rest)
        return found

    def _cut(self, data: bytes) -> list[bytes]:
        count = self._random.randint(1, PIECES_MAX)
        cuts = sorted(self._random.randint(0, len(data)) for _ in range(count - 1))
        places = [0, *cuts, len(data)]
        return [data[a:b] for a, b in pairwise(places)]


def spelled_out(commands: list[Command]) -> list[Command]:
    """The same in messages, of chunks of one publication each."""
    found: list[Command] = []
    deliveries: list[tuple[int, Frame]] = []
    delivered = ""  # which publication these are of
    for command in commands:
        if not isinstance(command, SendRun):
            found.append(command)
            continue
        (frame,) = command.run.frames()
        if not isinstance(frame.message, Delivery):
            found.append(Send(command.connection, frame))
            continue
        publication = frame.message.publication
        if publication.id != delivered:
            delivered, deliveries = publication.id, []
            found.append(Deliver(publication, deliveries))
        deliveries.append((command.connection, frame))
    return found
