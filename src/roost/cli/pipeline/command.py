"""`roost pipeline`: the steps of the data pipeline, on Spark."""

from __future__ import annotations

import typer

from roost.cli.pipeline import match, profile, serve, workload

EXAMPLES = """\b
Examples:
  roost pipeline workload stock --publications 1000000 --subscriptions 100000 --out stock
  roost pipeline match --publications stock/publications --subscriptions stock/subscriptions --out matches
  roost pipeline profile delays --run monday --lake traces
  roost pipeline serve --url roost://127.0.0.1:7411 --subscriptions wanted --checkpoint serving
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    pipeline = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Generate, match and profile at any scale, on Spark.",
        epilog=EXAMPLES,
    )
    workload.register(pipeline)
    match.register(pipeline)
    profile.register(pipeline)
    serve.register(pipeline)
    app.add_typer(pipeline, name="pipeline")
