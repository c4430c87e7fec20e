"""The code of README.md and docs/: every block, and what each of its lines is.

A block is what stands between fences, or is indented by four columns behind an empty line. Those between
fences say their language. The others are told by how their lines look: a command of a shell, a line of a
workload, settings, Python; some blocks mix them, each with a comment of what it is. What is no code (a
diagram, a formula, what a program prints) is listed here by how it begins, so that nothing is passed over
in silence.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Blocks that speak another protocol, by how they begin: tests/gateway runs them.
FOREIGN = ("curl ", "<event:Event", "import zeep")
# Blocks that are no code, by how they begin.
PROSE = (
    "samples      every broker measures its load",
    "begun\n",
    "offloading broker  ",
    "work = b + i * (p + s * n)",
    "5.000    sub1 -> B4      unsubscribe",
    "D(R) = d(mover, anchor)",
    "U_w(R) = ",
    "workload -> run (simulated",
    "B6   121.8 ms   152.2 messages/s   chosen",
    "error: bad.workload:2",
)

_fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_command = re.compile(
    r"(?:[A-Z_]+=(?:\$\([^)]*\)|\S+) )*(?:roost|script/\w+|source|tail|chmod|pip) ?(?! ?=)"
).match
_workload = re.compile(r"[0-9]+(\.[0-9]+)? (federation|broker|link|client|publisher) ").match
_setting = re.compile(r"(\[[a-z.]+\]|[a-z_A-Z0-9]+ = (?:[\"{0-9]|true|false))").match
_event = re.compile(r"\[\w+,'").match


class Block(NamedTuple):
    """Some code of a document."""

    document: Path
    line: int
    language: str  # "" if it says none
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


class Line(NamedTuple):
    """A line of a block that mixes them, without its comment."""

    kind: str  # command, workload, setting
    text: str


def blocks_of(document: Path) -> Iterator[Block]:
    """All of them, in order."""
    text = document.read_text("utf-8")
    for found in _fence.finditer(text):
        yield Block(document, _line_of(text, found.start()), found[1], found[2])
    # Without the fenced ones, and with as many lines.
    rest = _fence.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = rest.splitlines()
    at = 0
    while at < len(lines):
        if lines[at].startswith("    ") and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
                end += 1
            block = textwrap.dedent("\n".join(lines[at:end])).strip("\n")
            yield Block(document, at + 1, "", block)
            at = end
        at += 1


def _line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def kind_of(block: Block) -> str:
    """What a block without a language is: prose, foreign, lines, python, filter or event."""
    if block.text.startswith(FOREIGN):
        return "foreign"
    if block.text.lstrip().startswith(PROSE):
        return "prose"
    first = block.text.splitlines()[0]
    if _event(first):
        return "event"
    if _command(first) or _workload(first) or _setting(first) or first.startswith("# at"):
        return "lines"
    try:
        ast.parse(block.text)
    except SyntaxError:
        return "filter"
    return "python"


def lines_of(block: Block) -> Iterator[Line]:
    """The lines of one that has commands, settings and lines of workloads."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    for text in joined.splitlines():
        plain = without_comment(text)
        if not plain:
            continue
        for kind, looks in (("workload", _workload), ("setting", _setting), ("command", _command)):
            if looks(plain):
                yield Line(kind, plain)
                break
        else:
            raise AssertionError(f"{block}: what is {plain!r}?")


def without_comment(line: str) -> str:
    """A line up to a `#` that stands in no quotes."""
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1] == " "):
            return line[:at].rstrip()
    return line.rstrip()
