"""What stands where: the arrays that both passes work on, and their rows. docs/CHUNKS.md explains them.

`frame` holds two words for each array, its address and its length, and behind them the numbers of a chunk.
One array costs less to hand over than twenty.
"""

from __future__ import annotations

# --- arrays, by the place of their address ---------------------------------------------------------
(
    TEXT,  # the heap of strings and lists
    NAMES,  # table: attribute -> its number
    WORDS,  # table: (value, attribute) -> list of tokens
    MEMO,  # the same of strings that had to be tried
    PUBLISHERS,  # table: publisher -> its number
    ATTRIBUTES,  # rows
    VALUES,  # rows: what the event in hand has
    SEEN,  # numbers of the attributes that it has, in its order
    WORD_ORDER,  # numbers of attributes that only words are asked of, as the matcher has them
    OTHER_ORDER,  # those that anything else is asked of
    ENTRIES,  # rows, by handle
    HOPS,  # rows
    PUBLISHED,  # rows, by the number of a publisher
    TOUCHED_HOPS,
    TOUCHED_PUBLISHERS,
    EVENTS,  # rows
    DELIVERIES,  # rows
    MORE_IDS,  # rows
    WAYS,  # table: the ways that events have gone so far
    NEW_WAYS,  # numbers of the first events of those that are new
    OFFER,  # the advertisements of the client that publishes
    MATCHER,  # the matcher's own frame
    EVENT,  # the event as the matcher takes it
    MATCHED,  # what it answers
    ODD,  # the ids behind keys of the matcher's own
    OUT,  # bytes that go out
) = range(0, 52, 2)

# --- numbers ---------------------------------------------------------------------------------------
(
    # What the chunk is read with.
    SOURCE,  # the hop that it comes from, if that is a neighbour; -1
    PUBLISHER,  # the only one that may publish here; -1: any
    NUMBER,  # of the last message of the channel; and behind the chunk
    IS_LINK,  # whether it comes from a neighbour
    MANY,  # whether the matcher takes words in the order of the event
    ATTRIBUTES_MAX,
    NAME_BYTES_MAX,  # of an attribute
    STRING_BYTES_MAX,  # of a value
    PUBLISHER_BYTES_MAX,  # and of a content type
    HEADERS_MAX,
    HEADER_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PUBLICATION_BYTES_MAX,
    FRAME_BYTES_MAX,
    IDS_BYTES_MAX,  # of a delivery
    OUT_BYTES_MAX,  # about so many go out in a chunk
    TOGETHER,  # a chunk ends behind an event whose number is a multiple of this; 0: it need not
    IS_WATCHED,  # whether anybody wants to know which way each event goes
    # What was found.
    AT,  # where it stopped
    EVENT_COUNT,
    DELIVERY_COUNT,
    HOP_COUNT,  # touched
    PUBLISHER_COUNT,  # touched
    OUT_BYTES,
    LAST_LINKS,  # of the last event: to how many neighbours it goes,
    LAST_LOCAL,  # and clients here
    ASK_AT,  # of what is asked for: where it stands,
    ASK_BYTES,  # how long it is,
    ASK_OWNER,  # and of which attribute it is
    # Counters that go on.
    CHUNK,
    VISIT,
    WAY_EPOCH,  # ways of an earlier one are void
    WAY_COUNT,  # how many there are
) = range(52, 85)
FRAME_WORDS = 85

# Why reading stopped.
(
    WHOLE,  # there is no more
    PART,  # the rest is the beginning of a frame
    OTHER,  # the next frame is for the machine
    FULL,  # there is no room for the next event: it begins the next chunk
    ASKS_PUBLISHER,  # the tables don't know a publisher,
    ASKS_WORD,  # or a string that has to be tried
) = range(6)

# --- rows ------------------------------------------------------------------------------------------

# Of ATTRIBUTES. A slot, and tokens that any value has, and any number: -1 where there is none.
SLOT, ANY_TOKEN, NUMBER_TOKEN, READING = range(4)
ATTRIBUTE = 4
# READING, bit by bit.
IS_WORDS = 1  # only words are asked of it
IS_OTHER = 2  # anything else is
IS_TRIED = 4  # strings have to be tried: they are in MEMO
IS_RESERVED = 8  # some of its values are for brokers only

# Of VALUES: the event that had it last, its kind, the number's bits or where the string begins, the string's
# length, and its list of tokens (0: none).
V_EVENT, V_KIND, V_BITS, V_LENGTH, V_LIST = range(5)
VALUE_ROW = 5
NUMBER_KIND, STRING_KIND, BOOL_KIND, RESERVED_KIND = 1, 2, 3, 0
KINDS = 4  # the owner of a word is attribute * KINDS + kind

# Of ENTRIES: whose it is, its id as it stands on the wire, and the event that it was last found for by a key
# of the matcher's own.
E_HOP, E_ID, E_ID_BYTES, E_VISIT = range(4)
ENTRY = 4

# Of HOPS: the event that came last, its delivery, the chunk that came last; of that: how many deliveries, and
# bytes; what it is; and for writing: the last number, and where the next byte goes.
H_VISIT, H_DELIVERY, H_CHUNK, H_COUNT, H_BYTES, H_KIND, H_SENT, H_AT = range(8)
HOP = 8
LINK_HOP, SESSION_HOP, INSIDE_HOP = 1, 2, 3

# Of PUBLISHED: the chunk that had it last, and its first and last number there.
P_CHUNK, P_FIRST, P_LAST = range(3)
PUBLISHED_ROW = 3

# Of EVENTS: where the publication's own part is, its bytes, hops so far; publisher, number, the bits of the
# time of publication; its first delivery, and the number of its way.
EV_AT, EV_BYTES, EV_HOPS, EV_PUBLISHER, EV_SEQUENCE, EV_TIME, EV_DELIVERY, EV_WAY = range(8)
EVENT_ROW = 8

# Of DELIVERIES: event, hop, how many ids (0: a neighbour's), their bytes, the first entry; the first and the
# last of MORE_IDS; all bytes of the frame.
D_EVENT, D_HOP, D_IDS, D_IDS_BYTES, D_ENTRY, D_MORE, D_LAST, D_BYTES = range(8)
DELIVERY = 8

# Of MORE_IDS: entry, and the next one (-1: none).
M_ENTRY, M_NEXT = range(2)
MORE = 2

# Of WAYS: the epoch that a row is of, what is peculiar to the way (a digest: see `kernels.ways`), its number.
W_EPOCH, W_DIGEST, W_NUMBER = range(3)
WAY_ROW = 3

# Of OFFER: how many advertisements; for each how many demands; for each of these attribute, operator, the
# number's bits or where the string is, the string's length (-1: it is a number).
PRESENT, EQUAL, LESS, AT_MOST, MORE_THAN, AT_LEAST = range(6)
DEMAND = 4

# --- frames on the wire (see roost.wire.codec) -------------------------------------------------------
HEAD_BYTES = 13  # in front of the publication's own part
PREFIX_BYTES = 4
