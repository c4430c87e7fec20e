"""Which publications of a trace session were delivered at a broker, as bits (000 section 4.1, figure 3).

A session is named after its first publication; the publication that comes d later has bit d. Such vectors are
small, the audience of several brokers is the OR of theirs, and the number of bits that are set is the message
rate over a session. Two forms:

- `BitVector`, one vector that grows as publications come, for a broker that keeps it and for messages;
- *words*, the vectors of many brokers as rows of 64-bit words, for a decision that looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

WORD_BITS = 64
# A session traces about a hundred publications. A position far beyond is no publication of it, and would
# take its memory anyway.
BITS_MAX = 1 << 20


class BitVector:
    """A set of positions from 0 on, kept in one int: it is as long as its last bit."""

    __slots__ = ("_bits",)
    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self._bits = 0
        for position in positions:
            self.set(position)

    def set(self, position: int) -> None:
        """The publication that came `position` after the first of the session was delivered."""
        if not 0 <= position < BITS_MAX:
            raise ValueError(f"bit {position}: a session has bits 0 to {BITS_MAX - 1:,}")
        self._bits |= 1 << position

    def set_all(self, positions: range) -> None:
        """The same of several, one behind the other."""
        if positions:
            self.set(positions[-1])  # which may be refused
            self._bits |= ((1 << len(positions)) - 1) << positions[0]

    def __contains__(self, position: int) -> bool:
        return bool(self._bits >> position & 1)

    def __len__(self) -> int:
        """The position behind the last bit that is set."""
        return self._bits.bit_length()

    def __or__(self, other: BitVector) -> BitVector:
        """What was delivered at either."""
        return _of(self._bits | other._bits)

    def __sub__(self, other: BitVector) -> BitVector:
        """What was delivered here and not there."""
        return _of(self._bits & ~other._bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BitVector) and self._bits == other._bits

    def count(self) -> int:
        """How many publications were delivered."""
        return self._bits.bit_count()

    def to_bytes(self) -> bytes:
        """For messages: bit 0 is the lowest of the first byte; no zero bytes at the end."""
        return self._bits.to_bytes((len(self) + 7) // 8, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> BitVector:
        """From a message; zero bytes at the end are no fault."""
        if len(data) * 8 > BITS_MAX:
            raise ValueError(f"a bit vector of {len(data):,} bytes; at most {BITS_MAX // 8:,}")
        return _of(int.from_bytes(data, "little"))

    def __repr__(self) -> str:
        return f"BitVector({[i for i in range(len(self)) if i in self]})"


def _of(bits: int) -> BitVector:
    vector = BitVector()
    vector._bits = bits
    return vector


def joined(vectors: Sequence[bytes], bits: int) -> bytes:
    """One vector of vectors of `bits` each, one behind the other; a bit beyond them is refused."""
    whole = 0
    for vector in reversed(vectors):
        part = int.from_bytes(vector, "little")
        if part.bit_length() > bits:
            raise ValueError(
                f"a bit vector has a bit beyond the {bits:,} publications of its session"
            )
        whole = whole << bits | part
    return _of(whole).to_bytes()


# --- many at once ---------------------------------------------------------------------------------


def words_of(vectors: Sequence[bytes], bits: int) -> Words:
    """One row a vector, wide enough for `bits`. A bit beyond them is refused: it is of another session."""
    width = -(-bits // WORD_BITS)
    size = width * WORD_BITS // 8
    rows = b"".join([vector.ljust(size, b"\0") for vector in vectors])
    if len(rows) == size * len(vectors):
        words = np.frombuffer(rows, "<u8").reshape(len(vectors), width).astype(np.uint64)
        spare = width * WORD_BITS - bits
        if not spare or not (words[:, -1] >> np.uint64(WORD_BITS - spare)).any():
            return words
    elif all(len(vector.rstrip(b"\0")) <= size for vector in vectors):
        return words_of([vector.rstrip(b"\0") for vector in vectors], bits)
    raise ValueError(f"a bit vector has a bit beyond the {bits:,} publications of its session")


def counts(words: Words) -> Ints:
    """How many bits are set in each row."""
    found: Ints = np.bitwise_count(words).sum(axis=-1, dtype=np.int64)
    return found
