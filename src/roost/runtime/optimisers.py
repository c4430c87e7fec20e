"""The optimisers of a live broker: made from its settings, switched by operators, and what they decided.

All of them are there from the start, off or not, so that an operator can turn one on in a federation that
runs. The last decisions are kept in memory, for `roost decisions`; a trace has all of them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.broker.commands import Decision, Record
from roost.broker.events import ModuleSwitched
from roost.broker.module import Module, ModuleState
from roost.broker.registry import (
    ModuleOrder,
    make_module,
    module_class,
    objection_to_ranks,
    parse_order,
)
from roost.broker.routers import router_of
from roost.relocation import Goal, Grape, GrapeConfig, Pop, PopConfig, Terms
from roost.runtime.shell import Shell
from roost.runtime.tables import (
    MODULE_TABLES,
    RELOCATING,
    ModuleTable,
    RelocationTable,
    ServerConfig,
)

DECISIONS_KEPT = 1_000


class Decided(Struct, frozen=True):
    """A decision, and when it was made."""

    time: float  # in seconds since the epoch
    decision: Decision


class Optimisers:
    """Those of one broker; of a machine that is none, not `any_`."""

    def __init__(self, config: ServerConfig, *, any_: bool = True) -> None:
        found = _found(config) if any_ else {}
        self.modules: Sequence[Module] = [module for module, _ in found.values()]
        self._ranked = any_ and router_of(config.broker.routing).strategy.ranks
        self._initial = {name: state for name, (_, state) in found.items()}
        self.decisions: deque[Decided] = deque(maxlen=DECISIONS_KEPT)
        self.counts: Counter[tuple[str, str]] = Counter()  # of all decisions: (module, kind)

    def begin(self, shell: Shell) -> None:
        """Before the broker starts: which of them run, by the settings."""
        for name, state in self._initial.items():
            self.switch(shell, name, state)

    def objection_to(self, name: str, state: ModuleState) -> str:
        """To turning it to that; "" if there is none."""
        (module,) = (each for each in self.modules if each.name == name)
        is_on = state is not ModuleState.OFF
        return objection_to_ranks(type(module)) if self._ranked and is_on else ""

    def switch(self, shell: Shell, name: str, state: ModuleState) -> None:
        """Turn one of them off, to observing or to acting. Several may act: the arbiter sees to it."""
        shell.handle(ModuleSwitched(name, state.value))

    def states(self, shell: Shell) -> Mapping[str, str]:
        """What each of them does."""
        return {each.name: shell.broker.modules.state(each.name).value for each in self.modules}

    def decided(self, record: Record) -> None:
        self.decisions.append(Decided(time.time(), record.decision))
        self.counts[record.decision.module, record.decision.kind] += 1


def _found(config: ServerConfig) -> dict[str, tuple[Module, ModuleState]]:
    """All of them by name, and how they begin: Roost's by their tables, unless `[optimisers]` names them."""
    relocation = config.relocation
    chosen = RELOCATING if relocation.algorithm == "both" else (relocation.algorithm,)
    found: dict[str, tuple[Module, ModuleState]] = {}
    for known in _relocating(relocation):
        mode = relocation.mode if known.name in chosen else "off"
        found[known.name] = (known, ModuleState(mode))
    for name in MODULE_TABLES:
        table, order = config.modules.get(name, ModuleTable()), ModuleOrder(name)
        settings = table.settings
        made = make_module(order) if settings is None else module_class(name)(settings)
        found[name] = (made, ModuleState(table.mode))
    for reference, words in config.optimisers.modules.items():
        order = parse_order(reference, words.split())
        module = make_module(order)
        found[module.name] = (module, order.state)
    return found


def _relocating(table: RelocationTable) -> tuple[Grape, Pop]:
    terms = Terms(
        horizon_s=table.horizon_s,
        margin=table.margin,
        share_min=table.share_min,
        rest_s=table.rest_s,
    )
    grape = GrapeConfig(
        goal=Goal(table.priority, table.weight),
        session=table.session,
        session_rest_s=table.session_rest_s,
        memory=table.memory,
        terms=terms,
        subscribers=table.subscribers,
    )
    return Grape(grape), Pop(PopConfig(traces=table.session, terms=terms))


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
