"""`roost decisions`: what the optimisers of a federation have decided, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import print_json, warn
from roost.cli.figures import Column, Row, fitted, wide
from roost.cli.fleet import (
    Fleet,
    about_fleet,
    answers_of,
)
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """\b
A decision is that a client moves or a link, to stay, or the outcome: what was measured afterwards.
Brokers remember their last 1,000; a trace (`roost trace on`) has all of them.

\b
Examples:
  roost decisions
  roost decisions --limit 5 --json
  roost decisions --explain 1
  roost decisions --explain B3/grape/7
"""
LIMIT, LIMIT_MAX = 20, 1_000
COLUMNS = (
    Column("#"),
    Column("time", left=True, expendable=2),
    Column("id", left=True),
    Column("what", left=True),
    Column("who", left=True),
    Column("where", left=True),
    Column("delay", left=True, expendable=3),
    Column("load", left=True, expendable=4),
    Column("why", left=True, expendable=1),
)
CANDIDATES = (
    Column("broker", left=True),
    Column("delay"),
    Column("load"),
    Column("what became of it", left=True),
)

REWIRINGS = (
    Column("link to", left=True),
    Column("moves to", left=True),
    Column("saves"),
    Column("or makes shorter"),
    Column("what became of it", left=True),
)
# What is to be changed, and what each kind is called if it is only observed.
CHANGES = {"move": "would move", "rewire": "would rewire"}

Decision = Mapping[str, Any]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("decisions", epilog=EXAMPLES)(decisions)


@about_fleet
def decisions(
    fleet: Fleet,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=LIMIT_MAX, help="How many of the last ones.")
    ] = LIMIT,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="N|ID", help="One in full: the N-th last, or by its id. With all candidates."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what the optimisers decided last, and why: who moves where, and what is to come of it."""
    found = collected(fleet)
    if explain is not None:
        one = picked(found, explain)
        if json_:
            print_json(one)
        else:
            show_one(wide(), one)
        return
    last = found[-limit:]
    if json_:
        print_json({"decisions": last})
    elif last:
        show(wide(), last)
    else:
        typer.echo("nothing has been decided yet; `roost status --json` says which modules are on")


def collected(fleet: Fleet) -> list[dict[str, Any]]:
    """Those of all brokers in the order of time, each with its broker and its id."""
    found = []
    try:
        for _, answer in answers_of(fleet, f"/decisions?limit={LIMIT_MAX}"):
            name = answer["broker"]
            for decision in answer["decisions"]:
                id_ = f"{name}/{decision['module']}/{decision['cause'].rpartition(' ')[2]}"
                found.append({"id": id_, "broker": name, **decision})
    except UserError as error:
        if not found:
            raise
        warn(str(error))  # the others are worth showing
    return sorted(found, key=lambda decision: float(decision["time"]))


def picked(found: Sequence[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The N-th last, or the one that is called that."""
    if wanted.isdecimal() and wanted.isascii():
        number = int(wanted)
        if not 1 <= number <= len(found):
            raise UserError(f"--explain {wanted}: there are {len(found):,} decisions")
        return found[-number]
    for decision in found:
        if decision["id"] == wanted:
            return decision
    raise UserError(
        f"--explain {wanted}: there is no such decision among the last; expected an id as"
        " `roost decisions` shows it, or a number, 1 for the last one"
    )


# --- for people -------------------------------------------------------------------------------------


def show(console: Console, found: Sequence[Decision]) -> None:
    """A row for each, the last one at the end."""
    rows = []
    for number, decision in zip(range(len(found), 0, -1), found, strict=True):
        now, then = before_and_after(decision)
        cells = (
            str(number),
            f"{datetime.fromtimestamp(decision['time']):%H:%M:%S}",
            decision["id"],
            what(decision),
            decision["subject"],
            where(decision),
            arrow(now, then, delay_text),
            arrow(now, then, load_text),
            why(decision),
        )
        rows.append(Row(cells, None if decision["kind"] in CHANGES else "dim"))
    console.print(fitted(COLUMNS, rows, console.width))


def show_one(console: Console, decision: Decision) -> None:
    """All that is known of it."""
    now, then = before_and_after(decision)
    evidence = decision["evidence"]
    at = datetime.fromtimestamp(decision["time"])
    console.print(f"{decision['id']}  {at:%Y-%m-%d %H:%M:%S}", style="bold")
    lines = {
        "what": what(decision),
        "who": decision["subject"],
        "where": where(decision),
        "why": why(decision),
        "goal": evidence.get("goal", ""),
        "delay": arrow(now, then, delay_text),
        "load": arrow(now, then, load_text),
        "path": " - ".join(evidence.get("path", ())),
        "from": sessions_text(evidence) or training_text(evidence),
        "came": sides_text(evidence.get("came_from", {})),
        "went": sides_text(evidence.get("went_to", {})),
    }
    for name, text in lines.items():
        if text:
            console.print(f"  {name:<6} {text}", soft_wrap=True)
    others = evidence.get("others", ())
    if others:
        rows = [
            Row((x["broker"], delay_text(x), load_text(x), x["outcome"]))
            for x in (evidence["chosen"], *others)
            if x is evidence["chosen"] or x["broker"] != evidence["chosen"]["broker"]
        ]
        console.print(f"\nBest first, of {evidence['candidates']} candidates:")
        console.print(fitted(CANDIDATES, rows, console.width))
    rewirings = evidence.get("rewirings", ())
    if rewirings:
        rows = [
            Row((x["mover"], x["anchor"], f"{x['utility']:g}", f"{x['second']:g}", x["outcome"]))
            for x in rewirings
        ]
        console.print(f"\nBest first, in messages, of {evidence['candidates']} candidates:")
        console.print(fitted(REWIRINGS, rows, console.width))


def sessions_text(evidence: Mapping[str, Any]) -> str:
    """`6 sessions of publications, at 1.67/s`: what was looked at."""
    if "sessions" not in evidence:
        return ""
    sessions = "1 session" if evidence["sessions"] == 1 else f"{evidence['sessions']} sessions"
    return f"{sessions} of publications, at {evidence['rate_per_s']:.3g}/s"


def training_text(evidence: Mapping[str, Any]) -> str:
    """`500 messages in 12.5 s, with threshold 0`: what a broker was trained by."""
    if "threshold" not in evidence:
        return ""
    found = f"{evidence['messages']} messages in {evidence['seconds']:.3g} s"
    return f"{found} ({evidence['variant']}), with threshold {evidence['threshold']:.4g}"


def sides_text(messages: Mapping[str, int]) -> str:
    """`B1 20, B2 35, L 4`: what came from each side, or went there; L are the clients here."""
    return ", ".join(f"{side} {count}" for side, count in messages.items())


def what(decision: Decision) -> str:
    """Move, stay, refused, carried out, outcome; of what is only observed, that it is."""
    kind = str(decision["kind"])
    return kind if decision["acted"] else CHANGES.get(kind, kind)


def where(decision: Decision) -> str:
    if decision["kind"] in (*CHANGES, "refused", "carried out", "abandoned"):
        return f"{decision['broker']} -> {decision['choice']}"
    return str(decision["broker"])


def why(decision: Decision) -> str:
    """In the words of the optimiser."""
    evidence = decision["evidence"]
    if decision["kind"] == "outcome":
        found = evidence.get("measured", {})
        saved = f"; saved {found['saves']:g}" if "saves" in found else ""
        said = f" of {decision['predicted']['saves']:g} messages" if saved else ""
        return f"predicted -> measured, after the move{saved}{said}"
    if "took_s" in evidence and "decision" in evidence:
        return f"{evidence['decision']}, after {evidence['took_s']:.1f} s"
    if decision["kind"] == "refused":
        return f"{evidence['by']} objects: {evidence['why']}"
    return str(evidence.get("worth", {}).get("reason") or evidence.get("why", ""))


def before_and_after(decision: Decision) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Delay and load that there were, and that were predicted; of an outcome, predicted and measured."""
    evidence, predicted = decision["evidence"], decision["predicted"]
    if decision["kind"] == "outcome":
        return predicted, evidence.get("measured", {})
    return evidence.get("present", {}), predicted


def arrow(now: Mapping[str, float], then: Mapping[str, float], text: Any) -> str:
    """`8.2 ms -> 0.4 ms`; what is not known is left out."""
    return " -> ".join(filter(None, (text(now), text(then))))


def delay_text(figures: Mapping[str, float]) -> str:
    return f"{1e3 * figures['delay_s']:.3g} ms" if "delay_s" in figures else ""


def load_text(figures: Mapping[str, float]) -> str:
    return f"{figures['load_per_s']:,.1f}/s" if "load_per_s" in figures else ""
