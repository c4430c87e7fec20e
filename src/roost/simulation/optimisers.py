"""The optimisers of a simulated federation, by its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from roost.broker.module import Module
from roost.broker.registry import ModuleOrder, make_module
from roost.built_in import BUILT_IN, MODULES
from roost.errors import UserError
from roost.relocation import Goal, Grape, GrapeConfig, Metric, Pop, PopConfig, Terms

if TYPE_CHECKING:
    from roost.simulation.settings import Settings

# A move is made whenever another place is better, as in the paper.
ALWAYS = Terms(margin=0.0, share_min=0.0, rest_s=0.0)
# How often a broker decides for a group of subscribers; who need not pay need not wait.
GROUP_PERIOD_S, HURRY_S = 60.0, 2.0

# What makes the modules of a broker, by its name.
Modules = Callable[[str], Sequence[Module]]

_is_goal = re.compile("(load|delay)(100|[1-9]?[0-9])", re.ASCII).fullmatch

NONE, GRAPE, POP = "none", "grape", "pop"


def check_optimiser(text: str) -> None:
    """UserError if the setting `optimiser` can't be that."""
    others = [name for name in BUILT_IN[MODULES] if name != GRAPE]
    name, _, goal = text.partition("-")
    if text not in (NONE, *others) and not (name == GRAPE and _is_goal(goal)):
        raise UserError(
            f"there is no optimiser {text!r}; expected one of {NONE}, {', '.join(others)}, or {GRAPE} with"
            " a goal, as grape-load100 or grape-delay25"
        )


def modules_of(settings: Settings, more: Modules | None = None) -> Modules:
    """What makes the modules of each broker, and `more`. Modules of two brokers share nothing."""
    known, others = chosen_by(settings), more or _none
    return lambda name: (*known(name), *map(make_module, settings.modules), *others(name))


def _none(_: str) -> Sequence[Module]:
    return ()


def chosen_by(settings: Settings) -> Modules:
    """The one that the setting `optimiser` says."""
    terms = Terms() if settings.moves_must_pay else ALWAYS
    name, _, text = settings.optimiser.partition("-")
    if name == NONE:
        return _none
    if name == POP:
        traces = settings.traces
        config = PopConfig(traces=traces, traced_max=max(1, traces // 2), terms=terms)
        return lambda _: (Pop(config),)
    if name != GRAPE:
        return lambda _: (make_module(ModuleOrder(name)),)
    found = _is_goal(text)
    assert found is not None  # `check_optimiser` has seen to it
    goal = Goal(cast(Metric, found[1]), float(found[2]))
    grape = GrapeConfig(
        goal=goal,
        session=settings.traces,
        terms=terms,
        subscribers=settings.moves_subscribers,
        group_period_s=GROUP_PERIOD_S if settings.moves_must_pay else HURRY_S,
    )
    return lambda _: (Grape(grape),)
