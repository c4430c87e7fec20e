"""Matching an event as it stands in MessagePack: attributes straight to tokens and numbers, no object made.

`match_span` is `Index.match` for other kernels: it is given the frame of an index (`frame_of`, to which
the tables of its lexicon are added), bytes, and where in them the map of attributes begins. What it reads
is held to what the wire's decoder takes. Where the tables don't decide it stops and says so, having
changed nothing that can be seen:

- UNDECIDED: not a map that is read here (a value of another kind, a string that is no text, an attribute
  twice, an int that no float equals): decode it, which may refuse it, and match the event.
- UNTRIED: a string has never been tried with the patterns of its attribute (`prefix`, `contains`, an
  order): match the event, and let the lexicon learn it.
- COMPARE: a subscription has to be compared with the event exactly: match the event.
- FULL: the room for ids may not do.
"""

from __future__ import annotations

import numpy as np

from roost.language.event import ATTRIBUTES_MAX
from roost.language.values import EXACT_INT, NAME_LENGTH_MAX, STRING_LENGTH_MAX
from roost.matching.kernels import lexicon
from roost.matching.kernels.grid_search import OVERRUN
from roost.matching.kernels.heap import ROWS, Cells
from roost.matching.kernels.jit import array_at, inlined, lean, peek, poke
from roost.matching.kernels.lexicon import KINDS, SLOT
from roost.matching.kernels.octets import (
    Octets,
    as_bits,
    as_float,
    be16,
    be32,
    be64,
    is_text,
    number_at,
    octets_at,
    octets_of,
    two_words,
)
from roost.matching.kernels.search import CELLS, EVENT, NUMBERS, OUT, match_one

UNDECIDED, UNTRIED, COMPARE, FULL = -1, -2, -3, -4

# A frame, behind what `match_one` needs: the table, its bytes, its spans, the slots, the odd keys; then
# where the map that was read last ends.
TABLE, STORE, SPANS, SLOTS, ODDS = range(8, 18, 2)
END = 18
FRAME = 19

# A row an odd key (see `Index`), by -1 - key: whose it is, the first row of the same subscription,
# whether it has to be compared exactly, in which event it was met last, and the rows that were met in
# this one, from row 0.
ODD_ID, ODD_HEAD, ODD_COMPARED, ODD_SEEN, ODD_MET = range(5)
ODD = 8


@inlined
def string_head(octets: Octets, at: int, stop: int) -> tuple[int, int]:
    """(start, length) of the string that stands there; the length is -1 if it is none or not whole."""
    start, length = at, np.int64(-1)
    if at < stop:
        mark = np.int64(peek(octets, at))
        if (mark & 0xE0) == 0xA0:
            start, length = at + 1, mark & 31
        elif mark == 0xD9 and at + 2 <= stop:
            start, length = at + 2, np.int64(peek(octets, at + 1))
        elif mark == 0xDA and at + 3 <= stop:
            start, length = at + 3, be16(octets, at + 1)
        elif mark == 0xDB and at + 5 <= stop:
            start, length = at + 5, be32(octets, at + 1)
        if length > stop - start:
            length = np.int64(-1)
    return start, length


# What a value is, other than a string.
_NUMBER, _BOOL, _LARGE, _OTHER = range(4)


@lean
def read_number(octets: Octets, at: int, stop: int) -> tuple[int, int, float]:
    """(kind, behind it, number) of a value that is no string; a large int is one that no float equals."""
    mark = np.int64(peek(octets, at))
    if mark < 0x80:
        return np.int64(_NUMBER), at + 1, float(mark)
    if mark >= 0xE0:
        return np.int64(_NUMBER), at + 1, float(mark - 256)
    if mark == 0xCB and at + 9 <= stop:
        return np.int64(_NUMBER), at + 9, as_float(be64(octets, at + 1))
    if 0xC2 <= mark <= 0xC3:
        return np.int64(_BOOL), at + 1, float(mark - 0xC2)
    end, whole, good = number_at(octets, at, stop)
    if not good:
        return np.int64(_OTHER), at, 0.0
    if whole > EXACT_INT or whole < -EXACT_INT:
        return np.int64(_LARGE), end, 0.0
    return np.int64(_NUMBER), end, float(whole)


@lean
def read_event(frame: Cells, octets: Octets, at: int, stop: int) -> int:
    """Put the tokens and numbers of the map at `at` where `match_one` finds them.

    How many tokens there are, or why that can't be said.
    The map has to end by `stop`; where it ends is in the frame then.
    """
    table = array_at(frame[TABLE], frame[TABLE + 1])
    store = octets_at(frame[STORE], frame[STORE + 1])
    spans = array_at(frame[SPANS], frame[SPANS + 1])
    slots = array_at(frame[SLOTS], frame[SLOTS + 1])
    tokens = array_at(frame[EVENT], frame[EVENT + 1])
    numbers = tokens.view(np.float64)
    event = table[lexicon.EVENTS] + 1
    table[lexicon.EVENTS] = event
    k = np.int64(1)
    why = np.int64(0)
    if at >= stop:
        return UNDECIDED
    mark = np.int64(peek(octets, at))
    if (mark & 0xF0) == 0x80:
        count = mark & 15
        at += 1
    elif mark == 0xDE and at + 3 <= stop:
        count = be16(octets, at + 1)
        at += 3
    else:
        return UNDECIDED
    if count > ATTRIBUTES_MAX:
        return UNDECIDED
    for _ in range(count):
        start, length = string_head(octets, at, stop)
        at = start + length
        # A name of so many bytes has no more characters; of a longer one the decoder counts them.
        if length < 1 or length > NAME_LENGTH_MAX or at >= stop:
            why = UNDECIDED
            break
        first, last = two_words(octets, start, length)
        row = lexicon.find(table, store, lexicon.NAMES, first, last, octets, start, length)
        if row == 0 and not is_text(octets, start, length):
            why = UNDECIDED
            break
        slot = np.int64(-1)
        if row:
            slot = peek(table, row + lexicon.CODE)
            if peek(slots, SLOT * slot + lexicon.SEEN) == event:
                why = UNDECIDED  # the last one counts
                break
            poke(slots, SLOT * slot + lexicon.SEEN, event)
        start, length = string_head(octets, at, stop)
        if length >= 0:
            at = start + length
            if length > STRING_LENGTH_MAX:
                why = UNDECIDED
                break
            k = _take_string(table, store, spans, slots, slot, octets, start, length, tokens, k)
        else:
            kind, behind, number = read_number(octets, at, stop)
            at = behind
            if kind == _OTHER or (kind == _LARGE and row):
                why = UNDECIDED
                break
            if row and not np.isnan(number):
                if kind == _NUMBER:
                    poke(numbers, NUMBERS + slot, number)
                k = _take_other(
                    table, store, spans, slots, slot, kind == _BOOL, number, octets, tokens, k
                )
        if k < 0:
            why = k
            break
    if why < 0:
        for i in range(NUMBERS, len(numbers)):
            poke(numbers, i, np.nan)
        return why
    frame[END] = at
    return k


@lean
def _take_string(
    table: Cells,
    store: Octets,
    spans: Cells,
    slots: Cells,
    slot: int,
    octets: Octets,
    start: int,
    length: int,
    tokens: Cells,
    k: int,
) -> int:
    known = False
    if slot >= 0:
        row_of = SLOT * slot
        since = peek(slots, row_of + lexicon.PATTERNS_SINCE)
        if peek(slots, row_of + lexicon.WORDS) or since:
            first, last = two_words(octets, start, length)
            owner = KINDS * slot + lexicon.WORD
            row = lexicon.find(table, store, owner, first, last, octets, start, length)
            if row:
                known = True
                k = _take(spans, peek(table, row + lexicon.CODE), tokens, k)
            if since and k > 0:
                owner = KINDS * slot + lexicon.TRIED
                row = lexicon.find(table, store, owner, first, last, octets, start, length)
                if row == 0 or peek(table, row + lexicon.BORN) < since:
                    return UNTRIED
                known = True
                k = _take(spans, peek(table, row + lexicon.CODE), tokens, k)
        if k > 0:
            k = _take(spans, peek(slots, row_of + lexicon.PRESENT), tokens, k)
    # What is in the table was text when it was put there.
    return k if known or is_text(octets, start, length) else UNDECIDED


@lean
def _take_other(
    table: Cells,
    store: Octets,
    spans: Cells,
    slots: Cells,
    slot: int,
    is_bool: bool,
    number: float,
    octets: Octets,
    tokens: Cells,
    k: int,
) -> int:
    """The tokens of a number or a bool."""
    row_of = SLOT * slot
    if peek(slots, row_of + (lexicon.BOOLS if is_bool else lexicon.NUMBERS)):
        # As the two words of its bytes, which are few enough that these say all.
        if is_bool:
            last = np.int64(number)
            first = last | (last << np.int64(8))
            owner, length = KINDS * slot + lexicon.BOOL, np.int64(1)
        else:
            first = last = as_bits(number + 0.0)  # there is one zero
            owner, length = KINDS * slot + lexicon.NUMBER, np.int64(8)
        row = lexicon.find(table, store, owner, first, last, octets, np.int64(0), length)
        if row:
            k = _take(spans, peek(table, row + lexicon.CODE), tokens, k)
    if k > 0:
        k = _take(spans, peek(slots, row_of + lexicon.PRESENT), tokens, k)
    if k > 0 and not is_bool:
        k = _take(spans, peek(slots, row_of + lexicon.PRESENT_NUMBER), tokens, k)
    return k


@inlined
def _take(spans: Cells, code: int, tokens: Cells, k: int) -> int:
    if k + lexicon.size_of(spans, code) > NUMBERS:
        return UNDECIDED
    return lexicon.take_code(spans, code, tokens, k)


@lean
def match_span(frame: Cells, octets: Octets, at: int, stop: int, n: int) -> int:
    """The ids of the subscriptions that the event at `at` matches, behind place n of the answers; the new n.

    Below 0 it says why it could not tell.
    """
    cells = array_at(frame[CELLS], frame[CELLS + 1])
    if frame[OUT + 1] - n < cells[ROWS] + OVERRUN:
        return FULL
    k = read_event(frame, octets, at, stop)
    if k < 0:
        return k
    end = match_one(frame, k, n)
    return _settled(frame, n, end) if frame[ODDS + 1] else end


@lean
def _settled(frame: Cells, start: int, end: int) -> int:
    """Put ids in place of odd keys, each once and behind the others; the new end, or COMPARE."""
    odds = array_at(frame[ODDS], frame[ODDS + 1])
    out = array_at(frame[OUT], frame[OUT + 1])
    event = array_at(frame[TABLE], frame[TABLE + 1])[lexicon.EVENTS]
    n, met = start, np.int64(0)
    for i in range(start, end):
        key = peek(out, i)
        if key >= 0:
            poke(out, n, key)
            n += 1
            continue
        row = ODD * (-1 - key)
        if peek(odds, row + ODD_COMPARED):
            return COMPARE
        head = peek(odds, row + ODD_HEAD)
        if peek(odds, head + ODD_SEEN) != event:
            poke(odds, head + ODD_SEEN, event)
            poke(odds, ODD * met + ODD_MET, peek(odds, row + ODD_ID))
            met += 1
    for i in range(met):
        poke(out, n, peek(odds, ODD * i + ODD_MET))
        n += 1
    return n


@lean
def match_octets(frame: Cells, octets: bytes, n: int) -> int:
    """`match_span` for bytes that are the event and nothing else."""
    size = len(octets)
    n = match_span(frame, octets_of(octets), np.int64(0), size, n)
    return n if n < 0 or frame[END] == size else np.int64(UNDECIDED)


@lean
def match_spans(frame: Cells, octets: Octets, starts: Cells, offsets: Cells, begin: int) -> int:
    """`match_span` for the maps from starts[i] to starts[i + 1], from the one at `begin`; how far it came.

    It stops in front of what it can't tell; why is where the end of a map is otherwise.
    """
    n = offsets[begin]
    for i in range(begin, len(starts) - 1):
        n = match_span(frame, octets, starts[i], starts[i + 1], n)
        if n >= 0 and frame[END] != starts[i + 1]:
            n = np.int64(UNDECIDED)
        if n < 0:
            frame[END] = n
            return i
        offsets[i + 1] = n
    return len(starts) - 1
