"""`roost sweep`: a grid of parameters and seeds."""

from __future__ import annotations

from roost.cli.sweep.command import register

__all__ = ["register"]
