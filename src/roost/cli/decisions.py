"""`roost decisions`: what the optimisers of a federation have decided, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from roost.cli.console import print_json, warn
from roost.cli.figures import Column, Row, fitted, fitted_and_hidden, wide
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
Brokers remember their last 1,000; a trace (`roost trace on`, `roost sim run --trace`) has all of them.
What was decided for somebody over and over is one row, which says how often.

\b
Examples:
  roost decisions
  roost decisions --limit 5 --json
  roost decisions --explain 1
  roost decisions --explain B3/grape/7
  roost decisions --lake traces --run monday
"""
LIMIT, LIMIT_MAX = 20, 1_000
LAKE = "ROOST_LAKE"
# Seconds since the epoch are more; those of a simulation count from 0.
VIRTUAL_S_MAX = 1e8
COLUMNS = (
    Column("#"),
    Column("time", left=True, expendable=1),
    Column("id", left=True, expendable=3),
    Column("what", left=True),
    Column("who", left=True),
    Column("where", left=True),
    Column("delay", left=True, expendable=4),
    Column("load", left=True, expendable=5),
    Column("times", expendable=2),
    Column("why", left=True, wraps_at=24),
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
    lake: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Those of a trace in this folder, not of brokers."),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of which run; see `roost lake list`.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what the optimisers decided last, and why: who moves where, and what is to come of it."""
    recorded = lake is not None or run is not None
    found = (
        traced(lake or Path(os.environ.get(LAKE) or "lake"), run) if recorded else collected(fleet)
    )
    if explain is not None:
        one = picked(found, explain)
        if json_:
            print_json(one)
        else:
            show_one(wide(), one)
        return
    if json_:
        print_json({"decisions": found[-limit:]})
    elif found:
        show(wide(), found, limit)
    elif recorded:
        typer.echo("nothing was decided in that run")
    else:
        typer.echo("nothing has been decided yet; `roost status --json` says which modules are on")


def collected(fleet: Fleet) -> list[dict[str, Any]]:
    """Those of all brokers in the order of time, each with its broker and its id."""
    found: list[dict[str, Any]] = []
    try:
        for _, answer in answers_of(fleet, f"/decisions?limit={LIMIT_MAX}"):
            name = answer["broker"]
            found += (
                {"id": id_of(name, decision), "broker": name, **decision}
                for decision in answer["decisions"]
            )
    except UserError as error:
        if not found:
            raise
        warn(str(error))  # the others are worth showing
    return sorted(found, key=lambda decision: float(decision["time"]))


def traced(lake: Path, run: str | None) -> list[dict[str, Any]]:
    """Those that a run has recorded, in the order of time; without a name, of the only run that has any."""
    from roost.pipeline.lake.files import run_files, run_names, unknown
    from roost.traces import read_table

    runs = run_names(lake, "decisions") if lake.is_dir() else []
    if run is None and len(runs) == 1:
        (run,) = runs
    if run is None:
        there = f"expected --run with one of {', '.join(runs)}" if runs else "expected a lake"
        raise UserError(f"{lake}: {len(runs)} runs have recorded decisions; {there}")
    if run not in runs:
        raise UserError(f"{lake}: {unknown('run', run, runs)}")
    found: list[dict[str, Any]] = []
    for path in run_files(lake, "decisions", run):
        found += map(decision_of, read_table(path).to_pylist())
    return sorted(found, key=lambda decision: float(decision["time"]))


def decision_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table of decisions, as brokers tell them."""
    import msgspec

    said = {name: msgspec.json.decode(row[name]) for name in ("evidence", "predicted")}
    return {"id": id_of(row["broker"], row), **row, **said}


def id_of(broker: str, decision: Mapping[str, Any]) -> str:
    """What it is called in all of the federation: `B3/grape/7`."""
    return f"{broker}/{decision['module']}/{decision['cause'].rpartition(' ')[2]}"


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


class Folded(NamedTuple):
    """Decisions that say the same of somebody, one after the other."""

    number: int  # of the last one, counted from the end
    last: Decision
    times: int


def folded(found: Sequence[Decision]) -> list[Folded]:
    """In the order of their last ones. What differs is only when, and by how much."""
    rows: dict[int, Folded] = {}  # by the place of the last one
    latest: dict[tuple[str, str], int] = {}  # of whom: the place of its last row
    for place, decision in enumerate(found):
        whose = decision["module"], decision["subject"]
        before = rows.get(latest.get(whose, -1))
        same = before is not None and said_by(before.last) == said_by(decision)
        times = 1
        if before is not None and same:
            times += before.times
            del rows[latest[whose]]
        rows[place] = Folded(len(found) - place, decision, times)
        latest[whose] = place
    return list(rows.values())


def said_by(decision: Decision) -> tuple[str, ...]:
    """What a row says of it in words."""
    return what(decision), where(decision), why(decision)


def show(console: Console, found: Sequence[Decision], limit: int = LIMIT) -> None:
    """A row for each, the last one at the end; and what is not shown."""
    every = folded(found)
    rows = []
    for number, decision, times in every[-limit:]:
        now, then = before_and_after(decision)
        cells = (
            str(number),
            time_text(decision["time"]),
            decision["id"],
            what(decision),
            decision["subject"],
            where(decision),
            arrow(now, then, delay_text),
            arrow(now, then, load_text),
            f"{times:,}" if times > 1 else "",
            why(decision),
        )
        rows.append(Row(cells, None if decision["kind"] in CHANGES else "dim"))
    table, hidden = fitted_and_hidden(COLUMNS, rows, console.width)
    console.print(table)
    unseen = []
    if older := sum(row.times for row in every[:-limit]):
        unseen.append(f"{older:,} earlier decisions (--limit)")
    if hidden:
        unseen.append(f"{', '.join(hidden)} (in a wider terminal, or in a file)")
    if unseen:
        console.print(f"not shown: {'; '.join(unseen)}", style="dim", soft_wrap=True)


def time_text(time: float) -> str:
    """The clock's; of a simulation, how long it had run."""
    if time < VIRTUAL_S_MAX:
        return f"{time:,.1f} s"
    return f"{datetime.fromtimestamp(time):%H:%M:%S}"


def show_one(console: Console, decision: Decision) -> None:
    """All that is known of it."""
    now, then = before_and_after(decision)
    evidence = decision["evidence"]
    time = decision["time"]
    at = datetime.fromtimestamp(time)
    when = f"{at:%Y-%m-%d %H:%M:%S}" if time >= VIRTUAL_S_MAX else time_text(time)
    console.print(f"{decision['id']}  {when}", style="bold")
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
        cause = called(str(evidence["decision"]), str(decision["broker"]))
        return f"{cause}, after {evidence['took_s']:.1f} s"
    if decision["kind"] == "refused":
        return f"{evidence['by']} objects: {evidence['why']}"
    return str(evidence.get("worth", {}).get("reason") or evidence.get("why", ""))


def called(cause: str, broker: str) -> str:
    """The decision of this broker that is a cause, by its id; the cause itself, if it is somebody else's.

    >>> called("B8.4f1a/grape/decision 1", "B8")
    'decision B8/grape/1'
    """
    maker, _, number = cause.rpartition("/decision ")
    name, _, module = maker.rpartition("/")
    is_ours = name == broker or name.startswith(f"{broker}.")
    return f"decision {broker}/{module}/{number}" if is_ours else cause


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
