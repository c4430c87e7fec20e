"""What the choice of a plan needs to know: how many, how long, and how much memory there is.

One quick job counts the subscriptions and the bytes of their filters. A sample is loaded into an index only
if it has to be. An index of a sample says more about a larger one than its average: names and groups are
there once. So half of the sample is loaded too, and the growth between the two is what counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)

from roost.matching import Index
from roost.pipeline.matching.choosing import Estimate, Statistics, why_no_broadcast
from roost.pipeline.matching.inputs import Inputs
from roost.pipeline.matching.loading import (
    PACKED,
    WEIGHED,
    WEIGHT,
    Flat,
    check_distinct,
    load,
    pack,
    unpack,
)
from roost.pipeline.memory import available_memory
from roost.pipeline.schemas import SUBSCRIPTION
from roost.pipeline.session import local_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE = 20_000
SEED = 20_260
# An index takes a little more than it says; a subscription that is added by itself is made of objects.
MARGIN = 1.5
BYTES_OF_OBJECTS = 500
# Of the memory that is available, for what Roost loads: Spark and everybody else need some too.
SHARE = 0.5
# A message of Spark Connect is 128 MB at most, and has other things in it too.
CARRY_LIMIT = 96 << 20

_WEIGHT_OF_PARSED = (
    "aggregate(flatten(filters), 0L, (a, p) -> a + 8 +"
    " aggregate(p.values, 0L, (b, v) -> b + 8 + coalesce(octet_length(v.text), 0)))"
)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Sampled(NamedTuple):
    """What is known, and the sample it is known from, if one was taken (a table WEIGHED)."""

    statistics: Statistics
    sample: pa.Table | None


def gathered(inputs: Inputs, memory_limit: int, plan: str) -> Sampled:
    """The statistics, from a sample if there is a doubt or the plan needs one."""
    statistics = _measured(inputs)
    if plan == "join":
        return Sampled(statistics, None)
    if plan != "partitioned" and why_no_broadcast(statistics, memory_limit) is None:
        return Sampled(statistics, None)
    sample = sample_of(inputs, statistics.subscriptions)
    return Sampled(replace(statistics, estimate=estimate_of(sample)), sample)


def _measured(inputs: Inputs) -> Statistics:
    session = inputs.session
    weight = F.octet_length("filter") if inputs.is_text else F.expr(_WEIGHT_OF_PARSED)
    row = inputs.subscriptions.agg(F.count(F.lit(1)), F.sum(weight.cast("long"))).first()
    assert row is not None
    remote = is_remote(session)
    return Statistics(
        subscriptions=row[0],
        weight=row[1] or 0,
        tasks=tasks_at_a_time(session),
        driver_limit=int(SHARE * available_memory()),
        result_limit=setting_bytes(session, "spark.driver.maxResultSize", "1g") or None,
        carry_limit=CARRY_LIMIT if remote else None,
    )


def sample_of(inputs: Inputs, subscriptions: int) -> pa.Table:
    """About SAMPLE of the subscriptions, parsed and weighed."""
    frame = inputs.subscriptions
    if subscriptions > SAMPLE:
        frame = frame.sample(fraction=SAMPLE / subscriptions, seed=SEED)
    batches = list(unpack(collect_packed(frame)))
    check_distinct(batches)
    return pa.Table.from_batches(batches, WEIGHED)


def collect_packed(subscriptions: DataFrame) -> pa.Table:
    """All of them, packed, on the driver."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (a private place)

    return subscriptions.mapInArrow(pack, from_arrow_schema(PACKED)).toArrow()


def estimate_of(sample: pa.Table) -> Estimate:
    """How much memory an index takes, from what it takes for the sample."""
    weights = sample.column(WEIGHT)
    whole = _Load.of(sample)
    half = _Load.of(sample.slice(0, sample.num_rows // 2))
    weight = max(1, whole.weight - half.weight)
    index = MARGIN * max(0, whole.index - half.index) / weight
    pickled = MARGIN * max(0, whole.pickled - half.pickled) / weight
    fixed = max(0.0, MARGIN * whole.index - index * whole.weight)
    packed = sample.nbytes / max(1, pc.sum(weights).as_py() or 0)
    return Estimate(fixed, index, pickled, packed)


@dataclass(frozen=True)
class _Load:
    """What an index takes. It is about as large on its way as it is in memory."""

    weight: int
    index: int
    pickled: int

    @classmethod
    def of(cls, table: pa.Table) -> _Load:
        index = Index()
        load(index, table)
        weight = pc.sum(table.column(WEIGHT)).as_py() or 0
        odd = int(np.count_nonzero(~Flat.of(table).plain)) if table.num_rows else 0
        size = index.memory_bytes()
        return cls(weight, 2 * size + BYTES_OF_OBJECTS * odd, size)


def twice(inputs: Inputs) -> int | None:
    """An id that two subscriptions have, if there is one."""
    ids = inputs.subscriptions.groupBy(SUBSCRIPTION).count().where("count > 1").limit(1).collect()
    return ids[0][0] if ids else None


# --- the machine ----------------------------------------------------------------------------------


def default_memory_limit(session: SparkSession) -> int:
    """What the subscriptions may take in a task, if nobody says.

    On this machine that is a share of the memory that is available now. On a cluster it is what an
    executor has for Python.
    """
    master = session.conf.get("spark.master", "") or ""
    tasks = tasks_at_a_time(session)
    if master.startswith("local"):
        return int(SHARE * available_memory() / tasks)
    cores = int(session.conf.get("spark.executor.cores", "1") or 1)
    python = setting_bytes(session, "spark.executor.pyspark.memory", "0", unit="m")
    if not python:
        executor = setting_bytes(session, "spark.executor.memory", "1g", unit="m")
        usual = max(384 << 20, executor // 10)
        python = setting_bytes(session, "spark.executor.memoryOverhead", f"{usual}b", unit="m")
    return int(SHARE * python / cores)


def tasks_at_a_time(session: SparkSession) -> int:
    """How many tasks run at the same time, as far as the session says."""
    master = session.conf.get("spark.master", "") or ""
    if master.startswith("local"):
        return local_cores(master)
    if is_remote(session):
        return int(session.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    return max(1, session.sparkContext.defaultParallelism)


def is_remote(session: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def setting_bytes(session: SparkSession, key: str, default: str, *, unit: str = "b") -> int:
    """A setting of Spark's that is a number of bytes; `unit` is that of a number without one."""
    text = session.conf.get(key, default) or default
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    if found is None:
        return 0
    has_unit = found[2] or text.lower().rstrip().endswith("b")
    return int(found[1]) * _UNITS[found[2] if has_unit else unit]
