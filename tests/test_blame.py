"""Mistakes in the code of users: one message that names file and line, and exit code 2."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from roost.broker.registry import make_module, module_class, parse_order
from roost.broker.routers import check_router, router_of
from roost.errors import UserError
from roost.pipeline.sweeps.tasks import load_task
from tests.cli.support import Roost, make_roost

Written = Callable[[str], tuple[str, Path]]
NUMBERS = count()

MODULE = """
    from roost.broker.module import Module

    class Mine(Module):
        name = "mine"
"""
ROUTER = """
    from roost.broker.router import Flooding

    class Mine(Flooding):
"""

# What is written, and what has to be said of it, behind the file; "" for a mistake that has no line.
IMPORTS = [
    ("class Mine(:", 1, "SyntaxError: invalid syntax"),
    ("x = 1\n  y = 2", 2, "IndentationError: unexpected indent"),
    ("import roost\nMine = nothing", 2, "NameError: name 'nothing' is not defined"),
    ("def f():\n    return 1 + ''\nf()", 2, "TypeError: unsupported operand"),
    ("import json\n\njson.loads('{')", 3, "JSONDecodeError: Expecting property name"),
    ("raise KeyError", 1, "KeyError"),
    ("import sys\nsys.exit('only to be run')", 2, "SystemExit: only to be run"),
    ("import does_not_exist_at_all", 1, "No module named 'does_not_exist_at_all'"),
]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Writes a module of a user, which can be imported by the name that comes back."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> tuple[str, Path]:
        name = f"code_of_a_user_{next(NUMBERS)}"
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text), "utf-8")
        return name, path

    return write


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        work()
    text = str(refused.value)
    assert "\n" not in text
    assert refused.value.__suppress_context__
    return text


@pytest.mark.parametrize(("text", "line", "words"), IMPORTS)
def test_what_goes_wrong_while_it_is_imported(
    written: Written, text: str, line: int, words: str
) -> None:
    for find in (module_class, router_of, load_task):
        name, path = written(text)
        said = refusal(lambda find=find, name=name: find(f"{name}:Mine"))  # type: ignore[misc]
        assert "can't be imported: " in said or "is looked for in" in said
        assert words in said
        if "No module named" not in words:
            assert f"{path}:{line}: {words}" in said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def __init__(self): raise OSError('no licence')", "OSError: no licence"),
        ("def __init__(self): self.limit = undefined", "NameError: name 'undefined'"),
        ("def __init__(self, a, b): pass", "TypeError: Mine.__init__() missing 2 required"),
    ],
)
def test_what_goes_wrong_while_it_is_made(written: Written, body: str, words: str) -> None:
    name, path = written(MODULE + f"\n        {body}\n")
    said = refusal(lambda: make_module(parse_order(f"{name}:Mine", [])))
    assert said.startswith(f"the module {name}:Mine can't be made: ")
    # Who calls the constructor wrongly is us: then it is where the class begins.
    assert f"{path}:{4 if 'missing' in words else 7}: {words}" in said
    name, path = written(ROUTER + f"        {body.replace('(self', '(self, *_')}\n")
    said = refusal(lambda: check_router(f"{name}:Mine"))
    assert said.startswith(f"the router '{name}:Mine' can't be made: ")
    assert words.split(" missing", maxsplit=1)[0] in said


def test_what_goes_wrong_in_its_settings(written: Written) -> None:
    config = """
        class Config(Struct, frozen=True):
            limit: int = 3

            def __post_init__(self):
                [1, 2][self.limit]
    """
    text = "from msgspec import Struct\n" + textwrap.dedent(MODULE)
    name, path = written(text + textwrap.indent(textwrap.dedent(config), "    "))
    said = refusal(lambda: make_module(parse_order(f"{name}:Mine", [])))
    assert f"{path}:12: IndexError: list index out of range" in said


def test_on_the_command_line(written: Written, roost: Roost, tmp_path: Path) -> None:
    workload = tmp_path / "a.workload"
    workload.write_text("0.0 broker add B0 1000 16 10\n1.0 end\n")
    name, path = written("Mine = nothing")
    words = f"{path}:1: NameError: name 'nothing' is not defined"
    for arguments in (
        ("sim", "run", workload, "--module", f"{name}:Mine"),
        ("broker", "--port", "0", "--module", f"{name}:Mine"),
    ):
        ran = roost(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: ")
        assert words in ran.err
        assert "Traceback" not in ran.err
    workload.write_text(
        f"0.0 federation set routing {name}:Mine\n0.0 broker add B0 1000 16 10\n1.0 end\n"
    )
    ran = roost("sim", "run", workload)
    assert ran.code == 2
    assert f"{workload}:1: " in ran.err
    assert words in ran.err
