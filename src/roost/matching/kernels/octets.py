"""Bytes, as kernels read them: numbers out of MessagePack, and texts as two words.

Nothing here reads a byte that is not of the span that it is asked about, so that any bytes object may be read
in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import NDArray

from roost.matching.kernels.jit import inlined, lean, peek

Octets = NDArray[np.uint8]


@intrinsic
def octets_at(_context: Any, address: Any, length: Any) -> Any:
    """The array of bytes that stands at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, 1)
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(args[0], array.data.type),
            shape=[args[1]],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return types.Array(types.uint8, 1, "C")(types.int64, types.int64), generate


@intrinsic
def octets_of(_context: Any, raw: Any) -> Any:
    """The array of the bytes of a bytes object."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, args[0])
        array = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, 1)
        arrayobj.populate_array(
            array,
            data=given.data,
            shape=[given.nitems],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return types.Array(types.uint8, 1, "C")(raw), generate


def _loader(bits: int, swapped: bool) -> Any:
    """Reads a whole number of so many bits at any place, the most significant byte first if `swapped`."""

    @intrinsic
    def load(_context: Any, octets: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            kind = ir.IntType(bits)
            place = builder.gep(data, [args[1]], inbounds=True)
            word = builder.load(builder.bitcast(place, kind.as_pointer()), align=1)
            if swapped:
                turn = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(kind, [kind]), f"llvm.bswap.i{bits}"
                )
                word = builder.call(turn, [word])
            return word if bits == 64 else builder.zext(word, ir.IntType(64))

        return types.int64(octets, types.int64), generate

    return load


be16, be32, be64 = _loader(16, True), _loader(32, True), _loader(64, True)
_le32, le64 = _loader(32, False), _loader(64, False)


@intrinsic
def as_float(_context: Any, bits: Any) -> Any:
    """The float of these bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def as_bits(_context: Any, number: Any) -> Any:
    """The bits of this float."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


# A text of up to so many bytes is known by its two words and its length; of a longer one they are a digest.
WORDS_BYTES = 16
_MIX = np.int64(-7046029288634856825)
_LOW_35 = np.int64((1 << 35) - 1)


@inlined
def mixed(word: int) -> int:
    """A word all of whose bits depend on all of the given one's."""
    word = word * _MIX
    word ^= (word >> np.int64(29)) & _LOW_35
    word = word * _MIX
    return word ^ ((word >> np.int64(29)) & _LOW_35)


@lean
def two_words(octets: Octets, at: int, length: int) -> tuple[int, int]:
    """The first and the last bytes of a text, which overlap unless there are many; a digest of a long one."""
    if length > WORDS_BYTES:
        first, last = np.int64(0), np.int64(length)
        end = at + length - 8
        i = at
        while i < end:
            word = le64(octets, i)
            first = mixed(first ^ word)
            last = (last + word) * _MIX
            i += 8
        word = le64(octets, end)
        return mixed(first ^ word), mixed(last + word)
    if length >= 8:
        return le64(octets, at), le64(octets, at + length - 8)
    if length >= 4:
        return _le32(octets, at), _le32(octets, at + length - 4)
    if length == 0:
        return np.int64(0), np.int64(0)
    first = np.int64(peek(octets, at))
    middle = np.int64(peek(octets, at + (length >> 1)))
    return first | (middle << np.int64(8)), np.int64(peek(octets, at + length - 1))


@lean
def same_octets(octets: Octets, at: int, others: Octets, start: int, length: int) -> bool:
    """Whether the two spans hold the same bytes."""
    i = np.int64(0)
    while i + 8 <= length:
        if le64(octets, at + i) != le64(others, start + i):
            return False
        i += 8
    while i < length:
        if peek(octets, at + i) != peek(others, start + i):
            return False
        i += 1
    return True


_HIGH_BITS = np.int64(-9187201950435737472)  # 0x80 in each byte


@lean
def is_text(octets: Octets, at: int, length: int) -> bool:
    """Whether the span is UTF-8: no overlong forms, no surrogates, nothing beyond the last code point."""
    i, end = at, at + length
    while i < end:
        if i + 8 <= end and not le64(octets, i) & _HIGH_BITS:
            i += 8
            continue
        lead = np.int64(peek(octets, i))
        if lead < 0x80:
            i += 1
            continue
        low, high = np.int64(0x80), np.int64(0xBF)  # what the second byte may be
        if 0xC2 <= lead <= 0xDF:
            more = np.int64(1)
        elif 0xE0 <= lead <= 0xEF:
            more = np.int64(2)
            if lead == 0xE0:
                low = np.int64(0xA0)
            elif lead == 0xED:
                high = np.int64(0x9F)
        elif 0xF0 <= lead <= 0xF4:
            more = np.int64(3)
            if lead == 0xF0:
                low = np.int64(0x90)
            elif lead == 0xF4:
                high = np.int64(0x8F)
        else:
            return False
        if i + more >= end:
            return False
        for place in range(1, more + 1):
            byte = np.int64(peek(octets, i + place))
            if byte < low or byte > high:
                return False
            low, high = np.int64(0x80), np.int64(0xBF)
        i += 1 + more
    return True


@lean
def number_at(b: Octets, at: int, end: int) -> tuple[int, int, bool]:
    """(where it ends, the number, whether there is one): a whole number of 64 bits with a sign."""
    none = (at, np.int64(0), False)
    if at >= end:
        return none
    mark = np.int64(peek(b, at))
    if mark < 0x80:
        return at + 1, mark, True
    if mark >= 0xE0:
        return at + 1, mark - 0x100, True
    if mark < 0xCC or mark > 0xD3:
        return none
    # 0xCC to 0xCF have 1, 2, 4 and 8 bytes without a sign, 0xD0 to 0xD3 with one.
    size = np.int64(1) << (mark & 3)
    if at + 1 + size > end:
        return none
    if size == 1:
        value = np.int64(peek(b, at + 1))
    elif size == 2:
        value = be16(b, at + 1)
    elif size == 4:
        value = be32(b, at + 1)
    else:
        value = be64(b, at + 1)
        if mark == 0xCF and value < 0:
            return none  # more than 64 bits with a sign have
    if mark >= 0xD0:
        unused = np.int64(64) - 8 * size
        value = (value << unused) >> unused
    return at + 1 + size, value, True
