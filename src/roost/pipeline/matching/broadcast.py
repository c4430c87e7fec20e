"""The plan `broadcast`: every worker has the whole index, and publications stay where they are.

The tasks parse, the driver builds the index and pickles it once, and each worker process unpickles it once,
however many tasks it runs. Spark's broadcasts see to that. A session of Spark Connect has none: there the
index travels in the function itself, which arrives anew with every task, so a worker keeps the index that
it unpickled last, under the name it came with.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from roost.matching import Index
from roost.pipeline.matching.inputs import Inputs
from roost.pipeline.matching.loading import check_distinct, load_all, unpack
from roost.pipeline.matching.tasks import Matching, Reading
from roost.pipeline.parsing import Batches, marking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Carried(Protocol):
    """An index on its way to the workers."""

    @property
    def value(self) -> Index:
        """The index, in a worker."""


@dataclass(frozen=True)
class Enclosed:
    """An index that travels within a function."""

    name: str
    pickled: bytes

    @property
    def value(self) -> Index:
        """The index; unpickled only if the last one here was another."""
        index = _last.get(self.name)
        if index is None:
            _last.clear()
            index = _last[self.name] = pickle.loads(self.pickled)
        return index


_last: dict[str, Index] = {}


@dataclass(frozen=True)
class Held:
    """An index that the workers of a session can get, and the attributes that it speaks of."""

    carried: Carried
    names: frozenset[str]
    count: int


def hold(inputs: Inputs) -> Held:
    """Builds the index of all subscriptions."""
    from roost.pipeline.matching.statistics import collect_packed  # noqa: PLC0415 (not in a task)

    batches = list(unpack(collect_packed(inputs.subscriptions)))
    check_distinct(batches)
    index = Index()
    names = load_all(index, batches)
    return Held(_carried(inputs.session, index), frozenset(names), len(index))


def _carried(session: SparkSession, index: Index) -> Carried:
    from roost.pipeline.matching.statistics import is_remote  # noqa: PLC0415 (not in a task)

    if is_remote(session):
        return Enclosed(uuid.uuid4().hex, pickle.dumps(index, pickle.HIGHEST_PROTOCOL))
    carried: Any = session.sparkContext.broadcast(index)
    return carried  # type: ignore[no-any-return]


def match_held(inputs: Inputs, held: Held) -> DataFrame:
    """The matches of the publications, by an index that is held."""
    frame, reading = inputs.columns(held.names)
    work = _work(held.carried, reading, inputs.form)
    return frame.mapInArrow(marking(work), inputs.schema)


def _work(carried: Carried, reading: Reading, form: str) -> Any:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from Matching(carried.value, reading, form).answers(batches)

    return work
