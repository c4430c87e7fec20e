"""The part of `roost demo` on matching: a small market, who gets which quotes, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from roost.language import Event, Subscription

FILES = ("subscriptions.ndjson", "events.ndjson")
# The one that is explained, as (subscription, event): it nearly matches.
NEAR_MISS = ("yahoo-dip", 4)
SPEED_SUBSCRIPTIONS = 10_000
SPEED_EVENTS = 2_000
SPEED_BUDGET_S = 0.3


def show(console: Console) -> None:
    """All of it."""
    subscriptions, events = sample()
    console.print("Roost matches events to subscriptions by their content.\n", style="bold")
    show_matches(console, subscriptions, events)
    show_why(console, subscriptions, events)
    show_speed(console)


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
    """A near miss, predicate by predicate."""
    from roost.cli.explain import outcome_table, verdict_of
    from roost.language.explain import explain

    id_, number = NEAR_MISS
    subscription, event = subscriptions[id_], events[number]
    console.print(f"Why {id_} does not get event {number}", style="bold")
    console.print(outcome_table(explain(subscription.filters[0], event)))
    console.print(verdict_of(subscription, event) + "\n")


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
