"""Random tables for the tests of the bulk match, with everything in them that the language has.

Constants and values are drawn from the same few, so that they meet. A Spark job takes a third of a second, so
a case is one of many subscriptions and publications instead of many cases.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from roost.language import Event, Filter, Interest, Kind, Operator, Predicate, Subscription, Value
from roost.matching import Naive
from roost.matching.contract import Matcher
from tests.language.strategies import NASTY_FLOATS, NASTY_INTS

INTS = [0, 1, 2, 3, -1, *NASTY_INTS]
FLOATS = [0.5, 1.5, 2.0, *NASTY_FLOATS]
NUMBERS: list[Value] = [*INTS, *FLOATS]
WORDS: list[Value] = ["", "a", "b", "ab", "ba", "\0", "é", "\U0010ffff", "it's", "a.b"]
BOOLS: list[Value] = [True, False]

# Name, type in Spark, the values there are; the last has no attribute's name.
COLUMNS: list[tuple[str, str, list[Any]]] = [
    ("whole", "bigint", INTS),
    ("real", "double", [*map(float, INTS), *FLOATS, math.nan]),
    ("word", "string", WORDS),
    ("flag", "boolean", BOOLS),
    ("tiny", "tinyint", [-1, 0, 1, 2, 3]),
    ("a.b", "float", [0.5, 1.0, math.nan, math.inf]),
]
KINDS: Mapping[str, list[Value]] = {
    "whole": NUMBERS,
    "real": NUMBERS,
    "word": WORDS,
    "flag": BOOLS,
    "tiny": NUMBERS,
    "a.b": NUMBERS,
    "nowhere": NUMBERS,
}
EVERYTHING = [*NUMBERS, *WORDS, *BOOLS]


@dataclass(frozen=True)
class Case:
    """Subscriptions by their ids, and rows of publications: a number, a value a column, a tag."""

    subscriptions: dict[int, Subscription]
    rows: list[tuple[Any, ...]]

    def events(self) -> list[Event]:
        """The same publications as events."""
        names = [name for name, _, _ in COLUMNS]
        return [
            Event({n: v for n, v in zip(names, row[1:], strict=False) if v is not None})
            for row in self.rows
        ]

    def publications(self, spark: SparkSession) -> DataFrame:
        """The publications as a table, in several partitions."""
        types = ", ".join(f"`{name}` {kind}" for name, kind, _ in COLUMNS)
        frame = spark.createDataFrame(self.rows, f"publication bigint, {types}, tag date")
        return frame.repartition(3)

    def texts(self, spark: SparkSession) -> DataFrame:
        """The publications with their events as texts."""
        rows = [(row[0], str(event)) for row, event in zip(self.rows, self.events(), strict=True)]
        return spark.createDataFrame(rows, "publication bigint, event string").repartition(2)

    def filters(self, spark: SparkSession) -> DataFrame:
        """The subscriptions as a table."""
        rows = [(id_, str(s)) for id_, s in self.subscriptions.items()]
        return spark.createDataFrame(rows, "subscription bigint, filter string").repartition(3)

    def pairs(self) -> list[tuple[int, int]]:
        """What matches, by the obvious way."""
        return pairs_of(self.subscriptions, [row[0] for row in self.rows], self.events())


def pairs_of(
    interests: Mapping[int, Interest], numbers: Iterable[int], events: Iterable[Event]
) -> list[tuple[int, int]]:
    """(publication, subscription) of all matches, in order."""
    naive: Matcher = Naive()
    for id_, interest in interests.items():
        naive.add(id_, interest)
    answers = ((n, naive.match(event)) for n, event in zip(numbers, events, strict=True))
    return sorted((n, id_) for n, ids in answers for id_ in ids.tolist())


def lists_of(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The same, a list a publication."""
    found: dict[int, list[int]] = defaultdict(list)
    for publication, subscription in sorted(pairs):
        found[publication].append(subscription)
    return dict(found)


def random_case(seed: int, subscriptions: int, publications: int) -> Case:
    """A case with every operator, missing attributes, NaN, large integers and values of the wrong kind."""
    import datetime

    rng = random.Random(seed)
    day = datetime.date(2024, 1, 2)
    rows = [
        (
            number,
            *(None if rng.random() < 0.2 else rng.choice(values) for _, _, values in COLUMNS),
            day + datetime.timedelta(number),
        )
        for number in range(publications)
    ]
    interests = {3 * n: random_subscription(rng) for n in range(subscriptions)}
    return Case(interests, rows)


def random_subscription(rng: random.Random) -> Subscription:
    """Mostly one filter, of which a good part is plain."""
    if rng.random() < 0.3:
        low, high = rng.choice(NUMBERS), rng.choice(NUMBERS)
        plain = [
            Predicate("word", Operator.EQ, rng.choice(WORDS)),
            Predicate("real", rng.choice([Operator.GE, Operator.GT]), low),
            Predicate("real", rng.choice([Operator.LE, Operator.LT]), high),
        ]
        return Subscription([Filter(plain[rng.randrange(2) :])])
    filters = []
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
        predicates = [random_predicate(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))]
        filters.append(Filter(predicates))
    return Subscription(filters)


def random_predicate(rng: random.Random) -> Predicate:
    """Any operator, and mostly a constant that fits the attribute."""
    name = rng.choice(list(KINDS))
    operator = rng.choice(list(Operator))
    values = KINDS[name] if rng.random() < 0.8 else EVERYTHING
    if operator is Operator.PRESENT:
        return Predicate(name, operator, rng.choice([None, None, *Kind]))
    if operator is Operator.IN:
        return Predicate(name, operator, tuple(rng.choices(values, k=rng.randint(1, 4))))
    if operator in (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS):
        return Predicate(name, operator, rng.choice(WORDS))
    if operator not in (Operator.EQ, Operator.NE):
        values = [value for value in values if not isinstance(value, bool)] or NUMBERS
    return Predicate(name, operator, rng.choice(values))
