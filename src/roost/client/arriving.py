"""Deliveries, taken off the bytes of a read: the short way from a connection to a subscription.

Most of what a client reads is deliveries for one subscription each, in order, about which the machine has
nothing to decide but that they are new (`Client.take`), and that an acknowledgement may be due behind the
last of a read. Those are read here without the objects that the
machine and the wire have for them: a head, and behind it the publication, which becomes one object that
the application's event looks into. Where a subscription is read in columns they are not even that
(`bundling`). Anything else is left to the decoder and the machine, frame by frame and in order; all ways end
in the same state.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct, field, msgpack

from roost.broker.messages import CONTROL, DATA, Delivery
from roost.wire.codec import PREFIX_SIZE
from roost.wire.kinds import FRAME_ITEMS, MESSAGE_TAGS, Attributes, Count

if TYPE_CHECKING:
    from roost.client.bundling import Bundling
    from roost.client.inbox import Inbox
    from roost.client.line import Lookup

# The length, an array, tag, priority, a uint32, hops, an array of one id, and the mark of a short string.
_HEAD: Final = struct.Struct(">IBBBBIBBB")
_HEAD_SIZE: Final = _HEAD.size
_read_head = _HEAD.unpack_from
_ARRAY: Final = 0x90 + len(FRAME_ITEMS) + 2
_DELIVERY: Final = MESSAGE_TAGS[Delivery]
_UINT32, _ONE = 0xCE, 0x91
_FIXSTR, _FIXSTR_MAX = 0xA0, 31
# The same without what hops and ids are: length, all four marks, number; these stand behind.
_FRONT: Final = struct.Struct(">III")
_read_front = _FRONT.unpack_from
_IDS_AT: Final = _FRONT.size
_MARKS: Final = _ARRAY << 24 | _DELIVERY << 16 | DATA << 8 | _UINT32
# Ids of subscriptions that are remembered by their bytes.
_IDS_MAX: Final = 1_024
# In fewer bytes there are too few events for a bundle.
_BUNDLE_BYTES: Final = 1_024


class Arrived(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A publication that has arrived, with the items that it has on the wire: to be read as one is."""

    publisher: str
    sequence: Count
    attributes: Attributes
    payload: bytes
    content_type: str
    headers: dict[str, str]
    published_at: float
    priority: Annotated[int, Meta(ge=CONTROL, le=DATA)]
    traced: bool = field(default=False)

    @property
    def event(self) -> Arrived:
        """What has the attributes."""
        return self

    @property
    def id(self) -> str:
        return f"{self.publisher}:{self.sequence}"


arrived_of = msgpack.Decoder(Arrived).decode
_UNREADABLE: Final = (ValueError, RecursionError)

Handed = Callable[[Any, tuple[str, ...], int], None]


class Taking:
    """Takes deliveries for the machine of a line."""

    __slots__ = ("_bundling", "_handed", "_ids", "_inbox", "_machine", "_noted")

    def __init__(
        self,
        machine: Lookup,
        handed: Handed,
        inbox: Callable[[tuple[str, ...] | None], Inbox[Any] | None],
        noted: Callable[[int], None],
    ) -> None:
        self._machine = machine
        self._handed = handed
        self._inbox = inbox  # of the subscription of these names, if there is just one
        self._noted = noted  # an acknowledgement may be due of what was taken from a connection
        self._ids: dict[bytes, str] = {}
        self._bundling: Bundling | None = None

    def bundles(self) -> bool:
        """From now on take deliveries that come together as bundles, and say whether that works here."""
        if self._bundling is None:
            if importlib.util.find_spec("numba") is None:
                return False
            from roost.client.bundling import Bundling  # noqa: PLC0415 (NumPy and Numba)

            self._bundling = Bundling(self._machine, self._inbox, self._noted)
        return True

    def take(self, connection: int, data: bytes, at: int, held: dict[Any, None]) -> int:
        """Take whole frames of deliveries, until something else stands there or anything is `held` up.

        Where the rest begins.
        """
        machine = self._machine
        home = machine.home
        if (
            connection != home.connection
            or home.state != "attached"
            or home.deliveries != "handed"
            or machine.is_leaving
        ):
            return at
        bundling = self._bundling
        if bundling is not None:
            start = -1
            while start < at <= len(data) - _BUNDLE_BYTES and not held:
                start, at = at, bundling.take(connection, data, at, self._id_at)
        lane, seen, ids = home.channel.data, machine.seen, self._ids
        end, before = len(data), lane.received
        known, names, inbox, room = b"", None, None, 0
        while at + _HEAD_SIZE <= end and not held:
            length, array, tag, priority, uint, number, _, one, mark = _read_head(data, at)
            start, stop = at + _HEAD_SIZE, at + PREFIX_SIZE + length
            size = mark - _FIXSTR
            if (
                stop > end
                or tag != _DELIVERY
                or array != _ARRAY
                or priority != DATA
                or uint != _UINT32
                or one != _ONE
                or not 0 <= size <= _FIXSTR_MAX
                or number != lane.received + 1
            ):
                break
            raw = data[start : start + size]
            try:
                is_another = raw != known or names is None
                if is_another:
                    names = home.names.get(ids.get(raw) or self._id(raw))
                    if inbox is not None:
                        inbox.wake()
                    known, inbox = raw, self._inbox(names)
                    room = 0 if inbox is None else inbox.room_at_once
                publication = arrived_of(data[start + size : stop])
            except _UNREADABLE:
                break  # the decoder says what is wrong with it
            publisher, sequence = publication.publisher, publication.sequence
            if names is None or sequence <= seen.get(publisher, 0):
                break
            lane.received = number
            seen[publisher] = sequence
            here, at = at, stop
            if room and inbox is not None:
                inbox.items.append(publication)
                room -= 1
                if not is_another:
                    ids_at = here + _IDS_AT
                    at, room = self._more(data, at, data[ids_at : start + size], inbox, room)
            else:
                # It may be full then, or gone.
                self._handed(publication, names, number)
                names = None
        if inbox is not None:
            inbox.wake()
        if lane.received > before and lane.received >= home.quiet_until:
            self._noted(connection)
        return at

    def _more(
        self, data: bytes, at: int, ids: bytes, inbox: Inbox[Any], room: int
    ) -> tuple[int, int]:
        """Take those that follow with the same hops and ids while there is room: fewer looks at each.

        Where the rest begins, and how much room is left.
        """
        lane, seen, put = self._machine.home.channel.data, self._machine.seen, inbox.items.append
        number, behind, end = lane.received, _IDS_AT + len(ids), len(data)
        latest, last = "", 0  # the publisher of the one before, and the number of its last event
        try:
            while room and at + _HEAD_SIZE <= end:
                length, marks, next_number = _read_front(data, at)
                stop = at + PREFIX_SIZE + length
                if (
                    stop > end
                    or marks != _MARKS
                    or next_number != number + 1
                    or not data.startswith(ids, at + _IDS_AT)
                ):
                    break
                publication = arrived_of(data[at + behind : stop])
                if publication.publisher != latest:
                    if last:
                        seen[latest] = last
                    latest = publication.publisher
                    last = seen.get(latest, 0)
                if publication.sequence <= last:
                    break
                last = publication.sequence
                put(publication)
                number, at = next_number, stop
                room -= 1
        except _UNREADABLE:
            pass  # the decoder says what is wrong with it
        if last:
            seen[latest] = last
        lane.received = number
        return at, room

    def _id_at(self, data: bytes, at: int) -> str | None:
        """The id in the head of a frame, if it is just one and short."""
        *_, one, mark = _read_head(data, at)
        size = mark - _FIXSTR
        if one != _ONE or not 0 <= size <= _FIXSTR_MAX:
            return None
        start = at + _HEAD_SIZE
        raw = data[start : start + size]
        try:
            return self._ids.get(raw) or self._id(raw)
        except UnicodeDecodeError:
            return None

    def _id(self, raw: bytes) -> str:
        if len(self._ids) >= _IDS_MAX:
            self._ids.clear()
        id_ = self._ids[raw] = raw.decode()
        return id_


def end_of_frame(data: bytes, at: int) -> int:
    """Where the frame ends that begins there; beyond the data if it is not whole."""
    if at + PREFIX_SIZE > len(data):
        return len(data) + 1
    return at + PREFIX_SIZE + int.from_bytes(data[at : at + PREFIX_SIZE], "big")


def whole_frames(data: bytes, at: int) -> int:
    """Where the last whole frame ends of those that begin there."""
    while (stop := end_of_frame(data, at)) <= len(data):
        at = stop
    return at
