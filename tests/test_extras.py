"""The extras of pyproject.toml bring what is imported, and `roost.extras` knows which brings what."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from roost.errors import UserError
from roost.extras import BROKER, BROUGHT_BY, PIPELINE, MissingExtraError, needed_for

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# They come with others: llvmlite with numba, py4j with pyspark.
ALONG = {"llvmlite": "numba", "py4j": "pyspark"}
# Others of a benchmark, for whoever has them.
CONTESTANTS = {"duckdb"}


def names(requirements: list[str]) -> set[str]:
    """Of the distributions, as the standard for names has them."""
    found = (re.match(r"[\w.-]+", text) for text in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


EXTRAS = {extra: names(texts) for extra, texts in PROJECT["optional-dependencies"].items()}


def imported() -> Iterator[str]:
    """The modules of others that something of Roost imports, at once or later."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield (node.module or "").partition(".")[0]


def distribution_of(module: str) -> set[str]:
    module = ALONG.get(module, module)
    return names(packages_distributions().get(module, []))


def test_all_that_is_imported_is_brought_by_somebody() -> None:
    plain = names(PROJECT["dependencies"])
    others = {name for name in imported() if name not in {*sys.stdlib_module_names, "roost"}}
    assert {"numpy", "pyspark", "msgspec"} <= others
    for module in sorted(others):
        brought = distribution_of(module)
        extra = "dev" if module in CONTESTANTS else BROUGHT_BY.get(module)
        wanted = plain if extra is None else EXTRAS[extra]
        assert brought & wanted, f"{module} of {brought} is not among {wanted}"


def test_every_extra_is_known_to_bring_what_it_does() -> None:
    for extra in (BROKER, PIPELINE):
        known = set().union(*(distribution_of(m) for m, e in BROUGHT_BY.items() if e == extra))
        ours = EXTRAS[extra] - {"roost", "python-dateutil"}  # imported by pandas, not by us
        assert ours <= known, ours - known


def test_each_extra_holds_those_before_it() -> None:
    assert "roost[broker]" in PROJECT["optional-dependencies"][PIPELINE]
    assert PROJECT["optional-dependencies"]["all"] == ["roost[pipeline]"]


def test_constraints_fix_every_version() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text("utf-8").splitlines()
    assert all("==" in line for line in lines)
    fixed = names([line.partition("==")[0] for line in lines])
    ours = names(PROJECT["dependencies"]).union(*EXTRAS.values()) - {"roost"}
    assert ours <= fixed, ours - fixed


def missing(module: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {module!r}", name=module)


def test_who_lacks_something_is_told_what_brings_it() -> None:
    wanted = r"^a test needs numba, which is not installed: pip install 'roost\[broker\]'$"
    with pytest.raises(UserError, match=wanted), needed_for("a test"):
        raise missing("numba.core")
    with pytest.raises(MissingExtraError, match=r"roost\[pipeline\]"), needed_for("it", PIPELINE):
        raise missing("numpy")
    with pytest.raises(MissingExtraError, match=r"roost\[pipeline\]"), needed_for("it", BROKER):
        raise missing("pyspark")


def test_what_is_no_extra_is_somebody_elses_matter() -> None:
    with pytest.raises(ModuleNotFoundError, match="my_package"), needed_for("it", PIPELINE):
        raise missing("my_package")
