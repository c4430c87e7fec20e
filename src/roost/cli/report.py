"""`roost report`: a page on recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roost.cli.console import print_json
from roost.cli.lake import DEFAULT, LakeOption

EXAMPLES = """\b
One page of HTML, which needs nothing else: traffic, delays and loads over time, the overlay at the beginning
and at the end, decisions with their evidence, and with --plan what was predicted beside what was measured.

\b
With --compare the first run is replayed in the simulator with each optimiser alone and with all together. It
has to have its events (`roost trace on --content`, `roost sim run --trace DIR --content`).

\b
Examples:
  roost report monday --lake traces --out monday.html
  roost report before after --plan monday.plan
  roost report monday --compare --jobs 2
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("report", epilog=EXAMPLES)(report)


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Of the lake.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", dir_okay=False, help="Where to write the page.")
    ] = Path("report.html"),
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="A plan, of `roost plan --out`."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Replay the first run with each optimiser.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, metavar="J", help="Replays at a time.")] = 1,
    lake: LakeOption = DEFAULT,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a page on recorded runs, as HTML."""
    from tempfile import TemporaryDirectory

    from roost.cli.sinks import whole_file
    from roost.pipeline.lake import Lake
    from roost.pipeline.plans.plan import read_plan
    from roost.pipeline.plans.replaying import read_scene
    from roost.pipeline.reports.optimisers import compared
    from roost.pipeline.reports.page import report_page
    from roost.pipeline.reports.series import series_of

    there = Lake(lake)
    made = read_plan(plan) if plan is not None else None
    scene = read_scene(there, runs[0]) if compare else None
    with whole_file(out) as file:
        series = [series_of(there, run) for run in runs]
        rows = None
        if scene is not None:
            with TemporaryDirectory(prefix="roost-compare-") as folder:
                rows = compared(scene, Path(folder), jobs)
        text = report_page(series, made, rows).encode()
        file.write(text)
    if json_:
        told = {name: dict(row) for name, row in (rows or {}).items()}
        print_json({"page": str(out), "bytes": len(text), "runs": runs, "compared": told})
    else:
        typer.echo(f"wrote {out}: {len(text) / 1e3:,.0f} kB")
