"""`roost demo`: what Roost does, shown."""

from __future__ import annotations

from roost.cli.demo.command import register

__all__ = ["register"]
