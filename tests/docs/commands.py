"""Commands of a shell as documents have them, and whether `roost` understands them: parsed, and not run."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from roost.cli.main import COMMANDS, program

APP: Any = program(COMMANDS)


def programs_of(line: str) -> Iterator[list[str]]:
    """The words of each program of a line, with the files that it reads and writes left away."""
    line = re.sub(r"^([A-Z_]+=(\$\([^)]*\)|\S+) )+", "", line)  # of its environment
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|><")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    skips = False
    for word in [*lexer, ";"]:
        if word in (";", "|"):
            if words:
                yield words
            words = []
        elif word in (">", "<"):
            skips = True
        elif skips:
            skips = False
        else:
            words.append(word)


def check_program(words: Sequence[str], root: Path) -> None:
    """That there is such a program; of `roost`, that it has these options and arguments."""
    program, *arguments = words
    if program.startswith("script/"):
        assert (root / program).is_file(), program
    elif program == "roost":
        check_arguments(arguments)
    elif program == "pip":
        check_installation(arguments, root)
    else:
        assert program in ("tail", "gzip", "source", "chmod"), program


def check_installation(arguments: Sequence[str], root: Path) -> None:
    """That pip would be asked for Roost, with extras that there are."""
    command, *options, what = arguments
    found = re.fullmatch(r"roost(?:\[(\w+)\])?", what)
    assert command == "install", arguments
    assert found, what
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert found[1] in (None, *project["optional-dependencies"]), what
    for option, file in zip(options[::2], options[1::2], strict=True):
        assert option == "--constraint", option
        assert (root / file).is_file(), file


def check_arguments(arguments: Sequence[str]) -> None:
    """That `roost ARGUMENTS` would be understood; an exception says what is not."""
    command, rest = command_of(arguments)
    if hasattr(command, "commands") and not rest:
        return  # which shows its help
    if command is APP:
        known = {name for parameter in command.params for name in parameter.opts}
        assert set(rest) <= known, f"roost {rest}: no such command"
        return
    command.make_context(command.name, rest)


def command_of(arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that is meant, and what it is told."""
    command, rest = APP, list(arguments)
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


def pages(command: Any = APP, path: tuple[str, ...] = ("roost",)) -> Iterator[tuple[str, Any]]:
    """Every command and every group of them, by the words that lead there."""
    yield " ".join(path), command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from pages(inner, (*path, name))
