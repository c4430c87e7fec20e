"""How kernels are compiled, and where the machine code is kept.

Importing a kernel compiles nothing: Numba compiles it when it is first called, and keeps the machine code
on disk for the next process. Numba looks only at the file of the kernel itself to tell whether its code
is stale; our kernels call each other across files. So the code is kept in a directory named after the
sources of all of them: an edit anywhere makes a new directory. A package whose kernels call these has a
`Workshop` of its own, and names theirs among the sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numba.np import arrayobj

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _fingerprint(folders: tuple[Path, ...]) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Workshop:
    """The kernels of a folder, which may call those of others. Their code is kept beside them."""

    def __init__(self, folder: Path, *others: Path) -> None:
        mark = _fingerprint((folder, *others))
        self.directory = folder / "__pycache__" / f"kernels-{mark}"

    def is_compiled(self) -> bool:
        """Whether machine code of these kernels is on disk, in their own directory."""
        return any(self.directory.rglob("*.nbi"))

    def kernel(self, function: _Function) -> _Function:
        """Compile on first use, without the interpreter lock, and keep the code on disk.

        Where the package's own directory cannot be written, Numba falls back to the user's cache directory.
        """
        return self._compiled(function)

    def lean(self, function: _Function) -> _Function:
        """A `kernel` that makes no arrays, and so need not count references to them.

        For what runs for every event: counting costs more than many a kernel does.
        """
        return self._compiled(function, _nrt=False)

    def inlined(self, function: _Function) -> _Function:
        """A `lean` kernel that becomes part of its callers.

        To hand over an array means to copy all that describes it.
        """
        return self._compiled(function, _nrt=False, inline="always")

    def _compiled(self, function: _Function, **options: Any) -> _Function:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(self.directory)
        try:
            compiled = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = before
        return compiled


FOLDER = Path(__file__).parent
_here = Workshop(FOLDER)
_DIRECTORY = _here.directory
is_compiled, kernel, lean, inlined = _here.is_compiled, _here.kernel, _here.lean, _here.inlined


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


@intrinsic
def array_at(_context: Any, address: Any, length: Any) -> Any:
    """The array of words that stands at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, 8)
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(args[0], array.data.type),
            shape=[args[1]],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return types.Array(types.int64, 1, "C")(types.int64, types.int64), generate


_LANES = 8
_PAIR = types.UniTuple(types.int64, 2)


@intrinsic
def count_up_to(_context: Any, reals: Any, at: Any, x: Any) -> Any:
    """How many of the eight numbers from position `at` are <= x."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word, vector = ir.IntType(64), ir.VectorType(ir.DoubleType(), _LANES)
        nothing = ir.Constant(vector, ir.Undefined)
        first = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        spread = builder.shuffle_vector(
            builder.insert_element(nothing, args[2], word(0)), nothing, first
        )
        place = builder.gep(data, [args[1]], inbounds=True)
        numbers = builder.load(builder.bitcast(place, vector.as_pointer()), align=8)
        mask = builder.fcmp_ordered("<=", numbers, spread)
        byte = builder.bitcast(mask, ir.IntType(_LANES))
        return builder.zext(builder.ctpop(byte), word)

    return types.int64(reals, types.int64, types.float64), generate


class _Boxes:
    """The comparison of a value with 64 rows, eight at a time (see `boxes_around`)."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        array, self.lows, self.highs, value, top, ones = args
        self.builder = builder
        self.data = context.make_array(signature.args[0])(context, builder, array).data
        self.word = ir.IntType(64)
        self.vector = ir.VectorType(self.word, _LANES)
        self.values, self.tops, self.ones = (
            self._spread(value),
            self._spread(top),
            self._spread(ones),
        )
        self.values_top = builder.or_(self.values, self.tops)

    def _spread(self, x: Any) -> Any:
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        one = self.builder.insert_element(nothing, x, self.word(0))
        return self.builder.shuffle_vector(one, nothing, first)

    def _load(self, at: Any, lane: int) -> Any:
        place = self.builder.gep(self.data, [self.builder.add(at, self.word(lane))], inbounds=True)
        return self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()), align=8)

    def compare(self, lane: int) -> tuple[Any, Any]:
        """Eight rows from `lane`: their tops stay if the value is within, and if it is inside."""
        b = self.builder
        above = b.sub(self.values_top, self._load(self.lows, lane))
        below = b.sub(self._load(self.highs, lane), self.values)
        return b.and_(above, below), b.and_(b.sub(above, self.ones), b.sub(below, self.ones))

    def bits(self, compared: Any, lane: int) -> Any:
        """A bit for each of the eight rows that kept all its tops, at its place in the word."""
        kept = self.builder.and_(compared, self.tops)
        mask = self.builder.icmp_unsigned("==", kept, self.tops)
        byte = self.builder.bitcast(mask, ir.IntType(_LANES))
        return self.builder.shl(self.builder.zext(byte, self.word), self.word(lane))


@intrinsic
def boxes_around(
    _context: Any, cells: Any, lows: Any, highs: Any, value: Any, top: Any, ones: Any
) -> Any:
    """Which of 64 rows hold a value, as two words with a bit a row: touching or inside, and inside.

    The rows' lows and highs stand in `cells` from positions `lows` and `highs`; all are words of several
    small numbers (see `grid_layout`). Vector instructions are used where the machine has them.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        boxes = _Boxes(context, builder, signature, args)
        near, sure = boxes.word(0), boxes.word(0)
        for lane in range(0, 64, _LANES):
            within, inside = boxes.compare(lane)
            near = builder.or_(near, boxes.bits(within, lane))
            sure = builder.or_(sure, boxes.bits(inside, lane))
        return context.make_tuple(builder, signature.return_type, (near, sure))

    return _PAIR(cells, *[types.int64] * 5), generate


# Whether the machine can squeeze a vector in one instruction; elsewhere `take_marked` is no help.
SQUEEZES: bool = "avx512f" in (config.CPU_FEATURES or "") or (
    config.CPU_NAME is None and get_host_cpu_features().get("avx512f", False)
)


@intrinsic
def take_marked(_context: Any, target: Any, at: Any, source: Any, start: Any, marks: Any) -> Any:
    """Copy those of 64 words whose bit in `marks` is set; the position behind the last.

    Eight words are squeezed at a time, and written whole: up to eight words behind the last are
    written over. How many are marked is what a processor cannot guess; here it need not.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2]).data
        position, first, word = args[1], args[3], ir.IntType(64)
        vector, flags = ir.VectorType(word, _LANES), ir.VectorType(ir.IntType(1), _LANES)
        squeeze = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector, flags, vector]),
            f"llvm.experimental.vector.compress.v{_LANES}i64",
        )
        for lane in range(0, 64, _LANES):
            byte = builder.trunc(builder.lshr(args[4], word(lane)), ir.IntType(_LANES))
            place = builder.gep(of, [builder.add(first, word(lane))], inbounds=True)
            words = builder.load(builder.bitcast(place, vector.as_pointer()), align=8)
            squeezed = builder.call(
                squeeze, [words, builder.bitcast(byte, flags), ir.Constant(vector, ir.Undefined)]
            )
            place = builder.gep(to, [position], inbounds=True)
            builder.store(squeezed, builder.bitcast(place, vector.as_pointer()), align=8)
            position = builder.add(position, builder.zext(builder.ctpop(byte), word))
        return position

    number = types.int64
    return number(target, number, source, number, number), generate


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


@intrinsic
def move_whole(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """`move`, eight words at a time, without a look at how many there are.

    Up to seven words behind the last are read and written over.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2]).data
        vector = ir.VectorType(ir.IntType(64), _LANES).as_pointer()
        to = builder.gep(to, [args[1]], inbounds=True)
        of = builder.gep(of, [args[3]], inbounds=True)
        step = ir.Constant(args[4].type, _LANES)
        with cgutils.for_range_slice(builder, args[4].type(0), args[4], step, inc=True) as (i, _):
            words = builder.load(
                builder.bitcast(builder.gep(of, [i], inbounds=True), vector), align=8
            )
            place = builder.gep(to, [i], inbounds=True)
            builder.store(words, builder.bitcast(place, vector), align=8)
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, source, number, number), generate
