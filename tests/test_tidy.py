"""Style that checks itself: each rule of `tidy.py`, over the repository and over planted faults."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.tidy import (
    HOUSE,
    LINES_MAX,
    Finding,
    broken_links,
    dead_modules,
    determinism,
    import_direction,
    length,
    machine_paths,
    registry_addresses,
    set_order,
)

ROOT = Path(__file__).resolve().parent.parent
Rule = Callable[[str, str], Iterator[Finding]]


def python_sources() -> dict[str, str]:
    files = sorted((ROOT / "src" / "roost").rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}


def repository_texts() -> dict[str, str]:
    """Every text file that is committed, or would be by `git add .`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip(f"not a git checkout: {listing.stderr.strip()}")
    texts = {}
    for path in filter(None, listing.stdout.split("\0")):
        file = ROOT / path
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            if b"\0" not in content:
                texts[path] = content.decode("utf-8", "replace")
    return texts


def report(findings: Iterable[Finding]) -> None:
    found = sorted(findings)
    assert not found, "\n" + "\n".join(map(str, found))


# --- the repository -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [import_direction, determinism, set_order, length])
def test_sources(rule: Rule) -> None:
    report(finding for path, source in python_sources().items() for finding in rule(path, source))


def test_every_module_is_imported() -> None:
    report(dead_modules(python_sources()))


@pytest.mark.parametrize("rule", [machine_paths, registry_addresses])
def test_texts(rule: Rule) -> None:
    report(finding for path, text in repository_texts().items() for finding in rule(path, text))


def test_markdown_links() -> None:
    report(
        finding
        for path, text in repository_texts().items()
        if path.endswith(".md")
        for finding in broken_links(path, text, lambda target: (ROOT / target).exists())
    )


# --- planted violations ---------------------------------------------------------------------------


def lines(findings: Iterable[Finding]) -> list[int]:
    return sorted({finding.line for finding in findings})


@pytest.mark.parametrize(
    "source",
    [
        "import roost.cli.main",
        "from roost.cli import main",
        "from roost import cli",
        "from ..cli import main",
        "from .. import cli",
        "def f():\n    import roost.cli",
        "if TYPE_CHECKING:\n    from roost.wire import frames",
        "import importlib\nimportlib.import_module('roost.wire')",
    ],
)
def test_downward_imports_are_found(source: str) -> None:
    assert lines(import_direction("src/roost/broker/core.py", source)) == [source.count("\n") + 1]


@pytest.mark.parametrize(
    "source",
    [
        "import roost",
        "from roost import __version__",
        "from roost.errors import UserError",
        "from roost.language import parse",
        "from ..matching import naive",
        "from . import messages",
        "from .messages import Send",
        "import numpy, roosting.cli",
    ],
)
def test_upward_imports_are_fine(source: str) -> None:
    assert not lines(import_direction("src/roost/broker/core.py", source))


def test_relative_imports_of_a_package_start_at_the_package() -> None:
    assert not lines(import_direction("src/roost/broker/__init__.py", "from .wire import frames"))
    assert lines(import_direction("src/roost/broker/__init__.py", "from ..wire import frames"))


def test_the_two_drivers_are_strangers() -> None:
    assert lines(import_direction("src/roost/runtime/shell.py", "import roost.simulation"))
    assert lines(import_direction("src/roost/simulation/clock.py", "import roost.runtime"))
    assert not lines(import_direction("src/roost/cli/run.py", "import roost.runtime.shell"))


def test_the_files_of_roost_itself_import_no_package() -> None:
    assert lines(import_direction("src/roost/errors.py", "from roost.language import parse"))
    assert lines(import_direction("src/roost/__init__.py", "from .client import connect"))
    assert not lines(import_direction("src/roost/__main__.py", "from roost.cli.main import main"))


def test_an_unknown_package_is_found() -> None:
    assert lines(import_direction("src/roost/utils/misc.py", "")) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "from datetime import datetime",
        "import socket as s",
        "import asyncio.events",
        "from concurrent import futures",
        "from concurrent.futures import ThreadPoolExecutor",
        "def f():\n    import random",
        "from os import environ",
        "import os\nos.environ['X']",
        "import os\nos.getenv('X')",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy\nnumpy.random.rand()",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy.random as r",
        "from random import Random\nRandom()",
        "from random import Random, random",
    ],
)
def test_undetermined_sources_are_found(source: str) -> None:
    assert source.count("\n") + 1 in lines(determinism("src/roost/overlay/rewiring.py", source))
    assert not lines(determinism("src/roost/simulation/clock.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "import os.path",
        "import numpy as np\nnp.sort([])",
        "if TYPE_CHECKING:\n    from random import Random",
        "from random import Random\nRandom(7)",
        "from roost.broker.time import tick",
        "def f(random):\n    return random.random()",
    ],
)
def test_determined_sources_are_fine(source: str) -> None:
    assert not lines(determinism("src/roost/overlay/rewiring.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "for x in frozenset(y) - z: pass",
        "for i, x in enumerate({y for y in z}): pass",
        "[x for x in set(y)]",
        "{x: 1 for x in a | set(b)}",
        "sum(x for x in {0.1, 0.2})",
        "async def f():\n    async for x in set(y): pass",
    ],
)
def test_set_order_is_found(source: str) -> None:
    assert lines(set_order("src/roost/broker/core.py", source)) == [source.count("\n") + 1]
    assert not lines(set_order("src/roost/cli/main.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "for x in sorted({1, 2}): pass",
        "for x in sorted(set(y), key=f): pass",
        "{x for x in set(y)}",
        "any(x for x in set(y))",
        "sorted(f(x) for x in {1, 2})",
        "for x in a - b: pass",
        "for x in {1: 2}: pass",
        "len({1, 2})",
    ],
)
def test_orderless_uses_of_sets_are_fine(source: str) -> None:
    assert not lines(set_order("src/roost/broker/core.py", source))


def test_dead_modules_are_found() -> None:
    sources = {
        "src/roost/__init__.py": "",
        "src/roost/cli/main.py": "from roost.wire import frames",
        "src/roost/wire/__init__.py": "from .codec import encode",
        "src/roost/wire/codec.py": "",
        "src/roost/wire/frames.py": "",
        "src/roost/wire/forgotten.py": "import roost.wire.forgotten",
    }
    assert [finding.path for finding in dead_modules(sources)] == ["src/roost/wire/forgotten.py"]


def test_long_files_are_found() -> None:
    assert lines(length("src/roost/cli/main.py", "\n" * (LINES_MAX + 1)))
    assert not lines(length("src/roost/cli/main.py", "\n" * LINES_MAX))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"/', 'work/x"'),
        ("see /", "root/.cache"),
        ("/", "home/someone/roost"),
        ("cd /", "Users/someone"),
        ("(/", "farm)"),
        ("C:", r"\Users\someone"),
        ("file:///", "home/someone"),
    ],
)
def test_machine_paths_are_found(before: str, after: str) -> None:
    # In two parts, so that this file does not say them.
    assert lines(machine_paths("docs/OPERATING.md", before + after)) == [1]


@pytest.mark.parametrize(
    "text", ["~/work/x", "framework/x", "src/root/x", "https://example.org/home/x", "/tmp/x"]
)
def test_other_paths_are_fine(text: str) -> None:
    assert not lines(machine_paths("docs/OPERATING.md", text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://pypi", ".org/simple"),
        ("test.pypi", ".org"),
        ("https://files.pythonhosted", ".org/packages/x"),
        ("pypi.python", ".org"),
        ("pip install --index", "-url x y"),
        ("PIP_EXTRA_INDEX", "_URL=x"),
        ("https://example.com/a/roost-1.0-py3-none-any", ".whl"),
        ("registry.npmjs", ".org"),
    ],
)
def test_registry_addresses_are_found(before: str, after: str) -> None:
    assert lines(registry_addresses("docs/OPERATING.md", f"first\n{before}{after}")) == [2]


@pytest.mark.parametrize("text", ["numpy==2.4.6", "https://semver.org/", "on PyPI", "a.whl"])
def test_other_addresses_are_fine(text: str) -> None:
    assert not lines(registry_addresses("docs/OPERATING.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "[a](gone.md)",
        "[a](gone.md#part)",
        '![a](<gone.png> "title")',
        "[a](../../outside.md)",
        "[a](/docs/here.md)",
        "[a]: gone.md",
        "see [a](here.md) and [b](gone.md)",
    ],
)
def test_broken_links_are_found(text: str) -> None:
    assert lines(broken_links("docs/index.md", text, {"docs/here.md"}.__contains__)) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "[a](here.md)",
        "[a](./here.md#part)",
        "[a](../LICENSE)",
        "[a](#part)",
        "[a](https://example.org/gone.md)",
        "[a](mailto:a@example.org)",
        "`[a](gone.md)`",
        "```\n[a](gone.md)\n```",
        "[class,eq,'STOCK'],[volume,>,300000]",
    ],
)
def test_whole_links_are_fine(text: str) -> None:
    present = {"docs/here.md", "LICENSE"}
    assert not lines(broken_links("docs/index.md", text, present.__contains__))


def test_the_house_has_no_room_twice() -> None:
    assert len(set(HOUSE)) == len(HOUSE)
