"""What applications find as `roost.NAME`, when it runs and when its types are checked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import roost
from roost import client

TREE = ast.parse(Path(roost.__file__).read_text("utf-8"))
(CHECKED,) = (node for node in TREE.body if isinstance(node, ast.If))


def names_for_checkers() -> set[str]:
    return {
        alias.name
        for node in CHECKED.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_everything_of_the_client_library_is_there_by_its_short_name() -> None:
    for name in client.__all__:
        assert getattr(roost, name) is getattr(client, name)
    assert issubclass(roost.Refused, roost.UserError)
    assert issubclass(roost.LanguageError, ValueError)


def test_checkers_see_the_same_names() -> None:
    found = {name for name in dir(roost) if not name.startswith("_")}
    packages = {"annotations", "client", "errors", "TYPE_CHECKING"}
    assert names_for_checkers() >= set(client.__all__)
    assert names_for_checkers() <= found
    loaded = {name for name in found if getattr(roost, name).__class__.__name__ == "module"}
    assert found - loaded - packages == names_for_checkers()


def test_checkers_notice_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        roost.Clinet  # type: ignore[attr-defined]  # noqa: B018
    # A `__getattr__` that they could see would make every name one of ours.
    for_checkers = [*TREE.body, *CHECKED.body]
    assert not [node for node in for_checkers if isinstance(node, ast.FunctionDef)]
