"""The options of every command that uses Spark, and its session."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from roost.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, yarn, sc://host:15002; else here.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; repeatable."),
]


@contextmanager
def session_of(master: str | None, conf: Sequence[str] | None) -> Iterator[SparkSession]:
    """The session that the options ask for; Spark's own progress bar if a person is looking."""
    from roost.pipeline.session import spark_session

    settings = {}
    if sys.stderr.isatty():
        settings["spark.ui.showConsoleProgress"] = "true"
    with spark_session(master, settings | settings_of(conf or ())) as session:
        yield session


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """Settings of Spark's from KEY=VALUE."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise UserError(f"--conf {text}: expected KEY=VALUE with a KEY that starts with spark.")
        settings[key] = value
    return settings
