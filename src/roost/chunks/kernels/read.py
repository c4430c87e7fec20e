"""The first pass: what the frames of a chunk are, and where their events go. Nothing of the machine changes.

Frames are read one after the other, until one is not a publication as most are: whole, in the usual
spelling, within the limits, the next of its channel, in the order of its publisher, offered by the client
that sent it, with values that the tables can say the tokens of. That one is for the machine, which says what
is wrong with it, if anything is.

An event becomes tokens and numbers in the order in which the matcher itself would read them, so what matches
comes in the same order, too. `plain` of the tests says the same in plain Python.
"""

from __future__ import annotations

import numpy as np

from roost.chunks.kernels.layout import (
    ANY_TOKEN,
    ASK_AT,
    ASK_BYTES,
    ASK_OWNER,
    ASKS_PUBLISHER,
    ASKS_WORD,
    AT,
    ATTRIBUTE,
    ATTRIBUTES,
    ATTRIBUTES_MAX,
    BOOL_KIND,
    CHUNK,
    D_BYTES,
    D_ENTRY,
    D_EVENT,
    D_HOP,
    D_IDS,
    D_IDS_BYTES,
    D_LAST,
    D_MORE,
    DELIVERIES,
    DELIVERY,
    DELIVERY_COUNT,
    E_HOP,
    E_ID_BYTES,
    ENTRIES,
    ENTRY,
    EV_AT,
    EV_BYTES,
    EV_DELIVERY,
    EV_HOPS,
    EV_PUBLISHER,
    EV_SEQUENCE,
    EV_TIME,
    EV_WAY,
    EVENT,
    EVENT_COUNT,
    EVENT_ROW,
    EVENTS,
    FRAME_BYTES_MAX,
    FULL,
    H_BYTES,
    H_CHUNK,
    H_COUNT,
    H_DELIVERY,
    H_KIND,
    H_VISIT,
    HEAD_BYTES,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    HOP,
    HOP_COUNT,
    HOPS,
    IDS_BYTES_MAX,
    INSIDE_HOP,
    IS_LINK,
    IS_OTHER,
    IS_RESERVED,
    IS_TRIED,
    IS_WATCHED,
    IS_WORDS,
    KINDS,
    LAST_LINKS,
    LAST_LOCAL,
    LINK_HOP,
    M_ENTRY,
    M_NEXT,
    MANY,
    MATCHED,
    MATCHER,
    MEMO,
    MORE,
    MORE_IDS,
    NAME_BYTES_MAX,
    NAMES,
    NEW_WAYS,
    NUMBER,
    NUMBER_KIND,
    NUMBER_TOKEN,
    ODD,
    OFFER,
    OTHER,
    OTHER_ORDER,
    OUT_BYTES,
    OUT_BYTES_MAX,
    P_CHUNK,
    P_FIRST,
    P_LAST,
    PART,
    PAYLOAD_BYTES_MAX,
    PREFIX_BYTES,
    PUBLICATION_BYTES_MAX,
    PUBLISHED,
    PUBLISHED_ROW,
    PUBLISHER,
    PUBLISHER_BYTES_MAX,
    PUBLISHER_COUNT,
    PUBLISHERS,
    READING,
    RESERVED_KIND,
    SEEN,
    SLOT,
    SOURCE,
    STRING_BYTES_MAX,
    STRING_KIND,
    TEXT,
    TOGETHER,
    TOUCHED_HOPS,
    TOUCHED_PUBLISHERS,
    V_BITS,
    V_EVENT,
    V_KIND,
    V_LENGTH,
    V_LIST,
    VALUE_ROW,
    VALUES,
    VISIT,
    WAY_COUNT,
    WHOLE,
    WORD_ORDER,
    WORDS,
)
from roost.chunks.kernels.offered import offered
from roost.chunks.kernels.tables import AT as KEY_AT
from roost.chunks.kernels.tables import LENGTH as KEY_LENGTH
from roost.chunks.kernels.tables import VALUE, find, find_number
from roost.chunks.kernels.ways import number_of_way, resolved
from roost.chunks.kernels.words import Bytes, inlined, is_text, lean, same, string_at
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import array_at, peek, poke
from roost.matching.kernels.octets import as_bits, as_float, be16, be32, be64, number_at, octets_at
from roost.matching.kernels.search import NUMBERS, match_one

_EXACT_INT = np.int64(1) << 53
_EIGHT = 8
# How many ids of subscriptions fit into a delivery, however long they are (see `broker.exchange`), and what
# each takes there at most besides its own bytes.
_FEW_IDS = 15
_ID_MARK_BYTES = 2
# Marks of a frame with a publication, behind its length: array of five, its tag, data, a number of 32 bits.
_HEAD = np.int64(0x951001CE)
_ITEMS = 0x98  # of a publication that is not traced


@inlined
def _append(cells: Cells, list_: int, tokens: Cells, k: int) -> int:
    """Add the tokens of a list to those of the event; their new number."""
    for i in range(peek(cells, list_)):
        poke(tokens, k, peek(cells, list_ + 1 + i))
        k += 1
    return k


@lean
def _rest_is_plain(frame: Cells, b: Bytes, p: int, stop: int) -> bool:
    """Whether payload, content type, headers, time and class stand there, within limits, and nothing else."""
    if p + 2 > stop:
        return False
    mark = np.int64(peek(b, p))
    if mark == 0xC4:
        start, n = p + 2, np.int64(peek(b, p + 1))
    elif mark == 0xC5 and p + 3 <= stop:
        start, n = p + 3, be16(b, p + 1)
    elif mark == 0xC6 and p + 5 <= stop:
        start, n = p + 5, be32(b, p + 1)
    else:
        return False
    if n > frame[PAYLOAD_BYTES_MAX] or start + n > stop:
        return False
    s, n = string_at(b, start + n, stop)
    if n < 0 or n > frame[PUBLISHER_BYTES_MAX] or not is_text(b, s, n):
        return False
    p = s + n
    if p >= stop or (np.int64(peek(b, p)) & 0xF0) != 0x80:
        return False
    count = np.int64(peek(b, p)) & 15
    if count > frame[HEADERS_MAX]:
        return False
    p += 1
    for _ in range(2 * count):
        s, n = string_at(b, p, stop)
        if n < 0 or n > frame[HEADER_BYTES_MAX] or not is_text(b, s, n):
            return False
        p = s + n
    return p + 10 == stop and peek(b, p) == 0xCB and peek(b, p + 9) == 1


@lean
def read_chunk(frame: Cells, b: Bytes, at: int, end: int) -> int:
    """Read frames from `at` on; why it stopped, and the rest in `frame`."""
    cells = array_at(frame[TEXT], frame[TEXT + 1])
    text = octets_at(frame[TEXT], 8 * frame[TEXT + 1])
    names = array_at(frame[NAMES], frame[NAMES + 1])
    words = array_at(frame[WORDS], frame[WORDS + 1])
    memo = array_at(frame[MEMO], frame[MEMO + 1])
    publishers = array_at(frame[PUBLISHERS], frame[PUBLISHERS + 1])
    attributes = array_at(frame[ATTRIBUTES], frame[ATTRIBUTES + 1])
    values = array_at(frame[VALUES], frame[VALUES + 1])
    seen = array_at(frame[SEEN], frame[SEEN + 1])
    word_order = array_at(frame[WORD_ORDER], frame[WORD_ORDER + 1])
    other_order = array_at(frame[OTHER_ORDER], frame[OTHER_ORDER + 1])
    entries = array_at(frame[ENTRIES], frame[ENTRIES + 1])
    hops = array_at(frame[HOPS], frame[HOPS + 1])
    published = array_at(frame[PUBLISHED], frame[PUBLISHED + 1])
    touched = array_at(frame[TOUCHED_HOPS], frame[TOUCHED_HOPS + 1])
    touched_publishers = array_at(frame[TOUCHED_PUBLISHERS], frame[TOUCHED_PUBLISHERS + 1])
    events = array_at(frame[EVENTS], frame[EVENTS + 1])
    deliveries = array_at(frame[DELIVERIES], frame[DELIVERIES + 1])
    more = array_at(frame[MORE_IDS], frame[MORE_IDS + 1])
    new_ways = array_at(frame[NEW_WAYS], frame[NEW_WAYS + 1])
    offer = array_at(frame[OFFER], frame[OFFER + 1])
    matcher = array_at(frame[MATCHER], frame[MATCHER + 1])
    tokens = array_at(frame[EVENT], frame[EVENT + 1])
    numbers = tokens.view(np.float64)
    matched = array_at(frame[MATCHED], frame[MATCHED + 1])
    odd = array_at(frame[ODD], frame[ODD + 1])
    source, only, is_link = frame[SOURCE], frame[PUBLISHER], frame[IS_LINK]
    number, chunk, visit = frame[NUMBER], frame[CHUNK] + 1, frame[VISIT]
    together, is_watched = frame[TOGETHER], frame[IS_WATCHED]
    ways_before = ways_seen = frame[WAY_COUNT]
    events_max = len(events) // EVENT_ROW
    deliveries_max, more_max = len(deliveries) // DELIVERY, len(more) // MORE
    e = np.int64(0)
    d = np.int64(0)
    m = np.int64(0)
    t = np.int64(0)
    tp = np.int64(0)
    out_bytes = np.int64(0)
    last_links = np.int64(0)
    last_local = np.int64(0)
    publisher = np.int64(-1)  # of the event before
    publisher_at = np.int64(0)
    publisher_bytes = np.int64(-1)
    why = np.int64(WHOLE)
    while at < end:
        if at + PREFIX_BYTES > end:
            why = PART
            break
        length = be32(b, at)
        stop = at + PREFIX_BYTES + length
        if length > frame[FRAME_BYTES_MAX] or length < HEAD_BYTES:
            why = OTHER
            break
        if stop > end:
            why = PART
            break
        own = at + HEAD_BYTES
        hop_count = np.int64(peek(b, at + 12))
        if (
            be32(b, at + 4) != _HEAD
            or be32(b, at + 8) != number + 1
            or hop_count >= 0x7F
            or peek(b, own) != _ITEMS
            or stop - own > frame[PUBLICATION_BYTES_MAX]
        ):
            why = OTHER
            break
        if e == events_max or out_bytes > frame[OUT_BYTES_MAX]:
            why = FULL
            break
        # Whose it is.
        s, n = string_at(b, own + 1, stop)
        if n < 0 or n > frame[PUBLISHER_BYTES_MAX]:
            why = OTHER
            break
        if n != publisher_bytes or not same(b, s, text, publisher_at, n):
            row = find(publishers, text, b, s, n, np.int64(0))
            if row < 0 and only >= 0:
                why = OTHER
                break
            if row < 0:
                frame[ASK_AT] = s
                frame[ASK_BYTES] = n
                why = ASKS_PUBLISHER
                break
            publisher = peek(publishers, row + VALUE)
            publisher_at = peek(publishers, row + KEY_AT)
            publisher_bytes = peek(publishers, row + KEY_LENGTH)
        if only >= 0 and publisher != only:
            why = OTHER
            break
        p, sequence, good = number_at(b, s + n, stop)
        row_p = publisher * PUBLISHED_ROW
        is_first = peek(published, row_p + P_CHUNK) != chunk
        if not good or sequence < 0 or not (is_first or sequence > peek(published, row_p + P_LAST)):
            why = OTHER
            break
        # What it has.
        if p >= stop:
            why = OTHER
            break
        mark = np.int64(peek(b, p))
        if (mark & 0xF0) == 0x80:
            count = mark & 15
            p += 1
        elif mark == 0xDE and p + 3 <= stop:
            count = be16(b, p + 1)
            p += 3
        else:
            why = OTHER
            break
        visit += 1
        seen_count = np.int64(0)
        good = count <= frame[ATTRIBUTES_MAX]
        if not good:
            count = np.int64(0)
        for _ in range(count):
            s, n = string_at(b, p, stop)
            if n < 1 or n > frame[NAME_BYTES_MAX]:
                good = False
                break
            p = s + n
            row = find(names, text, b, s, n, np.int64(0))
            attribute = np.int64(-1)
            if row >= 0:
                attribute = peek(names, row + VALUE)
            elif not is_text(b, s, n):
                good = False
                break
            if p >= stop:
                good = False
                break
            mark = np.int64(peek(b, p))
            length = np.int64(0)
            if mark == 0xCB:
                if p + 9 > stop:
                    good = False
                    break
                kind = np.int64(NUMBER_KIND)
                bits = be64(b, p + 1)
                p += 9
            elif (mark & 0xE0) == 0xA0 or mark == 0xD9 or mark == 0xDA:
                bits, length = string_at(b, p, stop)
                if length < 0 or length > frame[STRING_BYTES_MAX]:
                    good = False
                    break
                kind = np.int64(STRING_KIND)
                p = bits + length
            elif mark == 0xC2 or mark == 0xC3:
                kind = np.int64(BOOL_KIND)
                bits = mark - 0xC2
                p += 1
            else:
                p, whole, good = number_at(b, p, stop)
                if not good or (attribute >= 0 and (whole > _EXACT_INT or whole < -_EXACT_INT)):
                    good = False
                    break
                kind = np.int64(NUMBER_KIND)
                bits = as_bits(np.float64(whole))
            if attribute < 0:
                if kind == STRING_KIND and not is_text(b, bits, length):
                    good = False
                    break
                continue
            value = attribute * VALUE_ROW
            if peek(values, value + V_EVENT) == visit:
                good = False  # it stands twice
                break
            poke(values, value + V_EVENT, visit)
            poke(values, value + V_KIND, kind)
            poke(values, value + V_BITS, bits)
            poke(values, value + V_LENGTH, length)
            poke(seen, seen_count, attribute)
            seen_count += 1
            reading = peek(attributes, attribute * ATTRIBUTE + READING)
            list_ = np.int64(0)
            if kind == STRING_KIND:
                owner = attribute * KINDS + STRING_KIND
                is_known = False
                if reading & IS_TRIED:
                    row = find(memo, text, b, bits, length, owner)
                    if row < 0:
                        frame[ASK_AT] = bits
                        frame[ASK_BYTES] = length
                        frame[ASK_OWNER] = attribute
                        why = ASKS_WORD
                        break
                    is_known = True
                    list_ = peek(memo, row + VALUE)
                elif reading & (IS_WORDS | IS_OTHER):
                    row = find(words, text, b, bits, length, owner)
                    if row >= 0:
                        is_known = True
                        list_ = peek(words, row + VALUE)
                if not is_known and not is_text(b, bits, length):
                    good = False
                    break
                if (
                    reading & IS_RESERVED
                    and not is_link
                    and find(words, text, b, bits, length, attribute * KINDS + RESERVED_KIND) >= 0
                ):
                    good = False
                    break
            elif reading & IS_OTHER:
                if kind == NUMBER_KIND and as_float(bits) == 0.0:
                    bits = np.int64(0)  # minus zero is no other number
                # NaN is in no table.
                row = find_number(words, text, bits, attribute * KINDS + kind)
                if row >= 0:
                    list_ = peek(words, row + VALUE)
            poke(values, value + V_LIST, list_)
        if why == ASKS_WORD:
            break
        if not good or not _rest_is_plain(frame, b, p, stop):
            why = OTHER
            break
        if not offered(offer, values, visit, b, text):
            why = OTHER
            break
        # As the matcher reads it.
        k = np.int64(1)
        if frame[MANY]:
            for i in range(seen_count):
                attribute = peek(seen, i)
                list_ = peek(values, attribute * VALUE_ROW + V_LIST)
                if list_ > 0 and peek(attributes, attribute * ATTRIBUTE + READING) & IS_WORDS:
                    k = _append(cells, list_, tokens, k)
        else:
            for i in range(len(word_order)):
                value = peek(word_order, i) * VALUE_ROW
                if peek(values, value + V_EVENT) == visit and peek(values, value + V_LIST) > 0:
                    k = _append(cells, peek(values, value + V_LIST), tokens, k)
        for i in range(len(other_order)):
            attribute = peek(other_order, i)
            value = attribute * VALUE_ROW
            if peek(values, value + V_EVENT) != visit:
                continue
            list_ = peek(values, value + V_LIST)
            if k + 2 + (peek(cells, list_) if list_ > 0 else 0) > NUMBERS:
                good = False
                break
            if list_ > 0:
                k = _append(cells, list_, tokens, k)
            row = attribute * ATTRIBUTE
            kind = peek(values, value + V_KIND)
            if kind == NUMBER_KIND:
                x = as_float(peek(values, value + V_BITS))
                if x != x:
                    continue
                if peek(attributes, row + NUMBER_TOKEN) >= 0:
                    poke(tokens, k, peek(attributes, row + NUMBER_TOKEN))
                    k += 1
            if peek(attributes, row + ANY_TOKEN) >= 0:
                poke(tokens, k, peek(attributes, row + ANY_TOKEN))
                k += 1
        if not good:
            why = OTHER
            break
        for i in range(seen_count):
            attribute = peek(seen, i)
            slot = peek(attributes, attribute * ATTRIBUTE + SLOT)
            value = attribute * VALUE_ROW
            if slot >= 0 and peek(values, value + V_KIND) == NUMBER_KIND:
                poke(numbers, NUMBERS + slot, as_float(peek(values, value + V_BITS)))
        found = match_one(matcher, k, np.int64(0))
        # Where it goes.
        if d + found > deliveries_max or m + found > more_max:
            why = FULL if e else OTHER
            break
        found = resolved(matched, found, odd, entries, visit)
        for i in range(found):
            entry = peek(matched, i)
            if peek(hops, peek(entries, entry * ENTRY + E_HOP) * HOP + H_KIND) == INSIDE_HOP:
                good = False
                break
        if found < 0 or not good:
            why = OTHER
            break
        size = stop - own
        first_delivery, first_more = d, m
        last_links = np.int64(0)
        last_local = np.int64(0)
        for i in range(found):
            entry = peek(matched, i)
            hop = peek(entries, entry * ENTRY + E_HOP)
            row = hop * HOP
            id_bytes = peek(entries, entry * ENTRY + E_ID_BYTES)
            if peek(hops, row + H_VISIT) != visit:
                to_link = peek(hops, row + H_KIND) == LINK_HOP
                if to_link and hop == source:
                    continue
                poke(hops, row + H_VISIT, visit)
                poke(hops, row + H_DELIVERY, d)
                if peek(hops, row + H_CHUNK) != chunk:
                    poke(hops, row + H_CHUNK, chunk)
                    poke(hops, row + H_COUNT, np.int64(0))
                    poke(hops, row + H_BYTES, np.int64(0))
                    poke(touched, t, hop)
                    t += 1
                place = d * DELIVERY
                d += 1
                poke(deliveries, place + D_EVENT, e)
                poke(deliveries, place + D_HOP, hop)
                poke(deliveries, place + D_ENTRY, entry)
                poke(deliveries, place + D_MORE, np.int64(-1))
                if to_link:
                    last_links += 1
                    poke(deliveries, place + D_IDS, np.int64(0))
                    poke(deliveries, place + D_BYTES, HEAD_BYTES + size)
                else:
                    last_local += 1
                    poke(deliveries, place + D_IDS, np.int64(1))
                    poke(deliveries, place + D_IDS_BYTES, id_bytes)
                    poke(deliveries, place + D_BYTES, HEAD_BYTES + 1 + id_bytes + size)
            elif peek(hops, row + H_KIND) != LINK_HOP:
                place = peek(hops, row + H_DELIVERY) * DELIVERY
                ids = peek(deliveries, place + D_IDS)
                poke(more, m * MORE + M_ENTRY, entry)
                poke(more, m * MORE + M_NEXT, np.int64(-1))
                if ids == 1:
                    poke(deliveries, place + D_MORE, m)
                else:
                    poke(more, peek(deliveries, place + D_LAST) * MORE + M_NEXT, m)
                poke(deliveries, place + D_LAST, m)
                m += 1
                wider = (
                    2 if ids == _FEW_IDS else 0
                )  # then the mark of the array has its length behind it
                poke(deliveries, place + D_IDS, ids + 1)
                poke(
                    deliveries,
                    place + D_IDS_BYTES,
                    peek(deliveries, place + D_IDS_BYTES) + id_bytes,
                )
                poke(
                    deliveries,
                    place + D_BYTES,
                    peek(deliveries, place + D_BYTES) + id_bytes + wider,
                )
        for i in range(first_delivery, d):
            place = i * DELIVERY
            ids = peek(deliveries, place + D_IDS)
            if (
                ids > _FEW_IDS
                and peek(deliveries, place + D_IDS_BYTES) + _ID_MARK_BYTES * ids
                > frame[IDS_BYTES_MAX]
            ):
                good = False  # it goes in parts
        if not good:
            d, m = first_delivery, first_more
            why = OTHER
            break
        for i in range(first_delivery, d):
            place = i * DELIVERY
            row = peek(deliveries, place + D_HOP) * HOP
            poke(hops, row + H_COUNT, peek(hops, row + H_COUNT) + 1)
            bytes_ = peek(deliveries, place + D_BYTES)
            poke(hops, row + H_BYTES, peek(hops, row + H_BYTES) + bytes_)
            out_bytes += bytes_
        row = e * EVENT_ROW
        poke(events, row + EV_AT, own)
        poke(events, row + EV_BYTES, size)
        hop_count = hop_count if is_link else np.int64(0)
        poke(events, row + EV_HOPS, hop_count)
        poke(events, row + EV_PUBLISHER, publisher)
        poke(events, row + EV_SEQUENCE, sequence)
        poke(events, row + EV_TIME, be64(b, stop - 9))
        poke(events, row + EV_DELIVERY, first_delivery)
        if is_watched:
            way = number_of_way(frame, hop_count, deliveries, first_delivery, d, more)
            poke(events, row + EV_WAY, way)
            if way >= ways_seen:
                poke(new_ways, way - ways_before, e)
                ways_seen = way + 1
        e += 1
        if is_first:
            poke(published, row_p + P_CHUNK, chunk)
            poke(published, row_p + P_FIRST, sequence)
            poke(touched_publishers, tp, publisher)
            tp += 1
        poke(published, row_p + P_LAST, sequence)
        number += 1
        at = stop
        frame[LAST_LINKS] = last_links
        frame[LAST_LOCAL] = last_local
        if together > 0 and sequence % together == 0:
            why = FULL
            break
    frame[AT] = at
    frame[NUMBER] = number
    frame[EVENT_COUNT] = e
    frame[DELIVERY_COUNT] = d
    frame[HOP_COUNT] = t
    frame[PUBLISHER_COUNT] = tp
    frame[OUT_BYTES] = out_bytes
    frame[CHUNK] = chunk
    frame[VISIT] = visit
    return why
