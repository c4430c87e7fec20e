"""Bytes as machine words: what NumPy's indexing cannot say quickly, and strings as they stand on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from roost.matching.kernels.jit import FOLDER as MATCHING
from roost.matching.kernels.jit import Workshop, peek
from roost.matching.kernels.octets import be16, le64

Bytes = NDArray[np.uint8]

_here = Workshop(Path(__file__).parent, MATCHING)
is_compiled, kernel, lean, inlined = _here.is_compiled, _here.kernel, _here.lean, _here.inlined


@intrinsic
def put32(_context: Any, array: Any, at: Any, value: Any) -> Any:
    """Write the lower 32 bits of a number, big-endian."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word = ir.IntType(32)
        swap = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [word]), "llvm.bswap.i32"
        )
        value = builder.call(swap, [builder.trunc(args[2], word)])
        place = builder.gep(data, [args[1]], inbounds=True)
        builder.store(value, builder.bitcast(place, word.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def put8(_context: Any, array: Any, at: Any, value: Any) -> Any:
    """Write the lower 8 bits of a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = builder.trunc(args[2], ir.IntType(8))
        builder.store(byte, builder.gep(data, [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def put_bytes(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """`target[at : at + count] = source[start : start + count]` for two arrays of bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2]).data
        cgutils.raw_memcpy(
            builder,
            builder.gep(to, [args[1]], inbounds=True),
            builder.gep(of, [args[3]], inbounds=True),
            args[4],
            1,
        )
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, source, number, number), generate


# --- strings --------------------------------------------------------------------------------------

_PRIME = np.int64(-7046029288634856825)
_SEED = np.int64(-3750763034362895579)
_TOP_BITS = np.int64(-9187201950435737472)  # 0x80 in each of eight bytes
_LOW_BITS = np.int64(0x7FFFFFFFF)


@lean
def hash_of(b: Bytes, at: int, n: int) -> int:
    """A number that strings share rarely; who finds one compares the bytes."""
    h = _SEED ^ n
    i, end = at, at + n
    while i + 8 <= end:
        h = (h ^ le64(b, i)) * _PRIME
        h ^= (h >> 29) & _LOW_BITS
        i += 8
    if i < end:
        word = np.int64(0)
        while i < end:
            word = (word << 8) | np.int64(peek(b, i))
            i += 1
        h = (h ^ word) * _PRIME
        h ^= (h >> 29) & _LOW_BITS
    return h


@lean
def hash_of_number(bits: int) -> int:
    """The same for the eight bytes of a word."""
    h = (_SEED ^ 8 ^ bits) * _PRIME
    return h ^ ((h >> 29) & _LOW_BITS)


@inlined
def same(b: Bytes, at: int, other: Bytes, to: int, n: int) -> bool:
    """Whether n bytes are the same in two places."""
    i = np.int64(0)
    while i + 8 <= n:
        if le64(b, at + i) != le64(other, to + i):
            return False
        i += 8
    while i < n:
        if peek(b, at + i) != peek(other, to + i):
            return False
        i += 1
    return True


@lean
def compared(b: Bytes, at: int, n: int, other: Bytes, to: int, m: int) -> int:
    """-1, 0 or 1: how two strings compare by code point, which is how their bytes do."""
    for i in range(min(n, m)):
        x, y = peek(b, at + i), peek(other, to + i)
        if x != y:
            return -1 if x < y else 1
    return (n > m) - (n < m)


@inlined
def is_ascii(b: Bytes, at: int, n: int) -> bool:
    """Whether no byte of them is part of a longer character."""
    i, end = at, at + n
    while i + 8 <= end:
        if le64(b, i) & _TOP_BITS:
            return False
        i += 8
    while i < end:
        if peek(b, i) >= 0x80:
            return False
        i += 1
    return True


@lean
def is_text(b: Bytes, at: int, n: int) -> bool:
    """Whether bytes are UTF-8, as Python has it: the shortest form, no surrogates, nothing past the last."""
    if is_ascii(b, at, n):
        return True
    i, end = at, at + n
    while i < end:
        c = np.int64(peek(b, i))
        if c < 0x80:
            i += 1
            continue
        if c < 0xC2:
            return False
        if c < 0xE0:
            size, low, high = 2, 0x80, 0xBF
        elif c < 0xF0:
            size = 3
            low = 0xA0 if c == 0xE0 else 0x80
            high = 0x9F if c == 0xED else 0xBF
        elif c < 0xF5:
            size = 4
            low = 0x90 if c == 0xF0 else 0x80
            high = 0x8F if c == 0xF4 else 0xBF
        else:
            return False
        if i + size > end:
            return False
        second = np.int64(peek(b, i + 1))
        if second < low or second > high:
            return False
        for j in range(2, size):
            if (np.int64(peek(b, i + j)) & 0xC0) != 0x80:
                return False
        i += size
    return True


# --- MessagePack ----------------------------------------------------------------------------------


@lean
def string_at(b: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the string there begins and how many bytes it has; -1 if it is none, or a very long one."""
    if at >= end:
        return at, np.int64(-1)
    mark = np.int64(peek(b, at))
    if (mark & 0xE0) == 0xA0:
        start, n = at + 1, mark & 31
    elif mark == 0xD9 and at + 2 <= end:
        start, n = at + 2, np.int64(peek(b, at + 1))
    elif mark == 0xDA and at + 3 <= end:
        start, n = at + 3, be16(b, at + 1)
    else:
        return at, np.int64(-1)
    if start + n > end:
        return at, np.int64(-1)
    return start, n
