"""Events that are published as bytes: a *run* of them, which goes out in one write and is kept as it went.

An event that looks like earlier ones (`outgoing`) needs no objects: not for the machine, which has
nothing to decide about it, nor for the outbox, which mostly forgets it when it is acknowledged. So as
long as the machine would do nothing but number it and send it (`Lookup.is_plain`), its frame is put
together here. A run is open until the end of the turn, or until anything else happens to the machine, and
only then becomes part of its outbox (`roost.broker.runs`). Whoever wants the messages of an outbox, to
send them again or elsewhere, gets them read back.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import msgpack

from roost.broker.messages import DATA, Publication
from roost.broker.runs import Run
from roost.wire.codec import PREFIX_SIZE, decoder_for
from roost.wire.kinds import FRAME_ITEMS, MESSAGE_TAGS
from roost.wire.limits import NO_LIMITS
from roost.wire.runs import AS_SENT

if TYPE_CHECKING:
    from roost.client.connection import Connection
    from roost.client.line import Line

# So many bytes are enough for one write.
RUN_BYTES = 1 << 16
# Frames with larger numbers have another form (see `roost.wire.codec`).
SEQUENCE_MAX = (1 << 32) - 1

# The length, then the frame's own items as `codec` writes them: an array, tag, priority, a uint32, hops.
_HEAD = struct.Struct(">IBBBBIB")
_REST = _HEAD.size - PREFIX_SIZE
_MARK = 0x90 + len(FRAME_ITEMS) + 1
_TAG = MESSAGE_TAGS[Publication]
_UINT32 = 0xCE
_pack_head = _HEAD.pack
_read_length = struct.Struct(">I").unpack_from
# In front of a publication's items, of which the last (`traced`) is left out.
_ITEMS_MARK = b"\x98"

encode = msgpack.Encoder().encode

# From here on a number takes five bytes, so that a head is put together in one go.
_NUMBER_MIN = 1 << 16


def prefix_of(publisher: str) -> bytes:
    """What stands in front of the number of each of a publisher's events."""
    return _ITEMS_MARK + encode(publisher)


def tail_of(now: float) -> bytes:
    """What stands behind the attributes of an event that has nothing else, without the mark of its array."""
    return encode((b"", "", {}, now, DATA))[1:]


_pack_tail = struct.Struct(">5sdB").pack
# No payload, no content type, no headers, and the mark of a float.
_TAIL = tail_of(0.0)[:5]


def first_unaccepted(run: Run, acked: int) -> int:
    """The number of the first event of a run, if frames up to `acked` have arrived; they are in order."""
    (length,) = _read_length(run.data)
    first = decoder_for(NO_LIMITS).decode(run.data[PREFIX_SIZE : PREFIX_SIZE + length])
    published: int = first.message.sequence  # type: ignore[union-attr]
    return published + max(0, acked + 1 - run.first)


class Running:
    """The run of a line that is open, if one is."""

    __slots__ = (
        "_connection",
        "_first",
        "_fixed",
        "_line",
        "_pack",
        "_pieces",
        "_prefix",
        "_size",
        "count",
        "is_open",
    )

    def __init__(self, line: Line) -> None:
        self._line = line
        self.count = 0  # events of the run that is open
        self._first = 0  # the number of its first frame
        self._size = 0
        self._pieces: list[bytes] = []
        self._connection: Connection | None = None
        self.is_open = False  # a run is, and may be gone on with
        self._know(b"")

    def _know(self, prefix: bytes) -> None:
        """This is what stands in front of numbers."""
        self._prefix = prefix
        # The usual head, the prefix and the number; and how much of a frame is always the same.
        head = struct.Struct(f"{_HEAD.format}{len(prefix)}sBI")
        self._pack = head.pack
        self._fixed = head.size - PREFIX_SIZE + len(_TAIL) + 9

    def begin(self) -> bool:
        """Open a run; False if events have to go through the machine."""
        line = self._line
        machine = line.machine
        sent = machine.channel.data.sent
        connection = line.connection
        if (
            self._line.is_over
            or connection is None
            or not machine.is_plain
            or sent >= SEQUENCE_MAX - (1 << 24)
        ):
            return False
        self._connection, self._first, self.is_open = connection, sent + 1, True
        line.loop.call_soon(self._turn_ends)
        return True

    def _turn_ends(self) -> None:
        connection = self._connection
        self.end()
        if connection is not None:
            connection.flush()

    def put(
        self,
        prefix: bytes,
        number: int,
        raw: bytes,
        payload: bytes,
        content_type: str,
        headers: Mapping[str, str],
    ) -> int:
        """One more event, which has its number; how many bytes it takes."""
        count = encode(number)
        # The items behind the attributes, without the mark of the array that they stand in here.
        tail = encode((payload, content_type, headers, time.time(), DATA))[1:]
        size = len(prefix) + len(count) + len(raw) + len(tail)
        head = _pack_head(_REST + size, _MARK, _TAG, DATA, _UINT32, self._first + self.count, 0)
        self._pieces += (head, prefix, count, raw, tail)
        self.count += 1
        self._size += size
        if self._size >= RUN_BYTES:
            self.end()
        return size

    def put_plain(self, prefix: bytes, number: int, raw: bytes) -> int:
        """`put` for an event that has nothing but attributes."""
        if not _NUMBER_MIN <= number <= SEQUENCE_MAX:
            return self.put(prefix, number, raw, b"", "", {})
        if prefix is not self._prefix:
            self._know(prefix)
        size = self._fixed + len(raw)
        sequence = self._first + self.count
        head = self._pack(size, _MARK, _TAG, DATA, _UINT32, sequence, 0, prefix, _UINT32, number)
        self._pieces += (head, raw, _pack_tail(_TAIL, time.time(), DATA))
        self.count += 1
        self._size += size
        if self._size >= RUN_BYTES:
            self.end()
        return size

    def put_many(self, prefix: bytes, number: int, raws: Sequence[bytes]) -> int:
        """Events that have nothing but attributes, from this number on; how many bytes they take.

        The run stays open, however many they are.
        """
        tail = tail_of(time.time())
        if number >= _NUMBER_MIN and number + len(raws) <= SEQUENCE_MAX:
            return self._put_alike(prefix, number, raws, tail)
        pieces, pack, sequence = self._pieces, _pack_head, self._first + self.count
        fixed, total, first = len(prefix) + len(tail), 0, number
        for raw in raws:
            counted = encode(number)
            size = fixed + len(counted) + len(raw)
            head = pack(_REST + size, _MARK, _TAG, DATA, _UINT32, sequence, 0)
            pieces += (head, prefix, counted, raw, tail)
            number += 1
            sequence += 1
            total += size
        self.count += number - first
        self._size += total
        return total

    def _put_alike(self, prefix: bytes, number: int, raws: Sequence[bytes], tail: bytes) -> int:
        """`put_many` for numbers that take five bytes."""
        if prefix is not self._prefix:
            self._know(prefix)
        pieces, pack, fixed = self._pieces, self._pack, self._fixed
        sequence, before = self._first + self.count, self._size
        self._size += sum(map(len, raws)) + fixed * len(raws)
        self.count += len(raws)
        for raw in raws:
            size = fixed + len(raw)
            pieces += (
                pack(size, _MARK, _TAG, DATA, _UINT32, sequence, 0, prefix, _UINT32, number),
                raw,
                tail,
            )
            sequence += 1
            number += 1
        return self._size - before

    def put_frames(self, data: bytes, count: int) -> None:
        """So many more events, whose frames these are: the first has the number `next_sequence`."""
        self._pieces.append(data)
        self.count += count
        self._size += len(data)

    @property
    def next_sequence(self) -> int:
        """The number of the next frame of the run that is open."""
        return self._first + self.count

    def end(self) -> None:
        """Close the run: it goes out, and into the outbox."""
        connection, self._connection, self.is_open = self._connection, None, False
        if connection is None or not self.count:
            return
        pieces, self._pieces = self._pieces, []
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        last = self._first + self.count - 1
        self.count = self._size = 0
        self._line.machine.channel.data.push_run(Run(self._first, last, data, AS_SENT))
        connection.send_bytes(data)
