"""The data pipeline, on Spark: what a broker does with one event, it does with billions.

    from roost import pipeline

    with pipeline.spark_session() as spark:
        publications = pipeline.read_events(spark, "quotes.csv")
        subscriptions = pipeline.read_subscriptions(spark, "subscriptions.csv")
        pipeline.match(publications, subscriptions).write.parquet("matches")

Functions from DataFrames to DataFrames; only `session` makes a session. docs/PIPELINE.md walks through it.
Importing this package is cheap: Spark is loaded when it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roost.pipeline.files.tables import read_bars, read_events, read_subscriptions
    from roost.pipeline.lake import Lake
    from roost.pipeline.matching import explain_match, match
    from roost.pipeline.parsing import parse
    from roost.pipeline.schemas import checked, spark_schema
    from roost.pipeline.session import spark_session, start_session
    from roost.pipeline.source.data_source import register
    from roost.pipeline.streaming import match_stream
    from roost.pipeline.subscription_log import SubscriptionLog

__all__ = [
    "Lake",
    "SubscriptionLog",
    "checked",
    "explain_match",
    "match",
    "match_stream",
    "parse",
    "read_bars",
    "read_events",
    "read_subscriptions",
    "register",
    "spark_schema",
    "spark_session",
    "start_session",
]

_HOMES = {
    "files.tables": ("read_bars", "read_events", "read_subscriptions"),
    "lake": ("Lake",),
    "matching": ("explain_match", "match"),
    "parsing": ("parse",),
    "schemas": ("checked", "spark_schema"),
    "session": ("spark_session", "start_session"),
    "source.data_source": ("register",),
    "streaming": ("match_stream",),
    "subscription_log": ("SubscriptionLog",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
