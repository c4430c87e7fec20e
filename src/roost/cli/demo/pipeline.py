"""The part of `roost demo` on bulk matching: tables of quotes and subscriptions, and all their matches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

QUOTES = 100_000
SUBSCRIPTIONS = 20_000
SHOWN = 5


def show(console: Console, spark: SparkSession) -> None:
    """Generates, matches and counts, by the same index that a broker has."""
    from pyspark.sql import functions as F  # noqa: N812

    from roost.pipeline import explain_match, match
    from roost.pipeline.workload.stock import stock_publications, stock_subscriptions

    console.print("The same matching in bulk, on Spark", style="bold")
    start = time.perf_counter()
    with console.status(f"matching {QUOTES:,} quotes"):
        quotes = stock_publications(spark, seed=1, rows=QUOTES, partitions=4)
        filters = stock_subscriptions(spark, seed=1, rows=SUBSCRIPTIONS, partitions=4).cache()
        reason = explain_match(quotes, filters).reason
        lists = match(quotes, filters, form="lists", keep=["symbol"])
        counted = lists.select("symbol", F.size("subscriptions").alias("n"))
        by_symbol = counted.groupBy("symbol").agg(F.count("*"), F.sum("n")).collect()
        filters.unpersist()
    seconds = time.perf_counter() - start
    matches = sum(found for _, _, found in by_symbol)
    busiest = sorted(by_symbol, key=lambda row: (-row[2], row[0]))[:SHOWN]
    console.print(
        f"  {QUOTES:,} quotes x {SUBSCRIPTIONS:,} filters: {matches:,} matches in {seconds:.1f} s"
    )
    console.print(f"  {reason}")
    console.print(
        "  most of them for "
        + ", ".join(f"{symbol} ({found:,})" for symbol, _, found in busiest)
        + "\n"
    )
