"""The examples of docs/TESTING.md are one test file: it is put together, and its tests are run."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

MANUAL = Path(__file__).parents[2] / "docs" / "TESTING.md"
NAME = "examples_of_the_manual_of_testing"

_blocks = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL).findall
SOURCE = "\n\n".join(_blocks(MANUAL.read_text("utf-8")))
TESTS = re.findall(r"^def (test_\w+)", SOURCE, re.MULTILINE)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("manual")
    (folder / f"{NAME}.py").write_text(SOURCE, "utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(NAME)
    finally:
        sys.path.remove(str(folder))
        del sys.modules[NAME]


def test_there_are_examples() -> None:
    assert len(TESTS) >= 6


@pytest.mark.parametrize("name", TESTS)
def test_example(examples: ModuleType, name: str) -> None:
    getattr(examples, name)()


def test_the_public_face_is_explained_and_documented() -> None:
    import roost.testing

    manual = MANUAL.read_text("utf-8")
    for name in roost.testing.__all__:
        thing = getattr(roost.testing, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
    for name in ("simulate", "fuzz", "memory_federation", "until", "Oracle", "World", "Scenario"):
        assert name in manual
