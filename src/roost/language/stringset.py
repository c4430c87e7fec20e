"""Sets of strings that conjunctions of predicates can describe, with exact answers.

A set is either finitely many `members`, or the strings of a half-open interval `low <= s < high` in code
point order (a prefix is such an interval) that end with `suffix`, contain each of `infixes` and are none
of `excluded`.

Whether such a set is empty, or lies within another, is decided through its interval's *pieces*. An
interval is a disjoint union of finitely many single words and *fans*: a fan is all strings that begin
with a given prefix followed by one character of a range. In a fan one can always go on with any filler,
then the infixes, then the suffix; so a fan is never emptied by suffix, infixes or exclusions, and a new
infix is implied there only if the prefix, the suffix or a known infix already contains it (choose a
filler that does not occur in it). What is left are the single words, and those are tried one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os.path import commonprefix

from roost.language.values import MAX_CHAR, MIN_CHAR, after_prefix, next_char, previous_char


@dataclass(frozen=True, slots=True)
class Fan:
    """All strings that start with `prefix` and then a character from `first` to `last`."""

    prefix: str
    first: str
    last: str

    @property
    def stem(self) -> str:
        """What all its strings begin with; a range of one character lengthens the prefix."""
        return self.prefix + self.first if self.first == self.last else self.prefix


@dataclass(frozen=True, slots=True)
class StringSet:
    """Finitely many `members`, or an interval with a suffix, infixes and excluded words."""

    low: str = ""
    high: str | None = None
    suffix: str = ""
    infixes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    members: frozenset[str] | None = None

    def __contains__(self, s: str) -> bool:
        if self.members is not None:
            return s in self.members
        return (
            self.low <= s
            and (self.high is None or s < self.high)
            and s.endswith(self.suffix)
            and all(infix in s for infix in self.infixes)
            and s not in self.excluded
        )

    def __bool__(self) -> bool:
        """Whether there is any string in it."""
        if self.members is not None:
            return bool(self.members)
        return any(isinstance(piece, Fan) or piece in self for piece in self._pieces())

    def __and__(self, other: StringSet) -> StringSet:
        if self.members is not None:
            return StringSet(members=frozenset(s for s in self.members if s in other))
        if other.members is not None:
            return other & self
        shorter, suffix = sorted((self.suffix, other.suffix), key=len)
        if not suffix.endswith(shorter):
            return NO_STRINGS
        if self.high is None or other.high is None:
            high = other.high if self.high is None else self.high
        else:
            high = min(self.high, other.high)
        return StringSet(
            low=max(self.low, other.low),
            high=high,
            suffix=suffix,
            infixes=self.infixes | other.infixes,
            excluded=self.excluded | other.excluded,
        )

    def __le__(self, other: StringSet) -> bool:
        """Whether every string of this set is in the other."""
        if self.members is not None:
            return all(s in other for s in self.members)
        if other.members is not None:
            # A fan is infinite, so only single words can lie within finitely many members.
            return all(
                not isinstance(piece, Fan) and (piece not in self or piece in other)
                for piece in self._pieces()
            )
        return (
            not self & StringSet(high=other.low)
            and (other.high is None or not self & StringSet(low=other.high))
            and not any(s in self for s in other.excluded)
            and self._ends_and_contains_as(other)
        )

    def _ends_and_contains_as(self, other: StringSet) -> bool:
        """Whether every string of this set has the other's suffix and infixes."""
        # What the suffix or a known infix contains is settled once; there may be thousands of fans.
        known = (self.suffix, *self.infixes)
        new = [infix for infix in other.infixes if not any(infix in text for text in known)]
        same_end = self.suffix.endswith(other.suffix)
        return all(
            same_end and all(infix in piece.stem for infix in new)
            if isinstance(piece, Fan)
            else piece not in self or piece in other
            for piece in self._pieces()
        )

    def _pieces(self) -> Iterator[str | Fan]:
        low, high = self.low, self.high
        if high is not None and low >= high:
            return
        yield low
        shared = 0 if high is None else len(commonprefix((low, high)))  # noqa: RUF071
        if high is None or shared < len(low):
            yield Fan(low, MIN_CHAR, MAX_CHAR)
            # Words that leave `low` upwards at position i, down to where low and high part.
            for i in range(len(low) - 1, shared - (high is None), -1):
                yield from _fan(low[:i], next_char(low[i]), MAX_CHAR)
        if high is None:
            return
        if shared < len(low):
            yield from _fan(low[:shared], next_char(low[shared]), previous_char(high[shared]))
            shared += 1
            if shared < len(high):
                yield high[:shared]
        # Words that leave `high` downwards at position i, and the beginnings of `high` themselves.
        for i in range(shared, len(high)):
            if i > shared:
                yield high[:i]
            yield from _fan(high[:i], MIN_CHAR, previous_char(high[i]))


def _fan(prefix: str, first: str | None, last: str | None) -> Iterator[Fan]:
    if first is not None and last is not None and first <= last:
        yield Fan(prefix, first, last)


ALL_STRINGS = StringSet()
NO_STRINGS = StringSet(members=frozenset())


def starting_with(prefix: str) -> StringSet:
    """All strings that begin with `prefix`."""
    return StringSet(low=prefix, high=after_prefix(prefix))


def successor(s: str) -> str:
    """The string that follows `s` immediately."""
    return s + MIN_CHAR
