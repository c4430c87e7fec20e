"""`roost match`: which subscriptions of a file do the events of another match?"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from roost.cli.console import warn
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.cli.sinks import Names, Sink
    from roost.cli.sources import Read
    from roost.matching import Ids, Index

EXAMPLES = """\b
Files by the end of their names; - is NDJSON on standard input or output:
  subscriptions  .ndjson {"id": 7, "filter": "class = 'STOCK' and volume > 300000"}
                 .csv and .parquet with the columns id (or subscription) and filter
  events         .ndjson {"class": "STOCK", "symbol": "YHOO", "volume": 400000}
                 .csv (an empty cell is no attribute) and .parquet (nor is a null)
A column of CSV has one kind, the narrowest that all of its cells have: bool, integer, number, else text.
Events are numbered from 0. Exit codes: 0 done, 2 bad input.

\b
Examples:
  roost match --subscriptions subs.ndjson --events events.ndjson
  roost match --subscriptions subs.csv --events events.parquet --out matches.parquet
  roost match --subscriptions subs.csv --events flights.csv --type aircraft=text
  tail -f events.ndjson | roost match --subscriptions subs.ndjson --events - --out -
"""

WARNINGS_MAX = 20

FormatName = Literal["table", "ndjson", "parquet"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("match", epilog=EXAMPLES)(match)


def match(
    subscriptions: Annotated[str, typer.Option(metavar="FILE", help="The subscriptions.")],
    events: Annotated[str, typer.Option(metavar="FILE", help="The events.")],
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where to write; else standard output.")
    ] = None,
    format_: Annotated[
        FormatName | None,
        typer.Option("--format", help="Else by the name of --out; a table on a terminal."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="NAME=KIND",
            help="A column of CSV is of this kind (bool, integer, number, text); repeatable.",
        ),
    ] = None,
) -> None:
    """Match a file of events against one of subscriptions."""
    from roost.cli.csv_events import read_kinds
    from roost.cli.lines import STANDARD_INPUT, shown
    from roost.cli.sinks import Names
    from roost.cli.sources import read_events
    from roost.matching import Index

    if subscriptions == events == STANDARD_INPUT:
        raise UserError("only one of --subscriptions and --events can be standard input")
    chosen = chosen_format(format_, out)
    kinds = read_kinds(types or [])
    index = Index()
    ids, attributes = load(index, subscriptions)
    if not ids:
        warn(f"{shown(subscriptions)}: there are no subscriptions")
    with sink_of(chosen, out, Names(ids)) as sink:
        first = 0
        for batch in read_events(events, attributes, kinds):
            try:
                offsets, positions = index.match_batch(batch)
            except UserError as bad:
                raise UserError(f"{shown(events)}: {bad}") from None
            sink.write(first, offsets, in_file_order(offsets, positions))
            first += len(offsets) - 1


def load(index: Index, source: str) -> tuple[list[int | str], set[str]]:
    """Adds the subscriptions of a file under their positions; their ids and attributes."""
    from roost.cli.sources import read_subscriptions

    ids: list[int | str] = []
    attributes: set[str] = set()
    warnings = 0
    for read in read_subscriptions(source):
        index.add(len(ids), read.subscription)
        ids.append(read.id)
        for filter_ in read.subscription.filters:
            attributes.update(predicate.attribute for predicate in filter_.predicates)
        for message in contradictions_of(read):
            warnings += 1
            if warnings <= WARNINGS_MAX:
                warn(message)
    if warnings > WARNINGS_MAX:
        warn(f"and {warnings - WARNINGS_MAX:,} more filters that can never be true")
    return ids, attributes


def contradictions_of(read: Read) -> list[str]:
    """What to tell somebody whose filter can never be true, in whole or in part."""
    from roost.language import contradictions

    filters = read.subscription.filters
    found = []
    for number, filter_ in enumerate(filters, 1):
        which = "the filter" if len(filters) == 1 else f"part {number} of the filter"
        for contradiction in contradictions(filter_):
            reason = " and ".join(map(str, contradiction.predicates))
            found.append(
                f"{read.where}: {which} of {read.id!r} can never be true:"
                f" no value of {contradiction.attribute} satisfies {reason}"
            )
    return found


def chosen_format(asked: FormatName | None, out: str | None) -> FormatName:
    """What was asked for; else by the name of the output file; else for whoever reads."""
    by_suffix: dict[str, FormatName] = {
        ".ndjson": "ndjson",
        ".jsonl": "ndjson",
        ".parquet": "parquet",
    }
    to_file = out not in (None, "-")
    if asked == "parquet" and not to_file:
        raise UserError("--format parquet needs a file: --out matches.parquet")
    if asked == "table" and to_file:
        raise UserError("--format table is for standard output; leave --out away")
    if asked is not None:
        return asked
    if out is None:
        return "table" if sys.stdout.isatty() else "ndjson"
    if out == "-":
        return "ndjson"
    suffix = Path(out).suffix.lower()
    if suffix not in by_suffix:
        raise UserError(f"{out}: expected a name that ends in {', '.join(by_suffix)}, or --format")
    return by_suffix[suffix]


def sink_of(chosen: FormatName, out: str | None, names: Names) -> AbstractContextManager[Sink]:
    """Where the answers go."""
    from roost.cli.sinks import ndjson_sink, parquet_sink, table_sink

    path = None if out in (None, "-") else Path(str(out))
    if chosen == "table":
        return table_sink(names)
    if chosen == "parquet":
        assert path is not None  # see chosen_format
        return parquet_sink(names, path)
    return ndjson_sink(names, path)


def in_file_order(offsets: Ids, positions: Ids) -> Ids:
    """Each event's subscriptions in the order of their file: matchers promise none."""
    for event in range(len(offsets) - 1):
        positions[offsets[event] : offsets[event + 1]].sort()
    return positions
