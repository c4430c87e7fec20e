"""Frames of plain deliveries, walked without an object each: the kernel behind `bundling`.

A frame is taken if `arriving` would take it, and its publication is one that the decoder there is known to
read: each string is UTF-8, each value of a kind that an attribute may have. Anything else, also what is
right and rare (many headers, texts of more bytes than characters are allowed), ends the bundle in front of
itself.
"""

from __future__ import annotations

import numpy as np

from roost.broker.messages import DATA, Delivery
from roost.client.kernels import inlined, lean
from roost.language.event import ATTRIBUTES_MAX
from roost.language.values import STRING_LENGTH_MAX
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import peek, poke
from roost.matching.kernels.octets import (
    Octets,
    be16,
    be32,
    is_text,
    number_at,
    octets_of,
    same_octets,
)
from roost.matching.kernels.reading import string_head
from roost.wire.codec import PREFIX_SIZE
from roost.wire.kinds import FRAME_ITEMS, MESSAGE_TAGS

# What is noted: where the frames end that were taken, how many publishers they have, a row for each
# of these, and a row an event.
STOP, PUBLISHERS = range(2)
ROWS = 2
# Of a publisher: where its name stands, how long it is, the first and the last number of its events.
NAME, NAME_SIZE, FIRST, LAST = range(4)
PUBLISHER = 4
PUBLISHERS_MAX = 32
EVENTS = ROWS + PUBLISHER * PUBLISHERS_MAX
# Of an event: where its publication begins, its map of attributes, and where it ends.
BEGIN, MAP, END = range(3)
EVENT = 3

# In front of the ids: length, four marks, the frame's number, hops.
HEAD_BYTES = 13
_MARKS = (0x90 + len(FRAME_ITEMS) + 2) << 24 | MESSAGE_TAGS[Delivery] << 16 | DATA << 8 | 0xCE
_ITEMS = 0x98  # of a publication that is not traced
_FIXSTR = 0xA0


@inlined
def _text_behind(b: Octets, at: int, stop: int) -> int:
    """Where the string ends that begins there; -1 if it is none."""
    start, size = string_head(b, at, stop)
    good = 0 <= size <= STRING_LENGTH_MAX and is_text(b, start, size)
    return start + size if good else np.int64(-1)


@inlined
def map_head(b: Octets, at: int, stop: int) -> tuple[int, int]:
    """(behind it, how many) of the head of a map; -1 if there is none, or a very large one."""
    behind, count = np.int64(-1), np.int64(0)
    if at < stop:
        mark = np.int64(peek(b, at))
        if (mark & 0xF0) == 0x80:
            behind, count = at + 1, mark & 15
        elif mark == 0xDE and at + 3 <= stop:
            behind, count = at + 3, be16(b, at + 1)
    return behind, count


@lean
def _value_behind(b: Octets, at: int, stop: int) -> int:
    """Where the value of an attribute ends that begins there; -1 if it is none."""
    if at >= stop:
        return np.int64(-1)
    mark = np.int64(peek(b, at))
    if mark == 0xCB:
        return at + 9 if at + 9 <= stop else np.int64(-1)
    if 0xC2 <= mark <= 0xC3:
        return at + 1
    if mark < 0x80 or mark >= 0xE0 or 0xCC <= mark <= 0xD3:
        behind, _, good = number_at(b, at, stop)
        return behind if good else np.int64(-1)
    return _text_behind(b, at, stop)


@lean
def _map_behind(b: Octets, at: int, stop: int) -> int:
    """Where the attributes end that begin there; -1 if they are none."""
    p, count = map_head(b, at, stop)
    if count > ATTRIBUTES_MAX:
        return np.int64(-1)
    for _ in range(count):
        p = _text_behind(b, p, stop)
        if p < 0:
            break
        p = _value_behind(b, p, stop)
        if p < 0:
            break
    return p


@lean
def _is_rest(b: Octets, p: int, stop: int) -> bool:
    """Whether payload, content type, headers, time and class stand there, and nothing else."""
    if p + 5 > stop:
        return False
    mark = np.int64(peek(b, p))
    if mark == 0xC4:
        p += 2 + np.int64(peek(b, p + 1))
    elif mark == 0xC5:
        p += 3 + be16(b, p + 1)
    elif mark == 0xC6:
        p += 5 + be32(b, p + 1)
    else:
        return False
    p = _text_behind(b, p, stop)
    if p < 0 or p >= stop:
        return False
    mark = np.int64(peek(b, p))
    if (mark & 0xF0) != 0x80:
        return False
    p += 1
    for _ in range(2 * (mark & 15)):
        p = _text_behind(b, p, stop)
        if p < 0:
            return False
    return p + 10 == stop and peek(b, p) == 0xCB and peek(b, p + 9) <= DATA


@lean
def _publisher_of(b: Octets, start: int, size: int, notes: Cells, guess: int) -> int:
    """Which of the publishers it is, the one that was guessed or one behind it; -1 if it is none of them."""
    count = notes[PUBLISHERS]
    for k in range(count):
        number = guess + k
        if number >= count:
            number -= count
        row = ROWS + PUBLISHER * number
        if peek(notes, row + NAME_SIZE) == size and same_octets(
            b, start, b, peek(notes, row + NAME), size
        ):
            return number
    return np.int64(-1)


@lean
def note_frames(data: bytes, at: int, number: int, count_max: int, notes: Cells) -> int:
    """Note the deliveries from `at` on, the first with this number; how many there are, at most so many.

    The caller has seen that the first has one id, which is short; the others are to have the same.
    """
    b = octets_of(data)
    end = len(data)
    ids = at + HEAD_BYTES
    ids_size = 2 + np.int64(peek(b, ids + 1)) - _FIXSTR
    count = np.int64(0)
    publisher = np.int64(0)
    notes[PUBLISHERS] = 0
    while count < count_max:
        own = at + HEAD_BYTES + ids_size
        if own >= end:
            break
        stop = at + PREFIX_SIZE + be32(b, at)
        if (
            stop > end
            or stop <= own
            or be32(b, at + PREFIX_SIZE) != _MARKS
            or be32(b, at + 8) != number
            or peek(b, at + 12) >= 0x80
            or not same_octets(b, at + HEAD_BYTES, b, ids, ids_size)
            or peek(b, own) != _ITEMS
        ):
            break
        start, size = string_head(b, own + 1, stop)
        if size < 0:
            break
        attributes, sequence, good = number_at(b, start + size, stop)
        if not good:
            break
        behind = _map_behind(b, attributes, stop)
        if behind < 0 or not _is_rest(b, behind, stop):
            break
        known = _publisher_of(b, start, size, notes, publisher)
        if known < 0:
            known = notes[PUBLISHERS]
            if known == PUBLISHERS_MAX or not is_text(b, start, size):
                break
            notes[PUBLISHERS] = known + 1
            row = ROWS + PUBLISHER * known
            poke(notes, row + NAME, start)
            poke(notes, row + NAME_SIZE, size)
            poke(notes, row + FIRST, sequence)
        elif sequence <= peek(notes, ROWS + PUBLISHER * known + LAST):
            break
        publisher = known
        poke(notes, ROWS + PUBLISHER * known + LAST, sequence)
        row = EVENTS + EVENT * count
        poke(notes, row + BEGIN, own)
        poke(notes, row + MAP, attributes)
        poke(notes, row + END, stop)
        count += 1
        number += 1
        at = stop
    notes[STOP] = at
    return count
