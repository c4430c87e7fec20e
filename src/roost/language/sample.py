"""A value of a set of values, for an example that a person can read.

`3` is tried before `2.0000000000000004`, though both are above 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from roost.language.numberset import NumberSet
from roost.language.stringset import StringSet
from roost.language.values import (
    INT_MAX,
    INT_MIN,
    MIN_CHAR,
    Number,
    Value,
    next_number,
    previous_number,
)
from roost.language.valueset import ValueSet

_FILLERS = ("", "a", "b", "A", "0", "!", "aa", "~")
_NOTHING = ValueSet()


def sample(values: ValueSet, but_not: ValueSet = _NOTHING) -> Value | None:
    """A value that is in `values` and not in `but_not`; None if none was found."""
    return next(samples(values, but_not), None)


def samples(values: ValueSet, but_not: ValueSet = _NOTHING) -> Iterator[Value]:
    """Several such values, the easiest to read first."""
    for candidate in _candidates(values, but_not):
        if candidate in values and candidate not in but_not:
            yield candidate


def _candidates(values: ValueSet, but_not: ValueSet) -> Iterator[Value]:
    if values.numbers:
        yield from _numbers(values.numbers, but_not.numbers)
    if values.strings:
        yield from _strings(values.strings, but_not.strings)
    yield from sorted(values.bools)


def _numbers(inside: NumberSet, outside: NumberSet) -> Iterator[Number]:
    if inside.members is not None:
        yield from sorted(inside.members)
        return
    ends = [inside.low, inside.high]
    if outside.members is None:
        ends += [
            end
            for end in (previous_number(outside.low), next_number(outside.high))
            if end is not None
        ]
        ends += sorted(outside.excluded)
    whole = [whole for end in ends for whole in _whole_near(end)]
    yield from whole or (0,)
    finite = [end for end in ends if math.isfinite(end)]
    yield from ((finite[0] + finite[1]) / 2,) if len(finite) > 1 else ()
    yield from ends
    # What is left out is no more than this, so one of these is in.
    walk: Number | None = inside.low
    for _ in range(1 + len(inside.excluded) + len(outside.members or ())):
        if walk is not None:
            yield walk
            walk = next_number(walk)


def _whole_near(end: Number) -> Iterator[int]:
    if math.isfinite(end):
        for whole in (math.ceil(end), math.floor(end), math.ceil(end) + 1, math.floor(end) - 1):
            if INT_MIN <= whole <= INT_MAX:
                yield whole


def _strings(inside: StringSet, outside: StringSet) -> Iterator[str]:
    if inside.members is not None:
        yield from sorted(inside.members)
        return
    tail = "".join(sorted(inside.infixes)) + inside.suffix
    # After `> 'x'` the interval starts at 'x' and the smallest character there is.
    starts = (inside.low.rstrip(MIN_CHAR), outside.high or "", inside.low)
    likely = (start + filler + tail for start in starts for filler in _FILLERS)
    yield from (text for text in likely if text)
    yield from sorted(outside.excluded)
    yield from (inside.low, "")
