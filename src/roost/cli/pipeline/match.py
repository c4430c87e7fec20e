"""`roost pipeline match`: all matches of a file of events with a file of subscriptions, on Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roost.cli.console import people, print_json
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from roost.pipeline.matching import Choice

EXAMPLES = """\b
The files are Parquet (a file or a folder), CSV or NDJSON. A column `publication` and a column
`subscription` have the numbers; without one, rows are numbered from 0 on.

\b
Examples:
  roost pipeline match --publications events.parquet --subscriptions filters.csv --out matches
  roost pipeline match --publications events.ndjson --subscriptions filters.csv --out lists --lists
  roost pipeline match --publications events --subscriptions filters --out matches \\
      --plan partitioned --memory-limit 500MB --keep symbol,day --json
"""

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}


def register(pipeline: typer.Typer) -> None:
    """Adds the command."""
    pipeline.command("match", epilog=EXAMPLES)(match)


def match(
    publications: Annotated[str, typer.Option(metavar="PATH", help="The events.")],
    subscriptions: Annotated[
        str, typer.Option(metavar="PATH", help="With a column `filter`, in either syntax.")
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="For the matches, as Parquet files.")],
    plan: Annotated[
        Literal["auto", "broadcast", "partitioned", "join"],
        typer.Option(help="How to match; auto takes the quickest that fits into memory."),
    ] = "auto",
    lists: Annotated[
        bool, typer.Option("--lists", help="One row a publication, with a list of matches.")
    ] = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="For the subscriptions in a task: 500MB, 2GB."),
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Columns of the events for the result.")
    ] = "",
    master: MasterOption = None,
    conf: ConfOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find all matches of events with subscriptions."""
    import time

    limit = None if memory_limit is None else bytes_of(memory_limit)
    check_new(out)
    with session_of(master, conf) as spark:
        from roost.pipeline.files.tables import read_events, read_subscriptions
        from roost.pipeline.matching import prepare_match
        from roost.pipeline.parsing import plain_refusals

        events = read_events(spark, publications)
        filters = read_subscriptions(spark, subscriptions)
        start = time.perf_counter()
        with plain_refusals():
            prepared = prepare_match(
                events,
                filters,
                plan=plan,
                form="lists" if lists else "pairs",
                keep=[name for name in keep.split(",") if name],
                memory_limit_bytes=limit,
            )
            if not json_:
                people().print(f"{prepared.choice.plan}: {prepared.choice.reason}", style="dim")
            ready = time.perf_counter()
            write(prepared.frame, out)
        done = time.perf_counter()
        found = counted(spark, out, lists=lists)
    found |= {"prepare_s": ready - start, "match_s": done - ready, "out": out}
    size = size_of(out)
    if size is not None:
        found["bytes"] = size
    if json_:
        print_json(told(prepared.choice, found))
    else:
        show(found)


def bytes_of(text: str) -> int:
    """A size such as 500MB."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise UserError(f"--memory-limit: {text!r} is no size; expected one such as 500MB or 2GB")
    return int(float(found[1]) * _UNITS[found[2]])


def check_new(out: str) -> None:
    """Refuses a folder that has something in it: nothing is overwritten."""
    if "://" in out:
        return
    path = Path(out)
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UserError(f"{out}: already there; expected a new folder for --out")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{out}: there is no folder {path.parent}")


def write(frame: DataFrame, out: str) -> None:
    """Writes the matches."""
    from pyspark.errors import AnalysisException

    # The folder may be there, if it is empty.
    mode = "append" if Path(out).is_dir() else "errorifexists"
    try:
        frame.write.mode(mode).parquet(out)
    except AnalysisException as bad:
        raise UserError(f"{out}: {str(bad).splitlines()[0]}") from None


def counted(spark: SparkSession, out: str, *, lists: bool) -> dict[str, Any]:
    """How much has been written: read from the files."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.read.parquet(out)
    if not lists:
        return {"matches": frame.count()}
    row = frame.agg(F.count(F.lit(1)), F.sum(F.size("subscriptions"))).first()
    assert row is not None
    return {"publications_matched": row[0], "matches": row[1] or 0}


def size_of(out: str) -> int | None:
    """The bytes of the files, if they are on this machine."""
    path = Path(out)
    if not path.is_dir():
        return None
    return sum(file.stat().st_size for file in path.rglob("*.parquet"))


def told(choice: Choice, found: dict[str, Any]) -> dict[str, Any]:
    """The one object for programs."""
    return {
        "plan": choice.plan,
        "reason": choice.reason,
        "figures": dict(choice.figures),
        **found,
    }


def show(found: dict[str, Any]) -> None:
    """The same for people."""
    from rich.filesize import decimal

    matched = found.get("publications_matched")
    rows = "" if matched is None else f" of {matched:,} publications"
    size = "" if "bytes" not in found else f", {decimal(found['bytes'])}"
    people().print(
        f"{found['matches']:,} matches{rows} in {found['prepare_s'] + found['match_s']:.1f} s"
        f" ({found['prepare_s']:.1f} s of them to prepare){size}, in {found['out']}"
    )
