from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import typer

from roost import __version__
from roost.cli import main as cli
from roost.errors import UserError


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def failing_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Adds a command `fail` that raises what it is given."""

    def plant(error: BaseException) -> None:
        def register(app: typer.Typer) -> None:
            @app.command()
            def fail() -> None:
                raise error

        monkeypatch.setattr(cli, "COMMANDS", (register,))

    return plant


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--version") == 0
    assert capsys.readouterr().out == f"roost {__version__}\n"


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--help") == 0
    out = capsys.readouterr().out
    # Whole lines, brackets and all: they are there to be copied.
    for line in cli.EXAMPLES.splitlines()[1:]:
        assert line in out
    assert "--install-completion" in out


def test_a_user_error_is_one_message(
    failing_command: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing_command(UserError("column 3: expected a value"))
    assert run_main("fail") == 2
    assert capsys.readouterr() == ("", "error: column 3: expected a value\n")


def test_an_unknown_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("no-such-command") == 2
    assert "no-such-command" in capsys.readouterr().err


def test_an_interrupt_exits_as_shells_expect(
    failing_command: Callable[[BaseException], None],
) -> None:
    failing_command(KeyboardInterrupt())
    assert run_main("fail") == 130


def test_a_bug_keeps_its_traceback(failing_command: Callable[[BaseException], None]) -> None:
    failing_command(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["fail"])


@pytest.mark.parametrize("amount", [1, 100_000])
def test_a_reader_who_leaves_is_no_error(amount: int) -> None:
    code = f"""
import sys, typer
from roost.cli import main as cli
def register(app):
    @app.command()
    def talk():
        for _ in range({amount}):
            typer.echo("x" * 80)
cli.COMMANDS = (register,)
cli.main(["talk"])
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == cli.EXIT_READER_GONE


def test_the_command_line_imports_nothing_heavy() -> None:
    heavy = {"asyncio", "numba", "numpy", "pandas", "pyarrow", "pyspark", "pydantic", "rich"}
    code = f"import sys, roost.cli.main; print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code).stdout == "[]\n"
