"""Bit vectors against sets of numbers, one by one and many at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.optimising.bitvector import BITS_MAX, BitVector, counts, joined, words_of

POSITIONS = st.sets(st.integers(0, 199))


def positions(vector: BitVector) -> set[int]:
    return {i for i in range(len(vector)) if i in vector}


def test_figure_3() -> None:
    """A session that begins with message 212: message 212 + d sets bit d. The picture itself is lost."""
    first = 212
    vector = BitVector()
    for message in (212, 213, 215, 220):
        vector.set(message - first)
    assert [int(i in vector) for i in range(9)] == [1, 1, 0, 1, 0, 0, 0, 0, 1]
    assert vector.to_bytes() == bytes([0b0000_1011, 0b0000_0001])
    assert (vector.count(), len(vector)) == (4, 9)


@given(st.lists(POSITIONS, max_size=4))
def test_joined_they_stand_one_behind_the_other(parts: list[set[int]]) -> None:
    whole = joined([BitVector(part).to_bytes() for part in parts], 200)
    expected = {200 * number + i for number, part in enumerate(parts) for i in part}
    assert positions(BitVector.from_bytes(whole)) == expected
    with pytest.raises(ValueError, match="beyond the 200 publications"):
        joined([b"", BitVector([200]).to_bytes()], 200)


@given(POSITIONS, POSITIONS)
def test_it_is_a_set(a: set[int], b: set[int]) -> None:
    one, other = BitVector(a), BitVector(b)
    assert positions(one | other) == a | b
    assert positions(one - other) == a - b
    assert one.count() == len(a)
    assert len(one) == max(a, default=-1) + 1
    assert (one == other) == (a == b)
    assert positions(one) == a  # still


@given(POSITIONS, st.integers(0, 3))
def test_bytes(a: set[int], zeros: int) -> None:
    data = BitVector(a).to_bytes()
    assert not data.endswith(b"\0")
    assert positions(BitVector.from_bytes(data + bytes(zeros))) == a


def test_it_grows_and_has_an_end() -> None:
    vector = BitVector([3])
    vector.set(1_000)
    assert positions(vector) == {3, 1_000}
    for bad in (-1, BITS_MAX):
        with pytest.raises(ValueError, match="a session has bits 0 to"):
            vector.set(bad)
    with pytest.raises(ValueError, match="at most"):
        BitVector.from_bytes(bytes(BITS_MAX // 8 + 1))


@given(st.lists(POSITIONS, max_size=5), st.integers(200, 260), st.integers(0, 40))
def test_words(sets: list[set[int]], bits: int, zeros: int) -> None:
    words = words_of([BitVector(a).to_bytes() + bytes(zeros) for a in sets], bits)
    assert words.shape == (len(sets), (bits + 63) // 64)
    assert counts(words).tolist() == [len(a) for a in sets]
    for row, a in zip(words.tolist(), sets, strict=True):
        assert {64 * i + j for i, word in enumerate(row) for j in range(64) if word >> j & 1} == a


@pytest.mark.parametrize(("position", "bits"), [(100, 100), (127, 100), (128, 128), (500, 100)])
def test_a_bit_of_another_session(position: int, bits: int) -> None:
    vectors = [b"", BitVector([position]).to_bytes()]
    words_of(vectors, position + 1)
    with pytest.raises(ValueError, match=f"beyond the {bits} publications"):
        words_of(vectors, bits)


def test_words_of_nothing() -> None:
    assert words_of([b"", b""], 0).shape == (2, 0)
    assert words_of([], 100).shape == (0, 2)
