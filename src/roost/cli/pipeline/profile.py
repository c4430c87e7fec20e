"""`roost pipeline profile`: the statistics of the papers from recorded traffic, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import people, print_json
from roost.cli.lake import DEFAULT, LakeOption, plain, show_rows
from roost.cli.lake import ROWS as BESIDE
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from roost.pipeline.lake import Lake
    from roost.pipeline.profiles import Profile

EXAMPLES = """\b
Profiles:
  vectors     GRAPE's delivery vectors, 64 bits a row
  pop         POP's averages over traced publications
  traffic     messages a link
  loads       load indices over time
  delays      delays by hop
  hitters     who publishes, receives and routes most
  audiences   who got which publications, 64 bits a row
  hops        what brokers and links add to the age of an event
  press       what brokers would be rid of with a client, and who has it already (PRESS)
  sample      events that stand for all, of a run with content
  skew        of these and what is asked for: the attributes that BlueDove should divide by

\b
What was computed from a segment of a run is kept in the lake, and not computed again.

\b
Examples:
  roost pipeline profile delays --run monday --lake traces
  roost pipeline profile vectors --run monday --session 50 --json
"""
ROWS = 20
SKEW = "skew"


def register(pipeline: typer.Typer) -> None:
    """Adds the command."""
    pipeline.command("profile", epilog=EXAMPLES)(profile)


def profile(
    name: Annotated[str, typer.Argument(metavar="PROFILE")],
    run: Annotated[str, typer.Option(metavar="RUN", help="Of which run of the lake.")],
    session: Annotated[
        int | None,
        typer.Option(metavar="N", help="vectors: publications a session; else 100."),
    ] = None,
    period: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="loads: of a row; else 60.")
    ] = None,
    matchers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="skew: to divide among; else 20.")
    ] = None,
    rows: Annotated[
        int, typer.Option("--limit", "--rows", min=1, metavar="N", help="How many are shown.")
    ] = ROWS,
    lake: LakeOption = DEFAULT,
    master: MasterOption = None,
    conf: ConfOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute a profile of a run, or bring it up to date, and show it."""
    from roost.pipeline.lake import Lake
    from roost.pipeline.profiles import keep, kept

    wanted, there = chosen(name, session, period, matchers), Lake(lake)
    there.files(wanted.table, run)  # or it says which there are, before Spark begins
    with session_of(master, conf) as spark:
        done = keep(spark, there, wanted, run)
        result = kept(spark, there, wanted, run).toArrow()
    what, called = wanted.what, wanted.name
    if name == SKEW:
        result = skew_of(there, run, result, matchers)
        what, called = "what BlueDove should divide by", SKEW
    if json_:
        shown = [plain(row) for row in result.slice(0, rows).to_pylist()]
        told = {"profile": called, "run": run, "rows": result.num_rows, "first": shown}
        print_json(told)
        return
    console = people()
    console.print(f"{what}: {result.num_rows:,} rows of {run}", style="bold")
    new = "1 file was" if done.files == 1 else f"{done.files:,} files were"
    console.print(f"{new} new", style="dim")
    for first in range(0, min(rows, result.num_rows), BESIDE):
        show_rows(console, result.slice(0, rows), first)


def skew_of(lake: Lake, run: str, sample: pa.Table, matchers: int | None) -> pa.Table:
    """Of the sample of a run, and what clients ask for at its end."""
    from roost.language import parse_event, parse_subscription
    from roost.pipeline.plans.reading import interests_at_end, rows_of
    from roost.pipeline.profiles.skew import MATCHERS, skew_by_dimension

    _, wants = interests_at_end(rows_of(lake, "interests", run))
    subscriptions = [parse_subscription(text) for texts in wants.values() for text in texts]
    events = [parse_event(text) for text in sample.column("event").to_pylist()]
    return skew_by_dimension(subscriptions, events, matchers=matchers or MATCHERS)


def chosen(
    name: str, session: int | None, period: float | None, matchers: int | None = None
) -> Profile:
    """The profile that the options say; `skew` begins with a sample."""
    from roost.pipeline.lake.files import unknown
    from roost.pipeline.profiles import PROFILES, delivery_vectors, loads_over_time

    if name not in (*PROFILES, SKEW):
        raise UserError(unknown("profile", name, [*PROFILES, SKEW]))
    options = (
        ("--session", session, "vectors"),
        ("--period", period, "loads"),
        ("--matchers", matchers, SKEW),
    )
    for option, value, of in options:
        if value is not None and name != of:
            raise UserError(f"{option} is for the profile {of!r}; expected it with no other")
    if session is not None:
        return delivery_vectors(session)
    if name == SKEW:
        return PROFILES["sample"]
    return PROFILES[name] if period is None else loads_over_time(period)
