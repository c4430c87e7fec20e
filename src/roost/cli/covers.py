"""`roost covers`: how two filters stand to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import filter_argument, json_value, people, print_json

if TYPE_CHECKING:
    from roost.language import Event, Filter, Subscription
    from roost.language.explain import Gap

EXIT_NOT_COVERED = 1

EXAMPLES = """\b
A covers B when every event that matches B matches A.
Exit codes: 0 A covers B, 1 it does not, 2 bad input.

\b
Examples:
  roost covers "volume > 1000" "class = 'STOCK' and volume > 300000"
  roost covers "[symbol,str-prefix,'Y']" "[symbol,in,('YHOO','IBM')]"
"""

RELATIONS = {
    "equivalent": "A and B are equivalent: they match the same events.",
    "covers": "A covers B: every event that matches B matches A.",
    "covered": "A does not cover B; B covers A.",
    "overlaps": "Neither covers the other; they overlap.",
    "disjoint": "Neither covers the other; they are disjoint: no event matches both.",
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("covers", epilog=EXAMPLES)(covers_command)


def covers_command(
    a: Annotated[str, typer.Argument(metavar="A", help="A filter, in either syntax.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell whether filter A covers filter B, and what decides it."""
    wide, narrow = filter_argument("A", a), filter_argument("B", b)
    answer = relation(wide, narrow)
    if json_:
        print_json(answer)
    else:
        console = people()
        console.print(RELATIONS[answer["relation"]], style="bold")
        for line in reasons(wide, narrow, answer):
            console.print(f"  {line}", soft_wrap=True)
    if not answer["a_covers_b"]:
        raise typer.Exit(EXIT_NOT_COVERED)


def relation(a: Subscription, b: Subscription) -> dict[str, Any]:
    """How A and B stand to each other, the attributes that decide it, and events that show it."""
    from roost.language import covers, overlaps
    from roost.language.explain import apart, common_example, counterexample

    forth, back, meet = covers(a, b), covers(b, a), overlaps(a, b)
    if forth or back:
        name = "equivalent" if forth and back else "covers" if forth else "covered"
    else:
        name = "overlaps" if meet else "disjoint"
    return {
        "relation": name,
        "a_covers_b": forth,
        "b_covers_a": back,
        "overlap": meet,
        "never_matches": [name for name, x in (("A", a), ("B", b)) if not x],
        "a_lacks": _gaps_json(a, b),
        "b_lacks": _gaps_json(b, a),
        "apart": sorted({name for x in a.filters for y in b.filters for name in apart(x, y)}),
        "only_b": _event_json(None if forth else counterexample(a, b)),
        "only_a": _event_json(None if back else counterexample(b, a)),
        "both": _event_json(common_example(a, b) if meet else None),
    }


def uncovered(a: Subscription, b: Subscription) -> list[tuple[int, Filter, list[tuple[Gap, ...]]]]:
    """Of B's filters those that no filter of A covers, with the gaps of each of A's filters."""
    from roost.language.explain import gaps

    found = []
    for number, narrow in enumerate(b.filters, 1):
        each = [gaps(wide, narrow) for wide in a.filters]
        if all(each):
            found.append((number, narrow, each))
    return found


def _gaps_json(a: Subscription, b: Subscription) -> list[dict[str, Any]]:
    return [
        {
            "filter": str(narrow),
            "attributes": sorted({gap.attribute for gaps in each for gap in gaps}),
        }
        for _, narrow, each in uncovered(a, b)
    ]


def _event_json(event: Event | None) -> dict[str, Any] | None:
    return event and {name: json_value(value) for name, value in event.attributes.items()}


def reasons(a: Subscription, b: Subscription, answer: dict[str, Any]) -> list[str]:
    """What decides it, a line each."""
    lines = [f"{name} can never match." for name in answer["never_matches"]]
    if answer["relation"] == "disjoint" and answer["apart"]:
        lines.append(f"No value satisfies both on: {', '.join(answer['apart'])}.")
    else:
        if not answer["a_covers_b"]:
            lines += _lacks("A", a, "B", b)
        if not answer["b_covers_a"]:
            lines += _lacks("B", b, "A", a)
    for key, what in (("only_b", "only B"), ("only_a", "only A"), ("both", "both")):
        if answer[key] is not None:
            lines.append(f"An event that matches {what}: {_event_text(answer[key])}")
    for wide, covers_it, example in (("A", "a_covers_b", "only_b"), ("B", "b_covers_a", "only_a")):
        if not answer[covers_it] and answer[example] is None:
            lines.append(
                f"No event was found that shows it: several filters of {wide} together may cover it"
                " after all, which is not decided."
            )
    return lines


def _lacks(wide: str, a: Subscription, narrow: str, b: Subscription) -> list[str]:
    lines = []
    for b_number, _, each in uncovered(a, b):
        for a_number, gaps in enumerate(each, 1):
            a_name = f"filter {a_number} of {wide}" if len(a.filters) > 1 else wide
            b_name = f"filter {b_number} of {narrow}" if len(b.filters) > 1 else narrow
            lines += [_gap_text(gap, a_name, b_name) for gap in gaps]
    return lines


def _gap_text(gap: Gap, wide: str, narrow: str) -> str:
    from roost.language.literals import write_readable_name, write_value

    name = write_readable_name(gap.attribute)
    if not gap.asked:
        return f"{name}: {wide} asks about it, {narrow} does not."
    if gap.example is None:
        return f"{name}: {narrow} admits values that {wide} does not."
    return f"{name}: {narrow} admits {write_value(gap.example)}, {wide} does not."


def _event_text(attributes: dict[str, Any]) -> str:
    from roost.language.literals import write_name, write_value

    pairs = (f"[{write_name(name)},{write_value(value)}]" for name, value in attributes.items())
    return ",".join(pairs) or "[]"
