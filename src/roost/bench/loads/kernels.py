"""The compiled part of the loads: numbers into prepared messages, and walks over those that arrive.

A *scan* goes over the whole messages at the beginning of a buffer and returns where the first that is not
whole begins. What it finds it adds to a `tally`, a few words that a connection keeps:

    WARM        messages of the warm-up, whose number is 0
    COUNT       all others
    NEXT        the number that is due
    DISORDERED  how often another came
    TROUBLE     something came that is no message; the scan has stopped there
    MARK        what the protocol wants to know for its acknowledgements
    FRAME       the number of the last frame, where the protocol has them

Where it knows when messages were sent (`latencies_ns` has room), it also notes how long each took.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roost.bench.loads.quotes import PAYLOAD_BYTES, SENT_AT, SEQUENCE
from roost.matching.kernels.jit import lean

# In kernels every int is a machine word, whichever array it came from.
Cells = NDArray[Any]
Words = NDArray[np.int64]

WARM: Final = 0
COUNT: Final = 1
NEXT: Final = 2
DISORDERED: Final = 3
TROUBLE: Final = 4
MARK: Final = 5
FRAME: Final = 6
TALLY_SIZE: Final = 7

_SEQUENCE_AT: Final = SEQUENCE.start
_SEQUENCE_DIGITS: Final = SEQUENCE.stop - SEQUENCE.start
_SENT_AT_AT: Final = SENT_AT.start
_SENT_AT_DIGITS: Final = SENT_AT.stop - SENT_AT.start


# --- numbers --------------------------------------------------------------------------------------


@lean
def put_hex(
    cells: Cells, width: int, row: int, count: int, at: int, digits: int, first: int, step: int
) -> None:
    """Write first, first + step, ... as hexadecimal digits into `count` rows, from this column on."""
    for i in range(count):
        value = first + i * step
        place = (row + i) * width + at + digits - 1
        for _ in range(digits):
            nibble = value & 15
            cells[place] = 48 + nibble + (39 if nibble > 9 else 0)
            value >>= 4
            place -= 1


@lean
def put_numbers(
    cells: Cells, width: int, row: int, count: int, at: int, size: int, before: int, modulus: int
) -> None:
    """Write before + 1, before + 2, ... big-endian into `count` rows; 1 follows on `modulus`."""
    for i in range(count):
        value = 1 + (before + i) % modulus
        place = (row + i) * width + at + size - 1
        for _ in range(size):
            cells[place] = value & 255
            value >>= 8
            place -= 1


@lean
def big_endian(data: Cells, at: int, size: int) -> int:
    """The number that stands there."""
    value = 0
    for i in range(at, at + size):
        value = value << 8 | data[i]
    return value


@lean
def hexadecimal(data: Cells, at: int, digits: int) -> int:
    """The number that stands there in (small) hexadecimal digits."""
    value = 0
    for i in range(at, at + digits):
        character = data[i]
        value = value << 4 | (character & 15) + 9 * (character >> 6)
    return value


@lean
def note(data: Cells, stamps: int, now_ns: int, tally: Words, latencies_ns: Words) -> None:
    """Count a message, whose payload (or what has its stamps) begins here."""
    sequence = hexadecimal(data, stamps + _SEQUENCE_AT, _SEQUENCE_DIGITS)
    if sequence == 0:
        tally[WARM] += 1
        return
    if sequence != tally[NEXT]:
        tally[DISORDERED] += 1
    tally[NEXT] = sequence + 1
    if tally[COUNT] < len(latencies_ns):
        sent_ns = hexadecimal(data, stamps + _SENT_AT_AT, _SENT_AT_DIGITS)
        latencies_ns[tally[COUNT]] = now_ns - sent_ns
    tally[COUNT] += 1


# --- NATS -----------------------------------------------------------------------------------------

_LF: Final = 10
_SPACE: Final = 32
_MINUS: Final = ord("-")
_M: Final = ord("M")


@lean
def scan_nats(data: Cells, end: int, now_ns: int, tally: Words, latencies_ns: Words) -> int:
    """`MSG subject sid [reply] size`, a line; the payload, a line. MARK: where the last MSG begins.

    A PING is passed over: the server asks for an answer only at the second that has none.
    """
    at = 0
    while True:
        line = at
        while line < end and data[line] != _LF:
            line += 1
        if line == end:
            return at
        if data[at] == _M:
            size = 0
            unit = 1
            digit = line - 2  # ahead of CR LF
            while data[digit] != _SPACE:
                size += (data[digit] - 48) * unit
                unit *= 10
                digit -= 1
            after = line + 1 + size + 2
            if after > end:
                return at
            if size != PAYLOAD_BYTES:
                tally[TROUBLE] += 1
                return at
            note(data, line + 1, now_ns, tally, latencies_ns)
            tally[MARK] = at
            at = after
        elif data[at] == _MINUS:
            tally[TROUBLE] += 1
            return at
        else:
            at = line + 1


# --- MQTT -----------------------------------------------------------------------------------------

_PUBLISH: Final = 3
_PUBACK: Final = 0x40


@lean
def scan_mqtt(
    data: Cells, end: int, now_ns: int, tally: Words, latencies_ns: Words, answers: Cells
) -> int:
    """PUBLISH packets. MARK: how many bytes of `answers` hold a PUBACK for each that asks for one."""
    at = 0
    tally[MARK] = 0
    while True:
        length = 0
        shift = 0
        body = at + 1
        more = True
        while more and body < end:
            length |= (data[body] & 127) << shift
            shift += 7
            more = data[body] > 127
            body += 1
        if more or body + length > end:
            return at
        if data[at] >> 4 != _PUBLISH:
            tally[TROUBLE] += 1
            return at
        quality = data[at] >> 1 & 3
        topic = big_endian(data, body, 2)
        if 2 + topic + 2 * (quality > 0) + PAYLOAD_BYTES != length:
            tally[TROUBLE] += 1
            return at
        if quality > 0:
            mark = tally[MARK]
            answers[mark] = _PUBACK
            answers[mark + 1] = 2
            answers[mark + 2] = data[body + 2 + topic]
            answers[mark + 3] = data[body + 3 + topic]
            tally[MARK] = mark + 4
        note(data, body + length - PAYLOAD_BYTES, now_ns, tally, latencies_ns)
        at = body + length


# --- AMQP -----------------------------------------------------------------------------------------

_METHOD: Final = 1
_BODY: Final = 3
_DELIVER: Final = 60 << 16 | 60
_ACK: Final = 60 << 16 | 80
_FRAME_BYTES: Final = 8  # type, channel and size in front, and an end


@lean
def scan_amqp(data: Cells, end: int, now_ns: int, tally: Words, latencies_ns: Words) -> int:
    """Deliveries: a method, a header and a body frame each, of which the body is what counts."""
    at = 0
    while at + _FRAME_BYTES <= end:
        size = big_endian(data, at + 3, 4)
        after = at + _FRAME_BYTES + size
        if after > end:
            return at
        kind = data[at]
        if kind == _METHOD:
            if big_endian(data, at + 7, 4) != _DELIVER:
                tally[TROUBLE] += 1
                return at
        elif kind == _BODY:
            if size != PAYLOAD_BYTES:
                tally[TROUBLE] += 1
                return at
            note(data, at + 7, now_ns, tally, latencies_ns)
        at = after
    return at


@lean
def scan_confirms(data: Cells, end: int, tally: Words, early: Cells) -> int:
    """Confirms of a publisher. COUNT: all up to this number are confirmed.

    One may be confirmed ahead of others; `early` has a flag for each, in turn.
    """
    at = 0
    room = len(early)
    while at + _FRAME_BYTES <= end:
        size = big_endian(data, at + 3, 4)
        after = at + _FRAME_BYTES + size
        if after > end:
            return at
        if data[at] != _METHOD or big_endian(data, at + 7, 4) != _ACK:
            tally[TROUBLE] += 1
            return at
        tag = big_endian(data, at + 11, 8)
        low = tally[COUNT]
        if data[at + 19]:  # all up to this one
            while low < tag:
                low += 1
                early[low % room] = 0
        else:
            early[tag % room] = 1
        while early[(low + 1) % room]:
            low += 1
            early[low % room] = 0
        tally[COUNT] = low
        at = after
    return at


# --- Roost ----------------------------------------------------------------------------------------

_DELIVERY_ITEMS: Final = 0x96  # an array of six
_DATA: Final = 1
_UINT32: Final = 0xCE
_ROOST_HEAD: Final = 13


@lean
def scan_roost(
    data: Cells,
    end: int,
    now_ns: int,
    tally: Words,
    latencies_ns: Words,
    delivery_tag: int,
    ack_tag: int,
    stamps_behind: int,
) -> int:
    """Deliveries, in frames with their tag. FRAME: the number of the last; each has the next one.

    The stamps stand so many bytes ahead of the end of a frame. Acks of what the subscriber asked for may
    stand between the deliveries; they are passed over.
    """
    at = 0
    while at + 4 <= end:
        after = at + 4 + big_endian(data, at, 4)
        if after > end:
            return at
        if data[at + 4] == _DELIVERY_ITEMS and data[at + 5] == delivery_tag:
            number = big_endian(data, at + 8, 4)
            if (
                data[at + 6] != _DATA
                or data[at + 7] != _UINT32
                or number != tally[FRAME] + 1
                or after - stamps_behind < at + _ROOST_HEAD
            ):
                tally[TROUBLE] += 1
                return at
            tally[FRAME] = number
            note(data, after - stamps_behind, now_ns, tally, latencies_ns)
        elif data[at + 5] != ack_tag:
            tally[TROUBLE] += 1
            return at
        at = after
    return at
