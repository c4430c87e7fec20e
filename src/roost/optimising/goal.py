"""What is to be made small: one of two metrics first, and by how much."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from roost.errors import UserError
from roost.optimising.worth import Metric


class Goal(Struct, frozen=True):
    """What is to be made small: `delay100` is Goal("delay", 100) in the paper."""

    priority: Metric = "delay"
    weight: float = 100.0  # 0 to 100 %

    def __post_init__(self) -> None:
        if self.priority not in get_args(Metric):
            raise UserError(f"priority {self.priority!r}; expected delay or load")
        if not 0 <= self.weight <= 100:
            raise UserError(f"weight {self.weight:g}; expected 0 to 100 (%)")

    @property
    def other(self) -> Metric:
        """The metric without priority."""
        return "load" if self.priority == "delay" else "delay"
