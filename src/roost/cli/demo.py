"""`roost demo`: what Roost does, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import people
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from roost.language import Event, Subscription

EXAMPLES = """\b
Examples:
  roost demo
  roost demo --save .
"""

FILES = ("subscriptions.ndjson", "events.ndjson")
# The two that are explained, as (subscription, event): one that matches, and one that nearly does.
MATCH = ("swing", 0)
NEAR_MISS = ("yahoo-dip", 4)
SPEED_SUBSCRIPTIONS = 10_000
SPEED_EVENTS = 2_000
SPEED_BUDGET_S = 0.5

NEXT = """\
  roost demo --save .                     the subscriptions and events above, as files
  roost match --subscriptions subscriptions.ndjson --events events.ndjson
  roost explain "{filter}" "{event}"
  roost covers "class = 'STOCK' and volume > 300000" "class = 'STOCK' and volume > 2000000"
  roost bench match --workload stock --subscriptions 100000
  roost sim generate tree --set brokers=15 --set subscribers=200 --out tree.workload
  roost sim run tree.workload --until 60 --faults all
  roost sim fuzz --first {seed} --seeds 1
  roost topology draw peer:3x4
  roost up tree --brokers 7, roost top, roost down
  roost broker, and in other terminals: roost subscribe "volume > 300000", roost publish volume=400000
  roost chaos
  roost pipeline workload stock --publications 1000000 --subscriptions 100000 --out stock
  roost pipeline match --publications stock/publications --subscriptions stock/subscriptions --out matches
  roost sweep sim --generator tree --set brokers=7,15 --set until_s=30 --seeds 4
  roost --help"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo", epilog=EXAMPLES)(demo)


def demo(
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the demo's files there, and do nothing else."),
    ] = None,
) -> None:
    """Show what Roost does: match a few quotes, explain, measure, run federations, and match in bulk."""
    from roost.cli import demo_federation as federation
    from roost.cli import demo_live as live
    from roost.cli import demo_pipeline as pipeline

    console = people()
    if save is not None:
        save_files(save)
        console.print(f"wrote {' and '.join(str(save / name) for name in FILES)}")
        return
    subscriptions, events = sample()
    console.print("Roost matches events to subscriptions by their content.\n", style="bold")
    show_subscriptions(console, subscriptions)
    show_matches(console, subscriptions, events)
    show_why(console, subscriptions, events)
    show_covering(console, subscriptions)
    show_speed(console)
    federation.show_figure(console, text(federation.FIGURE))
    federation.show_faults(console)
    live.show_federation(console)
    live.show_chaos(console)
    pipeline.show_pipeline(console)
    show_next(console)


def sample() -> tuple[dict[str, Subscription], list[Event]]:
    """The bundled subscriptions and events."""
    import msgspec

    from roost.language import parse_event, parse_subscription

    subscription_lines, event_lines = (text(name).splitlines() for name in FILES)
    rows = [msgspec.json.decode(line, type=dict[str, str]) for line in subscription_lines]
    return (
        {row["id"]: parse_subscription(row["filter"]) for row in rows},
        [parse_event(line) for line in event_lines],
    )


def text(name: str) -> str:
    """A bundled file."""
    from importlib.resources import files

    return (files("roost") / "data" / name).read_text("utf-8")


def save_files(folder: Path) -> None:
    """Copies the bundled files; never over something that is there."""
    for name in FILES:
        if (folder / name).exists():
            raise UserError(f"{folder / name} is there already; choose another folder")
    try:
        for name in FILES:
            (folder / name).write_text(text(name), "utf-8")
    except OSError as bad:
        raise UserError(f"{folder}: {bad.strerror}") from None


def show_subscriptions(console: Console, subscriptions: dict[str, Subscription]) -> None:
    """Who wants what."""
    from rich.table import Table

    table = Table(title=f"{len(subscriptions)} subscriptions", title_justify="left")
    table.add_column("id", style="cyan", no_wrap=True)
    table.add_column("filter")
    for id_, subscription in subscriptions.items():
        table.add_row(id_, str(subscription))
    console.print(table)
    console.print()


def show_matches(
    console: Console, subscriptions: dict[str, Subscription], events: list[Event]
) -> None:
    """Who gets what."""
    from rich.table import Table

    from roost.matching import Index

    ids = list(subscriptions)
    with console.status("loading the index (the first time, its kernels are compiled)"):
        index = Index()
        for position, subscription in enumerate(subscriptions.values()):
            index.add(position, subscription)
        answers = [sorted(index.match(event).tolist()) for event in events]
    table = Table(title=f"{len(events)} events, and who gets them", title_justify="left")
    table.add_column("#", justify="right")
    table.add_column("event")
    table.add_column("goes to", style="cyan")
    for number, (event, answer) in enumerate(zip(events, answers, strict=True)):
        table.add_row(str(number), brief(event), ", ".join(ids[i] for i in answer) or "nobody")
    console.print(table)
    console.print()


def brief(event: Event) -> str:
    """The attributes that the demo's subscriptions ask about, in few words."""
    a = event.attributes
    if a["class"] == "NEWS":
        return f"NEWS {a['title']!r}"
    halted = ", halted" if a.get("halted") else ""
    return (
        f"{a['symbol']} {a['low']}-{a['high']}, close {a['close']}, volume {a['volume']:,}{halted}"
    )


def show_why(console: Console, subscriptions: dict[str, Subscription], events: list[Event]) -> None:
    """One match and one near miss, predicate by predicate."""
    from roost.cli.explain import outcome_table, verdict_of
    from roost.language.explain import explain

    for id_, number in (MATCH, NEAR_MISS):
        subscription, event = subscriptions[id_], events[number]
        gets = "gets" if subscription.matches(event) else "does not get"
        console.print(f"Why {id_} {gets} event {number}", style="bold")
        console.print(outcome_table(explain(subscription.filters[0], event)))
        console.print(verdict_of(subscription, event) + "\n")


def show_covering(console: Console, subscriptions: dict[str, Subscription]) -> None:
    """What a broker has to ask its neighbours for, and what that covers."""
    from rich.tree import Tree

    from roost.matching import Poset

    ids = list(subscriptions)
    poset = Poset()
    for position, subscription in enumerate(subscriptions.values()):
        poset.insert(position, subscription)

    def grow(tree: Tree, position: int) -> None:
        branch = tree.add(ids[position])
        for child in poset.children(position):
            grow(branch, child)

    tree = Tree(
        f"Of these, a broker asks its neighbours for {len(poset.css())}; those cover the others"
    )
    for position in poset.css():
        grow(tree, position)
    console.print(tree)
    console.print()


def show_speed(console: Console) -> None:
    """The index against the obvious loop, for a second."""
    from roost.bench.timing import rate
    from roost.bench.workloads import workload_of
    from roost.matching import Index, Naive

    with console.status(f"matching quotes against {SPEED_SUBSCRIPTIONS:,} subscriptions"):
        load = workload_of("stock", 1, SPEED_SUBSCRIPTIONS, SPEED_EVENTS)
        events = load.events()
        index, naive = Index(), Naive()
        for template in load.templates:
            index.add_columns(*template)
        for id_, filter_ in enumerate(load.filters()):
            naive.add(id_, filter_)
        fast = rate(index.match, events, budget_s=SPEED_BUDGET_S)
        slow = rate(naive.match, events, budget_s=SPEED_BUDGET_S)
    console.print(f"How fast: {SPEED_SUBSCRIPTIONS:,} subscriptions to stock quotes", style="bold")
    console.print(f"  Roost's index       {fast:>12,.0f} events/s, one at a time")
    console.print(f"  the obvious loop    {slow:>12,.0f} events/s")
    console.print(f"  that is {fast / slow:,.0f} times as fast, on this machine, just now\n")


def show_next(console: Console) -> None:
    """Lines to copy."""
    from roost.cli.demo_federation import SEED

    console.print("What to try next", style="bold")
    for line in NEXT.format(
        filter="symbol = 'YHOO' and low < 30.5", event="[symbol,'YHOO'],[low,30.62]", seed=SEED
    ).splitlines():
        console.print(line, soft_wrap=True)
