"""The examples in the documentation of the library run, and say what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import roost
import roost.client

MODULES = [
    importlib.import_module(f"roost.client.{found.name}")
    for found in pkgutil.iter_modules(roost.client.__path__)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    # Examples import `roost` themselves, as an application would.
    assert not doctest.testmod(module).failed


def test_everything_public_is_explained() -> None:
    for name in roost.client.__all__:
        thing = getattr(roost.client, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert thing.__doc__, name
        for method, function in vars(thing).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                assert function.__doc__, f"{name}.{method}"


def test_short_names() -> None:
    assert roost.connect is roost.client.connect
    assert roost.connect_sync is roost.client.connect_sync
    assert {"connect", "connect_sync", "__version__"} <= set(dir(roost))
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        roost.conect  # type: ignore[attr-defined]  # noqa: B018


def test_importing_costs_nothing_until_it_is_used() -> None:
    program = (
        "import sys, roost; assert not {'asyncio', 'msgspec', 'roost.client'} & set(sys.modules);"
        "import roost.client; assert not {'numba', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
