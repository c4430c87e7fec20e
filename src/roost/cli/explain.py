"""`roost explain`: why an event matches a filter, or does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import event_argument, filter_argument, json_value, people, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from roost.language import Event, Filter, Predicate, Subscription
    from roost.language.explain import Outcome

EXIT_NO_MATCH = 1

EXAMPLES = """\b
Exit codes: 0 the event matches, 1 it does not, 2 bad input.

\b
Examples:
  roost explain "class = 'STOCK' and volume > 300000" "[class,'STOCK'],[volume,400000]"
  roost explain "symbol = 'IBM' or volume < 10" '{"symbol": "YHOO", "volume": 40}'
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain", epilog=EXAMPLES)(explain_command)


def explain_command(
    filter_: Annotated[str, typer.Argument(metavar="FILTER", help="In either syntax.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="In brackets or as JSON.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell why an event matches a filter or does not."""
    subscription = filter_argument("the filter", filter_)
    parsed = event_argument("the event", event)
    if json_:
        print_json(as_json(subscription, parsed))
    else:
        show(people(), subscription, parsed)
    if not subscription.matches(parsed):
        raise typer.Exit(EXIT_NO_MATCH)


def as_json(subscription: Subscription, event: Event) -> dict[str, Any]:
    """All that `show` shows."""
    from roost.language import contradictions
    from roost.language.explain import explain, redundant

    return {
        "matches": subscription.matches(event),
        "filters": [
            {
                "filter": str(filter_),
                "matches": filter_.matches(event),
                "predicates": [_outcome_json(outcome) for outcome in explain(filter_, event)],
                "contradictions": [
                    {"attribute": c.attribute, "predicates": list(map(str, c.predicates))}
                    for c in contradictions(filter_)
                ],
                "redundant": list(map(str, redundant(filter_))),
            }
            for filter_ in subscription.filters
        ],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "attribute": outcome.predicate.attribute,
        "operator": outcome.predicate.operator.value,
        "constant": _constant_json(outcome.predicate),
        "value": json_value(outcome.value),
        "held": outcome.held,
        "cause": outcome.cause.value,
        "why": outcome.why,
    }


def _constant_json(predicate: Predicate) -> Any:
    from roost.language import Kind

    constant = predicate.constant
    if isinstance(constant, Kind):
        return constant.value
    if isinstance(constant, tuple):
        return list(map(json_value, constant))
    return json_value(constant)


def show(console: Console, subscription: Subscription, event: Event) -> None:
    """A table a filter, what is odd about it, and the verdict."""
    from roost.language.explain import explain

    filters = subscription.filters
    for number, filter_ in enumerate(filters, 1):
        outcomes = explain(filter_, event)
        if len(filters) > 1:
            verdict = "matches" if filter_.matches(event) else "does not match"
            console.print(f"Filter {number} of {len(filters)} {verdict}: {filter_}", style="bold")
        if outcomes:
            console.print(outcome_table(outcomes))
        for remark in remarks(filter_):
            console.print(f"Note: {remark}.")
    console.print(verdict_of(subscription, event), style="bold")


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Predicate by predicate."""
    from rich.table import Table
    from rich.text import Text

    from roost.language.literals import write_readable_name, write_value

    table = Table()
    failed = not all(outcome.held for outcome in outcomes)
    for column in ("attribute", "operator", "constant", "event has", "", *(["why"] * failed)):
        table.add_column(column, overflow="fold")
    for outcome in outcomes:
        predicate = outcome.predicate
        name, operator = write_readable_name(predicate.attribute), predicate.operator.value
        constant = str(predicate).removeprefix(f"{name} {operator}").strip()
        value = "nothing" if outcome.value is None else write_value(outcome.value)
        held = Text("held", "green") if outcome.held else Text("failed", "red")
        table.add_row(name, operator, constant, value, held, *([outcome.why] * failed))
    return table


def remarks(filter_: Filter) -> list[str]:
    """What its author may not have meant."""
    from roost.language import contradictions
    from roost.language.explain import redundant

    found = [
        f"no event can ever match: no value of {c.attribute} satisfies "
        + " and ".join(map(str, c.predicates))
        for c in contradictions(filter_)
    ]
    found += [f"{p} says nothing that the other predicates do not" for p in redundant(filter_)]
    return found


def verdict_of(subscription: Subscription, event: Event) -> str:
    """One sentence."""
    from roost.language.explain import explain

    filters = subscription.filters
    matches = [filter_.matches(event) for filter_ in filters]
    if len(filters) > 1:
        if any(matches):
            return f"The event matches, by filter {matches.index(True) + 1}."
        return f"The event does not match: each of the {len(filters)} filters fails."
    asked = len(filters[0].predicates)
    failed = sum(not outcome.held for outcome in explain(filters[0], event))
    if asked == 0:
        return "The event matches: the filter without predicates matches every event."
    if failed:
        return f"The event does not match: {failed} of {asked} predicates failed."
    return f"The event matches: {asked} of {asked} predicates held."
