"""`roost pipeline`: the steps of the data pipeline, on Spark."""

from __future__ import annotations

from roost.cli.pipeline.command import register

__all__ = ["register"]
