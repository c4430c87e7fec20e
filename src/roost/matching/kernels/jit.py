"""How kernels are compiled, and where the machine code is kept.

Importing a kernel compiles nothing: Numba compiles it when it is first called, and keeps the machine code
on disk for the next process. Numba looks only at the file of the kernel itself to tell whether its code
is stale; our kernels call each other across files. So the code is kept in a directory named after the
sources of all of them: an edit anywhere makes a new directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _fingerprint() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_DIRECTORY = Path(__file__).parent / "__pycache__" / f"kernels-{_fingerprint()}"


def kernel(function: _Function) -> _Function:
    """Compile on first use, without the interpreter lock, and keep the code on disk.

    Where the package's own directory cannot be written, Numba falls back to the user's cache directory.
    """
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_DIRECTORY)
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return compiled


def direct(compiled: Any) -> Callable[..., Any]:
    """The machine code of a kernel that has been called once, without the look at its arguments' types.

    For the one call that a broker makes an event. The arguments must be of the types of that first call.
    """
    (only,) = compiled.overloads.values()
    return only.entry_point


# What NumPy's indexing and operators cannot say, for the innermost loops.


@intrinsic
def lowest_bit(_context: Any, word: Any) -> Any:
    """The position of the lowest bit that is set; 64 for 0."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def peek(_context: Any, array: Any, index: Any) -> Any:
    """`array[index]` for an index known to be within: no test for Python's negative indices."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]], inbounds=True))

    return array.dtype(array, types.int64), generate


@intrinsic
def poke(_context: Any, array: Any, index: Any, value: Any) -> Any:
    """`array[index] = value` for an index known to be within."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), generate


_LANES = 8


@intrinsic
def boxes_around(
    _context: Any, cells: Any, lows: Any, highs: Any, value: Any, top: Any, ones: Any
) -> Any:
    """Which of 64 rows hold a value, as two words with a bit a row: touching or inside, and inside.

    The rows' lows and highs stand in `cells` from positions `lows` and `highs`; all are words of several
    small numbers (see `grid_layout`). Eight rows are compared at a time, with vector instructions where
    the machine has them.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, low_at, high_at, value, top, ones = args
        data = context.make_array(signature.args[0])(context, builder, array).data
        word = ir.IntType(64)
        vector = ir.VectorType(word, _LANES)

        def spread(x: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, word(0))
            return builder.shuffle_vector(
                one,
                ir.Constant(vector, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES),
            )

        def load(at: Any) -> Any:
            place = builder.gep(data, [at], inbounds=True)
            return builder.load(builder.bitcast(place, vector.as_pointer()), align=8)

        values, tops, one_each = spread(value), spread(top), spread(ones)
        values_top = builder.or_(values, tops)

        def bits(inside: Any, first: int) -> Any:
            all_set = builder.icmp_unsigned("==", builder.and_(inside, tops), tops)
            mask = builder.zext(builder.bitcast(all_set, ir.IntType(_LANES)), word)
            return builder.shl(mask, word(first))

        near, sure = word(0), word(0)
        for first in range(0, 64, _LANES):
            above = builder.sub(values_top, load(builder.add(low_at, word(first))))
            below = builder.sub(load(builder.add(high_at, word(first))), values)
            inner = builder.and_(builder.sub(above, one_each), builder.sub(below, one_each))
            near = builder.or_(near, bits(builder.and_(above, below), first))
            sure = builder.or_(sure, bits(inner, first))
        return context.make_tuple(builder, signature.return_type, (near, sure))

    number = types.int64
    pair = types.UniTuple(number, 2)
    return pair(cells, number, number, number, number, number), generate


@intrinsic
def move(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """`target[at : at + count] = source[start : start + count]` for two arrays that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2]).data
        cgutils.memcpy(
            builder,
            builder.gep(to, [args[1]], inbounds=True),
            builder.gep(of, [args[3]], inbounds=True),
            args[4],
        )
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, source, number, number), generate
