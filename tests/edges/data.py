"""Data of people's own: in columns, in files and on Spark they match as events of the language do."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from roost.errors import UserError
from roost.language import parse_filter
from roost.matching import Index
from tests.edges.kit import WITHIN_S, BrokenPromise, Stage, case, until

# Spark starts in less, on a machine that has nothing else to do.
SPARK_S = 3 * WITHIN_S
# What events and columns may have at most.
STRING_LENGTH_MAX = 65_536

# A program that asks Spark something, and prints it. It gets SELECT, IDS and FILTERS.
SPARK = """\
import json, sys
from pyspark.sql import functions
from roost import pipeline

asked = json.loads(sys.argv[1])
with pipeline.spark_session("local[1]", {"spark.ui.enabled": "false"}) as spark:
    rows = [(1, "A", 1.5), (2, "B", 2.5), (3, "A", 2.5)]
    publications = spark.createDataFrame(rows, "n bigint, word string, x double")
    publications = publications.selectExpr(*asked["select"])
    kind = "string" if isinstance(asked["filters"][0][0], str) else "bigint"
    filters = [tuple(row) for row in asked["filters"]]
    subscriptions = spark.createDataFrame(filters, f"subscription {kind}, filter string")
    found = pipeline.match(publications, subscriptions, plan=asked["plan"])
    pairs = sorted([row[0], row[1]] for row in found.collect())
    print("PAIRS", json.dumps(pairs))
"""


def index_of(text: str) -> Index:
    index = Index()
    index.add(1, parse_filter(text))
    return index


# --- columns and files ------------------------------------------------------------------------------


@case(once="NOTHING matched '3946e2'")
async def an_identifier_that_looks_like_a_number(stage: Stage) -> str:
    """In a column of texts of a CSV file all cells are texts, also `3946e2`."""
    with (stage.folder / "events.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["icao"], ["a0f1b2"], ["3946e2"]])
    (stage.folder / "subs.csv").write_text("id,filter\n1,icao = '3946e2'\n")
    files = ("--subscriptions", "subs.csv", "--events", "events.csv")
    ran = await stage.run("-m", "roost", "match", *files, within_s=SPARK_S)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    if not any(json.loads(line).get("subscriptions") for line in ran.stdout.splitlines()):
        raise BrokenPromise(f"NOTHING matched '3946e2': {ran.stdout}")
    return "it is a text"


@case(once="RAISED AttributeError")
async def a_batch_of_pandas(_: Stage) -> str:
    """A batch may be a frame of pandas."""
    import pandas

    try:
        offsets, ids = index_of("x > 1").match_batch(pandas.DataFrame({"x": [0.5, 1.5]}))
    except AttributeError as error:
        raise BrokenPromise(f"RAISED AttributeError: {error}") from None
    if (offsets.tolist(), ids.tolist()) != ([0, 0, 1], [1]):
        raise BrokenPromise(f"WRONG is {offsets}, {ids}")
    return "it matches"


@case(once="TAKEN in silence")
async def two_columns_of_one_name(_: Stage) -> str:
    """A batch in which two columns have one name is refused: one of them would be passed over."""
    import pyarrow as pa

    table = pa.table([pa.array([1, 2]), pa.array([3, 4])], ["x", "x"])
    return refused(lambda: index_of("x > 1").match_batch(table))


@case(once="TAKEN in silence")
async def a_string_that_no_event_may_have(_: Stage) -> str:
    """What no event may have is refused in a column as well."""
    import pyarrow as pa

    column = pa.array(["a" * (STRING_LENGTH_MAX + 1)])
    return refused(lambda: index_of("x prefix 'a'").match_batch({"x": column}))


def refused(ask: Callable[[], Any]) -> str:
    try:
        found = ask()
    except UserError as error:
        return f"refused: {error}"
    raise BrokenPromise(f"TAKEN in silence: {found}")


@case(once="UNKNOWN are str-lt, str-le, str-gt, str-ge, str-postfix")
async def spellings_of_padres(_: Stage) -> str:
    """What PADRES writes is understood."""
    unknown = []
    for word in ("str-lt", "str-le", "str-gt", "str-ge", "str-postfix"):
        try:
            parse_filter(f"[x,{word},'a']")
        except UserError:
            unknown.append(word)
    if unknown:
        raise BrokenPromise(f"UNKNOWN are {', '.join(unknown)}")
    return "they are"


@case(once="DROPPED, and low was chosen")
async def a_candidate_on_the_limit(_: Stage) -> str:
    """A broker whose delay is exactly the limit of a goal stays a candidate."""
    import numpy as np

    from roost.relocation import choosing

    try:
        from roost.optimising.goal import Goal
    except ImportError:  # where it stood once
        Goal = choosing.Goal  # type: ignore[attr-defined,misc]  # noqa: N806
    delays, loads = np.array([0.0, 1.5e-9, 3.0e-9]), np.array([3.0, 1.0, 2.0])
    goal, names = Goal("delay", 50), ["low", "middle", "high"]
    choice = choosing.choose(goal, names, 0, delays, loads, deliveries_per_s=1.0, excluded={})
    if choice.chosen.broker != "middle":
        raise BrokenPromise(f"DROPPED, and {choice.chosen.broker} was chosen")
    return "it stays"


# --- Spark ------------------------------------------------------------------------------------------


async def matched(
    stage: Stage, select: list[str], filters: list[tuple[int | str, str]], plan: str = "broadcast"
) -> list[list[Any]]:
    """The pairs that Spark finds; a `BrokenPromise`, if it refuses to look."""
    (stage.folder / "ask.py").write_text(SPARK)
    asked = json.dumps({"select": select, "filters": filters, "plan": plan})
    ran = await stage.run("ask.py", asked, within_s=SPARK_S)
    (said,) = [line for line in ran.stdout.splitlines() if line.startswith("PAIRS ")] or [""]
    if not said:
        last = (ran.stderr.splitlines() or [""])[-1]
        raise BrokenPromise(f"REFUSED: {last}")
    found: list[list[Any]] = json.loads(said.removeprefix("PAIRS "))
    return found


@case(once=r"FOUND \[\]")
async def publications_that_are_not_the_first_column(stage: Stage) -> str:
    """Spark's own join finds what there is, in whatever order the columns stand."""
    select = ["word", "x", "n as publication"]
    found = await matched(stage, select, [(1, "word = 'A' and x > 2")], "join")
    return right(found, [[3, 1]])


@case(once="REFUSED: .*at")
async def columns_that_no_filter_mentions(stage: Stage) -> str:
    """A time, a date and an amount may be there, if no filter speaks of them."""
    select = [
        "n as publication",
        "x",
        "timestamp '2026-01-02 03:04:05' as at",
        "date '2026-01-02' as day",
        "cast(x as decimal(10, 2)) as amount",
    ]
    return right(await matched(stage, select, [(1, "x < 2")]), [[1, 1]])


@case(once="REFUSED: .*publication")
async def publications_that_are_an_int(stage: Stage) -> str:
    """A smaller number than a bigint is an id of publications as well."""
    select = ["cast(n as int) as publication", "x"]
    return right(await matched(stage, select, [(1, "x < 2")]), [[1, 1]])


@case(once="REFUSED: .*(publication|subscription)")
async def ids_that_are_texts(stage: Stage) -> str:
    """Texts may be ids, of publications and of subscriptions."""
    select = ["concat('p', n) as publication", "x"]
    return right(await matched(stage, select, [("early", "x < 2")]), [["p1", "early"]])


def right(found: list[list[Any]], wanted: list[list[Any]]) -> str:
    if found != wanted:
        raise BrokenPromise(f"FOUND {found}, where there are {wanted}")
    return f"{found}"


@case(once=r"STORY of \d+ lines")
async def workers_without_roost(stage: Stage) -> str:
    """Spark whose workers have a Python without Roost is refused in one message."""
    bare = stage.folder / "bare"
    # All that the workers have, but for Roost.
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o700)
    (stage.folder / "subs.csv").write_text("subscription,filter\n1,x > 1\n")
    (stage.folder / "events.csv").write_text("publication,x\n1,2.5\n")
    files = ("--publications", "events.csv", "--subscriptions", "subs.csv", "--out", "found")
    ran = await stage.run(
        *("-m", "roost", "pipeline", "match", *files, "--master", "local[1]"),
        within_s=SPARK_S,
        PYSPARK_PYTHON=str(bare),
    )
    if (lines := len(ran.stderr.splitlines())) > 1:
        raise BrokenPromise(f"STORY of {lines} lines")
    if ran.returncode != 2:
        raise BrokenPromise(f"ENDED with {ran.returncode}: {ran.stderr}")
    return ran.stderr


# --- interrupted ------------------------------------------------------------------------------------


@case(once=r"TRACEBACK among \d+ lines")
async def an_interrupt_while_spark_works(stage: Stage) -> str:
    """Ctrl-C while Spark works ends the command, and nobody tells a story of it."""
    words = ("stock", "--publications", "30000000", "--subscriptions", "1000", "--out", "stock")
    with (stage.folder / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "roost", "pipeline", "workload", *words, "--master", "local[1]"],
            cwd=stage.folder,
            stdout=err,
            stderr=err,
            start_new_session=True,
            # Whoever runs this in the background may have it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
    try:
        out = stage.folder / "stock"
        begun = await until(lambda: any(out.rglob("*.parquet")), SPARK_S)
        if not begun or process.poll() is not None:
            raise RuntimeError((stage.folder / "err").read_text())
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        await asyncio.to_thread(process.wait, SPARK_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    said = (stage.folder / "err").read_text()
    if "Traceback" in said or "Exception" in said:
        raise BrokenPromise(f"TRACEBACK among {len(said.splitlines())} lines")
    if process.returncode != 128 + signal.SIGINT:
        raise BrokenPromise(f"ENDED with {process.returncode}: {said}")
    return f"it ends, and says {said!r}"
