"""`roost pipeline`: the steps of the data pipeline, on Spark."""

from __future__ import annotations

import typer

EXAMPLES = """\b
Examples:
"""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    pipeline = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Generate, match and profile at any scale, on Spark.",
        epilog=EXAMPLES,
    )
    app.add_typer(pipeline, name="pipeline")
