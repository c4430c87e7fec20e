"""`roost experiment`: the experiments of the papers, as processes or as Spark tasks."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli.console import people, print_json, say_many_seeds
from roost.cli.spark import ConfOption, MasterOption
from roost.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from roost.experiments.report import Report
    from roost.pipeline.sweeps.sweep import Sweep

EXIT_FAILED = 1

EXAMPLES = """\b
Examples:
  roost experiment list
  roost experiment list --json
  roost experiment run relocation-clustered --out clustered
  roost experiment show clustered
"""
SHOW_EXAMPLES = """\b
Examples:
  roost experiment show clustered
  roost experiment show clustered --json
"""
RUN_EXAMPLES = """\b
Every cell is kept in --out as soon as it is finished: the same command again runs what is missing.
Exit codes: 0 all claims hold, 1 some do not (or a promise was broken), 2 bad input.

\b
Examples:
  roost experiment run relocation-clustered --out clustered
  roost experiment run relocation-weights --seeds 3 --jobs 4 --out weights --json
  roost experiment run relocation-clustered --scale paper --spark --out full
  roost experiment run relocation-clustered --latencies rtt.csv --out ours
"""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    experiment = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Run the experiments of the papers, and compare.",
        epilog=EXAMPLES,
    )
    experiment.command("list", epilog=EXAMPLES)(list_experiments)
    experiment.command("run", epilog=RUN_EXAMPLES)(run)
    experiment.command("show", epilog=SHOW_EXAMPLES)(show)
    app.add_typer(experiment, name="experiment")


def list_experiments(json_: Json = False) -> None:
    """What there is to run, and how large."""
    from rich.padding import Padding

    from roost.experiments import EXPERIMENTS
    from roost.papers import cited

    if json_:
        print_json({"experiments": {e.name: e.what for e in EXPERIMENTS.values()}})
        return
    console = people()
    for experiment in EXPERIMENTS.values():
        console.print(experiment.name, style="bold")
        console.print(Padding(cited(experiment.what), (0, 0, 0, 2), expand=False))
        for scale in experiment.scales.values():
            text = f"{scale.name}: {cited(scale.what)}; {scale.seeds} seeds"
            console.print(Padding(text, (0, 0, 0, 4), expand=False), style="dim")


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See `roost experiment list`.")],
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="How large: small or paper.")
    ] = "small",
    seeds: Annotated[
        str | None,
        typer.Option(metavar="SEEDS", help="How many (10), a range (5-9) or a list (3,7)."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes; else one a core.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="As Spark tasks.")] = False,
    latencies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Round trips in ms, .csv or .npz, for the wide area.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Keep cells and page there.")
    ] = None,
    json_: Json = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Run an experiment: its cells, its claims and its page."""
    from roost.cli.sweep.command import carry_out, executor
    from roost.experiments import find_experiment
    from roost.experiments.running import run_experiment, scale_of
    from roost.pipeline.sweeps.grid import read_seeds

    experiment = find_experiment(name)
    chosen = scale_of(experiment, scale)
    on_spark = spark or master is not None or bool(conf)
    if on_spark and jobs is not None:
        raise UserError("--jobs is for processes; for Spark expected --master 'local[N]'")

    chosen_seeds = read_seeds(seeds or str(chosen.seeds))
    if seeds is not None and seeds.isdecimal():
        say_many_seeds(len(chosen_seeds), 0, f"--seeds {seeds}-{seeds}")

    def work(sweep: Sweep) -> None:
        with executor(on_spark, jobs, master, conf) as execute:
            carry_out(sweep, execute, out)

    with TemporaryDirectory(prefix="roost-experiment-") if out is None else nullcontext(out) as to:
        report = run_experiment(
            experiment,
            chosen,
            chosen_seeds,
            Path(to),
            work,
            {} if latencies is None else {"latencies": str(latencies.absolute())},
        )
    tell(report, out, json_)


def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out of an experiment.")],
    json_: Json = False,
) -> None:
    """Make the page and the claims of an experiment anew, from the cells that are kept."""
    from roost.experiments import find_experiment
    from roost.experiments.running import show_experiment

    tell(show_experiment(folder, find_experiment), folder, json_)


def tell(report: Report, out: Path | None, json_: bool) -> None:
    """Prints what came of an experiment; exit code 1 if it is not as claimed."""
    if json_:
        print_json(report.as_dict())
    else:
        show_report(people(), report)
        if out is not None:
            from roost.experiments.running import PAGE

            people().print(f"Page: {out / PAGE}", soft_wrap=True)
    if not report.holds:
        raise typer.Exit(EXIT_FAILED)


def show_report(console: Console, report: Report) -> None:
    """Claims, findings and checks for people."""
    from rich.padding import Padding
    from rich.table import Table

    from roost.experiments.page import between
    from roost.papers import cited
    from roost.pictures.charts import number

    console.print(f"{report.experiment.name}, scale {report.scale.name}", style="bold")
    table = Table("where", "what")
    for column in ("paper", "ours", "95 % of confidence", "unit"):
        table.add_column(column, justify="right")
    table.add_column("criterion")
    table.add_column("holds")
    for claim in report.claims:
        table.add_row(
            cited(claim.id),
            cited(claim.what),
            "" if claim.paper is None else number(claim.paper),
            "-" if claim.ours is None else number(claim.ours),
            between(claim),
            claim.unit,
            claim.criterion,
            "yes" if claim.holds else "no",
            style=None if claim.holds else "red",
        )
    console.print(table)
    for finding in report.findings:
        console.print(Padding(cited(finding), (0, 0, 0, 2), expand=False))
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.checks.items())
    console.print(f"{report.cells:,} cells, {len(report.seeds)} seeds: {told}", style="dim")
    for failed in report.failed[:3]:
        console.print(f"  {failed.cell} failed: {failed.error}", style="red", soft_wrap=True)
