"""A table of names and words, by their bytes: what tells a kernel which tokens a value of an event has.

Open addressing with linear probing, at most half full, a row of eight cells (a cache line) an entry: the two
words of the text (see `octets`), its length, whose it is, its code, its age, and where its bytes stand if the
two words don't say all. A row that was dropped stays a stone on the way until the table is laid out anew.

An entry's owner is NAMES for the name of an attribute, whose code is its slot; else its attribute's slot
times KINDS, plus a kind. The code is a token, NO_TOKENS, or names a span of several tokens: `spans` has
how many, then the tokens. Row 0 is the header.
"""

from __future__ import annotations

import numpy as np

from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import inlined, kernel, lean, move, peek, poke
from roost.matching.kernels.octets import WORDS_BYTES, Octets, mixed, same_octets, two_words

FIRST, LAST, LENGTH, OWNER, CODE, BORN, AT = range(7)
ROW = 8
EMPTY, DROPPED = -1, -2  # lengths
USED, OCTETS_TOP, SPANS_TOP, EVENTS = range(
    4
)  # of the header; the last counts events that were read

NAMES = -1
# A string of a finite set, a number or a bool of one, and a string that was tried with its attribute's
# patterns.
WORD, NUMBER, BOOL, TRIED = range(4)
KINDS = 4

NO_TOKENS = -1
# Codes below are spans.
SPAN = -2


# A row an attribute, by its slot: whether a string, a number or a bool of it has to be looked up, since
# when its patterns are what they are (0 if it has none), the tokens of any value and of any number, and
# in which event it was seen last.
WORDS, NUMBERS, BOOLS, PATTERNS_SINCE, PRESENT, PRESENT_NUMBER, SEEN = range(7)
SLOT = 8


def new_table(rows: int) -> Cells:
    """An empty table of so many rows, a power of two."""
    table = np.zeros(ROW * (1 + rows), np.int64)
    table[ROW + LENGTH :: ROW] = EMPTY
    return table


@inlined
def start_of(table: Cells, first: int, last: int, owner: int) -> int:
    """The row where the search for a text begins."""
    mask = len(table) // ROW - 2
    return mixed(first ^ (last * np.int64(31)) ^ (owner << np.int64(40))) & mask


@lean
def find(
    table: Cells,
    store: Octets,
    owner: int,
    first: int,
    last: int,
    octets: Octets,
    at: int,
    length: int,
) -> int:
    """Where the row of a text is, or 0."""
    mask = len(table) // ROW - 2
    i = start_of(table, first, last, owner)
    while True:
        row = ROW + ROW * i
        found = peek(table, row + LENGTH)
        if (
            found == length
            and peek(table, row + FIRST) == first
            and peek(table, row + LAST) == last
            and peek(table, row + OWNER) == owner
            and (
                length <= WORDS_BYTES
                or same_octets(octets, at, store, peek(table, row + AT), length)
            )
        ):
            return row
        if found == EMPTY:
            return 0
        i = (i + 1) & mask


@kernel
def put(
    table: Cells, store: Octets, spans: Cells, owner: int, octets: Octets, tokens: Cells, born: int
) -> bool:
    """Enter a text with its tokens, or give it others; False if there is no room, and nothing is changed."""
    length, count = len(octets), len(tokens)
    kept = length if length > WORDS_BYTES else 0
    if (
        2 * (table[USED] + 1) * ROW > len(table)
        or table[OCTETS_TOP] + kept > len(store)
        or table[SPANS_TOP] + count + 1 > len(spans)
    ):
        return False
    first, last = two_words(octets, 0, length)
    row = find(table, store, owner, first, last, octets, 0, length)
    if row == 0:
        row = _free_row(table, first, last, owner)
        table[USED] += table[row + LENGTH] == EMPTY
        table[row + FIRST], table[row + LAST] = first, last
        table[row + LENGTH], table[row + OWNER] = length, owner
        if kept:
            top = table[OCTETS_TOP]
            store[top : top + length] = octets
            table[row + AT], table[OCTETS_TOP] = top, top + length
    table[row + BORN] = born
    if count == 1:
        table[row + CODE] = tokens[0]
    elif count == 0:
        table[row + CODE] = NO_TOKENS
    else:
        top = table[SPANS_TOP]
        spans[top] = count
        spans[top + 1 : top + 1 + count] = tokens
        table[row + CODE], table[SPANS_TOP] = SPAN - top, top + 1 + count
    return True


@kernel
def _free_row(table: Cells, first: int, last: int, owner: int) -> int:
    mask = len(table) // ROW - 2
    i = start_of(table, first, last, owner)
    while table[ROW + ROW * i + LENGTH] >= 0:
        i = (i + 1) & mask
    return ROW + ROW * i


@kernel
def drop(table: Cells, store: Octets, owner: int, octets: Octets) -> None:
    """Take out a text, if it is there."""
    first, last = two_words(octets, 0, len(octets))
    row = find(table, store, owner, first, last, octets, 0, len(octets))
    if row:
        table[row + LENGTH] = DROPPED


@kernel
def _lives(table: Cells, row: int, slots: Cells) -> bool:
    """Whether a row has an entry. What was tried with patterns that have changed since is none."""
    owner = table[row + OWNER]
    if table[row + LENGTH] < 0:
        return False
    if owner < 0 or owner % KINDS != TRIED:
        return True
    since = slots[SLOT * (owner // KINDS) + PATTERNS_SINCE]
    return since > 0 and table[row + BORN] >= since


@kernel
def living(table: Cells, spans: Cells, slots: Cells) -> tuple[int, int, int]:
    """How many entries there are, how many bytes of texts are kept, and how many cells of spans."""
    count, octets, cells = 0, 0, 0
    for row in range(ROW, len(table), ROW):
        if _lives(table, row, slots):
            count += 1
            if table[row + LENGTH] > WORDS_BYTES:
                octets += table[row + LENGTH]
            if table[row + CODE] <= SPAN:
                cells += 1 + spans[SPAN - table[row + CODE]]
    return count, octets, cells


@kernel
def lay_out(
    table: Cells,
    store: Octets,
    spans: Cells,
    slots: Cells,
    new: Cells,
    new_store: Octets,
    new_spans: Cells,
) -> None:
    """Copy what lives into new arrays, which have room for all of it."""
    new[EVENTS] = table[EVENTS]
    for row in range(ROW, len(table), ROW):
        if not _lives(table, row, slots):
            continue
        owner = table[row + OWNER]
        to = _free_row(new, table[row + FIRST], table[row + LAST], owner)
        new[to : to + ROW] = table[row : row + ROW]
        new[USED] += 1
        if table[row + LENGTH] > WORDS_BYTES:
            top, length = new[OCTETS_TOP], table[row + LENGTH]
            new_store[top : top + length] = store[table[row + AT] : table[row + AT] + length]
            new[to + AT], new[OCTETS_TOP] = top, top + length
        if table[row + CODE] <= SPAN:
            top, start = new[SPANS_TOP], SPAN - table[row + CODE]
            size = 1 + spans[start]
            new_spans[top : top + size] = spans[start : start + size]
            new[to + CODE], new[SPANS_TOP] = SPAN - top, top + size


@inlined
def take_code(spans: Cells, code: int, tokens: Cells, k: int) -> int:
    """Append the tokens of a code; the new k. The tokens have room."""
    if code >= 0:
        poke(tokens, k, code)
        return k + 1
    if code > SPAN:
        return k
    start = SPAN - code
    count = peek(spans, start)
    move(tokens, k, spans, start + 1, count)
    return k + count


@inlined
def size_of(spans: Cells, code: int) -> int:
    """How many tokens a code has."""
    if code > SPAN:
        return np.int64(code >= 0)
    return peek(spans, SPAN - code)
