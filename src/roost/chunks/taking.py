"""`take`: the publications that came in one read, in two passes (docs/CHUNKS.md).

The first pass says what the frames are and where their events go, and changes nothing. Then it is seen
whether every peer that they go to is as peers mostly are: there, reading, with room for all of it. Only then
are numbers given, the bytes written, and each peer's put into its outbox as one run. Whatever is not that
simple is left to `Broker.handle`; the two ways end in the same state.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.broker.commands import Command
from roost.broker.core import Broker
from roost.broker.hops import Hop, Link, Session
from roost.broker.module_host import CLASS
from roost.broker.runs import Run
from roost.chunks.kernels import layout as at
from roost.chunks.kernels.read import read_chunk
from roost.chunks.kernels.write import write_chunk
from roost.chunks.offers import ANYTHING, Offer, Offers
from roost.chunks.passed import Passed, Ways
from roost.chunks.tables import Tables
from roost.language.event import ATTRIBUTES_MAX
from roost.language.values import NAME_LENGTH_MAX, STRING_LENGTH_MAX
from roost.matching.kernels.jit import direct
from roost.wire.limits import Limits
from roost.wire.runs import AS_SENT

# About so many bytes go out at once; what is left of the read makes another chunk.
OUT_BYTES_MAX = 1 << 22
# Larger publications are handled: in outboxes their bytes are shared by all whom they are for, which those of
# a run are not, and what they cost is in their bytes.
OWN_BYTES_MAX = 2_048
_NUMBER_MAX = 0xFFFF_FFFF  # of a message, as frames mostly spell it
_CELL_BYTES = 8


class Left(Enum):
    """What is to be done with what was not taken."""

    NOTHING = "there is none"
    PART = "wait for the rest of the frame"
    FRAME = "handle the next frame"
    ALL = "handle all of it"


class Taken(NamedTuple):
    commands: list[Command]
    at: int  # up to here it was taken,
    events: int  # so many
    left: Left


def can_take(broker: Broker) -> bool:
    """Whether anything of what comes to a broker can be taken in chunks."""
    return broker.router.routes_plainly


class Chunks:
    """The hot path of one broker."""

    def __init__(self, broker: Broker, limits: Limits, *, always: bool = False) -> None:
        """`always`: also where nothing is gained by it, for who wants to see that nothing is lost."""
        self._always = always
        self._node, self._work = broker.node, broker.node.work
        self._router, self._exchange = broker.router, broker.exchange
        self._peers = broker.node.peers.on
        self._hosted = broker.node.hosted
        self._modules, self._absence = broker.modules, broker.absence
        reserved = broker.modules.reserved
        self._tables = Tables(broker.router, reserved, CLASS)
        self._offers = Offers(self._tables)
        self._ways = Ways(self._tables, broker.router)
        broker.router.watch(self._tables, self._offers)
        self._advertises = broker.router.strategy.advertises
        frame = self._tables.frame
        self._frame, self._view = frame.words, frame.view
        for place, number in (
            (at.ATTRIBUTES_MAX, ATTRIBUTES_MAX),
            (at.NAME_BYTES_MAX, NAME_LENGTH_MAX),
            (at.STRING_BYTES_MAX, STRING_LENGTH_MAX),
            (at.PUBLISHER_BYTES_MAX, limits.name_length_max),
            (at.HEADERS_MAX, limits.headers_max),
            (at.HEADER_BYTES_MAX, limits.header_length_max),
            (at.PAYLOAD_BYTES_MAX, limits.payload_bytes_max),
            (at.PUBLICATION_BYTES_MAX, min(limits.publication_bytes_max, OWN_BYTES_MAX)),
            (at.FRAME_BYTES_MAX, limits.frame_bytes_max),
            (at.IDS_BYTES_MAX, min(broker.config.delivery_ids_bytes_max, 0xFFFF)),
            (at.OUT_BYTES_MAX, OUT_BYTES_MAX),
        ):
            self._view[place] = number
        self._obstacle: Hop | None = None  # for whom there was no room when it was last asked
        self._offer: Offer = ANYTHING
        self._tables.frame.put(at.OFFER, ANYTHING)
        self._set_out(1 << 16)
        self._tables.up_to_date()
        nothing = np.frombuffer(b"", np.uint8)
        read_chunk(self._frame, nothing, 0, 0)
        write_chunk(self._frame, nothing)
        self._read, self._write = direct(read_chunk), direct(write_chunk)

    def take(self, connection: int, data: bytes, start: int, now: float) -> Taken:
        """Take frames of publications from `start` on, as many as are that simple."""
        peer = self._peers.get(connection)
        if peer is None:
            return Taken([], start, 0, Left.ALL)
        work, view = self._work, self._view
        work.begin(now)
        array = np.frombuffer(data, np.uint8)
        end, events = len(data), 0
        lane = peer.channel.data
        left = Left.ALL
        # Modules that have heard of a chunk may have changed anything.
        while self._peers.get(connection) is peer and self._begin(peer):
            view[at.NUMBER] = lane.received
            why = self._read(self._frame, array, start, end)
            count = view[at.EVENT_COUNT]
            if count:
                if not self._pass_on(peer, array):
                    break
                start = view[at.AT]
                events += count
                if view[at.IS_WATCHED]:
                    self._ways.learn()
                    passed = Passed(peer, data, self._tables, self._ways)
                    self._modules.passed(passed, now)
                    if self._absence.due:
                        self._absence.inquire()
            if why in _ASKS:
                # What is asked for behind a chunk is asked for again.
                if count or self._answer(why, data):
                    continue
                why = at.OTHER
            if why == at.FULL:
                continue
            left = _LEFT[why]
            break
        if events and self._peers.get(connection) is peer:
            self._node.heard_from(peer)
        return Taken(work.commit(), start, events, left)

    def _begin(self, peer: Link | Session) -> bool:
        """Whether anything of it can be taken."""
        if not self._exchange.is_plain or self._hosted.store_is_full:
            return False
        together = self._modules.together(peer, self._work.now)
        if together == 1 and not self._always:
            return False  # one by one it is no quicker
        offer: Offer | None = ANYTHING
        only = -1
        if isinstance(peer, Session):
            if self._modules.tracing:
                return False
            if self._advertises:
                offer = self._offers.of(peer)
            elif peer.permission is not None:
                offer = None
            if offer is None:
                return False
            only = self._tables.publisher(peer.publisher)
        elif not peer.greeted:
            return False
        assert offer is not None
        self._tables.up_to_date()
        if offer is not self._offer:
            self._offer = offer
            self._tables.frame.put(at.OFFER, offer)
        view = self._view
        view[at.IS_LINK] = peer.is_link
        view[at.SOURCE] = self._tables.hop_numbers.get(peer, -1) if peer.is_link else -1
        view[at.PUBLISHER] = only
        view[at.TOGETHER] = together or 0
        view[at.IS_WATCHED] = together is not None
        if together is not None:
            self._ways.begin()
        return True

    def _answer(self, why: int, data: bytes) -> bool:
        """Tell the tables what they don't know; False: it is nothing that could be told."""
        view = self._view
        first = view[at.ASK_AT]
        text = data[first : first + view[at.ASK_BYTES]]
        if why == at.ASKS_WORD:
            return self._tables.try_string(view[at.ASK_OWNER], text)
        try:
            return self._tables.publisher(text.decode()) >= 0
        except UnicodeDecodeError:
            return False

    def _pass_on(self, source: Link | Session, array: NDArray[np.uint8]) -> bool:
        """Send what was read where it goes, if all of that is as simple as it mostly is."""
        tables, view, exchange = self._tables, self._view, self._exchange
        published, count = tables.published(), view[at.EVENT_COUNT]
        if view[at.NUMBER] > _NUMBER_MAX or not exchange.are_new(published):
            return False
        if isinstance(source, Session) and source.published is not None:
            ((_, first, final),) = published
            if first != source.published + 1 or final != source.published + count:
                return False  # one is missing, or has been here before
        if self._is_in_the_way():
            return False
        rows, touched, hops = tables.hop_view, tables.touched_hops, tables.hops
        total = 0
        links: list[tuple[Link | Session, int, int, int]] = []
        sessions: list[tuple[Link | Session, int, int, int]] = []
        for i in range(view[at.HOP_COUNT]):
            number = touched[i]
            row = number * at.HOP
            due, size = rows[row + at.H_COUNT], rows[row + at.H_BYTES]
            if not due:
                continue  # an event that was for it is for the machine
            hop = hops[number]
            assert isinstance(hop, Link | Session)
            lane = hop.channel.data
            last = lane.sent + due
            if last > _NUMBER_MAX or not exchange.room_for(hop, due, size):
                self._obstacle = hop
                return False
            rows[row + at.H_SENT], rows[row + at.H_AT] = lane.sent, total
            (links if hop.is_link else sessions).append((hop, last, total, total + size))
            total += size
        if total > len(self._out):
            self._set_out(total)
        self._write(self._frame, array)
        for hop, last, first_byte, end in (*links, *sessions):
            data = bytes(self._out[first_byte:end])
            exchange.send(hop, Run(hop.channel.data.sent + 1, last, data, AS_SENT))
        exchange.passed(published, count, (view[at.LAST_LINKS], view[at.LAST_LOCAL]))
        source.channel.data.accept_to(view[at.NUMBER])
        if isinstance(source, Session) and source.published is not None:
            source.count(source.published + count)
        return True

    def _is_in_the_way(self) -> bool:
        """Whether who had no room is to get something again, and still has none.

        One of a thousand that does not read is found first then, and not behind those ahead of it.
        """
        hop = self._obstacle
        number = -1 if hop is None else self._tables.hop_numbers.get(hop, -1)
        if number < 0:
            self._obstacle = None
            return False
        assert isinstance(hop, Link | Session)
        rows, row = self._tables.hop_view, number * at.HOP
        if rows[row + at.H_CHUNK] != self._view[at.CHUNK]:
            return False
        due, size = rows[row + at.H_COUNT], rows[row + at.H_BYTES]
        return bool(due) and not self._exchange.room_for(hop, due, size)

    def _set_out(self, size: int) -> None:
        cells = self._tables.frame.new(at.OUT, -(-size // _CELL_BYTES))
        self._out = memoryview(cells).cast("B")  # type: ignore[arg-type]


_ASKS = (at.ASKS_PUBLISHER, at.ASKS_WORD)
_LEFT = {at.WHOLE: Left.NOTHING, at.PART: Left.PART, at.OTHER: Left.FRAME}
