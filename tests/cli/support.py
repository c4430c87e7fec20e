"""Running the command line inside the test, as `roost ARGUMENTS` would run it."""

from __future__ import annotations

import io
import sys
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

from roost.cli import main as cli


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        return msgspec.json.decode(self.out, type=dict[str, Any])

    @property
    def ndjson(self) -> list[dict[str, Any]]:
        """The JSON objects on standard output, one a line."""
        return [msgspec.json.decode(line, type=dict[str, Any]) for line in self.out.splitlines()]


class Roost(Protocol):
    """Runs a command line."""

    def __call__(self, *arguments: object, stdin: bytes = b"") -> Ran:
        """`roost arguments < stdin`."""


def make_roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    def roost(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = stop.value.code
        return Ran(code if isinstance(code, int) else 0, out, err)

    return roost
