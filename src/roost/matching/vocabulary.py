"""Tokens: what the values of an event satisfy.

The index does not compare strings. Everything that a filter demands of an attribute, other than an interval
of numbers, becomes a *token*: equality with a value, membership in a list, a prefix, presence, any other
set of strings. Equal demands share a token. An event's values are turned into tokens once, and from there
on matching is about small integers.

Equalities, lists, prefixes and suffixes are looked up; other sets of strings are tried one by one. The
answer for a string is kept in a memo of bounded size, so that a distinct demand is evaluated once a value.
Demands that come later are appended to a log, and an answer in the memo is brought up to date from there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from roost.language.stringset import StringSet, starting_with
from roost.language.values import Kind, Number, Value, is_nan
from roost.language.valueset import ANYTHING, ValueSet, of_kind

MEMO_MAX = 16_384
_LOG_MAX = 1_024

Tokens = tuple[int, ...]
Watcher = Callable[["Attribute", ValueSet], None]
_K = TypeVar("_K")


class Affixes:
    """Prefixes or suffixes, found by their length."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._lengths: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, affix: str, token: int) -> None:
        """Enter an affix that is not there yet."""
        self._tokens[affix] = token
        self._lengths[len(affix)] += 1

    def remove(self, affix: str) -> None:
        """Take out an affix that is there."""
        del self._tokens[affix]
        self._lengths[len(affix)] -= 1
        if not self._lengths[len(affix)]:
            del self._lengths[len(affix)]

    def of_start(self, s: str) -> list[int]:
        """The tokens of all entries that `s` starts with."""
        found = (self._tokens.get(s[:n]) for n in self._lengths if n <= len(s))
        return [token for token in found if token is not None]

    def of_end(self, s: str) -> list[int]:
        """The tokens of all entries that `s` ends with."""
        found = (self._tokens.get(s[len(s) - n :]) for n in self._lengths if n <= len(s))
        return [token for token in found if token is not None]


class Attribute:
    """The tokens of one attribute, and its place among an event's numbers."""

    __slots__ = (
        "_log",
        "_memo",
        "_prefixes",
        "_present",
        "_suffixes",
        "_tests",
        "bools",
        "bounded",
        "equal",
        "name",
        "numbers",
        "slot",
        "strings",
        "tokens",
        "users",
        "watcher",
    )

    def __init__(self, name: str, slot: int, watcher: Watcher | None = None) -> None:
        self.name = name
        self.watcher = watcher  # hears which set of values has got a token, or lost it
        self.slot = slot
        self.users = 0  # how many groups speak of this attribute
        self.bounded = 0  # and how many of those have bounds on it
        self.tokens: dict[ValueSet, int] = {}
        self.equal: dict[Value, int] = {}  # of `tokens`, those of one string or number
        self.strings: dict[str, Tokens] = {}
        self.numbers: dict[Number, Tokens] = {}
        self.bools: dict[bool, Tokens] = {}
        self._prefixes = Affixes()
        self._suffixes = Affixes()
        self._tests: dict[int, StringSet] = {}
        self._present: dict[Kind | None, int] = {}
        self._memo: dict[str, tuple[Tokens, int]] = {}
        self._log: list[tuple[StringSet, int]] = []

    @property
    def words_only(self) -> bool:
        """Whether each of its tokens, of which there are some, stands for one string."""
        return 0 < len(self.equal) == len(self.tokens) == len(self.strings)

    @property
    def reading(self) -> tuple[bool, bool, bool]:
        """In which ways an event's value has to be read."""
        return bool(self.tokens), self.words_only, self.bounded > 0

    @property
    def asks_numbers(self) -> bool:
        """Whether a number may satisfy any of its tokens."""
        return bool(self.numbers or self._present)

    @property
    def has_patterns(self) -> bool:
        """Whether a string may satisfy a token that does not name it."""
        return bool(self._prefixes or self._suffixes or self._tests)

    @property
    def presence(self) -> tuple[int | None, int | None]:
        """The tokens that any value satisfies, and any number."""
        return self._present.get(None), self._present.get(Kind.NUMBER)

    def memory_bytes(self) -> int:
        """About what its tokens take."""
        tables = (self.tokens, self.equal, self.strings, self.numbers, self._tests, self._memo)
        words = sum(sys.getsizeof(value) + 56 for value in self.strings)
        return (
            sum(map(sys.getsizeof, tables)) + words + 3 * sys.getsizeof(ANYTHING) * len(self.tokens)
        )

    def add(self, admitted: ValueSet, token: int) -> None:
        """Let `token` stand for "the value is in `admitted`"."""
        self.tokens[admitted] = token
        members = members_of(admitted)
        if members is not None:
            for value in members:
                self._add_member(value, token)
            if len(members) == 1 and not isinstance(members[0], bool):
                self.equal[members[0]] = token
        elif admitted == ANYTHING or admitted == of_kind(Kind.NUMBER):
            self._present[None if admitted == ANYTHING else Kind.NUMBER] = token
        else:
            self._add_strings(admitted.strings, token)
        if self.watcher is not None:
            self.watcher(self, admitted)

    def remove(self, admitted: ValueSet) -> None:
        """Forget what `add` entered."""
        token = self.tokens.pop(admitted)
        members = members_of(admitted)
        if members is not None:
            for value in members:
                self._remove_member(value, token)
            if len(members) == 1 and not isinstance(members[0], bool):
                del self.equal[members[0]]
        elif admitted == ANYTHING or admitted == of_kind(Kind.NUMBER):
            del self._present[None if admitted == ANYTHING else Kind.NUMBER]
        else:
            self._remove_strings(admitted.strings, token)
            # The token may soon stand for something else.
            self._forget_answers()
        if self.watcher is not None:
            self.watcher(self, admitted)

    def tokens_of(self, value: Value) -> Tokens:
        """All tokens that the value satisfies."""
        if isinstance(value, str):
            found = self.tokens_of_string(value)
        elif isinstance(value, bool):
            found = self.bools.get(value, ())
        elif is_nan(value):
            return ()
        else:
            found = self.numbers.get(value, ()) + self._presence(Kind.NUMBER)
        return found + self._presence(None)

    def _presence(self, kind: Kind | None) -> Tokens:
        token = self._present.get(kind)
        return () if token is None else (token,)

    def tokens_of_string(self, s: str) -> Tokens:
        """Those of a string, without the one that any value has."""
        known = self._memo.get(s)
        if known is None:
            tokens = self._evaluate(s)
            if len(self._memo) >= MEMO_MAX:
                self._forget_answers()
        elif known[1] == len(self._log):
            return known[0]
        else:
            later = self._log[known[1] :]
            tokens = known[0] + tuple(token for admitted, token in later if s in admitted)
        self._memo[s] = (tokens, len(self._log))
        return tokens

    def _evaluate(self, s: str) -> Tokens:
        return (*self.strings.get(s, ()), *self.patterns_of(s))

    def patterns_of(self, s: str) -> Tokens:
        """The tokens that the string satisfies and that do not name it."""
        return (
            *self._prefixes.of_start(s),
            *self._suffixes.of_end(s),
            *(token for token, admitted in self._tests.items() if s in admitted),
        )

    def _forget_answers(self) -> None:
        self._memo.clear()
        self._log.clear()

    def _add_member(self, value: Value, token: int) -> None:
        if isinstance(value, str):
            self.strings[value] = (*self.strings.get(value, ()), token)
            self._memo.pop(value, None)
        elif isinstance(value, bool):
            self.bools[value] = (*self.bools.get(value, ()), token)
        else:
            self.numbers[value] = (*self.numbers.get(value, ()), token)

    def _remove_member(self, value: Value, token: int) -> None:
        if isinstance(value, str):
            _discard(self.strings, value, token)
            self._memo.pop(value, None)
        elif isinstance(value, bool):
            _discard(self.bools, value, token)
        else:
            _discard(self.numbers, value, token)

    def _add_strings(self, admitted: StringSet, token: int) -> None:
        if admitted == starting_with(admitted.low):
            self._prefixes.add(admitted.low, token)
        elif admitted == StringSet(suffix=admitted.suffix):
            self._suffixes.add(admitted.suffix, token)
        else:
            self._tests[token] = admitted
        self._log.append((admitted, token))
        if len(self._log) > _LOG_MAX:
            self._forget_answers()

    def _remove_strings(self, admitted: StringSet, token: int) -> None:
        if admitted == starting_with(admitted.low):
            self._prefixes.remove(admitted.low)
        elif admitted == StringSet(suffix=admitted.suffix):
            self._suffixes.remove(admitted.suffix)
        else:
            del self._tests[token]


def _discard(tokens: dict[_K, Tokens], value: _K, token: int) -> None:
    rest = tuple(t for t in tokens[value] if t != token)
    if rest:
        tokens[value] = rest
    else:
        del tokens[value]


def members_of(admitted: ValueSet) -> list[Value] | None:
    """The values of a finite set; None if the set is infinite."""
    numbers, strings = admitted.numbers.members, admitted.strings.members
    if numbers is None or strings is None:
        return None
    found: list[Value] = []
    found.extend(sorted(numbers))
    found.extend(sorted(strings))
    found.extend(sorted(admitted.bools))
    return found
