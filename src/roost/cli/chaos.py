"""`roost chaos`: brokers, wires, disks and clients fail under load; nothing may be lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roost.cli.console import people, print_json
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.bench.chaos.run import Recovered, Verdict

EXIT_VIOLATIONS = 1
# Faults of a disk that has no second one.
NOT_OF_PAIRS = ("fill", "restore")

EXAMPLES = """\b
Faults, and how often without --faults
  kill     50   a broker is killed (-9) and started again
  stop      5   one is stopped, every fifth time for 30 s
  cut      16   connections of a link, or of a broker's clients, are cut
  hole      6   nothing passes there, one way or both, and nobody is told
  delay     4   a link is slow
  fill      5   a disk is full until acknowledgements stop, and longer; every fifth time for 90 s
  restore   2   a broker is killed and begins anew with a backup

\b
Examples:
  roost chaos
  roost chaos --faults kill=3,cut=2,fill=1 --events 20000
  roost chaos --seed 12 --faults hole,stop --keepalive 0.5 --json
  roost chaos --standbys --faults kill=50
"""


def register(app: typer.Typer) -> None:
    app.command("chaos", epilog=EXAMPLES)(chaos)


def chaos(
    faults: Annotated[
        str, typer.Option(metavar="F[=N],...", help="Only these, so often each.")
    ] = "",
    events: Annotated[
        int, typer.Option(min=1, help="At least so many are acknowledged.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Of what goes wrong.")] = 1,
    brokers: Annotated[
        str, typer.Option(metavar="SPEC", help="As in `roost topology draw`.")
    ] = "tree:5",
    duration: Annotated[
        float | None,
        typer.Option(min=1.0, metavar="S", help="Begin no more faults after so long."),
    ] = None,
    keepalive: Annotated[
        float,
        typer.Option(
            min=0.2,
            metavar="S",
            help="[limits] keepalive_s, of clients too; a standby takes over after half of it.",
        ),
    ] = 3.0,
    rate: Annotated[
        float, typer.Option(min=10.0, help="Events a second, of all that make the load.")
    ] = 2_000.0,
    standbys: Annotated[
        bool,
        typer.Option(
            "--standbys",
            help="Each broker has a standby, and what fails is whichever node is the broker.",
        ),
    ] = False,
    logs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the logs of the brokers are left."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Real brokers, clients and faults: of all acknowledged events none may be lost, doubled or reordered.

    A tree of brokers with their stores, outboxes and durable subscribers in processes of their own that are
    killed, and others that begin and end amid all of it. What a broker had accepted since the backup that it
    is restored from is lost by nature; that is counted for itself. To fill a disk takes the right to mount
    one (root); without it those rounds are left out, and that is said.
    """
    import asyncio
    import sys
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from roost.bench.chaos.plan import counts_of
    from roost.bench.chaos.run import run
    from roost.overlay.topologies import parse_topology
    from roost.runtime.warming import warm_up

    counts = counts_of(faults)
    if standbys:
        if faults and (bad := [fault for fault in counts if fault in NOT_OF_PAIRS]):
            raise UserError(f"--standbys with {bad[0]}; expected kill, stop, cut, hole or delay")
        counts = {fault: n for fault, n in counts.items() if fault not in NOT_OF_PAIRS}
    topology = parse_topology(brokers)
    if len(topology.brokers) < 2:
        raise UserError(f"--brokers: {brokers} has no links; expected 2 brokers or more")
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    # Once, and not in every broker at the same time.
    warm_up(lambda text: print(text, file=sys.stderr))
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("faults"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        words = again(seed, faults, brokers, keepalive) + (" --standbys" if standbys else "")
        progress.console.print(f"Seed {seed}: {words}")
        task = progress.add_task("", total=sum(counts.values()))

        said, began = "", time.monotonic()

        def say(what: str, done: int, acknowledged: int) -> None:
            nonlocal said
            progress.update(task, completed=done, description=f"{what} ({acknowledged:,} events)")
            if what != said and not progress.console.is_terminal:
                at_s = time.monotonic() - began
                progress.console.print(f"{at_s:7.1f} s  {acknowledged:>9,} events  {what}")
            said = what

        verdict = asyncio.run(
            run(
                seed,
                counts,
                events=events,
                brokers=topology.brokers,
                links=[(link.a, link.b) for link in topology.links],
                keepalive_s=keepalive,
                duration_s=duration,
                events_per_s=rate,
                logs=logs,
                standbys=standbys,
                say=say,
            )
        )
    if json_:
        print_json(as_json(verdict, seed))
    else:
        show(verdict, seed)
    if not verdict.clean:
        raise typer.Exit(EXIT_VIOLATIONS)


def again(seed: int, faults: str, brokers: str, keepalive: float) -> str:
    """How to have the same faults again."""
    words = ["roost chaos", f"--seed {seed}", f"--brokers {brokers}", f"--keepalive {keepalive:g}"]
    return " ".join(words + ([f"--faults {faults}"] if faults else []))


def by_fault(verdict: Verdict) -> dict[str, list[Recovered]]:
    found: dict[str, list[Recovered]] = {}
    for done in verdict.rounds:
        found.setdefault(done.round.fault, []).append(done)
    return found


def as_json(verdict: Verdict, seed: int) -> dict[str, Any]:
    counts = verdict.counts
    return {
        "run": f"chaos-{seed}",
        "summary": {
            "rounds": len(verdict.rounds),
            "not_run": verdict.not_run,
            "faults": {
                fault: {
                    "rounds": len(done),
                    "lasted_s_max": max(one.lasted_s for one in done),
                    "recovery_s_max": max(one.recovery_s for one in done),
                }
                for fault, done in by_fault(verdict).items()
            },
            "client_kills": verdict.client_kills,
            "publishers": verdict.publishers,
            "subscribers": verdict.subscribers,
            "published": verdict.published,
            "acknowledged": verdict.acknowledged,
            "given_up": verdict.given_up,
            "failures": verdict.failures,
            "examples": counts.examples,
            "forgiven": counts.forgiven_examples,
            "seconds": verdict.seconds,
            "stuck": verdict.stuck,
        },
        "checks": {
            "expected": counts.expected,
            "delivered": counts.delivered,
            "lost": counts.lost,
            "doubled": counts.doubled,
            "reordered": counts.reordered,
            "again": counts.again,
            "forgiven": counts.forgiven,
        },
    }


def show(verdict: Verdict, seed: int) -> None:
    from rich.table import Table

    console = people()
    table = Table(title=f"Chaos, seed {seed}", title_justify="left")
    for column in ("fault", "rounds", "longest s", "recovery s: mean", "longest"):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for fault, done in by_fault(verdict).items():
        times = [one.recovery_s for one in done]
        longest = max(one.lasted_s for one in done)
        mean = sum(times) / len(times)
        table.add_row(fault, str(len(done)), f"{longest:.1f}", f"{mean:.1f}", f"{max(times):.1f}")
    table.add_row("clients killed", str(verdict.client_kills), "", "", "")
    console.print(table)
    counts = verdict.counts
    console.print(
        f"{verdict.acknowledged:,} events acknowledged in {verdict.seconds:.0f} s, of"
        f" {verdict.publishers:,} publishers, for {verdict.subscribers:,} subscribers:"
        f" {counts.expected:,} deliveries expected, {counts.delivered:,} made; {counts.lost:,} lost,"
        f" {counts.doubled:,} doubled, {counts.reordered:,} out of order."
    )
    console.print(
        f"{counts.again:,} came again to processes that took over from killed ones, as they should."
    )
    if any(done.round.fault == "restore" for done in verdict.rounds):
        console.print(
            f"{counts.forgiven:,} were lost with what restored brokers had accepted since their backups."
        )
    if verdict.not_run:
        console.print(f"{verdict.not_run} rounds with a full disk need root, and were left out.")
    if verdict.given_up:
        console.print(
            f"{verdict.given_up} times a broker gave up a neighbour that was away for too long."
        )
    if verdict.stuck:
        console.print(f"Stuck: {verdict.stuck}.")
    if not verdict.clean:
        for line in (*counts.examples, *verdict.failures):
            console.print(f"  {line}")
