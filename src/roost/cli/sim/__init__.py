"""`roost sim`: federations in the laboratory."""

from __future__ import annotations

from roost.cli.sim.command import register

__all__ = ["register"]
