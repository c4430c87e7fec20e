"""The optimisers of a simulated federation, by its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from roost.broker.module import Module
from roost.broker.registry import make_module
from roost.relocation import Goal, Grape, GrapeConfig, Metric, Pop, PopConfig, Terms

if TYPE_CHECKING:
    from roost.simulation.settings import Settings

# A move is made whenever another place is better, as in the paper.
ALWAYS = Terms(margin=0.0, share_min=0.0, rest_s=0.0)
# How often a broker decides for a group of subscribers; who need not pay need not wait.
GROUP_PERIOD_S, HURRY_S = 60.0, 2.0

# What makes the modules of a broker, by its name.
Modules = Callable[[str], Sequence[Module]]

_is_goal = re.compile("(load|delay)([0-9]+)").fullmatch


def modules_of(settings: Settings, more: Modules | None = None) -> Modules:
    """What makes the modules of each broker, and `more`. Modules of two brokers share nothing."""
    known, others = relocation_of(settings), more or _none
    return lambda name: (*known(name), *map(make_module, settings.modules), *others(name))


def _none(_: str) -> Sequence[Module]:
    return ()


def relocation_of(settings: Settings) -> Modules:
    """The one that the setting `optimiser` says."""
    terms = Terms() if settings.moves_must_pay else ALWAYS
    name, _, text = settings.optimiser.partition("-")
    if name == "none":
        return _none
    if name == "pop":
        traces = settings.traces
        config = PopConfig(traces=traces, traced_max=max(1, traces // 2), terms=terms)
        return lambda _: (Pop(config),)
    found = _is_goal(text)
    assert found is not None  # `Settings` has checked it
    goal = Goal(cast(Metric, found[1]), float(found[2]))
    grape = GrapeConfig(
        goal=goal,
        session=settings.traces,
        terms=terms,
        subscribers=settings.moves_subscribers,
        group_period_s=GROUP_PERIOD_S if settings.moves_must_pay else HURRY_S,
    )
    return lambda _: (Grape(grape),)
