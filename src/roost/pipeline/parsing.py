"""Filters as text, taken apart into the table `parsed` (see the module of that name).

Spark tasks run this, so it loads Spark only where a frame comes in.

What a person did wrong is found in a task, and has to reach that person as one message. An exception
crosses from a task as a traceback in a text, so `marking` marks the message in it and `plain_refusals` finds
it again. Where Roost collects the answer itself, errors travel as data, which no task has to fail for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from roost.errors import UserError
from roost.language import LanguageError, Subscription, parse_subscription
from roost.pipeline.arguments import arguments_checked
from roost.pipeline.parsed import from_arrow, to_arrow
from roost.pipeline.parsing_forms import Forms
from roost.pipeline.schemas import SCHEMAS, SUBSCRIPTION, checked, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "Batches",
    "Parser",
    "Work",
    "check_ids",
    "from_arrow",
    "marked",
    "marking",
    "parse",
    "plain_refusals",
]

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Iterator[pa.RecordBatch]]

# So many distinct texts does a task remember.
MEMO_MAX = 1 << 14

_MARK = "roost refuses: "
_marked = re.compile(re.escape(_MARK) + r'("(?:[^"\\]|\\.)*")').search
NO_ROOST = (
    "Spark's workers have no Roost: expected it to be installed in the Python that they run"
    " (PYSPARK_PYTHON, or --conf spark.pyspark.python=PATH)"
)
# What a worker says in whose Python there is no Roost, or no part of it that it needs.
_has_no_roost = re.compile(r"No module named '?roost\b").search


@arguments_checked
def parse(subscriptions: DataFrame) -> DataFrame:
    """The table `parsed` of a table `subscriptions`, lazily, by the tasks of Spark.

    A filter that is none, or an id that is none, fails the job that uses the result: under
    `plain_refusals` with a `UserError` that names the subscription and points at the column.
    """
    checked(subscriptions, "subscriptions")
    frame = subscriptions.select(SUBSCRIPTION, "filter")
    return frame.mapInArrow(marking(parse_batches), spark_schema("parsed"))


def parse_batches(batches: Batches) -> Iterator[pa.RecordBatch]:
    """What `parse` does in a task."""
    parser = Parser()
    for batch in batches:
        yield parser.parsed(batch)


class Parser:
    """Parses batches of `subscriptions`, each distinct text once (as long as there are not too many)."""

    def __init__(self) -> None:
        self._memo: dict[str, Subscription] = {}
        self._forms = Forms()

    def parsed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as one of `parsed`. A `UserError` says which subscription has what wrong."""
        ids, texts = batch.column(0), batch.column(1).cast(pa.string())
        check_ids(ids)
        words = texts.dictionary_encode()
        rows = words.indices
        try:
            if rows.null_count:
                raise LanguageError("the filter is null; expected a text")
            filters = self._forms.filters(words.dictionary.to_pylist(), self._parsed)
        except LanguageError:
            # Rarely needed, so only now: which of them was it?
            for id_, text in zip(ids.to_pylist(), texts.to_pylist(), strict=True):
                _blame(id_, text)
            raise
        if len(filters) < len(rows):
            filters = filters.take(rows)
        return pa.record_batch([ids, filters], SCHEMAS["parsed"])

    def _parsed(self, texts: Sequence[str]) -> pa.ListArray:
        return to_arrow(map(self._subscription, texts))

    def _subscription(self, text: str) -> Subscription:
        known = self._memo.get(text)
        if known is None:
            known = parse_subscription(text)
            if len(self._memo) < MEMO_MAX:
                self._memo[text] = known
        return known


def _blame(id_: int, text: str | None) -> None:
    """A `UserError` if this is the filter that is none."""
    if text is None:
        raise UserError(f"subscription {id_}: the filter is null; expected a text")
    try:
        parse_subscription(text)
    except LanguageError as error:
        raise UserError(f"subscription {id_}: in the filter, {error}") from None


def check_ids(ids: pa.Array) -> None:
    """Refuses a column with what can't be the id of a subscription."""
    if ids.null_count:
        raise UserError("a subscription has no id (null); expected a whole number from 0 on")
    numbers = ids.to_numpy(zero_copy_only=False)
    if len(numbers) and numbers.min() < 0:
        raise UserError(
            f"{numbers.min()} is not a subscription id; expected a whole number from 0 on"
        )


# --- refusals that come from a task ---------------------------------------------------------------


def marking(work: Work) -> Work:
    """The work of a task, with the messages of its `UserError`s marked."""

    def marking_work(batches: Batches) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(batches)
        except UserError as error:
            raise UserError(marked(str(error))) from None

    return marking_work


def marked(message: str) -> str:
    """A message that is found again in whatever Spark makes of it."""
    return _MARK + json.dumps(message, ensure_ascii=False)


@contextmanager
def plain_refusals() -> Iterator[None]:
    """Turns what a task refused into the `UserError` that it was.

    So is what is wrong with the workers themselves, if they have no Roost.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 (not in a task)

    try:
        yield
    except Exception as error:
        # What fails in Spark's own code comes as it is in the JVM.
        if not isinstance(error, PySparkException) and type(error).__module__ != "py4j.protocol":
            raise
        text = str(error)
        found = _marked(text)
        if found is not None:
            raise UserError(json.loads(found[1])) from None
        if _has_no_roost(text):
            raise UserError(NO_ROOST) from None
        raise
