"""A stream of bytes, cut anywhere, to parcels.

Each direction of a connection opens with the preface, eight bytes that tell a peer of ours from anything
else that may have found the port: `ROOST`, the version of the format, and an end of line, which shows whether
something on the way rewrites those. Behind it stand frames; see `codec` for their layout.

Frames that arrive whole are read where they are. Only what is left of a piece is kept, and a frame that
comes in pieces is put together once: however the stream is cut, each byte is copied a fixed number of times.
Room is made for bytes that have come, not for those that a length declares.
"""

from __future__ import annotations

import struct
from typing import Final

from roost.broker.messages import Parcel
from roost.wire.codec import PREFIX_SIZE, decoder_for
from roost.wire.errors import WireError
from roost.wire.limits import DEFAULT_LIMITS, Limits

# Of the format of frames and bodies. What the protocol means has a version of its own, in the greetings.
WIRE_VERSION: Final = 1

_MAGIC: Final = b"ROOST"
PREFACE: Final = _MAGIC + bytes((WIRE_VERSION,)) + b"\r\n"

_read_length = struct.Struct(">I").unpack_from

# What else people point at a port, by its first bytes.
_STRANGERS: Final = {
    **dict.fromkeys((b"GET ", b"HEAD", b"POST", b"PUT ", b"PRI ", b"OPTI"), "an HTTP request"),
    b"HTTP": "an HTTP response",
    b"SSH-": "SSH",
    b"\x16\x03": "TLS",
}


class StreamDecoder:
    """Reads one direction of a connection. After an error it is of no more use."""

    __slots__ = ("_decode", "_error", "_frame_bytes_max", "_kept", "_offset", "_opened")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._frame_bytes_max = limits.frame_bytes_max
        self._decode = decoder_for(limits).decode
        self._opened = False
        # The beginning of what is not complete yet: the preface, or a frame with its length.
        self._kept = bytearray()
        self._offset = 0  # of that, in the stream
        self._error: WireError | None = None

    @property
    def has_part(self) -> bool:
        """Whether something has begun to arrive and is not complete."""
        return bool(self._kept) or not self._opened

    # --- for who reads publications off the stream himself (see `roost.chunks`) -------------------------

    @property
    def kept_bytes(self) -> int:
        """Of the frame that is not complete yet."""
        return len(self._kept)

    @property
    def missing_bytes(self) -> int:
        """How many bytes it takes at least until there is more to say of what is kept."""
        if len(self._kept) < PREFIX_SIZE:
            return PREFIX_SIZE - len(self._kept)
        return max(0, PREFIX_SIZE + int(_read_length(self._kept)[0]) - len(self._kept))

    def take_back(self) -> bytes:
        """What is kept, which stands in front of what comes next from now on."""
        kept = bytes(self._kept)
        self._kept.clear()
        return kept

    def put_back(self, part: bytes) -> None:
        """That which was taken back, when whole frames that came before it have been read."""
        self._kept += part

    def skip(self, size: int) -> None:
        """So many bytes, whole frames, have been read by somebody else."""
        self._offset += size

    def feed(self, data: bytes) -> list[Parcel]:
        """The parcels that this piece completes; WireError, and nothing else, if they are none.

        Those of the piece that stand ahead of an error are in its `parcels`.
        """
        if self._error is not None:
            raise _again(self._error)
        parcels: list[Parcel] = []
        try:
            self._take(data, parcels)
        except WireError as error:
            self._error = error
            error.parcels = parcels
            raise
        return parcels

    def _take(self, data: bytes, parcels: list[Parcel]) -> None:
        at = 0
        if not self._opened:
            at = self._keep(data, at, len(PREFACE))
            _check_preface(bytes(self._kept))
            if len(self._kept) < len(PREFACE):
                return
            self._opened = True
            self._done(len(PREFACE))
        try:
            if self._kept:
                at = self._finish(data, at, parcels)
                if self._kept:
                    return
            decode, length_max, end = self._decode, self._frame_bytes_max, len(data)
            while (start := at + PREFIX_SIZE) <= end:
                (length,) = _read_length(data, at)
                if length > length_max:
                    raise _too_long(length, length_max)
                stop = start + length
                if stop > end:
                    break
                parcels.append(decode(data[start:stop]))
                self._offset += stop - at
                at = stop
        except WireError as error:
            raise self._located(error) from error
        self._kept += data[at:]

    def _finish(self, data: bytes, at: int, parcels: list[Parcel]) -> int:
        """Complete the frame that is kept, if the data suffice; how far they have been used up."""
        kept = self._kept
        at = self._keep(data, at, PREFIX_SIZE)
        if len(kept) >= PREFIX_SIZE:
            (length,) = _read_length(kept)
            if length > self._frame_bytes_max:
                raise _too_long(length, self._frame_bytes_max)
            size = PREFIX_SIZE + length
            at = self._keep(data, at, size)
            if len(kept) == size:
                parcels.append(self._decode(bytes(kept[PREFIX_SIZE:])))
                self._done(size)
        return at

    def _keep(self, data: bytes, at: int, size: int) -> int:
        """Fill up what is kept to `size`; how far the data have been used up."""
        stop = at + max(0, size - len(self._kept))
        self._kept += data[at:stop]
        return min(stop, len(data))

    def _done(self, size: int) -> None:
        self._kept.clear()
        self._offset += size

    def _located(self, error: WireError) -> WireError:
        offset = self._offset if error.offset is None else self._offset + PREFIX_SIZE + error.offset
        message = f"frame at byte {self._offset:,} of the stream: {error}"
        return WireError(message, field=error.field, offset=offset)


def _again(error: WireError) -> WireError:
    """The same without its parcels, which have been seen."""
    return WireError(str(error), field=error.field, offset=error.offset)


def _too_long(length: int, length_max: int) -> WireError:
    return WireError(f"declares {length:,} bytes; at most {length_max:,} are allowed")


def _check_preface(beginning: bytes) -> None:
    """Refuse a stream that doesn't begin as the preface does; as much of it as there is."""
    if PREFACE.startswith(beginning):
        return
    version = beginning[len(_MAGIC) : len(_MAGIC) + 1]
    if beginning.startswith(_MAGIC) and version[0] != WIRE_VERSION:
        raise WireError(
            f"the peer speaks version {version[0]} of Roost's wire format;"
            f" this is version {WIRE_VERSION}, and they don't mix",
            offset=len(_MAGIC),
        )
    stranger = next((who for start, who in _STRANGERS.items() if beginning.startswith(start)), "")
    raise WireError(
        "this is not the Roost protocol: the stream begins with"
        f" {beginning!r}{stranger and f', which looks like {stranger}'}; expected {PREFACE!r}",
        offset=0,
    )
