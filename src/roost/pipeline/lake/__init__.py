"""The lake: tables of many runs in one folder, and the Parquet files that they are."""

from __future__ import annotations

from roost.pipeline.lake.lake import Lake

__all__ = ["Lake"]
