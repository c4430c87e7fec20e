"""What random scenarios have in common: a script that is written statement by statement, then put in order.

A scenario draws all that it says from its seed. Faults are added once it is known what is there to fail, and
every statement gets its line in the file that says the same (`text`).
"""

from __future__ import annotations

import random

import msgspec

from roost.broker.registry import ModuleOrder
from roost.simulation import statements as st
from roost.simulation.faults import Faults, merged, stage_of
from roost.simulation.settings import Settings, settings_changed
from roost.simulation.words import Words
from roost.simulation.workload_file import write_workload


class Script:
    """The statements of a scenario, while it is made; `until` is when it ends."""

    settings: Settings
    statements: list[st.Statement]
    until: float

    def __init__(self, seed: int, profile: str) -> None:
        self.random = random.Random(f"{seed}/{profile}")
        self._words = Words(self.random)
        self.seed = seed
        self.profile = profile
        self._said: list[st.Statement] = []
        self._names = 0
        self._now = 0.0
        self._busy_until: dict[str, float] = {}  # publisher -> when it publishes what is planned
        self._faulty: list[float] = []  # when there are to be faults

    def text(self) -> str:
        """The workload file that says the same, line by line."""
        return write_workload([*self._set(), *self.statements], self._comments())

    def _finished(self, faults: str, lasts_s: tuple[float, float]) -> list[st.Statement]:
        """All that was said and the faults, in the order of time, each with its line in the file."""
        said = merged(self._said, ())
        made = Faults(
            self.random, faults, stage_of(said), durability=self.settings.durability, end=self.until
        )
        for at in self._faulty:
            made.fault(at, at + self.random.uniform(*lasts_s))
        lines = merged([*said, *made.statements], [st.End(at=self.until)])
        first = len(self._comments()) + len(self._set()) + 1
        return [msgspec.structs.replace(s, line=n) for n, s in enumerate(lines, first)]

    def _set(self) -> list[st.Statement]:
        changed = settings_changed(self.settings)
        orders = [
            st.UseOptimiser(at=0.0, reference=order.reference, order=words_of_order(order))
            for order in self.settings.modules
        ]
        return [*(st.Set(at=0.0, key=key, value=value) for key, value in changed.items()), *orders]

    def _comments(self) -> tuple[str, ...]:
        return (f"roost sim fuzz --first {self.seed} --seeds 1 --profile {self.profile}",)

    def _say(self, statement: st.Statement) -> None:
        self._said.append(statement)

    def _soon(self, within_s: float) -> float:
        return round(self._now + self.random.random() * within_s, 3)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"


def words_of_order(order: ModuleOrder) -> str:
    """What `parse_order` reads."""
    return " ".join([order.state.value, *(f"{k}={v}" for k, v in order.settings.items())])
