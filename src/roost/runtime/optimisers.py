"""The optimisers of a live broker: made from its settings, switched by operators, and what they decided.

All of them are there from the start, off or not, so that an operator can turn one on in a federation that
runs. The last decisions are kept in memory, for `roost decisions`; a trace has all of them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.broker.commands import Decision, Record
from roost.broker.events import ModuleSwitched
from roost.broker.module import Module, ModuleState
from roost.broker.registry import make_module, parse_order
from roost.relocation import Goal, Grape, GrapeConfig, Pop, PopConfig, Terms
from roost.runtime.shell import Shell
from roost.runtime.tables import OptimisersTable, RelocationTable

DECISIONS_KEPT = 1_000


class Decided(Struct, frozen=True):
    """A decision, and when it was made."""

    time: float  # in seconds since the epoch
    decision: Decision


class Optimisers:
    """Those of one broker; of a machine that is none, not `any_`."""

    def __init__(
        self, settings: RelocationTable, others: OptimisersTable, *, any_: bool = True
    ) -> None:
        terms = Terms(
            horizon_s=settings.horizon_s,
            margin=settings.margin,
            share_min=settings.share_min,
            rest_s=settings.rest_s,
        )
        goal = Goal(settings.priority, settings.weight)
        orders = [parse_order(*order) for order in _worded(others)]
        found = [make_module(order) for order in orders]
        self._states = {
            module.name: order.state for module, order in zip(found, orders, strict=True)
        }
        self.modules: Sequence[Module] = (
            Grape(
                GrapeConfig(
                    goal=goal,
                    session=settings.session,
                    memory=settings.memory,
                    terms=terms,
                    subscribers=settings.subscribers,
                )
            ),
            Pop(PopConfig(traces=settings.session, terms=terms)),
            *found,
        )
        if not any_:
            self.modules = ()
        self._settings = settings
        self.decisions: deque[Decided] = deque(maxlen=DECISIONS_KEPT)
        self.counts: Counter[tuple[str, str]] = Counter()  # of all decisions: (module, kind)

    def begin(self, shell: Shell) -> None:
        """Before the broker starts: which of them run, by the settings."""
        for module in self.modules:
            chosen = module.name == self._settings.algorithm
            state = self._settings.mode if chosen else ModuleState.OFF.value
            if module.name in self._states:
                state = self._states[module.name].value
            shell.handle(ModuleSwitched(module.name, state))

    def switch(self, shell: Shell, name: str, state: ModuleState) -> None:
        """Turn one of them off, to observing or to acting. Several may act: the arbiter sees to it."""
        shell.handle(ModuleSwitched(name, state.value))

    def states(self, shell: Shell) -> Mapping[str, str]:
        """What each of them does."""
        return {each.name: shell.broker.modules.state(each.name).value for each in self.modules}

    def decided(self, record: Record) -> None:
        self.decisions.append(Decided(time.time(), record.decision))
        self.counts[record.decision.module, record.decision.kind] += 1


def _worded(table: OptimisersTable) -> Iterator[tuple[str, list[str]]]:
    for reference, words in table.modules.items():
        yield reference, words.split()


def decided_dict(decided: Decided) -> dict[str, Any]:
    """For programs."""
    decision = decided.decision
    return {
        "time": decided.time,
        "module": decision.module,
        "kind": decision.kind,
        "subject": decision.subject,
        "choice": decision.choice,
        "acted": decision.acted,
        "evidence": decision.evidence,
        "predicted": decision.predicted,
        "cause": decision.cause,
    }
