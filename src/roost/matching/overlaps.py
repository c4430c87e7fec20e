"""Which interests overlap a given one: advertisements for a subscription, or the other way round.

Two conjunctions overlap just if, on each attribute that both speak of, some value satisfies both; what only
one of them speaks of cannot keep them apart (001 section 2.1.2, `roost.language.overlaps`). So:

- Filters that speak of the same attributes have the same *shape* and are kept together. A lookup goes
  through the shapes, and in each looks only at the attributes that the query speaks of too. If there are
  none, all filters of the shape overlap it.
- What a filter says of an attribute is a *demand*: one of finitely many values (`symbol = 'IBM'`, `in`), an
  interval of numbers, or any other set. Different finite demands exclude each other. So a shape has for each
  attribute a table from values to the filters that admit them, beside the filters without such a demand; the
  lookup takes the attribute that leaves the fewest candidates, and tests only these.
- Equal demands on an attribute of a shape are one object, so that a lookup compares it with the query's once,
  however many filters make it. Where they are few, and values leave no fewer candidates, they are compared
  beforehand: often all meet the query's (`class = 'STOCK'`), and the attribute is settled for the shape.
- `present` without a kind of value keeps nothing apart, and is not kept. A filter that no event can match
  overlaps nothing, and is not kept either.

A disjunction overlaps if one of its filters does: each is entered and looked up on its own.

What it costs. Adding and removing depend on the size of the interest alone. A lookup takes a few steps a
shape, one a candidate, and the answer. Stock workloads have a handful of shapes, whatever their size; where
attributes combine freely there are thousands, and going through them takes the most time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from roost.language import Constant, Filter, Interest, Kind, Operator, filters_of
from roost.language.numberset import NumberSet
from roost.language.valueset import ANYTHING, ValueSet, of_kind
from roost.matching.conjunct import Point, Span, conjunct_of
from roost.matching.contract import DuplicateIdError, UnknownIdError, check_id

# Up to so many demands on an attribute are compared with the query's before candidates are looked for.
_FEW = 16

# What a filter admits of an attribute: finitely many values, an interval of numbers, any other set.
Admitted = frozenset[Point] | Span | ValueSet


class OverlapIndex:
    """Interests under ids, and the question which of them overlap a given one.

    >>> from roost.language import parse_advertisement, parse_filter
    >>> index = OverlapIndex()
    >>> index.add(7, parse_advertisement("class = 'STOCK' and symbol = 'YHOO' and volume present"))
    >>> index.add(3, parse_advertisement("class = 'STOCK' and symbol = 'IBM' and volume present"))
    >>> index.overlapping(parse_filter("volume > 1000"))
    [7, 3]
    >>> index.any_overlapping(parse_filter("symbol = 'MSFT'"))
    False
    """

    def __init__(self) -> None:
        # Each filter of an interest has a number; the older the interest, the lower.
        self._numbers: dict[int, list[tuple[int, _Shape]]] = {}
        self._ids: dict[int, int] = {}
        self._next_number = 0
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def __len__(self) -> int:
        """How many interests there are."""
        return len(self._numbers)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._numbers

    def add(self, id_: int, interest: Interest) -> None:
        """Hold an interest. DuplicateIdError if the id is in use."""
        id_ = check_id(id_)
        if id_ in self._numbers:
            raise DuplicateIdError(id_)
        numbers = self._numbers[id_] = []
        for admitted in _parts(interest):
            names = tuple(sorted(admitted))
            shape = self._shapes.get(names)
            if shape is None:
                shape = self._shapes[names] = _Shape(names)
            number, self._next_number = self._next_number, self._next_number + 1
            shape.add(number, admitted)
            self._ids[number] = id_
            numbers.append((number, shape))

    def remove(self, id_: int) -> None:
        """Forget an interest. UnknownIdError if there is none."""
        id_ = check_id(id_)
        numbers = self._numbers.pop(id_, None)
        if numbers is None:
            raise UnknownIdError(id_)
        for number, shape in numbers:
            del self._ids[number]
            shape.remove(number)
            if not shape.filters:
                del self._shapes[tuple(shape.columns)]

    def overlapping(self, interest: Interest) -> list[int]:
        """The ids of the interests that overlap this one, the oldest first."""
        found = sorted(chain.from_iterable(self._found(interest)))
        return list(dict.fromkeys(map(self._ids.__getitem__, found)))

    def any_overlapping(self, interest: Interest) -> bool:
        """Whether there is any; looks no further than the first."""
        return any(True for numbers in self._found(interest) for _ in numbers)

    def _found(self, interest: Interest) -> Iterator[Iterable[int]]:
        """The filters that overlap one of the interest's, in no order, perhaps several times."""
        for admitted in _parts(interest):
            wanted = {name: _Demand(values) for name, values in admitted.items()}
            for shape in self._shapes.values():
                yield shape.overlapping(wanted)


class _Demand:
    """What filters demand of an attribute: never nothing at all, nor the impossible."""

    __slots__ = ("admitted", "points", "uses")

    def __init__(self, admitted: Admitted) -> None:
        self.admitted = admitted
        self.points = admitted if isinstance(admitted, frozenset) else None
        self.uses = 0

    def meets(self, other: _Demand) -> bool:
        """Whether one value satisfies both."""
        mine, theirs = self.admitted, other.admitted
        if isinstance(mine, tuple) and isinstance(theirs, tuple):
            # The ends of a span are in it.
            return mine[0] <= theirs[1] and theirs[0] <= mine[1]
        if isinstance(mine, frozenset):
            if isinstance(theirs, frozenset):
                return not mine.isdisjoint(theirs)
            return any(_admits(theirs, point) for point in mine)
        if isinstance(theirs, frozenset):
            return any(_admits(mine, point) for point in theirs)
        if isinstance(mine, ValueSet) and isinstance(theirs, ValueSet):
            return bool(mine & theirs)
        return bool(_numbers(mine) & _numbers(theirs))


def _admits(admitted: Span | ValueSet, point: Point) -> bool:
    if isinstance(admitted, tuple):
        return isinstance(point, int | float) and admitted[0] <= point <= admitted[1]
    return (point[0] if isinstance(point, tuple) else point) in admitted


def _numbers(admitted: Span | ValueSet) -> NumberSet:
    return NumberSet(*admitted) if isinstance(admitted, tuple) else admitted.numbers


class _Verdicts(dict[_Demand, bool]):
    """Whether demands meet the one that is wanted; each is compared when it is first asked for."""

    def __init__(self, wanted: _Demand) -> None:
        self._wanted = wanted

    def __missing__(self, demand: _Demand) -> bool:
        verdict = self[demand] = demand.meets(self._wanted)
        return verdict


class _Column:
    """One attribute of the filters of a shape."""

    __slots__ = ("demands", "finite", "loose", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.demands: dict[Admitted, _Demand] = {}
        # By value, the filters that admit it among finitely many; and those that admit other sets.
        self.finite: dict[Point, dict[int, None]] = {}
        self.loose: dict[int, None] = {}

    def add(self, number: int, admitted: Admitted) -> _Demand:
        demand = self.demands.get(admitted)
        if demand is None:
            demand = self.demands[admitted] = _Demand(admitted)
        demand.uses += 1
        if demand.points is None:
            self.loose[number] = None
        else:
            for point in demand.points:
                self.finite.setdefault(point, {})[number] = None
        return demand

    def remove(self, number: int, demand: _Demand) -> None:
        demand.uses -= 1
        if not demand.uses:
            del self.demands[demand.admitted]
        if demand.points is None:
            del self.loose[number]
            return
        for point in demand.points:
            numbers = self.finite[point]
            del numbers[number]
            if not numbers:
                del self.finite[point]

    def candidates(self, points: Iterable[Point]) -> list[Collection[int]]:
        """The filters that may admit one of these values."""
        lists = [self.finite[point] for point in points if point in self.finite]
        return [*lists, self.loose]


class _Shape:
    """The filters that speak of the same attributes, by their numbers."""

    __slots__ = ("columns", "filters")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.columns = {name: _Column(position) for position, name in enumerate(names)}
        # A demand a column.
        self.filters: dict[int, tuple[_Demand, ...]] = {}

    def add(self, number: int, admitted: Mapping[str, Admitted]) -> None:
        self.filters[number] = tuple(
            [column.add(number, admitted[name]) for name, column in self.columns.items()]
        )

    def remove(self, number: int) -> None:
        demands = self.filters.pop(number)
        for column, demand in zip(self.columns.values(), demands, strict=True):
            column.remove(number, demand)

    def overlapping(self, wanted: Mapping[str, _Demand]) -> Iterable[int]:
        """The filters that overlap one with these demands; some of them perhaps several times."""
        tests: list[tuple[int, _Verdicts]] = []
        candidates: list[Collection[int]] = [self.filters]
        fewest = len(self.filters)
        for name, demand in wanted.items():
            column = self.columns.get(name)
            if column is None:
                continue
            narrows = False
            if demand.points is not None:
                reached = column.candidates(demand.points)
                count = sum(map(len, reached))
                if not count:
                    return ()
                narrows = count < fewest
                if narrows:
                    candidates, fewest = reached, count
            if not narrows and len(column.demands) <= _FEW:
                met = [one.meets(demand) for one in column.demands.values()]
                if all(met):
                    continue
                if not any(met):
                    return ()
            tests.append((column.position, _Verdicts(demand)))
        return self._verified(candidates, tests) if tests else self.filters

    def _verified(
        self, candidates: list[Collection[int]], tests: list[tuple[int, _Verdicts]]
    ) -> Iterator[int]:
        """The candidates that pass the tests."""
        filters = self.filters
        for number in chain.from_iterable(candidates):
            demands = filters[number]
            for position, verdicts in tests:
                if not verdicts[demands[position]]:
                    break
            else:
                yield number


# --- what a filter admits -------------------------------------------------------------------------


def _parts(interest: Interest) -> Iterator[dict[str, Admitted]]:
    """What each filter admits that some event can match."""
    for filter_ in filters_of(interest):
        admitted = _admitted(filter_)
        if admitted is not None:
            yield admitted


def _admitted(filter_: Filter) -> dict[str, Admitted] | None:
    """What the filter admits of each attribute that it restricts; None if no event can match it."""
    present = {p.attribute: p for p in filter_.predicates if p.operator is Operator.PRESENT}
    if present:
        # Advertisements are full of them, and their sets would take longer than all else together.
        others = [p for p in filter_.predicates if present.get(p.attribute) is not p]
        if any(p.attribute in present for p in others):
            present = {}
        else:
            filter_ = Filter(others)
    conjunct = conjunct_of(filter_)
    if conjunct is None:
        return None
    admitted: dict[str, Admitted] = {
        name: frozenset((point,)) for name, point in conjunct.points.items()
    }
    admitted.update(conjunct.spans)
    for name, wide in conjunct.others.items():
        tidied = _tidied(wide)
        if tidied is not None:
            admitted[name] = tidied
    for name, predicate in present.items():
        of_this_kind = _OF_KIND[predicate.constant]
        if of_this_kind is not None:
            admitted[name] = of_this_kind
    return admitted


def _tidied(values: ValueSet) -> Admitted | None:
    """The set in its simplest form; None if it is that of all values."""
    if values == ANYTHING:
        return None
    numbers, strings, bools = values.numbers, values.strings, values.bools
    if numbers.members is None:
        if not numbers.excluded and not strings and not bools:
            return numbers.low, numbers.high
    elif strings.members is not None:
        return numbers.members | strings.members | frozenset((one,) for one in bools)
    return values


_OF_KIND: dict[Constant, Admitted | None] = {kind: _tidied(of_kind(kind)) for kind in Kind}
_OF_KIND[None] = None
