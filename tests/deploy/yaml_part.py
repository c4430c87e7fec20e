"""The part of YAML that compose.yaml is written in, read strictly: what is not known here is an error.

Maps and lists by indentation, lists of words in brackets, texts in double quotes or none, texts of many lines
behind `|`, and one anchor that maps are begun with (`<<: *name`). No library for YAML comes with Roost.
"""

from __future__ import annotations

import json
import re
from typing import Any

_pair = re.compile(r"([\w.<-]+):(?: (.*))?").fullmatch
_plain = re.compile(r"[\w./$][\w./${}: -]*|-c|--\w+").fullmatch
_anchor = re.compile(r"&(\w+)").fullmatch


class Reader:
    """Goes through the lines once."""

    def __init__(self, text: str) -> None:
        self._lines = [line.rstrip() for line in text.split("\n")]
        self._at = 0
        self._anchors: dict[str, Any] = {}

    def read(self) -> Any:
        value = self._block(0)
        assert self._indent() is None, self._here()
        return value

    def _here(self) -> str:
        return (
            f"line {self._at + 1}: {self._lines[self._at] if self._at < len(self._lines) else ''}"
        )

    def _indent(self) -> int | None:
        """How far the next line that says something is indented; None at the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.lstrip().startswith("#"):
                assert "\t" not in line, self._here()
                return len(line) - len(line.lstrip())
            self._at += 1
        return None

    def _block(self, indent: int) -> Any:
        assert self._indent() == indent, self._here()
        return (
            self._list(indent) if self._lines[self._at].lstrip()[:2] == "- " else self._map(indent)
        )

    def _list(self, indent: int) -> list[Any]:
        found = []
        while self._indent() == indent and (line := self._lines[self._at].lstrip())[:2] == "- ":
            self._at += 1
            found.append(self._value(line[2:], indent))
        return found

    def _map(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._indent() == indent:
            pair = _pair(self._lines[self._at].lstrip())
            assert pair, self._here()
            self._at += 1
            value = self._value(pair[2] or "", indent)
            if pair[1] == "<<":
                found = {**value, **found}
            else:
                assert pair[1] not in found, f"{pair[1]} twice, before {self._here()}"
                found[pair[1]] = value
        return found

    def _value(self, text: str, indent: int) -> Any:
        if not text:
            return self._deeper(indent)
        if anchor := _anchor(text):
            self._anchors[anchor[1]] = value = self._deeper(indent)
            return value
        if text.startswith("*"):
            return dict(self._anchors[text[1:]])
        if text == "|":
            return self._text(indent)
        if text[0] == "[":
            assert text[-1] == "]", self._here()
            return [self._word(word.strip()) for word in text[1:-1].split(",")]
        return self._word(text)

    def _deeper(self, indent: int) -> Any:
        below = self._indent()
        assert below is not None, self._here()
        assert below > indent, self._here()
        return self._block(below)

    def _word(self, text: str) -> str:
        if text[0] == '"':
            return str(json.loads(text))
        assert _plain(text), f"{text!r}, before {self._here()}"
        assert ": " not in text, f"{text!r}, before {self._here()}"
        return text

    def _text(self, indent: int) -> str:
        below = self._indent()
        assert below is not None, self._here()
        assert below > indent, self._here()
        lines = []
        while (now := self._indent()) is not None and now >= below:
            lines.append(self._lines[self._at][below:])
            self._at += 1
        return "\n".join(lines) + "\n"


def read_yaml(text: str) -> Any:
    """What it says; AssertionError with the line of what is not understood."""
    return Reader(text).read()
