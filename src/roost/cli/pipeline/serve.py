"""`roost pipeline serve`, and `roost pipeline subscriptions`: Spark as the matcher tier of a federation."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import filter_argument, people, print_json
from roost.cli.contexts import ContextOption, reach
from roost.cli.publish import AuthorityOption, CertificateOption, KeyOption, TokenOption, UserOption
from roost.cli.spark import ConfOption, MasterOption, session_of
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.pipeline.serving import Batch
    from roost.pipeline.subscription_log import SubscriptionLog

EXAMPLES = """\b
Whoever wants the matches of a subscriber asks any broker for them:
  roost subscribe "delivery.subscriber = 'S17'"
The payload is the event that matches. Killed at any moment, and started again with the same checkpoint, it
neither loses nor doubles anything. Ctrl-C ends it; --once ends it when nothing waits.

\b
Examples:
  roost pipeline subscriptions add LOG subscriptions.csv
  roost pipeline serve --url roost://127.0.0.1:7411 --subscriptions LOG --checkpoint CHECKPOINT
  roost pipeline serve --subscriptions LOG --checkpoint CHECKPOINT --filter "class = 'STOCK'" --once --json
  roost pipeline serve --subscriptions LOG --checkpoint CHECKPOINT --forget
"""
ADD_EXAMPLES = """\b
A file is Parquet, CSV with a line of names, or lines of JSON, with the columns `filter`, `subscription` (its
number; else they are numbered) and maybe `subscriber`. Below a million rows no Spark is started. Else it is
one subscription: a number and a filter.

\b
Examples:
  roost pipeline subscriptions add LOG subscriptions.parquet
  roost pipeline subscriptions add LOG 17 "symbol = 'YHOO' and volume > 300000" --subscriber Alice
"""

LOG_EXAMPLES = """\b
Examples:
  roost pipeline subscriptions add LOG subscriptions.csv
  roost pipeline subscriptions remove LOG 17 18
  roost pipeline subscriptions show LOG --version 3
"""

BrokerOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        "--broker",
        help="Where a broker is; else ROOST_URL, or port 7411 of this machine.",
    ),
]
LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The folder of the log.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]


def register(pipeline: typer.Typer) -> None:
    """Adds the commands."""
    pipeline.command("serve", epilog=EXAMPLES)(serve)
    subscriptions = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The log of subscriptions that `serve` matches against, while it runs.",
        epilog=LOG_EXAMPLES,
    )
    subscriptions.command("add", epilog=ADD_EXAMPLES)(add)
    subscriptions.command("remove", epilog=LOG_EXAMPLES)(remove)
    subscriptions.command("show", epilog=LOG_EXAMPLES)(show)
    pipeline.add_typer(subscriptions, name="subscriptions")


def serve(
    subscriptions: Annotated[
        Path, typer.Option(metavar="LOG", help="The folder with the log of subscriptions.")
    ],
    checkpoint: Annotated[
        Path, typer.Option(metavar="DIR", help="Where it keeps how far it has come.")
    ],
    broker: BrokerOption = None,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="FILTER", help="Which events; * is all of them.")
    ] = "*",
    name: Annotated[
        str,
        typer.Option(help="Under which the broker keeps what waits for it, and what it has sent."),
    ] = "serve",
    trigger: Annotated[
        str, typer.Option(metavar="TIME", help="How often to look for events: 200ms, 2s.")
    ] = "200ms",
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="At most so many events at a time.")
    ] = 10_000,
    once: Annotated[bool, typer.Option("--once", help="Handle what waits, and end.")] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Only have the broker forget what it keeps under the name."),
    ] = False,
    user: UserOption = None,
    token: TokenOption = None,
    authority: AuthorityOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    context: ContextOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Match the events of a federation on Spark, and publish a delivery for each subscriber."""
    import msgspec

    from roost.pipeline.serving import Serving, check, interval
    from roost.pipeline.serving import forget as forget_all
    from roost.pipeline.serving import serve as serve_until
    from roost.pipeline.source.options import Place

    filter_argument("--filter", filter_)
    to = reach(broker, user, token, authority, certificate, key, context)
    place = Place(
        url=to.url,
        user=to.user,
        token=to.token,
        authority=str(to.authority or ""),
        certificate=str(to.certificate or ""),
        key=str(to.key or ""),
    )
    serving = Serving(
        place=place,
        log=subscriptions,
        checkpoint=checkpoint,
        filter=filter_,
        name=name,
        trigger=interval(trigger),
        events_a_batch=batch,
        once=once,
    )
    check(serving)
    if forget:
        forget_all(serving)
        print(f"the broker has forgotten {name!r}, and what waited for it", file=sys.stderr)
        return
    # In this order: Spark sets a handler of its own when it starts.
    with session_of(master, conf) as spark, stop_signals() as signals:
        served = serve_until(
            spark,
            serving,
            told=lambda done: print(line_of(done), file=sys.stderr, flush=True),
            stopped=lambda: bool(signals),
        )
    if as_json:
        print_json(msgspec.to_builtins(served))


def line_of(done: Batch) -> str:
    """A batch, for people."""
    version = "?" if done.version is None else done.version
    return (
        f"batch {done.number}: {done.events:,} events, {done.deliveries:,} deliveries,"
        f" {done.seconds:.2f} s, subscriptions version {version}"
    )


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Signals to stop, as they come, instead of what they would do."""
    seen: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: seen.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- the log of subscriptions -----------------------------------------------------------------------


def add(
    log: LogArgument,
    what: Annotated[list[str], typer.Argument(metavar="FILE | NUMBER FILTER", help="What to add.")],
    subscriber: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whom matches are for, if the file doesn't say."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Add subscriptions, or replace those with the same numbers."""
    from roost.pipeline.subscription_log import SubscriptionLog

    target = SubscriptionLog(log)
    if len(what) == 2:
        number = number_of(what[0])
        filter_argument("FILTER", what[1])
        version = target.add([(number, what[1])], subscriber=subscriber)
    elif len(what) == 1:
        version = add_file(target, what[0], subscriber, master, conf)
    else:
        raise UserError(f"{len(what)} words; expected a file, or a number and a filter")
    print(f"version {version}", file=sys.stderr)


def add_file(
    target: SubscriptionLog,
    path: str,
    subscriber: str | None,
    master: str | None,
    conf: list[str] | None,
) -> int:
    """Adds those of a file: by Spark if they are many, or elsewhere."""
    from roost.pipeline.files.small import read_small_subscriptions
    from roost.pipeline.files.tables import read_subscriptions

    small = read_small_subscriptions(path)
    if small is not None:
        return target.add(small, subscriber=subscriber)
    with session_of(master, conf) as spark:
        return target.add(read_subscriptions(spark, path), subscriber=subscriber)


def remove(
    log: LogArgument,
    numbers: Annotated[list[str], typer.Argument(metavar="NUMBER ...", help="Which ones.")],
) -> None:
    """Remove subscriptions."""
    from roost.pipeline.subscription_log import SubscriptionLog

    version = SubscriptionLog(log).remove(map(number_of, numbers))
    print(f"version {version}", file=sys.stderr)


def show(
    log: LogArgument,
    version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="As of this version; else the last.")
    ] = None,
    most: Annotated[
        int, typer.Option("--limit", "--most", min=0, metavar="N", help="List at most so many.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what is in the log."""
    from roost.pipeline.parsing import from_arrow
    from roost.pipeline.subscription_log import SubscriptionLog

    target = SubscriptionLog(log)
    at = target.version() if version is None else version
    table = target.at(at)
    some = table.slice(0, most)
    ids, subscribers = (some.column(n).to_pylist() for n in ("subscription", "subscriber"))
    filters = map(str, from_arrow(ids, some.column("filters").combine_chunks()))
    rows = [
        {"subscription": id_, "filter": text, "subscriber": whose}
        for id_, text, whose in zip(ids, filters, subscribers, strict=True)
    ]
    if as_json:
        print_json({"version": at, "count": table.num_rows, "subscriptions": rows})
        return
    from rich.table import Table

    noun = "subscription" if table.num_rows == 1 else "subscriptions"
    shown = Table(title=f"{table.num_rows:,} {noun} at version {at}", title_justify="left")
    for column in ("subscription", "subscriber", "filter"):
        shown.add_column(column)
    for row in rows:
        shown.add_row(str(row["subscription"]), row["subscriber"] or "", row["filter"])
    people().print(shown)


def number_of(text: str) -> int:
    """The number of a subscription."""
    if not text.isascii() or not text.isdecimal():
        raise UserError(
            f"{text!r} is no number of a subscription; expected a whole number from 0 on"
        )
    return int(text)
