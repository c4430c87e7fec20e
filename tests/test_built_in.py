"""What Roost offers by name: found without metadata, the same as in it, and made with settings in words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from roost.broker.module import ModuleState
from roost.broker.registry import make_module, module_class, parse_order
from roost.built_in import BUILT_IN, MODULES
from roost.errors import UserError
from roost.overlay.organising import SelfOrganising
from roost.relocation import Goal, Grape, Pop
from roost.simulation.settings import Settings, settings_with
from roost.simulation.world import World

ROOT = Path(__file__).parents[1]


def test_the_metadata_of_the_package_says_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"] == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN[MODULES])
def test_each_is_a_module_of_that_name_that_needs_no_settings(name: str) -> None:
    assert module_class(name).name == name
    assert module_class(name).Config is not None
    assert make_module(parse_order(name, [])).name == name


def test_settings_within_settings_have_a_dot() -> None:
    order = parse_order("grape", ["observing", "session=7", "goal.priority=load", "goal.weight=75"])
    grape = make_module(order)
    assert isinstance(grape, Grape)
    assert (order.state, grape.config.session) == (ModuleState.OBSERVING, 7)
    assert grape.config.goal == Goal("load", 75.0)
    assert grape.config.terms == Grape().config.terms


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("goals.weight=1", "the module grape has no setting 'goals'; it has goal, session"),
        ("goal=load100", "Expected `object`, got `str` - at `$.goal`"),
        ("goal=load100 goal.weight=3", "Expected `object`, got `str` - at `$.goal`"),
        ("goal.weight=much", "Expected `float`, got `str` - at `$.goal.weight`"),
    ],
)
def test_settings_that_will_not_do(words: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        make_module(parse_order("grape", words.split()))
    assert message in str(refused.value)


def test_lists_have_commas() -> None:
    module = make_module(parse_order("overlay", ["edges=B3,B4", "pinned=B1--B2"]))
    assert module.config.edges == ("B3", "B4")
    assert module.config.pinned == ("B1--B2",)


def test_a_name_that_nobody_offers() -> None:
    with pytest.raises(UserError, match=r"no package offers a module 'magic' \(there are: .*grape"):
        module_class("magic")


def test_the_setting_of_a_workload() -> None:
    for text in ("none", "pop", "overlay", "grape-load100", "grape-delay0"):
        assert settings_with(Settings(), "optimiser", text).optimiser == text
    for text in ("grape", "grape-load101", "grape-cost5", "pop-load100", "magic", ""):
        with pytest.raises(UserError, match=r"there is no optimiser .*; expected one of none, pop"):
            settings_with(Settings(), "optimiser", text)
    for text, kind in (("pop", Pop), ("overlay", SelfOrganising)):
        world = World(settings_with(Settings(), "optimiser", text), ())
        assert [type(module) for module in world._modules("B0")] == [kind]
