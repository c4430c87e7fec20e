"""Which plan a match shall use: a pure function of a few figures.

The quickest plan gives every worker the whole index (`broadcast`). It is right as long as that fits. What an
index takes is not known before it is built, so it is bounded from above by what filters can take at worst;
only if that bound does not fit, a sample of the subscriptions is loaded and what it takes is extrapolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.filesize import decimal as in_bytes

from roost.errors import UserError

# What an index takes at worst: a byte of a filter's text, and a subscription. Short predicates with constants
# that no other has, in disjunctions, are the most expensive that there is.
BYTES_A_WEIGHT_MAX = 512
BYTES_A_SUBSCRIPTION_MAX = 512
# What parsed filters take at worst, while they are collected.
PACKED_A_WEIGHT_MAX = 16


@dataclass(frozen=True)
class Estimate:
    """What a sample says about memory, in bytes a unit of weight; `fixed` is what any number needs."""

    fixed: float
    index: float  # of the index in a worker, with what it needs while it is unpacked there
    pickled: float  # of the index on its way
    packed: float  # of the parsed filters, while the driver collects them


@dataclass(frozen=True)
class Statistics:
    """What the choice depends on. `weight` is the length of all filters as text, or about that."""

    subscriptions: int
    weight: int
    tasks: int = 1
    driver_limit: int | None = None  # memory of the driver
    result_limit: int | None = None  # what Spark lets the driver collect
    carry_limit: int | None = None  # what fits into a message to the cluster (Spark Connect)
    estimate: Estimate | None = None

    @property
    def index_bytes(self) -> int:
        """What the index takes in each worker; without a sample, what it can take at most."""
        if self.estimate is None:
            return self.weight * BYTES_A_WEIGHT_MAX + self.subscriptions * BYTES_A_SUBSCRIPTION_MAX
        return int(self.estimate.fixed + self.weight * self.estimate.index)

    @property
    def pickled_bytes(self) -> int:
        """What it takes on its way there."""
        if self.estimate is None:
            return self.index_bytes
        return int(self.estimate.fixed + self.weight * self.estimate.pickled)

    @property
    def packed_bytes(self) -> int:
        """What the parsed filters take, from which the driver builds it."""
        a_weight = PACKED_A_WEIGHT_MAX if self.estimate is None else self.estimate.packed
        return int(self.weight * a_weight + 16 * self.subscriptions)


@dataclass(frozen=True)
class Choice:
    """A plan, why it was chosen in words, and the figures behind it."""

    plan: str
    reason: str
    figures: Mapping[str, float]


def choose(statistics: Statistics, memory_limit: int, *, plan: str = "auto") -> Choice:
    """The plan to use, if a task may take `memory_limit` bytes for subscriptions.

    A plan that was asked for is the answer, unless it is a broadcast that does not fit: that is a
    `UserError`.
    """
    figures = {
        "subscriptions": statistics.subscriptions,
        "index_bytes": statistics.index_bytes,
        "memory_limit_bytes": memory_limit,
        "tasks": statistics.tasks,
    }
    if plan in ("join", "partitioned"):
        return Choice(plan, "asked for", figures)
    obstacle = why_no_broadcast(statistics, memory_limit)
    if obstacle is None:
        at_most = "at most " if statistics.estimate is None else "about "
        fits = (
            f"an index of {statistics.subscriptions:,} subscriptions takes"
            f" {at_most}{in_bytes(statistics.index_bytes)}, which every task has"
            f" (limit {in_bytes(memory_limit)})"
        )
        return Choice("broadcast", f"asked for; {fits}" if plan == "broadcast" else fits, figures)
    if plan == "broadcast":
        raise UserError(
            f"the plan 'broadcast' does not fit: {obstacle}. Use the plan 'partitioned' (or 'auto'), or"
            " give tasks more memory"
        )
    return Choice("partitioned", obstacle, figures)


def why_no_broadcast(statistics: Statistics, memory_limit: int) -> str | None:
    """Why not every worker can have the whole index; None if it can."""
    n = f"{statistics.subscriptions:,} subscriptions"
    index = statistics.index_bytes
    if index > memory_limit:
        return (
            f"an index of {n} takes about {in_bytes(index)}, and the limit of a task is"
            f" {in_bytes(memory_limit)}"
        )
    packed = statistics.packed_bytes
    if statistics.result_limit is not None and packed > statistics.result_limit:
        return (
            f"to index {n}, the driver has to collect about {in_bytes(packed)}, and"
            f" spark.driver.maxResultSize is {in_bytes(statistics.result_limit)}"
        )
    # The driver holds the parsed filters, the index and what is sent of it.
    driver = 2 * packed + index + statistics.pickled_bytes
    if statistics.driver_limit is not None and driver > statistics.driver_limit:
        return (
            f"to index {n}, the driver needs about {in_bytes(driver)}, and has"
            f" {in_bytes(statistics.driver_limit)}"
        )
    if statistics.carry_limit is not None and statistics.pickled_bytes > statistics.carry_limit:
        return (
            f"an index of {n} is about {in_bytes(statistics.pickled_bytes)} on its way, and a message"
            f" of Spark Connect takes {in_bytes(statistics.carry_limit)}"
        )
    return None
