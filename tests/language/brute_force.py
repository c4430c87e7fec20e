"""What filters mean, decided by trying values: the oracle for `covers`, `overlaps` and the sets.

Nothing here knows the core's sets or its successor functions; it asks `Predicate.holds` and
`Filter.matches` only. Trying finitely many values is exact, not a sample, because for each
attribute `values_for` has a value for every combination of answers that the predicates can give:

- Numbers. Answers change only at a constant. So the constants, the numbers directly above and below
  each, and the two infinities meet every stretch between constants that has any number at all.
- Strings. No bound on the length would be plainly enough, so words are grown letter by letter, and
  two words count as the same when they have made the same *progress* with every predicate. Progress
  settles what a predicate says of a word, and it settles the progress of the word with one more
  letter; so of words with equal progress one is worth growing, and there are finitely many. Letters
  that occur in no constant differ only in which letters they lie between: one a gap is enough.
- Bools: both. NaN goes along, to be refused by everything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from roost.language import Event, Filter, Interest, Operator, Predicate, Value, filters_of
from roost.language.values import Number

_INT64 = range(-(2**63), 2**63)


def number_above(x: Number) -> Number | None:
    """The least float or 64-bit int above `x`: the better of the least float and the least int."""
    if x == math.inf:
        return None
    candidates: list[Number] = [float(x), math.nextafter(float(x), math.inf)]
    if not math.isinf(x) and math.floor(x) + 1 in _INT64:
        candidates.append(math.floor(x) + 1)
    elif x < _INT64[0]:
        candidates.append(_INT64[0])
    return min(c for c in candidates if c > x)


def number_below(x: Number) -> Number | None:
    """The greatest float or 64-bit int below `x`."""
    if x == -math.inf:
        return None
    candidates: list[Number] = [float(x), math.nextafter(float(x), -math.inf)]
    if not math.isinf(x) and math.ceil(x) - 1 in _INT64:
        candidates.append(math.ceil(x) - 1)
    elif x > _INT64[-1]:
        candidates.append(_INT64[-1])
    return max(c for c in candidates if c < x)


def numbers_for(constants: Iterable[Number]) -> list[Number]:
    """The constants, two neighbours of each on either side, and the ends of the line."""
    points: set[Number] = {-math.inf, math.inf}
    for x in constants:
        points.add(x)
        for step in (number_above, number_below):
            near = step(x)
            far = None if near is None else step(near)
            points |= {y for y in (near, far) if y is not None}
    return sorted(points)


def letters_for(constants: Iterable[str]) -> list[str]:
    """The letters of the constants, and one for every gap between them that has any."""
    used = sorted({ord(c) for constant in constants for c in constant})
    fresh = {0} | {0xE000 if code == 0xD7FF else code + 1 for code in used}
    return [chr(code) for code in sorted(fresh.union(used)) if code <= 0x10FFFF]


def strings_for(predicates: Iterable[Predicate]) -> list[str]:
    """A word for every progress that a string can make with the predicates."""
    parts = [(p.operator, c) for p in predicates for c in constants_of(p) if isinstance(c, str)]
    letters = letters_for(c for _, c in parts)
    words = [""]
    seen = {_progress("", parts)}
    for word in words:  # grows while it is walked
        for letter in letters:
            longer = word + letter
            progress = _progress(longer, parts)
            if progress not in seen:
                seen.add(progress)
                words.append(longer)
    return words


def _progress(word: str, parts: Iterable[tuple[Operator, str]]) -> tuple[int | str, ...]:
    return tuple(_progress_with(op, constant, word) for op, constant in parts)


def _progress_with(op: Operator, constant: str, word: str) -> int | str:
    if op is Operator.CONTAINS and constant in word:
        return "contained"
    if op in (Operator.CONTAINS, Operator.SUFFIX):
        return max(k for k in range(len(constant) + 1) if word.endswith(constant[:k]))
    if constant.startswith(word):
        return len(word)
    if word.startswith(constant):
        return "beyond"
    return "above" if word > constant else "below"


def constants_of(predicate: Predicate) -> tuple[Value, ...]:
    """The values on the right of the operator; none for `present`."""
    if predicate.operator is Operator.PRESENT:
        return ()
    constant = predicate.constant
    if isinstance(constant, tuple):
        return constant
    assert isinstance(constant, bool | int | float | str)
    return (constant,)


def values_for(predicates: Iterable[Predicate]) -> list[Value]:
    """Values that tell apart all that can be told apart with the predicates."""
    predicates = list(predicates)
    numbers = [
        c
        for p in predicates
        for c in constants_of(p)
        if isinstance(c, int | float) and not isinstance(c, bool)
    ]
    return [*numbers_for(numbers), *strings_for(predicates), False, True, math.nan]


def representatives(predicates: Iterable[Predicate]) -> list[Value]:
    """One value for every combination of answers that the predicates give."""
    predicates = list(predicates)
    by_answers: dict[tuple[bool, ...], Value] = {}
    for value in values_for(predicates):
        by_answers.setdefault(tuple(p.holds(value) for p in predicates), value)
    return list(by_answers.values())


def events_for(*interests: Interest) -> Iterator[Event]:
    """Events that tell apart all that can be told apart with the interests."""
    by_name: dict[str, set[Predicate]] = {}
    for filter_ in itertools.chain.from_iterable(map(filters_of, interests)):
        for p in filter_.predicates:
            by_name.setdefault(p.attribute, set()).add(p)
    choices: list[list[dict[str, Value]]] = [
        [{}, *({name: value} for value in representatives(predicates))]
        for name, predicates in by_name.items()
    ]
    for chosen in itertools.product(*choices):
        yield Event({name: value for part in chosen for name, value in part.items()})


def uncovered_event(a: Interest, b: Interest) -> Event | None:
    """An event that matches `b` and not `a`, or None if `a` really covers `b`."""
    return next((e for e in events_for(a, b) if b.matches(e) and not a.matches(e)), None)


def common_event(a: Interest, b: Interest) -> Event | None:
    """An event that matches both, or None if they really do not overlap."""
    return next((e for e in events_for(a, b) if a.matches(e) and b.matches(e)), None)


def matching_event(filter_: Filter) -> Event | None:
    """An event that matches, or None if none can."""
    return next(filter(filter_.matches, events_for(filter_)), None)
