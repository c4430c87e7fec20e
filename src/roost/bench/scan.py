"""The baseline of the match benchmark: NumPy compares every subscription with the event.

One contiguous column of constants an attribute and operator, in the order of the subscriptions;
where a subscription does not ask, the constant is one that every value satisfies. This is what one
would write without an index, and it is quick: no Python runs a subscription.

It is no `Matcher`: it takes columns only, the ids are 0..n-1, every event must have every attribute
that is asked about, and equality is with strings, bounds are on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost.bench.workloads import Template, plain
from roost.language import Event, Operator
from roost.matching import Ids

Compare = Callable[..., NDArray[np.bool_]]

_COMPARE: dict[Operator, Compare] = {
    Operator.LT: np.less,
    Operator.LE: np.less_equal,
    Operator.GT: np.greater,
    Operator.GE: np.greater_equal,
}
# The bound that every number keeps.
_NO_BOUND = {Operator.LT: np.inf, Operator.LE: np.inf, Operator.GT: -np.inf, Operator.GE: -np.inf}
_ANY_WORD = -1
_UNKNOWN_WORD = -2


class Words:
    """What the subscriptions ask of one attribute of strings: a code each, or any."""

    def __init__(self, n: int) -> None:
        self._codes: dict[str, int] = {}
        self._asked = np.full(n, _ANY_WORD)
        self._any = np.ones(n, np.bool_)

    def ask(self, ids: Ids, words: Sequence[str]) -> None:
        """Subscription ids[i] asks for words[i]."""
        self._asked[ids] = [self._codes.setdefault(word, len(self._codes)) for word in words]
        self._any[ids] = False

    def seal(self) -> None:
        """No more will be asked: use as few bytes a code as will do."""
        small = np.int16 if len(self._codes) < np.iinfo(np.int16).max else np.int32
        self._asked = self._asked.astype(small)

    def compare(self, word: str, out: NDArray[np.bool_]) -> None:
        """Who wants this word, or any."""
        np.equal(self._asked, self._codes.get(word, _UNKNOWN_WORD), out=out)
        out |= self._any


class Scan:
    """All subscriptions of some templates, compared with an event at once."""

    def __init__(self, templates: Sequence[Template]) -> None:
        n = sum(len(template.ids) for template in templates)
        # Used again for every event.
        self._hits, self._kept = np.empty(n, np.bool_), np.empty(n, np.bool_)
        self._words: dict[str, Words] = {}
        self._bounds: dict[tuple[str, Operator], NDArray[np.float64]] = {}
        for ids, predicates in templates:
            for name, operator, column in predicates:
                if operator is Operator.EQ:
                    self._words.setdefault(name, Words(n)).ask(ids, plain(column))
                else:
                    neutral = np.full(n, _NO_BOUND[operator])
                    self._bounds.setdefault((name, operator), neutral)[ids] = column
        for words in self._words.values():
            words.seal()

    def match(self, event: Event) -> Ids:
        """The ids of the subscriptions that the event matches."""
        return self._match(event.attributes)

    def match_batch(self, columns: Mapping[str, Any]) -> tuple[Ids, Ids]:
        """(offsets, ids), one event after the other: all pairs at once would not fit in memory."""
        names = [*self._words, *dict.fromkeys(name for name, _ in self._bounds)]
        rows: Iterable[tuple[Any, ...]] = zip(
            *(plain(columns[name]) for name in names), strict=True
        )
        answers = [self._match(dict(zip(names, row, strict=True))) for row in rows]
        offsets = np.cumsum([0, *map(len, answers)], dtype=np.int64)
        return offsets, np.concatenate([np.empty(0, np.int64), *answers])

    def _match(self, values: Mapping[str, Any]) -> Ids:
        hits, kept = self._hits, self._kept
        hits.fill(True)
        for name, words in self._words.items():
            words.compare(values[name], kept)
            hits &= kept
        for (name, operator), bounds in self._bounds.items():
            _COMPARE[operator](values[name], bounds, out=kept)
            hits &= kept
        return np.flatnonzero(hits)
